"""Shell scripts made at random from a grammar, all of which end. For the fuzzer and for the comparison with mksh."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from(["x", "y", "z"])
FILES = st.sampled_from(["a.txt", "b.txt", "num", "d/c.txt", "nope", "d", "new"])
PLAIN = st.sampled_from(["a", "b1", "foo.txt", "-n", "0", "7", "=", "x=1", "a/b", "", "..", "é", "%s", "]", "!"])
PATTERNS = st.sampled_from(["*", "?", "[ab]*", "*.txt", "a*", "[!a]", "f?o*", "\\*", "'*'", "[a-c]b*", "*o*", "d/*"])
TESTS = st.sampled_from(
    ["-f a.txt", "-d d", "-e nope", '-z "$x"', '-n "$y"', '"$x" = a', '"$x" != "$y"', "1 -lt 2", "3 -eq 3 -a a = a"]
    + ["! -f d", "-s num", "$# -gt 1"]
)


def _joined(*parts: st.SearchStrategy[str], by: str = "") -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(by.join)


def _some(part: st.SearchStrategy[str], by: str, most: int = 3, least: int = 1) -> st.SearchStrategy[str]:
    return st.lists(part, min_size=least, max_size=most).map(by.join)


def _expressions() -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["1", "2", "0", "10", "x", "y", "$#", "0x1f", "-3", "2147483647"])
    operator = st.sampled_from(["+", "-", "*", "/", "%", "<<", ">>", "<", "==", "!=", "&", "|", "^", "&&", "||", ","])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            _joined(inner, operator, inner, by=" "),
            inner.map(lambda e: f"({e})"),
            inner.map(lambda e: f"!{e}"),
            st.tuples(inner, inner, inner).map(lambda e: f"({e[0]}) ? ({e[1]}) : ({e[2]})"),
            st.tuples(NAMES, inner).map(lambda e: f"({e[0]} = {e[1]})"),
        ),
        max_leaves=5,
    )


def _words(commands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parameter = st.one_of(
        NAMES.map(lambda n: f"${n}"),
        st.sampled_from(["$1", "$#", "$?", "$*", "$@", "${#x}", "${2}"]),
        st.tuples(NAMES, st.sampled_from([":-", "-", ":+", "+", ":=", "="]), PLAIN).map(
            lambda t: f"${{{t[0]}{t[1]}{t[2]}}}"
        ),
    )
    substitution = commands.map(lambda c: f"$( {c} )")
    inside = st.one_of(parameter, PLAIN, st.just(" "), st.just("\\$"), st.just("\\\\"), substitution)
    # Not without quotes: mksh loses quoted text beside an unquoted ${x:n} or ${x#y} that is empty.
    cut = st.one_of(
        st.tuples(NAMES, st.integers(0, 4)).map(lambda t: f'"${{{t[0]}:{t[1]}}}"'),
        st.tuples(NAMES, st.sampled_from(["#", "##", "%", "%%"]), PATTERNS).map(lambda t: f'"${{{t[0]}{t[1]}{t[2]}}}"'),
    )
    part = st.one_of(
        cut,
        PLAIN,
        PLAIN,
        PATTERNS,
        parameter,
        parameter,
        PLAIN.map(lambda t: f"'{t} {t}'"),
        _some(inside, "", 3, 0).map(lambda t: f'"{t}"'),
        _expressions().map(lambda e: f"$(({e}))"),
        substitution,
        st.just("$'a\\tb'"),
        st.just("\\ "),
    )
    return st.one_of(_some(part, "", 3), st.sampled_from(["~", "~/a"]))


def _commands(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    word = _words(inner)
    words = _some(word, " ", 3, 0)
    pattern = st.one_of(PATTERNS, PLAIN.filter(lambda t: t not in ("", "!")))
    simple = st.one_of(
        words.map(lambda w: f"echo {w}"),
        words.map(lambda w: f"printf '<%s>' {w}; echo"),
        st.tuples(NAMES, word).map("=".join),
        st.sampled_from(["true", "false", ":", "pwd", "cd d", "cd ..", "shift"]),
        words.map(lambda w: f"set -- {w}"),
        TESTS.map(lambda t: f"[ {t} ]"),
        TESTS.map(lambda t: f"test {t}"),
        FILES.map(lambda f: f"cat {f}"),
        NAMES.map(lambda n: f"unset {n}"),
        st.just("nope a"),
        st.just("ls"),
        st.tuples(NAMES, word).map(lambda t: f"export {t[0]}={t[1]}"),
        st.integers(0, 3).map(lambda n: f"(exit {n})"),
        st.just("read x y <b.txt"),
        word.map(lambda w: f"eval 'echo {w}'" if "'" not in w else ":"),
    )
    redirect = st.one_of(
        st.sampled_from(["2>/dev/null", ">&2", "2>&1", "<a.txt", ">/dev/null"]),
        FILES.map(lambda f: f">{f}"),
        st.just(">>new"),
        FILES.filter(lambda f: f != "d").map(lambda f: f"<{f}"),
    )
    filters = st.sampled_from(
        ["cat", "wc -l", "sort", "head -n 1", "grep o", "sed s/a/b/", "{ read x; echo $x; }", "cut -c1-3", "uniq"]
        + ["tail -n 2", "grep -v a", "sed -n 1p"]
    )
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
        st.tuples(words, inner).map(lambda t: f'i=; for w in {t[0]}; do {t[1]}; [ "$w" = a ] && break; done'),
        st.tuples(inner).map(lambda t: f"n=0; while [ $n -lt 2 ]; do n=$((n+1)); {t[0]}; done"),
        st.tuples(word, pattern, inner, pattern, inner).map(
            lambda t: f"case {t[0]} in {t[1]}) {t[2]};; {t[3]}|q) {t[4]};; esac"
        ),
        inner.map(lambda c: f"f() {{ {c}; }}"),
        inner.map(lambda c: f"f() {{ local x=l; {c}; return 4; }}; f p q"),
        st.tuples(word, inner).map(lambda t: f"cat <<E\n{t[0]}\nE\n{t[1]}"),
    )


SCRIPTS = st.recursive(st.sampled_from(["echo hi", "false", "echo $x $?", 'echo "$@"', "x=a"]), _commands, max_leaves=8)
