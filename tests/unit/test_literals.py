"""The reader of JSON, Python literals and calls that all formats of published models share."""

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.policy.grammar import GrammarError
from mobilerl.policy.literals import read_call, read_object

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
KEYS = st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace").decode())
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(OBJECTS, st.booleans(), st.sampled_from([None, 2]), st.sampled_from(["", " and so on", '"}', "\n```"]))
def test_json_is_read_as_by_json(value, ascii_only, indent, rest):
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read_object(written + rest) == (value, len(written))


@given(OBJECTS)
def test_python_literals_are_read_as_by_ast(value):
    written = repr(value)
    assert read_object(written)[0] == ast.literal_eval(written)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': True, \"b\": null, c: (1, 2.5,),}", {"a": True, "b": None, "c": [1, 2.5]}),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}),
        ('{"a": "say "hi", then "bye"", "b": 1}', {"a": 'say "hi", then "bye"', "b": 1}),
        ("{'a': 'it's'}", {"a": "it's"}),
        ('{"a": [007, -1e3, .5]}', {"a": ["007", -1000.0, 0.5]}),  # a text, as in a phone number
    ],
)
def test_what_models_write(text, value):
    assert read_object(text)[0] == value


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": 1', '{"a": "b', '{"a": [1, 2}', '{"a" 1}', '{"a": 1 "b": 2}', "{}"[:1], "", "[1]", '{{"a": 1}}'),
        *("{'a': __import__('os')}", "{'a': 1 + 1}", "{'a': x}", "{'a': f'b'}", "{'a': [b for b in c]}", "{**{}}"),
        *(
            '{"a": NaN}',
            '{"a": 1_000}',
            '{"a": 0x10}',
            '{"a": ' + "9" * 5000 + "}",
            '{"a":' * 10_000,
            "{1: 2}",
            "{'a'}",
        ),
    ],
)
def test_what_is_no_literal(text):
    with pytest.raises(GrammarError):
        read_object(text)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('do(a="x", b=[1,2])', {"a": "x", "b": [1, 2]}),
        ('do( a = (1, 2), ) and more"', {"a": [1, 2]}),
        ('do(t="f("x") and "y"")', {"t": 'f("x") and "y"'}),  # up to the end of the line
        ('do(t="x") means "x".', {"t": "x"}),  # is not at the end of a line
    ],
)
def test_calls(text, arguments):
    assert read_call(text, free=("t",)).arguments == arguments


@pytest.mark.parametrize(
    "text", ["do(1)", "do(a=)", "do(a=1", "do(a=1 b=2)", "do(a=1, a=2)", "do[a=1]", "do(**a)", "do(a=b())"]
)
def test_what_is_no_call(text):
    with pytest.raises(GrammarError):
        read_call(text, free=("t",))


def test_values_may_have_no_quotes_where_upstream_needs_none():
    assert read_call("Launch(app=Google Maps (beta), n=2)", bare=True).arguments == {
        "app": "Google Maps (beta)",
        "n": 2,
    }
