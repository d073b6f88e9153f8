"""From addresses to AndroidWorld servers that are known to work, before anything runs on them.

Every check raises with one line that says what to do. All servers are checked at the same time; the first failure is
the one that is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from envs.androidworld.access import Access, AdbAccess, HttpAccess
from envs.androidworld.client import ANSWER_FAMILY, AndroidWorldClient, ServerInfo
from envs.androidworld.env import BOOT_WAIT_S, POLL_S, AndroidWorldEnv
from envs.androidworld.faults import ServerFault, Unreachable, WrongServer
from envs.androidworld.tasks import ANSWER_TASKS, APPS, COMMIT, FACTS, WALL_CLOCK_GOALS, describe_difference
from envs.base import InfraError

STATUS_EVERY_S = 30.0
PAIR_WAIT_S = 10.0
MAX_PORT = 65535
_ADDRESS = re.compile(r"(https?://(?:\[[0-9a-fA-F:]+\]|[^:/,?#@]+)(?::(\d{1,5}))?)/?(?:,([^@]+)(?:@(.+):(\d{1,5}))?)?")
Goals = Mapping[tuple[str, int], str]
Say = Callable[[str], None]


class StartupError(ValueError):
    """A server that cannot be used; the message is one line and says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """`http://HOST:PORT[,SERIAL[@ADB_HOST:ADB_PORT]]`: a server, and its phone on an adb server (this machine's)."""

    url: str
    serial: str = ""
    adb_host: str | None = None
    adb_port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        match = _ADDRESS.fullmatch(text)
        if match is None or int(match[2] or 0) > MAX_PORT:
            raise StartupError(
                f"--server {text!r} is not http://HOST:PORT[,ADB_SERIAL[@ADB_HOST:ADB_PORT]], as in "
                "http://127.0.0.1:5000,emulator-5554"
            )
        return cls(match[1], match[3] or "", match[4], int(match[5]) if match[5] else None)

    @property
    def device_id(self) -> str:
        return urlsplit(self.url).netloc


def parse_addresses(texts: Sequence[str]) -> list[Address]:
    """Raises StartupError for none, duplicates, and servers of which only some have a serial."""
    addresses = [Address.parse(text) for text in texts]
    if not addresses:
        raise StartupError("--server http://HOST:PORT[,ADB_SERIAL] is missing (or --fleet N: it starts N containers)")
    phones = [(a.serial, a.adb_host, a.adb_port) for a in addresses if a.serial]
    for what, found in (("server", [a.url for a in addresses]), ("phone", phones)):
        if twice := next((one for one in found if found.count(one) > 1), None):
            name = twice if isinstance(twice, str) else twice[0]
            raise StartupError(f"--server: the {what} {name} is given twice; one phone runs one episode at a time")
    if len({bool(a.serial) for a in addresses}) > 1:
        raise StartupError(
            "--server: give an ADB serial with every server or with none: results over adb and over HTTP do not compare"
        )
    return addresses


@dataclass(frozen=True, slots=True)
class Suite:
    """The instances to be set up: `combinations` of each of the tasks `names`, drawn from `seed`."""

    seed: int
    combinations: int
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Server:
    """A server that passed all checks."""

    address: Address
    client: AndroidWorldClient
    access: Access
    answers: frozenset[str]
    goals: Goals
    screen: str
    commit: str
    """As the server of docker/androidworld says; "" from upstream's, which does not tell."""

    def env(self, boot_wait_s: float = BOOT_WAIT_S, free_reward: bool = True) -> AndroidWorldEnv:
        device_id = self.address.device_id
        return AndroidWorldEnv(device_id, self.client, self.access, self.answers, boot_wait_s, free_reward)


async def open_servers(
    addresses: Sequence[Address],
    suite: Suite,
    boot_wait_s: float = BOOT_WAIT_S,
    say: Say = print,
    leftovers: Mapping[str, tuple[str, int]] | None = None,
) -> list[Server]:
    """Checks all servers and gives each the suite. Raises StartupError.

    `leftovers`: what an interrupted evaluation left set up, by device id; it is torn down first.
    """

    async def opened(address: Address) -> Server:
        try:
            return await open_server(address, suite, boot_wait_s, say, (leftovers or {}).get(address.device_id))
        except InfraError as fault:
            raise StartupError(_with_fix(address, fault)) from fault

    opening = [asyncio.create_task(opened(address)) for address in addresses]
    try:
        await asyncio.wait(opening, return_when=asyncio.FIRST_EXCEPTION)
        servers = [task.result() for task in opening if task.done()]  # raises the first failure
        compare(servers)
    except BaseException:
        for task in opening:
            task.cancel()
        ended = await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.gather(*(server.client.close() for server in ended if isinstance(server, Server)))
        raise
    return servers


