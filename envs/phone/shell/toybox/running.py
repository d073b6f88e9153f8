"""Programs that run other commands (`sh`, `su`), and small ones about the user and the environment."""

from __future__ import annotations

from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.lang.escapes import to_text
from mobilerl.envs.phone.shell.toybox.call import Call, Program


def sh(call: Call) -> None:
    """`sh -c LINE`, `sh FILE`, or a script from standard input."""
    if call.words[:1] == ["-c"]:
        if len(call.words) < 2:
            raise Failure("sh: -c: requires argument")
        text = call.words[1]
    else:
        text = to_text(call.read(call.words[0]) if call.words else call.stdin())
    call.code = call.shell.run_isolated(lambda inner: inner.script(text))


def su(call: Call) -> None:
    """`su [USER] [-c LINE | COMMAND ...]`. The shell is already root, so this only runs the command."""
    words = call.words
    if words and not words[0].startswith("-"):
        words = words[1:]
    if words[:1] == ["-c"]:
        call.code = call.shell.run_isolated(lambda inner: inner.script(" ".join(words[1:2])))
    elif words:
        call.code = call.shell.run_isolated(lambda inner: inner.command(words))


def identity(call: Call) -> None:
    flags, _ = call.options("unGg")
    everything = "uid=0(root) gid=0(root) groups=0(root),1011(adb),1015(sdcard_rw),3003(inet) context=u:r:su:s0\n"
    call.out(everything if not flags else "root\n" if "n" in flags else "0\n")


def which(call: Call) -> None:
    for name in call.options("a", least=1)[1]:
        if path := call.shell.find(name):
            call.out(f"{path}\n")
        else:
            call.code = 1


def env(call: Call) -> None:
    call.out("".join(f"{name}={value}\n" for name, value in call.shell.state.variables.items()))


PROGRAMS: dict[str, Program] = {
    **{f.__name__: f for f in (sh, su, which, env)},
    "id": identity,
    "whoami": lambda call: call.out("root\n"),
}
