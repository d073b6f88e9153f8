"""Client of AndroidWorld's server.

Three properties of that server shape the client. After every answer with status 500 it silently closes the connection,
and the next request of a pooled client would fail; so every request has its own connection, and none is sent twice. It
handles requests one after the other, and goes on with one that was given up here; so every time limit exceeds the
longest task set-up. All arguments are query parameters, except those of an action.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

import httpx

from mobilerl.envs.androidworld.faults import (
    CheckFault,
    EnvironmentFault,
    NanScore,
    ServerFault,
    Unreachable,
    WrongServer,
)
from mobilerl.envs.claims import Claim

LONGEST_INIT_S = 600.0
"""Maximum time to wait for the set-up of a task."""
OWN_TIME_S = {
    "/reset": 60.0,
    "/screenshot": 120.0,
    "/execute_action": 60.0,
    "/suite/reinitialize": 120.0,
    "/task/initialize": 0.0,
    "/task/tear_down": 120.0,
    "/task/score": 120.0,
}
"""Seconds that a route may take beyond the longest set-up; `QUICK_S` for routes not listed."""
QUICK_S = 30.0
CONNECT_S = 10.0
MAX_SCREEN, MAX_ANSWER = 96 << 20, 1 << 20
"""Maximum bytes of a screenshot (the pixels of a 1440x3120 screen as JSON are 70 MB), and of any other answer."""
MAX_NAME, MAX_GOAL = 100, 20_000
"""Maximum characters of a task's name, and of a goal."""
FAMILY = "android_world"

RAISED_BY = {"/task/initialize": EnvironmentFault, "/task/score": CheckFault}
"""Meaning of an answer with status 500: AndroidWorld's own code raised."""

T = TypeVar("T")


