"""Small programs: `basename`, `dirname`, `realpath`, `seq`, `id`, `uname`, `which` and others."""

from __future__ import annotations

import posixpath
import re
from decimal import Decimal

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.toybox.call import Call, Program

_IDENTITY = (
    "uid=0(root) gid=0(root) groups=0(root),1004(input),1007(log),1011(adb),1015(sdcard_rw),1028(sdcard_r),"
    "1078(ext_data_rw),1079(ext_obb_rw),3001(net_bt_admin),3002(net_bt),3003(inet),3006(net_bw_stats),"
    "3009(readproc),3011(uhid),3012(readtracefs) context=u:r:su:s0\n"
)
_SYSTEM = {
    "s": "Linux",
    "n": "localhost",
    "r": "5.15.41-android13-8-00055-g4f5025129fe8-ab8949913",
    "v": "#1 SMP PREEMPT Mon Aug 15 18:33:14 UTC 2022",
    "m": "x86_64",
    "o": "Toybox",
}


def basename(call: Call) -> None:
    flags, names = call.options("as:", least=1)
    several = "a" in flags or "s" in flags
    suffix = flags.get("s", "" if several or len(names) < 2 else names[1])
    for name in names if several else names[:1]:
        base = posixpath.basename(name.rstrip("/")) or name[:1]
        call.out(f"{base.removesuffix(suffix) if base != suffix else base}\n")


def dirname(call: Call) -> None:
    for name in call.options("", least=1)[1]:
        folder = name.rstrip("/").rpartition("/")[0].rstrip("/")
        call.out(f"{folder or ('/' if name.startswith('/') else '.')}\n")


def realpath(call: Call) -> None:
    """There are no links: `readlink` prints a path with `-f` only."""
    flags, names = call.options("femqs", least=1)
    for name in names:
        path = call.path(name)
        if files.exists(call.phone, path) or "f" in flags and files.exists(call.phone, posixpath.dirname(path)):
            call.out(f"{path}\n")
        else:
            call.wrong(f"{name}: No such file or directory")


def seq(call: Call) -> None:
    call.words = [f"./{w}" if re.match(r"-[\d.]", w) else w for w in call.words]  # a number, not an option
    flags, words = call.options("ws:")
    words = [w.removeprefix("./") for w in words]
    if not 1 <= len(words) <= 3:
        raise Failure(f'seq: Needs {1 if not words else "at most 3"} argument (see "seq --help")')
    for word in words:
        if not re.fullmatch(r"-?\d{1,15}(?:\.\d{1,9})?", word):
            raise Failure(f"seq: bad number '{word}'")
    numbers = [Decimal(word) for word in words]
    first = numbers[0] if len(words) > 1 else Decimal(1)
    step, last = numbers[1] if len(words) > 2 else Decimal(1), numbers[-1]
    if step == 0:
        raise Failure("seq: bad increment")
    places = max((len(w.partition(".")[2]) for w in words[:-1]), default=0)
    width = max(len(f"{n:.{places}f}") for n in (first, last)) if "w" in flags else 0
    count = max(0, int((last - first) / step) + 1 if (last - first) / step >= 0 else 0)
    call.spend(count >> 1)
    shown = [f"{first + i * step:.{places}f}".zfill(width) for i in range(count)]
    call.out(flags.get("s", "\n").join(shown) + "\n" * bool(shown))


def identity(call: Call) -> None:
    flags, names = call.options("unGgrZ")
    if names and names[0] not in ("root", "0"):
        raise Failure(f"id: no user '{names[0]}'")
    call.out(_IDENTITY if not flags else "u:r:su:s0\n" if "Z" in flags else "root\n" if "n" in flags else "0\n")


def uname(call: Call) -> None:
    flags, _ = call.options("asnrvmo")
    chosen = "snrvmo" if "a" in flags else [f for f in "snrvmo" if f in flags] or "s"
    call.out(" ".join(_SYSTEM[f] for f in chosen) + "\n")


def which(call: Call) -> None:
    for name in call.options("a", least=1)[1]:
        if path := call.shell.commands.find(call.shell, name):
            call.out(f"{path}\n")
        else:
            call.code = 1


def printenv(call: Call) -> None:
    state = call.shell.state
    for name in call.words or sorted(state.exported):
        if name in state.exported and name in state.variables:
            call.out(f"{state.variables[name]}\n" if call.words else f"{name}={state.variables[name]}\n")
        else:
            call.code = 1


PROGRAMS: dict[str, Program] = {
    **{f.__name__: f for f in (basename, dirname, realpath, seq, uname, which, printenv)},
    "readlink": realpath,
    "id": identity,
    "whoami": lambda call: call.out("root\n"),
    "hostname": lambda call: call.out("localhost\n"),
    **dict.fromkeys(("sync", "clear"), lambda call: None),
}
