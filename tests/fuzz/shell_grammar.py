"""Shell scripts made at random, all of which end. For the fuzzer and for the comparison with mksh."""

from __future__ import annotations

import re

from hypothesis import strategies as st

PARTS = [
    *"a b1 foo.txt -n 0 7 x=1 a/b .. é %s ] ! * ? [ab]* *.txt a* [!a] f?o* \\* '*' [a-c]b* *o* ~".split(),
    *("$x", "$y", "$?", "'a  b'", '""', '"$x a"'),
    *("$( %C )", '"$( %C )"'),
]
"""Parts of words. `%C` stands for a command, `%W` below for a word and `%F` for a file."""
FILES = ["a.txt", "b.txt", "num", "d/c.txt", "nope", "d", "new"]
COMMANDS = [
    *("echo %W %W", "echo %W%W", "x=%W", "y=%W", "x=%W echo $x", "unset x", "true", "false", "pwd", "cd d", "cd nope"),
    *(
        "[ -f %F ]",
        "test ! -d %F",
        '[ -z "$x" -o 1 -lt 2 ]',
        '[ "$x" = %W ]',
        "cat %F",
        "echo d/*",
        "cat <a.txt",
        "nope a",
        "ls",
    ),
    *("(exit 3)", "echo %W >%F", "cat %F 2>/dev/null", "{ %C; } >>new", "ls %F 2>&1", "%C; %C", "%C\n%C", "%C && %C"),
    *("%C || %C", "( %C )", "{ %C; }", "! { %C; }", "{ %C; } | cat", "{ %C; } | grep a", "{ %C; } | sort | tail -n 2"),
    "if %C; then %C; else %C; fi",
]


def _filled(commands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A command with everything that its letters stand for."""

    def fill(template: str) -> st.SearchStrategy[str]:
        pieces = re.split(r"%([CWF])", template)
        choices = {"C": commands, "F": st.sampled_from(FILES), "W": words}
        return st.tuples(*(choices[p] if i % 2 else st.just(p) for i, p in enumerate(pieces))).map("".join)

    words = st.sampled_from(PARTS).flatmap(lambda part: fill(part))
    return st.sampled_from(COMMANDS).flatmap(fill)


SCRIPTS = st.recursive(st.sampled_from(["echo hi", "false", "echo $x $?", "x=a"]), _filled, max_leaves=8)