async def open_server(
    address: Address, suite: Suite, boot_wait_s: float, say: Say, left: tuple[str, int] | None = None
) -> Server:
    """Checks one server and gives it the suite. Raises InfraError. `left` is an instance that is still set up."""
    client = AndroidWorldClient(address.url)
    try:
        access = make_access(address, client)
        until = time.monotonic() + boot_wait_s
        await _resolve(address)
        await wait_for_server(client, until, say)
        await client.task_list()  # a server of something else is found out before anything is changed on it
        if left is not None:
            with contextlib.suppress(ServerFault):  # a server that was restarted may not have that instance
                await client.tear_down(*left)
        await client.reinitialize(1, suite.seed, ANSWER_FAMILY)
        answers = frozenset(await client.task_list())
        await client.reinitialize(suite.combinations, suite.seed)
        commit = _check_version(client, await client.task_list(), answers, await client.info())
        goals = await _goals(client, suite)
        # Only a phone that adb knows and that is booting gets better by itself.
        await _retried(access.connect, lambda fault: "booting" in str(fault), until)
        await _check_pair(client, access)
        await client.reset(go_home=True)
        seen = await access.observe(0)
        return Server(address, client, access, answers, goals, f"{seen.width}x{seen.height}", commit)
    except BaseException:
        await client.close()
        raise


def make_access(address: Address, client: AndroidWorldClient) -> Access:
    if not address.serial:
        return HttpAccess(client, APPS)
    try:
        from envs.adb import AdbTransport
    except ImportError as error:
        raise StartupError(f"an ADB serial needs adbutils ({error}): pip install 'mobilerl[androidworld]'") from None
    return AdbAccess(AdbTransport(address.serial, address.adb_host, address.adb_port), APPS)


async def _resolve(address: Address) -> None:
    """A host that does not exist is not worth waiting for."""
    host = urlsplit(address.url).hostname
    try:
        await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError as error:
        raise StartupError(f"--server {address.url}: there is no host {host} ({error.strerror})") from None


async def wait_for_server(client: AndroidWorldClient, until: float, say: Say = print) -> None:
    """Waits for a server that is starting (it refuses or drops connections), and reports that from time to time."""
    reported = -STATUS_EVERY_S

    def is_starting(fault: InfraError) -> bool:
        nonlocal reported
        now = time.monotonic()
        if isinstance(fault, Unreachable) and now < until and now - reported >= STATUS_EVERY_S:
            reported = now
            say(f"{fault}: still starting (5 to 10 minutes), or the wrong address; waiting up to {until - now:.0f} s")
        return isinstance(fault, Unreachable)

    await _retried(client.health, is_starting, until)


async def _retried(call: Callable[[], Awaitable[None]], may_pass: Callable[[InfraError], bool], until: float) -> None:
    """Calls until it succeeds. Raises the fault when it will not pass by itself, or at the time `until`."""
    while True:
        try:
            return await call()
        except InfraError as fault:
            if not may_pass(fault) or time.monotonic() >= until:
                raise
        await asyncio.sleep(min(POLL_S, max(until - time.monotonic(), 0.05)))


def _check_version(client: AndroidWorldClient, names: Sequence[str], answers: frozenset[str], info: ServerInfo) -> str:
    """The server's commit. Raises WrongServer when it has other tasks or other step budgets than ours."""
    if names and not FACTS.keys() & set(names):
        raise WrongServer(f"{client.url}: none of its tasks is one of AndroidWorld's")
    budgets = info.budgets
    other = [name for name in sorted(FACTS) if budgets.get(name, FACTS[name].budget) != FACTS[name].budget]
    if difference := describe_difference(names):
        difference = f"it {difference}"
    elif differing := sorted(ANSWER_TASKS ^ answers):
        difference = f"its answers differ in {', '.join(differing[:5])}"
    elif other:
        difference = f"it allots {other[0]} {budgets[other[0]]} steps and not {FACTS[other[0]].budget}"
    if difference:
        raise WrongServer(f"{client.url} runs another version of AndroidWorld than {COMMIT}: {difference}")
    return info.commit


async def _goals(client: AndroidWorldClient, suite: Suite) -> dict[tuple[str, int], str]:
    goals = {}
    for name in suite.names:
        if (length := await client.task_length(name)) != suite.combinations:
            raise WrongServer(f"{client.url}: {name} has {length} instances after {suite.combinations} were asked for")
        for index in range(suite.combinations):
            goals[name, index] = await client.goal(name, index)
    return goals


async def _check_pair(client: AndroidWorldClient, access: Access) -> None:
    """Whether the serial is this server's phone: mixed-up serials would look like a model that fails at everything."""
    if not isinstance(access, AdbAccess):
        return
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
    """Raises StartupError unless all servers have the same goals, version and screen size."""
    first = servers[0]
    for other in servers[1:]:
        both = f"{other.address.url} and {first.address.url}"
        for (name, index), goal in first.goals.items():
            if name not in WALL_CLOCK_GOALS and other.goals[name, index] != goal:
                raise StartupError(f"{both} give {name} {index} different goals; run one image everywhere")
        for what in ("commit", "screen"):
            one, two = getattr(other, what), getattr(first, what)
            if one != two:
                raise StartupError(
                    f"{both} differ in their {what}: {one or 'unknown'}, {two or 'unknown'}; run one image everywhere"
                )


def _with_fix(address: Address, fault: InfraError) -> str:
    """The fault and what to do about it, in one line."""
    text = str(fault)
    if isinstance(fault, Unreachable):
        return f"{text}; check the address, start the server, or give it longer with --boot-wait SECONDS"
    if isinstance(fault, WrongServer):
        return f"{text}; use a server of commit {COMMIT} (docs/androidworld.md)"
    if isinstance(fault, ServerFault):
        return f"{text}; look at the server's log, and restart its container"
    if address.serial and address.serial in text:
        return f"{text}; `adb devices` must list it as `device` (docs/androidworld.md: the phone of a container)"
    return text
