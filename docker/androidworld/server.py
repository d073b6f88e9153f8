"""AndroidWorld's server, thinner: it sets tasks up and scores them, and leaves the screen to adb.

Runs inside AndroidWorld's container, beside the package `android_world`, on the standard library alone. The routes are
those of AndroidWorld's own server, so that the same client talks to both, with these differences:

- The port is open from the start. While the emulator is being set up every answer is 503, and says so.
- /health asks adb, and answers at once also while a task is being set up.
- /screenshot is gone: 30 MB of JSON in 15 s. /screenshot.png gives the picture; over adb it is not needed at all.
- /info tells the commit and the step budgets, which AndroidWorld's server keeps to itself.
- What the package raises is a 500 that names it, and the connection is closed by the book.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from forward import forward

ADB_TIMEOUT_S = 15
MAX_BODY = 1 << 20
FAMILY = "android_world"
DEFAULT_SEED, DEFAULT_COMBINATIONS = 42, 2
PNG = b"\x89PNG\r\n\x1a\n"


class Answer(Exception):
    """Ends a request with this status and detail."""

    def __init__(self, status: int, detail: Any) -> None:
        super().__init__(status, detail)
        self.status, self.detail = status, detail


class World:
    """The package and its emulator. All that touches them runs in one thread, one call after the other."""

    def __init__(self, adb: str, console_port: int, grpc_port: int, install_apps: bool) -> None:
        self.adb, self.serial = adb, f"emulator-{console_port}"
        self._worker = ThreadPoolExecutor(1, "android_world")
        self._loaded: Future[None] = self._worker.submit(self._load, console_port, grpc_port, install_apps)

    def _load(self, console_port: int, grpc_port: int, install_apps: bool) -> None:
        from android_world import registry, suite_utils
        from android_world.env import env_launcher, json_action

        self._json_action, self._suite_utils = json_action, suite_utils
        self._registry = registry.TaskRegistry()
        self.env = env_launcher.load_and_setup_env(
            console_port=console_port, emulator_setup=install_apps, freeze_datetime=True, adb_path=self.adb,
            grpc_port=grpc_port,
        )  # fmt: skip
        self.suite = self._make(FAMILY, DEFAULT_COMBINATIONS, DEFAULT_SEED)
        self.budgets = {name: int(10 * tasks[0].complexity) for name, tasks in self.suite.items()}

    def _make(self, family: str, combinations: int, seed: int) -> Any:
        try:
            tasks = self._registry.get_registry(family)
        except ValueError:
            raise Answer(400, f"Invalid task family: {family}") from None
        return self._suite_utils.create_suite(task_registry=tasks, n_task_combinations=combinations, seed=seed)

    def check_loaded(self) -> None:
        """Raises Answer while the emulator is being set up, and for ever after that failed."""
        if not self._loaded.done():
            raise Answer(503, "starting: the emulator is being set up")
        if (error := self._loaded.exception()) is not None:
            raise Answer(500, f"AndroidWorld could not start: {describe(error)}")

    def call(self, work: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        self.check_loaded()
        return self._worker.submit(work, self, **arguments).result()

    def run_adb(self, *words: str) -> bytes:
        """Raises Answer when adb fails: the phone is gone, or adb's server is being restarted."""
        try:
            done = subprocess.run([self.adb, "-s", self.serial, *words], capture_output=True, timeout=ADB_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Answer(503, f"adb {words[0]}: {describe(error)}") from None
        if done.returncode:
            raise Answer(503, f"adb {words[0]}: {done.stderr.decode(errors='replace').strip()[:200]}")
        return done.stdout

    # --- routes ----------------------------------------------------------------------------------------------

    def reset(self, go_home: bool) -> dict[str, Any]:
        self.env.reset(go_home=go_home)
        return success(f"Environment reset with go_home={go_home}.")

    def execute_action(self, action: dict[str, Any]) -> dict[str, Any]:
        made = self._json_action.JSONAction(**action)
        self.env.execute_action(made)
        return success(f"Action {made} executed.")

    def task_list(self, max_index: int) -> dict[str, Any]:
        names = list(self.suite)
        return {"task_list": names if max_index < 0 else names[:max_index]}

    def task_length(self, task_type: str) -> dict[str, Any]:
        return {"length": len(self.suite[task_type])}

    def reinitialize(
        self, n_task_combinations: int = DEFAULT_COMBINATIONS, seed: int = DEFAULT_SEED, task_family: str = FAMILY
    ) -> dict[str, Any]:
        self.suite = self._make(task_family, n_task_combinations, seed)
        return success(f"Task suite re-initialized with n_task_combinations={n_task_combinations}, seed={seed}.")

    def initialize(self, task_type: str, task_idx: int) -> dict[str, Any]:
        self.suite[task_type][task_idx].initialize_task(self.env)
        return success(f"Task {task_type} {task_idx} initialized.")

    def tear_down(self, task_type: str, task_idx: int) -> dict[str, Any]:
        self.suite[task_type][task_idx].tear_down(self.env)
        return success(f"Task {task_type} {task_idx} torn down.")

    def score(self, task_type: str, task_idx: int) -> dict[str, Any]:
        value = float(self.suite[task_type][task_idx].is_successful(self.env))
        return {"score": None if math.isnan(value) else value}

    def goal(self, task_type: str, task_idx: int) -> dict[str, Any]:
        return {"goal": self.suite[task_type][task_idx].goal}

    def template(self, task_type: str, task_idx: int) -> dict[str, Any]:
        return {"template": self.suite[task_type][task_idx].template}


_TASK: dict[str, type] = {"task_type": str, "task_idx": int}
_OPTIONAL = frozenset({"n_task_combinations", "seed", "task_family"})
ROUTES: dict[tuple[str, str], tuple[Callable[..., Any], dict[str, type]]] = {
    ("POST", "/reset"): (World.reset, {"go_home": bool}),
    ("POST", "/execute_action"): (World.execute_action, {}),
    ("GET", "/suite/task_list"): (World.task_list, {"max_index": int}),
    ("GET", "/suite/task_length"): (World.task_length, {"task_type": str}),
    ("GET", "/suite/reinitialize"): (World.reinitialize, {"n_task_combinations": int, "seed": int, "task_family": str}),
    ("POST", "/task/initialize"): (World.initialize, _TASK),
    ("POST", "/task/tear_down"): (World.tear_down, _TASK),
    ("GET", "/task/score"): (World.score, _TASK),
    ("GET", "/task/goal"): (World.goal, _TASK),
    ("GET", "/task/template"): (World.template, _TASK),
}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def success(message: str) -> dict[str, Any]:
    return {"status": "success", "message": message}


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def typed(kinds: dict[str, type], query: dict[str, str]) -> dict[str, Any]:
    """The query's values by type. Raises Answer 422 for one that is missing or ill-typed."""
    values: dict[str, Any] = {}
    for name, kind in kinds.items():
        if name not in query:
            if name not in _OPTIONAL:
                raise Answer(422, f"the query argument {name} is missing")
            continue
        try:
            values[name] = _BOOLEANS[query[name].lower()] if kind is bool else kind(query[name])
        except (KeyError, ValueError):
            raise Answer(422, f"the query argument {name} is {query[name]!r}, not {kind.__name__}") from None
    return values


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or every answer waits 40 ms for the acknowledgement of its head
    world: World
    commit = ""

    def do_GET(self) -> None:
        self._handle("GET")

    def do_POST(self) -> None:
        self._handle("POST")

    def _handle(self, method: str) -> None:
        try:
            status, body, kind = 200, *self._answer(method)
        except Answer as answer:
            status, body, kind = answer.status, _json({"detail": answer.detail}), "application/json"
        except Exception as error:  # the package's own: what it raises is its answer
            traceback.print_exc()
            status, body, kind = 500, _json({"detail": describe(error)}), "application/json"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status >= 400:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, method: str) -> tuple[bytes, str]:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY:
            self.close_connection = True
            raise Answer(413, "the body is too large")
        body = self.rfile.read(length)
        if (method, parts.path) == ("GET", "/screenshot.png"):
            return self._screenshot(), "image/png"
        return _json(self._data(method, parts.path, dict(parse_qsl(parts.query)), body)), "application/json"

    def _data(self, method: str, route: str, query: dict[str, str], body: bytes) -> Any:
        if (method, route) == ("GET", "/health"):
            self.world.check_loaded()
            if (state := self.world.run_adb("get-state").strip()) != b"device":
                raise Answer(503, f"adb says {state.decode(errors='replace')} of {self.world.serial}")
            return {"status": "success"}
        if (method, route) == ("GET", "/info"):
            self.world.check_loaded()
            return {"server": "mobilerl", "commit": self.commit, "budgets": self.world.budgets, "screenshots": "png"}
        if (method, route) not in ROUTES:
            raise Answer(404, "Not Found")
        work, kinds = ROUTES[method, route]
        arguments = typed(kinds, query)
        if route == "/execute_action":
            arguments = {"action": _action(body)}
        return self.world.call(work, arguments)

    def _screenshot(self) -> bytes:
        self.world.check_loaded()
        data = self.world.run_adb("exec-out", "screencap", "-p")
        start = data.find(PNG)
        if start < 0:
            raise Answer(503, "screencap gave no picture")
        return data[start:]