class AndroidWorldClient:
    """Client of one server. Every method raises `ServerFault`, with a message that names the server and the route.

    `claim` holds the server and its phone until the client is closed.
    """

    def __init__(self, url: str, longest_init_s: float = LONGEST_INIT_S, claim: Claim | None = None) -> None:
        self.url, self.claim = url.rstrip("/"), claim or Claim()
        self._longest_init_s = longest_init_s
        # Directly to the server: a proxy set in the environment is for external hosts, and cuts long requests.
        self._http = httpx.AsyncClient(
            base_url=self.url,
            trust_env=False,
            # No compressed answers: each layer of gzip could expand the data a thousandfold.
            headers={"Accept-Encoding": "identity"},
            verify=self.url.startswith("https:"),  # reading the certificates takes longer than many requests
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def close(self) -> None:
        """Closes this client, but not the environment on the server."""
        self.claim.release()
        await self._http.aclose()

    async def health(self) -> None:
        """Checks only that HTTP answers: the server reports success for a dead emulator too."""
        if (await self._ask("GET", "/health")).get("status") != "success":
            raise WrongServer(f"{self.url}: GET /health does not say success")

    async def reset(self, go_home: bool = True) -> None:
        """Also clears the answer, so a score must be read before."""
        await self._ask("POST", "/reset", go_home=go_home)

    async def screenshot(self) -> bytes:
        """The screen as PNG. The server sends all its pixels as JSON: 15 s and more at 1080x2400."""
        data = await self._ask("GET", "/screenshot", wait_to_stabilize=True)
        try:
            return await asyncio.to_thread(_png, data.get("pixels"))
        except ValueError as error:
            raise WrongServer(f"{self.url}: the screenshot has no usable pixels: {_reason(error)}") from None

    async def execute(self, **action: Any) -> None:
        """Executes one action, given by AndroidWorld's fields and in pixels."""
        await self._ask("POST", "/execute_action", body=action)

    async def task_list(self) -> list[str]:
        names = await self._value("GET", "/suite/task_list", "task_list", list, max_index=-1)
        if not all(isinstance(name, str) and len(name) <= MAX_NAME for name in names):
            raise WrongServer(f"{self.url}: GET /suite/task_list is not a list of names: {_short(names)}")
        return names

    async def reinitialize(self, combinations: int, seed: int) -> None:
        """Replaces all task instances. What was set up before and not torn down cannot be torn down any more."""
        await self._ask("GET", "/suite/reinitialize", n_task_combinations=combinations, seed=seed, task_family=FAMILY)

    async def initialize(self, name: str, index: int) -> None:
        """Sets up a task. If it is set up already, this fails halfway: tear it down first."""
        await self._ask("POST", "/task/initialize", task_type=name, task_idx=index)

    async def tear_down(self, name: str, index: int) -> None:
        """Tears down a task. May be repeated, and called without a set-up."""
        await self._ask("POST", "/task/tear_down", task_type=name, task_idx=index)

    async def score(self, name: str, index: int) -> float:
        """Score from 0 to 1, fractional for composite tasks. Raises NanScore if it is not a number."""
        value = (await self._ask("GET", "/task/score", task_type=name, task_idx=index)).get("score", "")
        if value is None or (isinstance(value, float) and math.isnan(value)):
            raise NanScore(f"{self.url}: the score of {name} {index} is not a number")
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise WrongServer(f"{self.url}: the score of {name} {index} is {_short(value)}, not within 0 and 1")
        return float(value)

    async def goal(self, name: str, index: int) -> str:
        goal = await self._value("GET", "/task/goal", "goal", str, task_type=name, task_idx=index)
        if len(goal) > MAX_GOAL:
            raise WrongServer(f"{self.url}: the goal of {name} {index} has more than {MAX_GOAL} characters")
        return goal

    async def _value(self, method: str, route: str, name: str, kind: type[T], **query: Any) -> T:
        """Returns one field of an answer."""
        data = await self._ask(method, route, **query)
        if not isinstance(data.get(name), kind):
            raise WrongServer(f"{self.url}: {route} gives no {name} but {_short(data)}")
        return data[name]

    async def _ask(
        self, method: str, route: str, body: Mapping[str, Any] | None = None, **query: Any
    ) -> dict[str, Any]:
        """Sends one request, only once, and returns the JSON object in the answer."""
        limit = self._longest_init_s + OWN_TIME_S.get(route, QUICK_S)
        most = MAX_SCREEN if route.startswith("/screenshot") else MAX_ANSWER
        where = f"{self.url}: {method} {route}"
        content = bytearray()
        try:
            async with (
                asyncio.timeout(limit),
                self._http.stream(
                    method, route, params=query or None, json=body, timeout=httpx.Timeout(limit, connect=CONNECT_S)
                ) as response,
            ):
                if packing := response.headers.get("Content-Encoding", "").replace("identity", ""):
                    raise WrongServer(f"{where} answered in the encoding {_short(packing)}, which was not asked for")
                async for part in response.aiter_raw():
                    content += part
                    if len(content) > most:
                        raise WrongServer(f"{where} answered with more than {most >> 20} MB")
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(f"{self.url} cannot be reached: {_reason(error)}") from error
        except (httpx.TimeoutException, TimeoutError) as error:
            raise ServerFault(f"{where} did not answer within {limit:g} s") from error
        except httpx.TransportError as error:
            raise Unreachable(f"{where}: the connection was dropped: {_reason(error)}") from error
        said = _short(content[:1000].decode(errors="replace"))
        if response.status_code >= 500:
            raise RAISED_BY.get(route, ServerFault)(f"{where} answered {response.status_code}: {said}")
        if response.status_code != 200:
            raise WrongServer(f"{where} answered {response.status_code}: {said}")
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise WrongServer(f"{where} answered no JSON object but {said}")
        return data


def _png(pixels: Any) -> bytes:
    """(H, W, 3) nested lists of 0-255 -> PNG. Raises ValueError for anything else."""
    import numpy as np
    from PIL import Image

    try:
        array = np.asarray(pixels, dtype=np.uint8)
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    if array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise ValueError(f"their shape is {array.shape}, not (H, W, 3)")
    png = io.BytesIO()
    Image.fromarray(array).save(png, "PNG", compress_level=1)
    return png.getvalue()


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 120 else f"{text[:120]}..."


def _reason(error: Exception) -> str:
    return _short(error) or type(error).__name__
