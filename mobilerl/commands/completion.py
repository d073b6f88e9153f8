"""`mobilerl completion SHELL`: a script with which bash, zsh or fish completes commands, flags, settings and values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mobilerl.config.describe import settings

FILES, FOLDERS = "files", "folders"
FOLDER_SETTINGS = frozenset({"--model", "--offline.trajectories", "--judge.cache"})
INSTALL = """\
bash  mkdir -p ~/.local/share/bash-completion/completions
      mobilerl completion bash > ~/.local/share/bash-completion/completions/mobilerl
zsh   mobilerl completion zsh > ~/.mobilerl-completion.zsh
      echo 'source ~/.mobilerl-completion.zsh' >> ~/.zshrc     (after compinit)
fish  mobilerl completion fish > ~/.config/fish/completions/mobilerl.fish"""


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "completion", parents=[common], allow_abbrev=False, help="a script for the shell's Tab key",
        formatter_class=argparse.RawDescriptionHelpFormatter, epilog=f"to install it:\n\n{INSTALL}",
    )  # fmt: skip
    parser.add_argument("shell", choices=tuple(SCRIPTS))
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, rest: Sequence[str]) -> int:
    from mobilerl.cli import make_parser

    print(SCRIPTS[args.shell](list(commands_of(make_parser()))), end="")
    return 0


@dataclass(frozen=True, slots=True)
class Flag:
    """`values`: what may follow; FILES or FOLDERS stand for paths. `takes`: whether a value follows at all."""

    name: str
    about: str = ""
    takes: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """One command, by the words that lead to it: ("eval", "sim"). `words`: what may follow besides flags."""

    path: tuple[str, ...]
    about: str
    flags: tuple[Flag, ...]
    words: tuple[str, ...]


def commands_of(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), about: str = "") -> Iterator[Command]:
    """The command and all below it. The settings of a recipe are flags of those that take them."""
    flags, words, below = [], [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            words += action.choices
            below += [(inner, (*path, name), helps.get(name, "")) for name, inner in action.choices.items()]
        elif action.option_strings:
            about_flag = action.help if action.help not in (None, argparse.SUPPRESS) else ""
            flags += [Flag(n, about_flag, action.nargs != 0, _values(action)) for n in action.option_strings]
        else:
            words += _values(action)
    if parser.get_default("takes_settings"):
        taken = {flag.name for flag in flags}
        flags += [f for f in setting_flags() if f.name not in taken]
    yield Command(path, about, tuple(flags), tuple(words))
    for inner, inner_path, inner_about in below:
        yield from commands_of(inner, inner_path, inner_about)


def setting_flags() -> list[Flag]:
    found = []
    for setting in settings():
        if setting.flag:
            paths = (FOLDERS,) if setting.flag in FOLDER_SETTINGS else (FILES,) if setting.kind == "text" else ()
            found.append(Flag(setting.flag, setting.meaning, True, setting.choices or paths))
    return found


def _values(action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    if action.type is Path:
        return (FOLDERS if str(action.metavar or "").endswith("DIR") else FILES,)
    return ()


# --- bash and zsh ------------------------------------------------------------------------------------------------

_BASH = """\
# bash completion for mobilerl; made by `mobilerl completion bash`
_mobilerl_words() {{
    case "$1" in
{words}
    esac
}}
_mobilerl_flags() {{
    case "$1" in
{flags}
    esac
}}
_mobilerl_values() {{
    case "$1 $2" in
{own}
    esac
    case "$2" in
{shared}
    esac
}}
_mobilerl_paths() {{
    local path
    type compopt >/dev/null 2>&1 && compopt -o filenames
    while IFS= read -r path; do
        COMPREPLY+=("$path")
    done < <(compgen "$1" -- "$2")
}}
_mobilerl() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="" i word values
    COMPREPLY=()
    # `--flag=value` comes as three words.
    if [ "$cur" = "=" ]; then
        cur=""
    elif [ "$before" = "=" ] && [ "$COMP_CWORD" -gt 2 ]; then
        before="${{COMP_WORDS[COMP_CWORD-2]}}"
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${{COMP_WORDS[i]}}"
        case "$word" in
            -*) break ;;
        esac
        case "{paths}" in
            *"|${{command:+$command }}$word|"*) command="${{command:+$command }}$word" ;;
            *) break ;;
        esac
    done
    case "$before" in
        -*)
            values="$(_mobilerl_values "$command" "$before")"
            case "$values" in
                -) return ;;
                files) _mobilerl_paths -f "$cur"; return ;;
                folders) _mobilerl_paths -d "$cur"; return ;;
                ?*) COMPREPLY=($(compgen -W "$values" -- "$cur")); return ;;
            esac
            ;;
    esac
    case "$cur" in
        -*) COMPREPLY=($(compgen -W "$(_mobilerl_flags "$command")" -- "$cur")) ;;
        *)
            values="$(_mobilerl_words "$command")"
            case "$values" in
                files) _mobilerl_paths -f "$cur" ;;
                folders) _mobilerl_paths -d "$cur" ;;
                *) COMPREPLY=($(compgen -W "$values" -- "$cur")) ;;
            esac
            ;;
    esac
}}
complete -F _mobilerl mobilerl
"""


def bash(commands: Sequence[Command]) -> str:
    shared = {flag.name: flag for flag in setting_flags()}
    words = [f"        {_quoted(' '.join(c.path))}) echo {_quoted(' '.join(c.words))} ;;" for c in commands]
    flags, own = [], []
    for command in commands:
        names = " ".join(flag.name for flag in command.flags)
        flags.append(f"        {_quoted(' '.join(command.path))}) echo {_quoted(names)} ;;")
        for flag in command.flags:
            if flag.takes and flag.name not in shared:
                own.append(_value_line(f"{' '.join(command.path)} {flag.name}", flag))
    return _BASH.format(
        words="\n".join(words), flags="\n".join(flags), own="\n".join(own),
        shared="\n".join(_value_line(flag.name, flag) for flag in shared.values()),
        paths="".join(f"|{' '.join(c.path)}" for c in commands) + "|",
    )  # fmt: skip


def _value_line(pattern: str, flag: Flag) -> str:
    return f"        {_quoted(pattern)}) echo {_quoted(' '.join(flag.values) or '-')}; return ;;"


def zsh(commands: Sequence[Command]) -> str:
    head = "#compdef mobilerl\n# made by `mobilerl completion zsh`\n"
    return f"{head}autoload -U +X bashcompinit && bashcompinit\n{bash(commands)}"


# --- fish --------------------------------------------------------------------------------------------------------


def fish(commands: Sequence[Command]) -> str:
    lines = ["# made by `mobilerl completion fish`", "complete -c mobilerl -f"]
    for command in commands:
        seen = [f"__fish_seen_subcommand_from {word}" for word in command.path]
        inner = [c.path[-1] for c in commands if c.path[:-1] == command.path and c.path]
        here = "; and ".join([*seen, *([f"not __fish_seen_subcommand_from {' '.join(inner)}"] if inner else [])])
        condition = f" -n {_quoted(here)}" if here else ""
        for word in command.words:
            if word in (FILES, FOLDERS):
                lines.append(f"complete -c mobilerl{condition} -F")
            else:
                about = next((c.about for c in commands if c.path == (*command.path, word)), "")
                lines.append(f"complete -c mobilerl{condition} -a {_quoted(word)} -d {_quoted(about)}")
        lines += [_fish_flag(condition, flag) for flag in command.flags]
    return "\n".join(lines) + "\n"


def _fish_flag(condition: str, flag: Flag) -> str:
    name = f"-l {_quoted(flag.name[2:])}" if flag.name.startswith("--") else f"-s {_quoted(flag.name[1:])}"
    if not flag.takes:
        value = ""
    elif flag.values in ((FILES,), (FOLDERS,)):
        value = " -r -F"
    else:
        value = f" -x -a {_quoted(' '.join(flag.values))}" if flag.values else " -x"
    return f"complete -c mobilerl{condition} {name}{value} -d {_quoted(' '.join(flag.about.split())[:100])}"


def _quoted(text: str) -> str:
    """In single quotes, for fish and for bash: neither meets a quote or a backslash inside."""
    return "'" + text.replace("\\", "").replace("'", "’") + "'"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
