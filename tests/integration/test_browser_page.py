"""A page of Chromium as a phone: what is on its screen, what actions do, and what it cannot reach."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from dataclasses import replace

import pytest
from PIL import Image

from mobilerl.envs.base import Back, Enter, Home, InfraError, LongPress, Swipe, Tap, Type

from pages import element, opened, screen_of, site  # isort: skip


async def test_the_screen_has_the_elements_that_androids_tree_would_have(tmp_path):
    body = """<h1>Order</h1><p>Two <b>fresh</b> rolls</p><button disabled>Pay</button><button id="go-on"></button>
        <label><input type=checkbox checked>Gift</label><input placeholder="Name" style="display:block">
        <input type=password value=secret><select><option>One</option><option selected>Two</option></select>
        <div onclick="1" style="width:50px;height:50px" class="star_icon"></div><img alt="Logo" width=20 height=20>
        <p style="visibility:hidden">Hidden</p><p style="position:absolute;top:900px">Below</p>
        <div style="height:40px;overflow:auto"><p>Row</p><p style="height:200px">Last</p></div>"""
    async with opened(site(tmp_path, index=body)) as page:
        screen = await screen_of(page)
        picture = Image.open(io.BytesIO(await page.screenshot()))
    lines = {e.text: (e.cls, *e.actions, *e.states) for e in screen.elements}
    assert lines["Order"] == ("TextView",) and lines["Two fresh rolls"] == ("TextView",)
    assert lines["Pay"] == ("Button",)  # disabled
    assert lines["go on"] == ("Button", "click")  # by its id, as it has no text
    assert lines["Gift"] == ("CheckBox", "click", "check", "checked")
    assert lines["Name"] == ("EditText", "click", "edit")
    assert lines["secret"] == ("EditText", "click", "edit", "password")
    assert lines["Two"] == ("Spinner", "click")
    assert lines["star icon"] == ("View", "click")
    assert lines["Logo"] == ("ImageView",)
    assert lines["Row"] and "scroll" in next(e for e in screen.elements if "scroll" in e.actions).actions
    assert not lines.keys() & {"Hidden", "Below", "One"}
    assert picture.size == (screen.width, screen.height) == (200, 400)


async def test_switches_that_are_only_drawn_say_whether_they_are_on(tmp_path):
    body = """<style>
        button, .track {width: 44px; height: 24px; border-radius: 9999px; border: 0; padding: 2px; display: flex}
        i {width: 20px; height: 20px; border-radius: 50%; background: red} .on {justify-content: flex-end}</style>
        <div onclick="1">Wifi <div class="track on"><i></i></div></div><button aria-label=Bell><i></i></button>
        <button role=switch aria-checked=true>Sync</button><button aria-pressed=false>Bold</button>
        <button class=on>A<i></i></button><div class="track on"><i style="border-radius: 0"></i></div>
        <div class="track on" style="width: 180px"><i></i></div>"""
    async with opened(site(tmp_path, index=body)) as page:
        elements = (await screen_of(page)).elements
    checkable = [(e.cls, e.text, e.states) for e in elements if {"checked", "unchecked"} & {*e.states}]
    assert checkable == [
        ("View", "Wifi", ("checked",)),  # with the switch in its row
        ("Switch", "Bell", ("unchecked",)),
        ("Switch", "Sync", ("checked",)),
        ("Button", "Bold", ("unchecked",)),
    ]


async def test_actions_do_what_a_finger_and_a_keyboard_do(tmp_path):
    body = """<button onclick="said.textContent += 'tap '">Tap me</button><p id=said>Log: </p>
        <div ontouchstart="t = performance.now()" style="height:60px"
            ontouchend="if (performance.now() - t > 600) said.textContent += 'hold '">Hold me</div>
        <input id=field value=old onkeydown="if (event.key == 'Enter') said.textContent += field.value + ' '">
        <div style="height:2000px"></div><p>End</p>"""
    async with opened(site(tmp_path, index=body)) as page:
        assert "no text field" in await page.act(Type("x"))
        for name, kind in (("Tap me", Tap), ("Hold me", LongPress), ("old", Tap)):
            assert await page.act(kind(*(await element(page, name)).centre)) == ""
        assert (await element(page, "old")).states == ("focused",)
        await page.act(Type("Grüße, 日本"))
        await page.act(Enter())
        assert (await element(page, "Log: tap hold Grüße, 日本")).actions == ()
        await page.act(Type(""))
        assert "Grüße, 日本" not in [e.text for e in (await screen_of(page)).elements]
        for _ in range(8):
            await page.act(Swipe(500, 900, 500, 100))
        assert "End" in [e.text for e in (await screen_of(page)).elements]


async def test_the_options_of_a_list_are_shown_on_the_page(tmp_path):
    body = """<select id=s onchange="said.textContent = s.value"><option>One</option><option>Two</option></select>
        <p id=said></p><input type=date onchange="said.textContent = this.value">"""
    async with opened(site(tmp_path, index=body)) as page:
        await page.act(Tap(*(await element(page, "One")).centre))
        await page.act(Tap(*(await element(page, "Two")).centre))
        assert [e.text for e in (await screen_of(page)).elements if e.text] == ["Two", "Two"]
        field = next(e for e in (await screen_of(page)).elements if "edit" in e.actions)
        await page.act(Tap(*field.centre))
        assert "does not take this text" in await page.act(Type("tomorrow"))
        assert await page.act(Type("2026-05-04")) == ""
        assert "2026-05-04" in [e.text for e in (await screen_of(page)).elements]


async def test_back_returns_to_the_page_before_but_not_behind_the_first(tmp_path):
    web = site(tmp_path, index='<a href="two.html">Go</a>', two="Second")
    async with opened(web) as page:
        assert "no page" in await page.act(Back()) and "no other apps" in await page.act(Home())
        await page.act(Tap(*(await element(page, "Go")).centre))
        await element(page, "Second")
        assert await page.act(Back()) == ""
        await element(page, "Go")


async def test_dialogs_and_windows_are_closed_and_noted(tmp_path):
    body = """<button onclick="alert('Sure?'); window.open('two.html')">Ask</button>"""
    async with opened(site(tmp_path, index=body, two="Second")) as page:
        await page.act(Tap(*(await element(page, "Ask")).centre))
        await screen_of(page)
        said = page.take_events()
        assert "Sure?" in said and "a new window was closed" in said
        await element(page, "Ask")


async def test_nothing_but_the_listed_files_can_be_reached(tmp_path):
    asked: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(record, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    (tmp_path / "pages").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "pages" / "link.txt").symlink_to(tmp_path / "secret.txt")
    here = f"127.0.0.1:{port}"
    body = f"""<p id=said></p><img src="http://{here}/image"><iframe src="file://{tmp_path}/secret.txt"></iframe>
        <link rel=preconnect href="http://{here}"><a href="http://{here}/page">Leave</a><script>
        new WebSocket("ws://{here}/socket"); navigator.sendBeacon("http://{here}/beacon", "x");
        new EventSource("http://{here}/events"); new Worker(URL.createObjectURL(new Blob(["fetch('http://{here}/w')"])));
        const peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:{here}"}}]}});
        peer.createDataChannel("x"); peer.createOffer().then((o) => peer.setLocalDescription(o));
        for (const url of ["http://{here}/fetch", "https://{here}/tls", "http://localhost:{port}/", "link.txt",
            "/../secret.txt", "/%2e%2e/secret.txt", "file://{tmp_path}/secret.txt", "http://other/index.html",
            "none.txt"]) fetch(url).then((r) => r.status, () => "failed").then((s) => {{
                said.textContent += url + "=" + s + " "; }});
        </script>"""
    async with server, opened(site(tmp_path / "pages", index=body)) as page:
        async with asyncio.timeout(20):
            while (said := (await page.run("() => said.textContent")).split()) and len(said) < 9 or not said:
                await asyncio.sleep(0.05)
        answers = dict(line.rsplit("=", 1) for line in said)
        # For the last two a browser asks for /secret.txt.
        assert {answers.pop(url) for url in ("none.txt", "/../secret.txt", "/%2e%2e/secret.txt")} == {"404"}
        assert answers["link.txt"] == "403"
        assert set(answers.values()) <= {"failed", "403"}
        await page.act(Tap(*(await element(page, "Leave")).centre))
        assert "not one that the recipe lists" in str([e.text for e in (await screen_of(page)).elements])
        with suppress(InfraError):
            await page.open(f"http://{here}/direct")
    assert not asked


async def test_a_listed_address_can_be_reached(tmp_path):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/html\r\n\r\nHello")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, opened(replace(site(tmp_path, index=""), addresses=[address])) as page:
        await page.open(f"http://{address}/")
        await element(page, "Hello")


async def test_a_page_that_hangs_is_a_fault_of_the_device(tmp_path):
    async with opened(site(tmp_path, index="<button onclick='for (;;) {}'>Go</button>"), timeout_s=8.0) as page:
        go = await element(page, "Go")
        with pytest.raises(InfraError, match="does not answer"):
            await page.act(Tap(*go.centre))
            await page.tree()
        await page.close()


async def test_a_page_that_crashes_is_a_fault_of_the_device(tmp_path):
    async with opened(site(tmp_path, index="Hi")) as page:
        crash = asyncio.ensure_future(page._tab.goto("chrome://crash"))
        with pytest.raises(InfraError, match="crashed"):
            while True:
                await page.tree()
        assert page.gone
        crash.cancel()


async def test_what_a_page_stores_is_forgotten(tmp_path):
    web = site(tmp_path, index="<script>localStorage.x = 1; document.cookie = 'y=1'</script>")
    async with opened(web) as page:
        look = "() => [Object.keys(localStorage).length, document.cookie]"
        assert await page.run(look) == [1, "y=1"]
        await page.clear()
        assert await page.run(look) == [0, ""]
