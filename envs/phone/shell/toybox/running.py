"""Programs that run other commands: `xargs`, `sh`, `su`, `env`, `nohup`, `time`, `timeout`."""

from __future__ import annotations

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.streams import Source, to_text
from envs.phone.shell.toybox.call import Call, Program


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
        if code := run(call, words):
            call.code = code if code in (126, 127) else 123


def run(call: Call, words: list[str]) -> int:
    """Runs a command in a subshell: functions and builtins that change the shell do not reach it."""
    return call.shell.isolated(lambda inner: inner.command(words, functions=False))


def sh(call: Call) -> None:
    words, options = list(call.words), []
    while words and words[0][:1] in "-+" and len(words[0]) > 1 and words[0] not in ("-c", "-s"):
        options.append(words.pop(0))
    if words[:1] == ["-c"]:
        if len(words) < 2:
            raise Failure("/system/bin/sh: -c: requires argument")
        text, name, arguments = words[1], (words[2:3] or ["/system/bin/sh"])[0], words[3:]
    elif words and words[0] != "-s":
        name, arguments = words[0], words[1:]
        text = to_text(call.read(name))
    else:
        text, name, arguments = to_text(call.stdin()), "/system/bin/sh", words[1:]
    script(call, text, name, arguments, options)


def script(call: Call, text: str, name: str, arguments: list[str], options: list[str]) -> None:
    """Runs a script in a shell of its own, which inherits the exported variables."""

    def work(inner) -> int:
        state = inner.state
        state.variables = {n: v for n, v in state.variables.items() if n in state.exported or n in ("IFS", "PWD")}
        state.functions, state.readonly, state.options = {}, set(), set()
        state.name, state.parameters = name, arguments
        inner.functions = 0
        for option in options:
            inner.commands.builtins["set"](inner, [option])
        return inner.script(text)

    call.code = call.shell.isolated(work)


def su(call: Call) -> None:
    """The shell is root's already: only the command matters. `su [USER] [-c LINE | COMMAND ...]`."""
    words = [w for w in call.words if w not in ("-", "-l", "--login")]
    if words and words[0] != "-c" and not words[0].startswith("-"):
        words = words[1:]
    if words[:1] == ["-c"]:
        script(call, " ".join(words[1:2]), "/system/bin/sh", words[2:], [])
    elif words:
        call.code = run(call, words)


def env(call: Call) -> None:
    words = list(call.words)
    fresh = words[:1] in (["-i"], ["-"])
    words = words[1:] if fresh else words

    def work(inner) -> int:
        if fresh:
            inner.state.exported.clear()
        rest = list(words)
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
    """`nohup`, `timeout` and `time`: the command itself; nothing takes time here."""
    words = list(call.words)
    while words and words[0].startswith("-"):
        valued = words.pop(0) in ("-n", "-s", "-k")
        words = words[1:] if valued else words
    if call.name == "timeout":
        words = words[1:]
    if not words:
        raise Failure(f'{call.name}: Needs 1 argument (see "{call.name} --help")')
    call.code = run(call, words)
    if call.name == "time":
        call.shell.write(2, b"real 0m0.01s\nuser 0m0.00s\nsys 0m0.00s\n")


PROGRAMS: dict[str, Program] = {
    "xargs": xargs,
    "sh": sh,
    "su": su,
    "env": env,
    **dict.fromkeys(("nohup", "timeout", "time"), wrapped),
}
