"""Opens AndroidWorld servers and checks them before anything runs on them.

Every check raises with one line that says what to do. All servers are checked concurrently; the first failure is
reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from mobilerl.envs.androidworld.access import Access, AdbAccess, HttpAccess
from mobilerl.envs.androidworld.client import AndroidWorldClient
from mobilerl.envs.androidworld.env import BOOT_WAIT_S, POLL_S, AndroidWorldEnv
from mobilerl.envs.androidworld.faults import ServerFault, Unreachable, WrongServer
from mobilerl.envs.androidworld.tasks import APPS, COMMIT, FACTS, WALL_CLOCK_GOALS
from mobilerl.envs.base import InfraError
from mobilerl.envs.claims import Claim

STATUS_EVERY_S = 30.0
PAIR_WAIT_S = 10.0
_ADDRESS = re.compile(r"(https?://(?:\[[0-9a-fA-F:]+\]|[^:/,?#@]+)(?::\d{1,5})?)/?(?:,([^@]+)(?:@(.+):(\d{1,5}))?)?")
Goals = Mapping[tuple[str, int], str]
Say = Callable[[str], None]


class StartupError(ValueError):
    """A server cannot be used. The message is one line and says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """`http://HOST:PORT[,SERIAL[@ADB_HOST:ADB_PORT]]`: a server and its phone (by default on this machine's adb
    server)."""

    url: str
    serial: str = ""
    adb_host: str | None = None
    adb_port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise StartupError(
                f"--server {text!r} is not http://HOST:PORT[,ADB_SERIAL[@ADB_HOST:ADB_PORT]], as in "
                "http://127.0.0.1:5000,emulator-5554"
            )
        return cls(match[1], match[2] or "", match[3], int(match[4]) if match[4] else None)

    @property
    def device_id(self) -> str:
        return urlsplit(self.url).netloc


def parse_addresses(texts: Sequence[str]) -> list[Address]:
    """Raises StartupError if there are none, for duplicates, and if only some have a serial."""
    addresses = [Address.parse(text) for text in texts]
    if not addresses:
        raise StartupError("--server http://HOST:PORT[,ADB_SERIAL] is missing (or --fleet N: it starts N containers)")
    phones = [(a.serial, a.adb_host, a.adb_port) for a in addresses if a.serial]
    for what, found in (("server", [a.url for a in addresses]), ("phone", phones)):
        if len(set(found)) < len(found):
            raise StartupError(f"--server: a {what} is given twice; one phone runs one episode at a time")
    if len(phones) not in (0, len(addresses)):
        raise StartupError(
            "--server: give an ADB serial with every server or with none: results over adb and over HTTP do not compare"
        )
    return addresses


@dataclass(frozen=True, slots=True)
class Suite:
    """The instances to set up: `combinations` of each task in `names`, drawn with `seed`."""

    seed: int
    combinations: int
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Server:
    """A server that has passed all checks."""

    address: Address
    client: AndroidWorldClient
    access: Access
    goals: Goals
    screen: str

    def env(self, boot_wait_s: float = BOOT_WAIT_S, free_reward: bool = True) -> AndroidWorldEnv:
        return AndroidWorldEnv(self.address.device_id, self.client, self.access, boot_wait_s, free_reward)


async def open_servers(
    addresses: Sequence[Address],
    suite: Suite,
    boot_wait_s: float = BOOT_WAIT_S,
    say: Say = print,
    leftovers: Mapping[str, tuple[str, int]] | None = None,
    user: str = "",
) -> list[Server]:
    """Checks all servers and creates the suite on each. Raises StartupError.

    `leftovers` maps device ids to the task that an interrupted evaluation left set up; it is torn down first. Servers
    and phones are claimed for `user`, if given, until their clients are closed.
    """

    async def open_or_explain(address: Address) -> Server:
        left, claim = (leftovers or {}).get(address.device_id), Claim(user, StartupError)
        try:
            return await open_server(address, suite, boot_wait_s, say, left, claim)
        except InfraError as fault:
            raise StartupError(f"{fault}; {_fix(fault)}") from fault

    try:
        async with asyncio.TaskGroup() as group:
            opening = [group.create_task(open_or_explain(address)) for address in addresses]
    except* StartupError as failed:
        ended = [task for task in opening if not task.cancelled() and task.exception() is None]
        await asyncio.gather(*(task.result().client.close() for task in ended))
        raise failed.exceptions[0] from None
    servers = [task.result() for task in opening]
    try:
        compare(servers)
    except StartupError:
        await asyncio.gather(*(server.client.close() for server in servers))
        raise
    return servers


