"""What a host sends to a phone (adb's protocol, shell lines), and what a phone sends back."""

from __future__ import annotations

import asyncio
import io
import struct
from collections import Counter
from contextlib import suppress
from functools import cache

from damage import damaged_bytes, damaged_text
from fuzzing import Target
from hypothesis import strategies as st
from PIL import Image
from shell_grammar import SCRIPTS

from mobilerl.envs.base import InfraError, ShellResult
from mobilerl.envs.device import LONGEST_SIDE, PNG_SIGNATURE, Device
from mobilerl.envs.phone.adbd.auth import PublicKey
from mobilerl.envs.phone.adbd.connection import Connection
from mobilerl.envs.phone.adbd.server import ServedPhone
from mobilerl.envs.phone.adbd.wire import CLSE, CNXN, HEADER, MAX_PAYLOAD, OKAY, OPEN, VERSION, WRTE, Message
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import Shell
from mobilerl.policy.screen import parse_screen

WIDTH, HEIGHT = 90, 180


@cache
def _phone() -> Phone:
    return Phone(APPS, WIDTH, HEIGHT)


def fresh_phone() -> Phone:
    """The same one every time, as after `reset`."""
    phone = _phone()
    phone.reset(0)
    phone.files.clear()
    return phone


def assert_alive(phone: Phone) -> None:
    """Whatever it was told, it answers and shows a screen."""
    shell = Shell(phone)
    assert shell.run("echo alive").stdout == b"alive\n"
    dump = shell.run("uiautomator dump /dev/tty").stdout.decode()
    xml = dump[: dump.rfind("</hierarchy>") + len("</hierarchy>")]
    assert not parse_screen(xml, WIDTH, HEIGHT).error
    assert shell.run("screencap -p").stdout.startswith(PNG_SIGNATURE)


# --- adb's device side -------------------------------------------------------------------------------------------

HELLO = Message(CNXN, VERSION, MAX_PAYLOAD, b"host::features=shell_v2,cmd,stat_v2").encode()


