"""From addresses to servers that are known to work, before anything is played on them.

Every check raises with one line that says what to do. All servers are looked at side by side; the first to fail is the
one that is told of.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from envs.androidworld.access import Access, AdbAccess, HttpAccess
from envs.androidworld.address import Address, StartupError
from envs.androidworld.apps import APPS
from envs.androidworld.client import ANSWER_FAMILY, AndroidWorldClient
from envs.androidworld.device import Settle
from envs.androidworld.env import BOOT_WAIT_S, POLL_S, AndroidWorldEnv
from envs.androidworld.faults import ServerFault, Unreachable, WrongServer
from envs.androidworld.tasks import ANSWER_TASKS, COMMIT, FACTS, WALL_CLOCK_GOALS, describe_difference
from envs.base import InfraError

STATUS_EVERY_S = 30.0
PAIR_WAIT_S = 10.0
Goals = Mapping[tuple[str, int], str]
Say = Callable[[str], None]


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


async def open_servers(addresses: Sequence[Address], suite: Suite, boot_wait_s: float = BOOT_WAIT_S,
                       say: Say = print, leftovers: Mapping[str, tuple[str, int]] | None = None,
                       apps: Mapping[str, str] = APPS, settle: Settle | None = None) -> list[Server]:  # fmt: skip
    """Checks all servers and gives each the suite. Raises StartupError.

    `leftovers` names, by device id, what an interrupted evaluation left set up; it is torn down first.
    """

    async def opened(address: Address) -> Server:
        left = (leftovers or {}).get(address.device_id)
        try:
            return await open_server(address, suite, boot_wait_s, say, left, apps, settle)
        except InfraError as fault:
            raise StartupError(_cure(address, fault)) from fault

    opening = [asyncio.create_task(opened(address)) for address in addresses]
    try:
        await asyncio.wait(opening, return_when=asyncio.FIRST_EXCEPTION)
        servers = [task.result() for task in opening if task.done()]  # raises what the first to fail has raised
        compare(servers)
    except BaseException:
        for task in opening:
            task.cancel()
        ended = await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.gather(*(server.client.close() for server in ended if isinstance(server, Server)))
        raise
    return servers


async def open_server(address: Address, suite: Suite, boot_wait_s: float, say: Say,
                      left: tuple[str, int] | None = None, apps: Mapping[str, str] = APPS,
                      settle: Settle | None = None) -> Server:  # fmt: skip
    """Checks one server and gives it the suite. Raises InfraError. `left` is an instance that is still set up."""
    client = AndroidWorldClient(address.url)
    try:
        access = make_access(address, client, apps, settle)
        return await _open(address, client, access, suite, boot_wait_s, say, left)
    except BaseException:
        await client.close()
        raise


def make_access(address: Address, client: AndroidWorldClient, apps: Mapping[str, str] = APPS,
                settle: Settle | None = None) -> Access:  # fmt: skip
    if not address.serial:
        return HttpAccess(client, apps)
    try:
        from envs.adb import AdbTransport
    except ImportError as error:
        raise StartupError(f"an ADB serial needs adbutils ({error}): pip install 'mobilerl[androidworld]'") from None
    return AdbAccess(AdbTransport(address.serial, address.adb_host, address.adb_port), apps, settle)


async def _open(address: Address, client: AndroidWorldClient, access: Access, suite: Suite, boot_wait_s: float,
                say: Say, left: tuple[str, int] | None) -> Server:  # fmt: skip
    until = time.monotonic() + boot_wait_s
    await _resolve(address)
    await wait_for_server(client, until, say)
    await client.task_list()  # a server of something else is found out before anything is changed on it
    if left is not None:
        with contextlib.suppress(ServerFault):  # a server that was restarted since may not even have that instance
            await client.tear_down(*left)
    await client.reinitialize(1, suite.seed, ANSWER_FAMILY)
    answers = frozenset(await client.task_list())
    await client.reinitialize(suite.combinations, suite.seed)
    _check_version(client, await client.task_list(), answers)
    commit = _check_budgets(client, await client.info())
    goals = await _goals(client, suite)
    await _wait_for_phone(access, until)
    await _check_pair(client, access)
    await client.reset(go_home=True)
    seen = await access.observe(0)
    return Server(address, client, access, answers, goals, f"{seen.width}x{seen.height}", commit)


async def _resolve(address: Address) -> None:
    """A host that does not exist is not worth waiting for."""
    host = urlsplit(address.url).hostname
    try:
        await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError as error:
        raise StartupError(f"--server {address.url}: there is no host {host} ({error.strerror})") from None


async def wait_for_server(client: AndroidWorldClient, until: float, say: Say = print) -> None:
    """Waits for a server that refuses or drops connections, as one that is starting does, and says so meanwhile."""
    began, told = time.monotonic(), -STATUS_EVERY_S
    while True:
        try:
            return await client.health()
        except Unreachable as fault:
            waited = time.monotonic() - began
            if time.monotonic() >= until:
                raise
            if waited - told >= STATUS_EVERY_S:
                told = waited
                say(f"{fault}: still starting (5 to 10 minutes), or the wrong address; waiting for another "
                    f"{until - time.monotonic():.0f} s")  # fmt: skip
            await asyncio.sleep(min(POLL_S, max(until - time.monotonic(), 0.05)))


async def _wait_for_phone(access: Access, until: float) -> None:
    while True:
        try:
            return await access.connect()
        except InfraError as fault:
            # Only a phone that adb knows and that is booting gets better by itself.
            if "booting" not in str(fault) or time.monotonic() >= until:
                raise
            await asyncio.sleep(POLL_S)


def _check_version(client: AndroidWorldClient, names: Sequence[str], answers: frozenset[str]) -> None:
    if difference := describe_difference(names):
        if not FACTS.keys() & set(names):
            raise WrongServer(f"{client.url}: none of its tasks is one of AndroidWorld's: it {difference}")
        raise WrongServer(f"{client.url} runs another version of AndroidWorld than {COMMIT}: it {difference}")
    if differing := sorted(ANSWER_TASKS ^ answers):
        some = ", ".join(differing[:5])
        raise WrongServer(
            f"{client.url} runs another version of AndroidWorld than {COMMIT}: its answers differ in {some}"
        )


def _check_budgets(client: AndroidWorldClient, info: Mapping[str, Any]) -> str:
    """The server's commit. Raises WrongServer when it allots other step budgets, as another commit does."""
    budgets = info.get("budgets") or {}
    if other := [name for name in sorted(FACTS) if budgets.get(name, FACTS[name].budget) != FACTS[name].budget]:
        name = other[0]
        raise WrongServer(f"{client.url} runs another version of AndroidWorld than {COMMIT}: it allots {name} "
                          f"{budgets[name]} steps and not {FACTS[name].budget}, {len(other)} such")  # fmt: skip
    return str(info.get("commit", ""))


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
    """Equal seeds give equal goals everywhere; and screens of different sizes are different tests.

    Raises StartupError.
    """
    first = servers[0]
    for other in servers[1:]:
        for (name, index), goal in first.goals.items():
            if name not in WALL_CLOCK_GOALS and other.goals[name, index] != goal:
                raise StartupError(f"{other.address.url} and {first.address.url} give {name} {index} different goals: "
                                   "they run different versions; run one image everywhere")  # fmt: skip
        if other.commit != first.commit:
            raise StartupError(f"{other.address.url} says commit {other.commit or 'nothing'}, {first.address.url} says "
                               f"{first.commit or 'nothing'}; run one image everywhere")  # fmt: skip
        if other.screen != first.screen:
            raise StartupError(f"the screen of {other.address.url} is {other.screen}, that of {first.address.url} "
                               f"{first.screen}; run one image everywhere")  # fmt: skip


def _cure(address: Address, fault: InfraError) -> str:
    """What to do about it, on the same line."""
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
