"""Servers that cannot be used are told of in one line, with the fix, before anything runs on them."""

from __future__ import annotations

import asyncio

import pytest
from androidworld_play import stand_ins_fixture  # noqa: F401 - a fixture
from androidworld_server import in_process

from mobilerl.envs.androidworld import startup
from mobilerl.envs.androidworld.startup import Address, StartupError, Suite, open_servers, parse_addresses
from mobilerl.envs.androidworld.tasks import FACTS
from mobilerl.envs.phone.apps.catalogue import APP_NAMES


def start(*addresses, boot_wait_s=0.0, say=lambda text: None, **more):
    """The servers, closed again."""

    async def main():
        suite = Suite(30, 1, ("ContactsAddContact", "MarkorCreateFolder"))
        servers = await open_servers([Address.parse(a) for a in addresses], suite, boot_wait_s, say, **more)
        for server in servers:
            await server.client.close()
        return servers

    return asyncio.run(main())


def refused(*addresses) -> str:
    with pytest.raises(StartupError) as error:
        start(*addresses)
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "is missing"),
        (["http://h:1", "http://h:1/"], "a server is given twice"),
        (["http://h:1,e", "http://h:2,e"], "a phone is given twice"),
        (["http://h:1,e", "http://h:2"], "with every server or with none"),
    ],
)
def test_addresses_that_do_not_go_together(texts, said):
    with pytest.raises(StartupError, match=said):
        parse_addresses(texts)


def test_a_server_that_is_starting_is_waited_for_and_told_of(stand_ins):
    server, heard = stand_ins(), []
    server.stop()

    def say(text: str) -> None:
        heard.append(text)
        server.start()  # once it has been missed

    start(server.url, boot_wait_s=60.0, say=say)
    assert len(heard) == 1 and "still starting (5 to 10 minutes), or the wrong address" in heard[0]


def test_servers_of_something_else_and_of_another_version_are_refused(stand_ins):
    server = stand_ins()
    server.answers["/suite/task_list"] = [{"error": "no such page"}]
    text = refused(server.url)
    assert "gives no task_list but {'error': 'no such page'}" in text and "docs/benchmarks.md" in text
    assert "/suite/reinitialize" not in [r[1] for r in server.requests]  # nothing was changed on it
    other = stand_ins(names=tuple(sorted((FACTS.keys() - {"BrowserDraw", "VlcCreatePlaylist"}) | {"BrowserPaint"})))
    text = refused(other.url)
    assert "another version of AndroidWorld than d9c569f" in text
    assert "has BrowserPaint; lacks BrowserDraw, VlcCreatePlaylist" in text


def test_a_server_of_another_run_is_refused_until_that_run_closes_it(stand_ins):
    address = [Address.parse(stand_ins().url)]
    suite = Suite(30, 1, ("ContactsAddContact",))

    async def main():
        [first] = await open_servers(address, suite, user="run /tmp/first")
        with pytest.raises(StartupError, match=rf"{address[0].url} is in use by process .*\(run /tmp/first\): "):
            await open_servers(address, suite, user="run /tmp/second")
        await first.client.close()
        [second] = await open_servers(address, suite, user="run /tmp/second")
        await second.env().close()

    asyncio.run(main())


def test_servers_that_do_not_compare_are_refused(stand_ins):
    one, two = stand_ins(), stand_ins()
    assert "differ in their screen" in refused(one.url, stand_ins(in_process(200)).url)
    two._make = lambda name, seed, index, make=two._make: make(name, seed + 1, index)
    assert "give ContactsAddContact 0 different goals" in refused(one.url, two.url)
    left = {one.url.removeprefix("http://"): ("ContactsAddContact", 0)}
    since = len(one.requests)
    assert len(start(one.url, stand_ins().url, leftovers=left)) == 2  # though MarkorCreateFolder has its moment in it
    seen = [r[1] for r in one.requests[since:]]
    assert seen.index("/task/tear_down") < seen.index("/suite/reinitialize")


def test_serials_that_were_mixed_up(stand_ins, adb, phones, monkeypatch):
    monkeypatch.setattr(startup, "APPS", APP_NAMES)
    monkeypatch.setenv("ANDROID_ADB_SERVER_HOST", "127.0.0.1")
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))
    monkeypatch.setattr(startup, "PAIR_WAIT_S", 0.5)
    one, two = phones(), phones()
    server = stand_ins(transport=adb.transport(one.serial))
    adb.transport(one.serial).connect()
    text = refused(f"{server.url},{two.serial}")
    assert "that is another phone" in text and "com.android.launcher" in text