async def open_server(
    address: Address,
    suite: Suite,
    boot_wait_s: float,
    say: Say,
    left: tuple[str, int] | None = None,
    claim: Claim | None = None,
) -> Server:
    """Checks one server and creates the suite on it. Raises InfraError. `left` is a task that is still set up."""
    client = AndroidWorldClient(address.url, claim=claim)
    try:
        access = make_access(address, client)
        _claim(client, access)
        await _wait_for_server(client, time.monotonic() + boot_wait_s, say)
        await client.task_list()  # detects a server of something else before changing anything on it
        if left is not None:
            with contextlib.suppress(ServerFault):  # a server that was restarted may not have that instance
                await client.tear_down(*left)
        goals = await _read_goals(client, suite)
        await access.connect()
        if isinstance(access, AdbAccess):
            await _check_pair(client, access)
        await client.reset(go_home=True)
        seen = await access.observe(0)
        return Server(address, client, access, goals, f"{seen.width}x{seen.height}")
    except BaseException:
        await client.close()
        raise


async def read_goals(url: str, suite: Suite) -> Goals:
    """Goals of the instances of another suite, which takes the place of the server's. Raises StartupError."""
    client = AndroidWorldClient(url)
    try:
        return await _read_goals(client, suite)
    except InfraError as fault:
        raise StartupError(f"{fault}; {_fix(fault)}") from fault
    finally:
        await client.close()


async def _read_goals(client: AndroidWorldClient, suite: Suite) -> Goals:
    await client.reinitialize(suite.combinations, suite.seed)
    _check_version(client, await client.task_list())
    instances = [(name, index) for name in suite.names for index in range(suite.combinations)]
    return {(name, index): await client.goal(name, index) for name, index in instances}


def make_access(address: Address, client: AndroidWorldClient) -> Access:
    if not address.serial:
        return HttpAccess(client, APPS)
    try:
        from mobilerl.envs.adb import AdbTransport
    except ImportError as error:
        raise StartupError(f"an ADB serial needs adbutils ({error}): pip install 'mobilerl[androidworld]'") from None
    return AdbAccess(AdbTransport(address.serial, address.adb_host, address.adb_port), APPS)


def _claim(client: AndroidWorldClient, access: Access) -> None:
    """Raises StartupError if another run uses the server or its phone."""
    # A phone in this process has no name.
    phone = getattr(access.device.transport, "unique_name", "") if isinstance(access, AdbAccess) else ""
    for name in (f"AndroidWorld server {client.url}", *([phone] if phone else [])):
        client.claim.take(f"the {name}", "one phone runs one episode at a time; wait until it ends, or use another")


async def _wait_for_server(client: AndroidWorldClient, until: float, say: Say) -> None:
    """Waits for a server that is starting (it refuses or drops connections), and reports progress."""
    report_at = 0.0
    while True:
        try:
            return await client.health()
        except Unreachable as fault:
            now = time.monotonic()
            if now >= until:
                raise
            if now >= report_at:
                report_at = now + STATUS_EVERY_S
                left = f"waiting up to {until - now:.0f} s"
                say(f"{fault}: still starting (5 to 10 minutes), or the wrong address; {left}")
        await asyncio.sleep(min(POLL_S, max(until - now, 0.05)))


def _check_version(client: AndroidWorldClient, names: Sequence[str]) -> None:
    """Raises WrongServer if the server's tasks differ from ours."""
    differing = (("has", set(names) - FACTS.keys()), ("lacks", FACTS.keys() - set(names)))
    if said := "; ".join(f"{what} {', '.join(sorted(found)[:5])}" for what, found in differing if found):
        raise WrongServer(f"{client.url} runs another version of AndroidWorld than {COMMIT}: it {said}")


async def _check_pair(client: AndroidWorldClient, access: AdbAccess) -> None:
    """Raises ServerFault if the serial is another phone: a mix-up would look like a model that always fails."""
    await client.execute(action_type="open_app", app_name="settings")
    until, package = time.monotonic() + PAIR_WAIT_S, ""
    while time.monotonic() < until:
        package = await asyncio.to_thread(access.device.foreground_package)
        if package == APPS["Settings"]:
            return
        await asyncio.sleep(0.5)
    serial = access.device.transport.serial
    raise ServerFault(f"{client.url} opened Settings, but {serial} shows {package or 'nothing'}: that is another phone")


def compare(servers: Sequence[Server]) -> None:
    """Raises StartupError unless all servers have the same goals and screen size."""
    first = servers[0]
    for other in servers[1:]:
        both = f"{other.address.url} and {first.address.url}"
        for (name, index), goal in first.goals.items():
            if name not in WALL_CLOCK_GOALS and other.goals[name, index] != goal:
                raise StartupError(f"{both} give {name} {index} different goals; run one image everywhere")
        if other.screen != first.screen:
            raise StartupError(
                f"{both} differ in their screen ({other.screen}, {first.screen}); run one image everywhere"
            )


def _fix(fault: InfraError) -> str:
    if isinstance(fault, Unreachable):
        return "check the address, start the server, or give it longer with --boot-wait SECONDS"
    if isinstance(fault, WrongServer):
        return f"use a server of commit {COMMIT} (docs/benchmarks.md)"
    if isinstance(fault, ServerFault):
        return "look at the server's log, and restart its container"
    return "`adb devices` must list it as `device` (docs/benchmarks.md: the phone of a container)"
