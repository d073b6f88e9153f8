"""Servers that cannot be used are told of in one line, with the cure, before anything is played."""

from __future__ import annotations

import asyncio
import time

import pytest
from androidworld_server import StandIn, in_process
from ports import free_port

from envs.androidworld import startup
from envs.androidworld.access import AdbAccess
from envs.androidworld.address import Address, StartupError, parse_addresses
from envs.androidworld.device import Settle
from envs.androidworld.startup import Suite, open_servers
from envs.androidworld.tasks import ANSWER_TASKS, FACTS
from envs.phone.env import APP_NAMES

FAST = Settle(0.0, 0.0)


@pytest.fixture
def stand_ins():
    made: list[StandIn] = []

    def make(**options) -> StandIn:
        transport = options.pop("transport", None) or in_process(options.pop("width", 180))
        made.append(StandIn(transport, **options).start())
        return made[-1]

    yield make
    for server in made:
        server.stop()


def start(*addresses, seed=30, combinations=1, names=("ContactsAddContact", "MarkorCreateFolder"), boot_wait_s=0.0,
          say=lambda text: None, **more):  # fmt: skip
    """The servers, closed again."""

    async def main():
        parsed, suite = [Address.parse(a) for a in addresses], Suite(seed, combinations, names)
        servers = await open_servers(parsed, suite, boot_wait_s, say, settle=FAST, **more)
        for server in servers:
            await server.client.close()
        return servers

    return asyncio.run(main())


def refused(*addresses, **more) -> str:
    with pytest.raises(StartupError) as error:
        start(*addresses, **more)
    text = str(error.value)
    assert "\n" not in text
    return text


# --- addresses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "localhost:5000", "ftp://h:5000", "http://", "http://h:port", "http://h:5000/api",
                                  "http://h:5000,s@nowhere", "http://h:99999"])  # fmt: skip
def test_addresses_that_are_none(text):
    with pytest.raises(StartupError, match="--server"):
        parse_addresses([text])


def test_addresses():
    assert Address.parse("http://h:5000/") == Address("http://h:5000")
    assert Address.parse("http://h:5000,127.0.0.1:5555") == Address("http://h:5000", "127.0.0.1:5555")
    shared = Address.parse("http://h:5000,emulator-5554@h:5037")
    assert (shared.serial, shared.adb_host, shared.adb_port) == ("emulator-5554", "h", 5037)
    # One name on two adb servers is two phones.
    assert len(parse_addresses(["http://a:1,emulator-5554@a:5037", "http://b:1,emulator-5554@b:5037"])) == 2


@pytest.mark.parametrize(("texts", "said"), [
    ([], "is missing"),
    (["http://h:1", "http://h:1/"], "the server http://h:1 is there twice"),
    (["http://h:1,e", "http://h:2,e"], "the phone e is there twice"),
    (["http://h:1,e", "http://h:2"], "with every server or with none"),
])  # fmt: skip
def test_addresses_that_do_not_go_together(texts, said):
    with pytest.raises(StartupError, match=said):
        parse_addresses(texts)


# --- servers -----------------------------------------------------------------------------------------------------


def test_a_good_server(stand_ins):
    server = stand_ins()
    [found] = start(server.url, combinations=2)
    assert found.answers == ANSWER_TASKS and found.screen == "180x360" and found.commit == ""
    assert found.goals["ContactsAddContact", 1] == server.instance("ContactsAddContact", 1).goal
    assert server.seed == 30 and len(server.suite) == 116


def test_nothing_answers():
    assert "cannot be reached" in (text := refused(f"http://127.0.0.1:{free_port()}")) and "--boot-wait" in text


def test_a_host_that_does_not_exist_is_not_waited_for():
    began = time.monotonic()
    assert "there is no host" in refused("http://no-such-host.invalid:5000", boot_wait_s=60.0)
    assert time.monotonic() - began < 30


def test_a_server_that_is_starting_is_waited_for_and_told_of(stand_ins):
    server, heard = stand_ins(), []
    server.stop()

    def say(text: str) -> None:
        heard.append(text)
        server.start()  # once it has been missed

    start(server.url, boot_wait_s=60.0, say=say)
    assert len(heard) == 1 and "still starting (5 to 10 minutes), or the wrong address" in heard[0]


def test_one_wrong_server_is_told_at_once_though_another_is_starting(stand_ins):
    server = stand_ins()
    server.faults["/health"] = [("answer", {"status": "what?"})]
    began = time.monotonic()
    assert "does not say success" in refused(f"http://127.0.0.1:{free_port()}", server.url, boot_wait_s=60.0)
    assert time.monotonic() - began < 20