def _action(body: bytes) -> dict[str, Any]:
    try:
        action = json.loads(body)
    except ValueError:
        action = None
    if not isinstance(action, dict):
        raise Answer(422, "the body must be an action: a JSON object")
    return action


def _json(data: Any) -> bytes:
    return json.dumps(data).encode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (a container needs 0.0.0.0)")
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--adb", default="/opt/android/platform-tools/adb")
    parser.add_argument("--console-port", type=int, default=5554, help="the emulator's; its adb port is the next one")
    parser.add_argument("--grpc-port", type=int, default=8554)
    parser.add_argument("--adb-forward", type=int, metavar="PORT", help="also hand the emulator's adb port on, here")
    parser.add_argument("--apps-installed", action="store_true", help="do not download and install the apps: the "
                        "image has them")  # fmt: skip
    args = parser.parse_args()
    Handler.world = World(args.adb, args.console_port, args.grpc_port, not args.apps_installed)
    Handler.commit = os.environ.get("ANDROIDWORLD_COMMIT", "")
    if args.adb_forward is not None:
        forward(args.host, args.adb_forward, "127.0.0.1", args.console_port + 1)
    server = ThreadingHTTPServer((args.host, args.port), Handler)
    print(f"listening on {args.host}:{server.server_address[1]}", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