def _packet(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


def _sync(name: bytes, data: bytes) -> bytes:
    return struct.pack("<4sI", name, len(data)) + data


def _conversation(service: bytes, *data: bytes) -> bytes:
    """A host that opens a service, sends it data and takes all that comes."""
    parts = [Message(OPEN, 7, 0, service + b"\0").encode()]
    for piece in data:
        parts += [Message(WRTE, 7, 1, piece).encode(), Message(OKAY, 7, 1).encode()]
    return b"".join([HELLO, *parts, *[Message(OKAY, 7, 1).encode()] * 3, Message(CLSE, 7, 1).encode()])


CONVERSATIONS = [
    HELLO,
    _conversation(b"shell,v2,raw:wm size"),
    _conversation(b"shell:uiautomator dump /dev/tty"),
    _conversation(b"exec:screencap -p"),
    _conversation(b"shell,v2,raw:", _packet(0, b"echo a\n"), _packet(3, b"")),
    _conversation(b"shell:", b"echo a\rexit\r"),
    _conversation(b"sync:", _sync(b"STA2", b"/sdcard"), _sync(b"LIST", b"/"), _sync(b"QUIT", b"")),
    _conversation(b"sync:", _sync(b"SEND", b"/sdcard/a,33188"), _sync(b"DATA", b"x" * 50) + _sync(b"DONE", b"")),
    _conversation(b"sync:", _sync(b"RECV", b"/proc/sys/kernel/random/boot_id"), _sync(b"QUIT", b"")),
    _conversation(b"root:") + _conversation(b"nonsense:")[len(HELLO) :],
]
MESSAGES = (
    Message(OPEN, 8, 0, b"shell:true\0"),
    Message(CLSE, 7, 1),
    Message(WRTE, 7, 1, b"a"),
    Message(OKAY, 7, 1),
    Message(OPEN, 9, 0, b"sync:\0"),
    Message(OPEN, 0, 0, b""),
)
HUGE = [HEADER.pack(WRTE, 7, 1, length, 0, WRTE ^ 0xFFFFFFFF) for length in (MAX_PAYLOAD + 1, 0xFFFFFFFF)]
WIRE_WORDS = [*(m.encode() for m in MESSAGES), *HUGE, b"CNXN", b"AUTH", b"OPEN", b"WRTE", b"DATA\xff\xff\xff\xff"]


class _Writer:
    def __init__(self) -> None:
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def close(self) -> None:
        pass


class _StillPhone(ServedPhone):
    """Does not leave when it is told to reboot: there is no port that it could come back to."""

    def reboot(self) -> None:
        self.reboots += 1


def _messages(data: bytes) -> list[tuple[int, int, int, bytes]]:
    found, at = [], 0
    while at < len(data):
        command, arg0, arg1, length, _, magic = HEADER.unpack_from(data, at)
        assert magic == command ^ 0xFFFFFFFF and length <= MAX_PAYLOAD
        found.append((command, arg0, arg1, data[at + HEADER.size : at + HEADER.size + length]))
        at += HEADER.size + length
    assert at == len(data)
    return found


def _adbd(example: tuple[bytes, bool]) -> None:
    data, locked = example
    phone = fresh_phone()
    sent = asyncio.run(_served(phone, data, () if locked else None))
    said = Counter(command for command, *_ in _messages(sent))
    if locked:  # nobody who cannot sign gets past the door
        assert set(said) <= {int.from_bytes(b"AUTH", "little")}
    elif OPEN not in said:
        opened = [m for m in _messages(sent) if m[0] == OKAY]
        assert said[WRTE] <= len(opened) + data.count(b"OKAY")  # one piece at a time, each acknowledged
    assert_alive(phone)


async def _served(phone: Phone, data: bytes, keys: tuple[PublicKey, ...] | None) -> bytes:
    served = _StillPhone(phone, 0, keys=keys)
    reader, writer = asyncio.StreamReader(), _Writer()
    reader.feed_data(data)
    reader.feed_eof()
    wrong: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    async with asyncio.timeout(30):
        await Connection(served, reader, writer).serve()  # type: ignore[arg-type]
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:  # commands that had begun on the phone are finished, and nothing else goes on
        await asyncio.wait(left, timeout=30)
    assert not asyncio.all_tasks() - {asyncio.current_task()} and not wrong, wrong
    return writer.sent


# --- the shell ---------------------------------------------------------------------------------------------------

LINES = [
    "input tap 10 20; input text 'a b'",
    "am start -n com.android.settings/.Settings",
    "settings put system screen_brightness 30",
    "content insert --uri content://notes/notes --bind title:s:x --bind pinned:i:1",
    "echo hi > /sdcard/a; cat /sdcard/a; cp /sdcard/a /sdcard/b; rm -rf /sdcard/*",
    "dumpsys window",
    "pm list packages -f",
    "am broadcast -a ADB_INPUT_B64 --es msg YWJj",
    "sim reset --seed 3 --popups 0.5",
    "uiautomator dump /sdcard/x.xml",
    "input swipe 1 2 3 4 500; input keyevent 187 26",
    "wm size 300x200; wm density 100",
    "for i in 1 2 3; do echo $i; done | sort -rn | head -n 1",
    "x=$(echo a | grep -o '[[:alpha:]]\\{1,\\}'); echo ${x:-b} $((1 << 3)) ~ /sdcard/*",
    "grep -E '(a|b+)c?$' /sdcard/a || find /sdcard -name '*.t?t' -type f -delete",
    "i=0; while [ $i -lt 3 ]; do i=$((i+1)); [ $i = 2 ] && continue; (exit $i); done; echo $?",
    'sqlite3 /sdcard/d.db "create table t(a); insert into t values(1); select * from t"',
    "if [ -f /sdcard/a ]; then chmod +x /sdcard/a; else ! ls -la /sdcard; fi 2>&1",
]
SHELL_WORDS = [
    *"; && || > 2>&1 | & $( ` ' \" \\ -1 nan 0x 99999999999999999999 content:// -- é /../../ /dev/null".split(),
    *"${ $(( done fi { } <<E * x=$x$x ${x:- exec (a|b)*c{1,99} .*.*.*x [! \\( \\{2,3\\} zeroblob(999999999)".split(),
    *("while :; do", "for i in"),
]


def _shell(line: str) -> None:
    phone = fresh_phone()
    result = Shell(phone).run(line)
    assert 0 <= result.exit_code <= 255
    assert_alive(phone)


# --- a phone's answers -------------------------------------------------------------------------------------------


def _png(mode: str) -> bytes:
    out = io.BytesIO()
    Image.new(mode, (40, 80), 1).save(out, "PNG")
    return out.getvalue()


PNGS = [_png(mode) for mode in ("RGB", "1", "P", "RGBA", "I;16")]


class Answering:
    """A transport whose phone answers everything with the same bytes."""

    serial = "hostile"

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    def exec_out(self, cmd: object, timeout: float = 10.0) -> bytes:
        return self.answer

    def shell(self, cmd: object, timeout: float = 10.0) -> ShellResult:
        return ShellResult(self.answer.decode(errors="replace"), "", 0)


def _screenshot(data: bytes) -> None:
    with suppress(InfraError):
        Device(Answering(data))._screenshot()


SAID = [
    b"Physical size: 1080x2400\nOverride size: 90x180\n",
    b"mFocusedApp=ActivityRecord{1 u0 com.a.b/.C t1}",
    b"UI hierchary dumped to: /dev/tty\n<?xml version='1.0'?><hierarchy></hierarchy>",
]


def _answers(data: bytes) -> None:
    device = Device(Answering(data))
    for ask in (device._dump_xml, device.foreground_app, device.boot_id):
        with suppress(InfraError):
            ask()
    with suppress(InfraError):
        width, height = device.size()
        assert 0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE
        assert all(0 <= v < size for v, size in zip(device._pixels(500, 999), (width, height), strict=True))


TARGETS = [
    Target("adbd", st.tuples(damaged_bytes(CONVERSATIONS, WIRE_WORDS), st.integers(0, 7).map(lambda n: n == 0)), _adbd),
    Target("phone shell", damaged_text(LINES, SHELL_WORDS) | SCRIPTS, _shell),
    Target("screenshot", damaged_bytes(PNGS, [b"IHDR", b"IDAT", b"IEND", b"\x89PNG"]), _screenshot),
    Target("phone answers", damaged_bytes(SAID, [b"<?xml", b"</hierarchy>", b"size: 0x0", b"\0"]), _answers),
]
