"""Shell scripts made at random from a grammar, all of which end. For the fuzzer and for the comparison with mksh."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from(["x", "y", "z"])
FILES = st.sampled_from(["a.txt", "b.txt", "num", "d/c.txt", "nope", "d", "new"])
PLAIN = st.sampled_from(["a", "b1", "foo.txt", "-n", "0", "7", "=", "x=1", "a/b", "", "..", "é", "%s", "]", "!"])
PATTERNS = st.sampled_from(["*", "?", "[ab]*", "*.txt", "a*", "[!a]", "f?o*", "\\*", "'*'", "[a-c]b*", "*o*", "d/*"])
TESTS = st.sampled_from(
    ["-f a.txt", "-d d", "-e nope", '-z "$x"', '-n "$y"', '"$x" = a', '"$x" != "$y"', "1 -lt 2", "3 -eq 3 -a a = a"]
    + ["! -f d", "-s num", "a = b -o -d d"]
)


def _joined(*parts: st.SearchStrategy[str], by: str = "") -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(by.join)


def _some(part: st.SearchStrategy[str], by: str, most: int = 3, least: int = 1) -> st.SearchStrategy[str]:
    return st.lists(part, min_size=least, max_size=most).map(by.join)


def _expressions() -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["1", "2", "0", "10", "n", "-3", "2147483647"])
    operator = st.sampled_from("+ - * / % << >> < == !=".split())
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            _joined(inner, operator, inner, by=" "), inner.map(lambda e: f"({e})"), inner.map(lambda e: f"!{e}")
        ),
        max_leaves=5,
    )


def _words(commands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parameter = st.one_of(
        NAMES.map(lambda n: f"${n}"),
        st.just("$?"),
        st.tuples(NAMES, st.sampled_from([":-", "-", ":+", "+"]), PLAIN).map(lambda t: f"${{{t[0]}{t[1]}{t[2]}}}"),
    )
    substitution = commands.map(lambda c: f"$( {c} )")
    inside = st.one_of(parameter, PLAIN, st.just(" "), st.just("\\$"), substitution)
    part = st.one_of(
        PLAIN,
        PLAIN,
        PATTERNS,
        parameter,
        parameter,
        PLAIN.map(lambda t: f"'{t} {t}'"),
        _some(inside, "", 3, 0).map(lambda t: f'"{t}"'),
        _expressions().map(lambda e: f"$(({e}))"),
        substitution,
        st.just("\\ "),
    )
    return st.one_of(_some(part, "", 3), st.sampled_from(["~", "~/a"]))


def _commands(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    word = _words(inner)
    words = _some(word, " ", 3, 0)
    simple = st.one_of(
        words.map(lambda w: f"echo {w}"),
        st.tuples(NAMES, word).map("=".join),
        st.sampled_from(["true", "false", ":", "pwd", "cd d", "cd ..", "nope a", "ls"]),
        TESTS.map(lambda t: f"[ {t} ]"),
        TESTS.map(lambda t: f"test {t}"),
        FILES.map(lambda f: f"cat {f}"),
        NAMES.map(lambda n: f"unset {n}"),
        st.integers(0, 3).map(lambda n: f"(exit {n})"),
    )
    redirect = st.one_of(
        st.sampled_from(["2>/dev/null", ">&2", "2>&1", "<a.txt", ">/dev/null"]),
        FILES.map(lambda f: f">{f}"),
        st.just(">>new"),
        FILES.filter(lambda f: f != "d").map(lambda f: f"<{f}"),
    )
    filters = st.sampled_from(["cat", "wc -l", "sort", "head -n 1", "grep o", "tail -n 2", "grep -v a"])
    return st.one_of(
        simple,
        simple,
        st.tuples(simple, redirect).map(" ".join),
        st.tuples(inner, st.sampled_from(["; ", "\n", " && ", " || "]), inner).map("".join),
        inner.map(lambda c: f"( {c} )"),
        inner.map(lambda c: f"{{ {c}; }}"),
        simple.map(lambda c: f"! {c}"),
        st.tuples(inner, filters).map(lambda t: f"{{ {t[0]}; }} | {t[1]}"),
        st.tuples(inner, inner, inner).map(lambda t: f"if {t[0]}; then {t[1]}; else {t[2]}; fi"),
        st.tuples(NAMES, words, inner).map(lambda t: f"for {t[0]} in {t[1]}; do {t[2]}; done"),
        st.tuples(words, inner).map(lambda t: f'for w in {t[0]}; do {t[1]}; [ "$w" = a ] && break; done'),
        st.tuples(inner).map(lambda t: f"n=0; while [ $n -lt 2 ]; do n=$((n+1)); {t[0]}; done"),
    )


SCRIPTS = st.recursive(st.sampled_from(["echo hi", "false", "echo $x $?", "x=a"]), _commands, max_leaves=8)
