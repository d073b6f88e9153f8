"""Programs that run other commands (`xargs`, `sh`, `su`, `env`, `nohup`, `time`, `timeout`), and small ones that say
what the system and its names are (`id`, `uname`, `which`, `basename` and others)."""

from __future__ import annotations

import posixpath
import shlex
from typing import TYPE_CHECKING

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.escapes import to_text
from envs.phone.shell.lang.state import Source
from envs.phone.shell.toybox.call import Call, Program

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter

SHELL = "/system/bin/sh"


def xargs(call: Call) -> None:
    flags, command = call.options("+0n:I:rt")
    command = command or ["echo"]
    text = to_text(call.stdin())
    call.shell.streams = {**call.shell.streams, 0: Source()}
    if "0" in flags:
        items = text.removesuffix("\0").split("\0") if text else []
    else:
        items = [line.strip() for line in text.split("\n") if line.strip()] if "I" in flags else text.split()
    if "I" in flags:
        calls = [[w.replace(flags["I"], item) for w in command] for item in items]
    else:
        size = max(1, call.number(flags["n"]) if "n" in flags else len(items))
        calls = [[*command, *items[i : i + size]] for i in range(0, len(items), size)]
        calls = calls or ([] if "r" in flags else [command])
    for words in calls:
        if code := _run(call, words):
            call.code = code if code in (126, 127) else 123


def _run(call: Call, words: list[str]) -> int:
    """Runs a command in a subshell: it cannot call functions or change the shell."""
    return call.shell.isolated(lambda inner: inner.command(words, functions=False))


def sh(call: Call) -> None:
    words, options = list(call.words), []
    while words and words[0][:1] in "-+" and len(words[0]) > 1 and words[0] not in ("-c", "-s"):
        options.append(words.pop(0))
    if words[:1] == ["-c"]:
        if len(words) < 2:
            raise Failure(f"{SHELL}: -c: requires argument")
        text, name, arguments = words[1], (words[2:3] or [SHELL])[0], words[3:]
    elif words and words[0] != "-s":
        text, name, arguments = to_text(call.read(words[0])), words[0], words[1:]
    else:
        text, name, arguments = to_text(call.stdin()), SHELL, words[1:]
    start = f"set {shlex.join(options)}\n" if options else ""
    call.code = call.shell.separate(start + text, name, arguments)


def su(call: Call) -> None:
    """`su [USER] [-c LINE | COMMAND ...]`: the shell is root's already, so only the command matters."""
    words = [w for w in call.words if w not in ("-", "-l")]
    if words and not words[0].startswith("-"):
        words = words[1:]
    if words[:1] == ["-c"]:
        call.code = call.shell.separate(" ".join(words[1:2]), SHELL, words[2:])
    elif words:
        call.code = _run(call, words)


def env(call: Call) -> None:
    fresh = call.words[:1] in (["-i"], ["-"])

    def work(inner: Interpreter) -> int:
        rest = call.words[fresh:]
        if fresh:
            inner.state.exported.clear()
        while rest and "=" in rest[0]:
            name, _, value = rest.pop(0).partition("=")
            inner.state.assign(name, value)
            inner.state.exported.add(name)
        if rest:
            return inner.command(rest, functions=False)
        call.out("".join(f"{n}={v}\n" for n, v in inner.state.variables.items() if n in inner.state.exported))
        return 0

    call.code = call.shell.isolated(work)


def wrapped(call: Call) -> None:
    """`nohup`, `timeout` and `time` only run the command; nothing takes time here."""
    timed = call.name == "timeout"
    call.code = _run(call, call.options("+n:s:k:p", least=1 + timed)[1][timed:])


# --- names and the system ------------------------------------------------------------------------------------------


def basename(call: Call) -> None:
    _, names = call.options("", least=1)
    base = posixpath.basename(names[0].rstrip("/")) or names[0][:1]
    suffix = names[1] if len(names) > 1 else ""
    call.out(f"{base.removesuffix(suffix) if base != suffix else base}\n")


def dirname(call: Call) -> None:
    for name in call.options("", least=1)[1]:
        folder = name.rstrip("/").rpartition("/")[0].rstrip("/")
        call.out(f"{folder or ('/' if name.startswith('/') else '.')}\n")


def identity(call: Call) -> None:
    flags, names = call.options("unGgrZ")
    if names and names[0] not in ("root", "0"):
        raise Failure(f"id: no user '{names[0]}'")
    everything = "uid=0(root) gid=0(root) groups=0(root),1011(adb),1015(sdcard_rw),3003(inet) context=u:r:su:s0\n"
    call.out(everything if not flags else "u:r:su:s0\n" if "Z" in flags else "root\n" if "n" in flags else "0\n")


def uname(call: Call) -> None:
    flags, _ = call.options("asnrvmo")
    fields = {
        **{"s": "Linux", "n": "localhost", "r": "5.15.41-android13-8-00055-g4f5025129fe8-ab8949913"},
        **{"v": "#1 SMP PREEMPT Mon Aug 15 18:33:14 UTC 2022", "m": "x86_64", "o": "Toybox"},
    }
    chosen = fields if "a" in flags else [f for f in fields if f in flags] or "s"
    call.out(" ".join(fields[f] for f in chosen) + "\n")


def which(call: Call) -> None:
    for name in call.options("a", least=1)[1]:
        if path := call.shell.find(name):
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
    **{f.__name__: f for f in (xargs, sh, su, env, basename, dirname, uname, which, printenv)},
    **dict.fromkeys(("nohup", "timeout", "time"), wrapped),
    "id": identity,
    "whoami": lambda call: call.out("root\n"),
    "hostname": lambda call: call.out("localhost\n"),
    **dict.fromkeys(("sync", "clear"), lambda call: None),
}
