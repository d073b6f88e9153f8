"""The emulator console of a served phone keeps a bounded number of snapshots."""

from __future__ import annotations

import asyncio

from envs.phone.apps.catalogue import APPS
from envs.phone.console import MAX_SNAPSHOTS, Console
from envs.phone.phone import Phone


async def said(console: Console, line: str) -> str:
    return (await console._answered(line)).decode()


def test_a_full_store_of_snapshots_says_so_and_has_room_after_a_delete():
    async def at_once(work):
        return work()

    async def main():
        phone = Phone(APPS)
        console = Console(phone, at_once)
        for number in range(MAX_SNAPSHOTS):
            assert await said(console, f"avd snapshot save s{number}") == "OK\r\n"
        full = await said(console, "avd snapshot save one-more")
        assert full.startswith("KO: no room for snapshot 'one-more'") and "delete one" in full
        assert "one-more" not in await said(console, "avd snapshot list")

        phone.files["/sdcard/new"] = b"1"
        assert await said(console, "avd snapshot save s0") == "OK\r\n"  # in place of its own
        del phone.files["/sdcard/new"]
        assert await said(console, "avd snapshot load s0") == "OK\r\n" and phone.files["/sdcard/new"] == b"1"
        assert await said(console, "avd snapshot delete s1") == "OK\r\n"
        assert await said(console, "avd snapshot save one-more") == "OK\r\n"

    asyncio.run(main())