def test_a_server_of_something_else(stand_ins):
    server = stand_ins()
    server.faults["/suite/task_list"] = [("answer", {"error": "no such page"})]
    text = refused(server.url)
    assert "gives no task_list but {'error': 'no such page'}" in text and "docs/androidworld.md" in text
    assert "/suite/reinitialize" not in [r[1] for r in server.requests]  # nothing was changed on it


def test_another_version_is_named_by_its_tasks(stand_ins):
    other = stand_ins(names=tuple(sorted((FACTS.keys() - {"BrowserDraw", "VlcCreatePlaylist"}) | {"BrowserPaint"})))
    text = refused(other.url)
    assert "another version of AndroidWorld than d9c569f" in text
    assert "has BrowserPaint; lacks BrowserDraw, VlcCreatePlaylist" in text


def test_another_version_is_named_by_its_answer_tasks(stand_ins):
    server = stand_ins()
    server.faults["/suite/task_list"] = [("answer", {"task_list": sorted(FACTS)}),
                                         ("answer", {"task_list": sorted(ANSWER_TASKS - {"NotesIsTodo"})})]  # fmt: skip
    assert "its answers differ in NotesIsTodo" in refused(server.url)


def test_another_version_is_named_by_its_budgets(stand_ins, monkeypatch):
    async def info(client):
        return {"commit": "cac1854", "budgets": {"ExpenseAddMultipleFromGallery": 20}}

    monkeypatch.setattr(startup.AndroidWorldClient, "info", info)
    assert "allots ExpenseAddMultipleFromGallery 20 steps and not 60" in refused(stand_ins().url)


def test_servers_that_give_different_goals(stand_ins):
    one, two = stand_ins(), stand_ins()
    two._make = lambda name, seed, index, make=two._make: make(name, seed + 1, index)
    assert "give ContactsAddContact 0 different goals" in refused(one.url, two.url)
    assert len(start(one.url, stand_ins().url)) == 2  # though MarkorCreateFolder has its moment in its goal


def test_servers_with_different_screens(stand_ins):
    assert "the screen of" in refused(stand_ins().url, stand_ins(width=200).url)


def test_what_an_interrupted_evaluation_left_is_torn_down_first(stand_ins):
    server = stand_ins()
    start(server.url, leftovers={server.url.removeprefix("http://"): ("ContactsAddContact", 0)})
    seen = [r[1] for r in server.requests]
    assert seen.index("/task/tear_down") < seen.index("/suite/reinitialize")


def test_a_server_whose_own_code_fails(stand_ins):
    server = stand_ins()
    server.faults["/suite/reinitialize"] = ["500"]
    text = refused(server.url)
    assert "GET /suite/reinitialize answered 500" in text and "restart its container" in text


# --- phones ------------------------------------------------------------------------------------------------------


def on_adb(monkeypatch, adb):
    monkeypatch.setenv("ANDROID_ADB_SERVER_HOST", "127.0.0.1")
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))


def test_a_phone_over_adb(stand_ins, adb, phones, monkeypatch):
    on_adb(monkeypatch, adb)
    phone = phones()
    server = stand_ins(transport=adb.transport(phone.serial))
    adb.transport(phone.serial).connect()
    [found] = start(f"{server.url},{phone.serial}", apps=APP_NAMES)
    assert isinstance(found.access, AdbAccess) and found.screen == "360x720"
    # The same phone on an adb server that is named.
    start(f"{server.url},{phone.serial}@127.0.0.1:{adb.port}", apps=APP_NAMES)


def test_serials_that_were_mixed_up(stand_ins, adb, phones, monkeypatch):
    on_adb(monkeypatch, adb)
    monkeypatch.setattr(startup, "PAIR_WAIT_S", 0.5)
    one, two = phones(), phones()
    server = stand_ins(transport=adb.transport(one.serial))
    adb.transport(one.serial).connect()
    text = refused(f"{server.url},{two.serial}", apps=APP_NAMES)
    assert "that is another phone" in text and "com.android.launcher" in text


@pytest.mark.parametrize("serial", ["emulator-5554", "127.0.0.1:1"])
def test_a_phone_that_adb_does_not_have(stand_ins, adb, monkeypatch, serial):
    on_adb(monkeypatch, adb)
    text = refused(f"{stand_ins().url},{serial}")
    assert serial in text and "`adb devices` must list it as `device`" in text


def test_no_adb_server(stand_ins, adb, monkeypatch):
    on_adb(monkeypatch, adb)  # or adbutils would start one of its own
    text = refused(f"{stand_ins().url},emulator-5554@127.0.0.1:{free_port()}")
    assert "emulator-5554" in text and "refused" in text
