"""Responses that could not be read: their reasons in every format, in metrics, in results.json and on the terminal."""

from __future__ import annotations

import asyncio
import io
import re
from dataclasses import replace

import pytest
from made_groups import make_group, make_trajectory
from model_server import act, completion, stand_in_fixture  # noqa: F401 - a fixture among them
from rich.console import Console

from mobilerl.envs.base import Invalid, Observation, Tap, Task
from mobilerl.eval.report import EpisodeResult, build_results, print_results
from mobilerl.inference.server import ServerPolicy
from mobilerl.policy.actor import ModelActor
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.formats import FORMATS
from mobilerl.policy.screen import Screen
from mobilerl.policy.unreadable import Why
from mobilerl.records import Completion, Group
from mobilerl.records.engine import Sampling
from mobilerl.training.metrics import rollout_metrics
from mobilerl.training.progress import ProgressView

TASK, SEEN = Task("t-0", "t", "Do it", {}, 0, 10, "sim"), Observation(b"", 1080, 2400, "", "App", 0)
TOOL = '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "%s", "coordinate": %s}}\n</tool_call>'


def decided(format_: str, text: str, tokens: int = 3) -> Invalid:
    class Model:
        async def act(self, messages, images, sampling, key=""):
            return Completion((1,), (2,) * tokens, (0.0,) * tokens, 0, text)

    grounding = "point" if format_ == "mobilerl" else "box"
    actor = ModelActor(Model(), ContextPolicy(format=format_, grounding=grounding), Sampling(1.0, 8))
    return asyncio.run(actor.decide(TASK, [], SEEN, Screen((), 1080, 2400), "k")).action


@pytest.mark.parametrize("format_", sorted(FORMATS))
def test_every_format_has_the_same_reasons(format_):
    whole = ContextPolicy(format=format_, grounding="point").write_response(Tap(500, 500), Screen((), 1080, 2400), "so")
    assert not isinstance(decided(format_, whole), Invalid), "the call of this test is one"
    far = decided(format_, re.sub(r"\d{3,4}", "99999", whole))
    assert not isinstance(far, Invalid) or far.why == Why.OFF_SCREEN, "some formats clip as upstream does"
    assert decided(format_, "").why == Why.NO_TEXT
    assert decided(format_, "Thought: the switch is there.\n").why == Why.NO_CALL
    assert decided(format_, "Thought: the switch is there.\n", tokens=8).why == Why.CUT_OFF
    assert decided(format_, re.sub(r"\d{3,4}", "far", whole)).why in (Why.MALFORMED, Why.NO_CALL, Why.UNKNOWN_ACTION)


@pytest.mark.parametrize(
    ("format_", "text", "why"),
    [
        ("mobilerl", '<answer>do(action="Tap", element=[9999, 5])</answer>', Why.OFF_SCREEN),
        ("mobilerl", '<answer>do(action="Dance")</answer>', Why.UNKNOWN_ACTION),
        ("mobilerl", '<answer>do(action="Tap")</answer>', Why.MALFORMED),
        ("mobilerl", "<answer></answer>", Why.NO_CALL),
        ("qwen3-vl", TOOL % ("click", "[9999, 5]"), Why.OFF_SCREEN),
        ("qwen3-vl", TOOL % ("dance", "[5, 5]"), Why.UNKNOWN_ACTION),
        ("qwen3-vl", TOOL % ("click", "[5, 5"), Why.MALFORMED),
        ("qwen3-vl", TOOL % ("interact", "[5, 5]"), Why.UNKNOWN_ACTION),
    ],
)
def test_reasons(format_, text, why):
    assert decided(format_, text).why == why


def invalid(trajectory, *whys: str, text: str = "no call in here"):
    """The trajectory with unreadable responses in its first steps."""
    bad = [
        replace(step, action=Invalid("x", why=why), completion=replace(step.completion, text=f"{text} {why}"))
        for step, why in zip(trajectory.steps, whys, strict=False)
    ]
    return replace(trajectory, steps=(*bad, *trajectory.steps[len(bad) :]))


def test_metrics_and_the_line_of_an_iteration_say_why():
    group = make_group("g", [0.0], [10])
    group = Group(group.task, (invalid(group.trajectories[0], Why.NO_CALL, Why.NO_CALL, Why.CUT_OFF),))
    metrics = rollout_metrics([group], 0, 1.0, 1.0, 1)
    assert metrics["rollout/invalid_rate"] == pytest.approx(0.3)
    assert metrics["rollout/invalid/no_call"] == pytest.approx(0.2)
    assert {name: metrics[f"rollout/invalid/{name}"] for name in Why if name not in (Why.NO_CALL, Why.CUT_OFF)} == {
        name: 0.0 for name in Why if name not in (Why.NO_CALL, Why.CUT_OFF)
    }
    console = Console(file=io.StringIO(), width=300)
    ProgressView(console=console).update({"iteration": 1, **metrics})
    assert "unreadable responses 30% (no_call 20%, cut_off 10%)" in console.file.getvalue()
    ProgressView(console=(quiet := Console(file=io.StringIO()))).update({"iteration": 1, "rollout/invalid_rate": 0.1})
    assert "unreadable" not in quiet.file.getvalue()


def printed(results) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_results(results, console)
    return console.file.getvalue()


def test_results_count_them_with_the_first_response_of_each_reason():
    played = [
        invalid(make_trajectory(f"t{i}", 0.0, 10), Why.NO_CALL, Why.CUT_OFF, text=f"response {i}") for i in range(3)
    ]
    episodes = [EpisodeResult.of(TASK, "test", i, t) for i, t in enumerate(played)]
    results = build_results("sim", {"model_server": "http://127.0.0.1/v1"}, episodes)
    reasons = {why: {"count": 3, "first": f"response 0 {why}"} for why in ("no_call", "cut_off")}
    assert results["invalid_replies"] == {"count": 6, "rate": pytest.approx(0.2), "reasons": reasons}
    assert results["instances"][0]["invalid"] == {"no_call": 1, "cut_off": 1}
    said = printed(results)
    assert (
        "20.0% of the responses could not be read (6)" in said and "no_call 3, the first: 'response 0 no_call'" in said
    )
    assert "tool-call-parser" not in said, "not most of them lack a call"


@pytest.mark.parametrize("protocol", [{"model_server": "http://127.0.0.1/v1"}, {}])
def test_a_server_that_may_take_the_calls_away_is_named(protocol):
    played = invalid(make_trajectory("t", 0.0, 3), Why.NO_CALL, Why.NO_TEXT, Why.NO_CALL)
    said = printed(build_results("sim", protocol, [EpisodeResult.of(TASK, "test", 0, played)]))
    assert "100.0% of the responses could not be read" in said
    assert ("start it without --tool-call-parser" in said) == bool(protocol)


CALL = {"id": "1", "type": "function", "function": {"name": "mobile_use", "arguments": "{}"}}
SPLIT = ["Thought", "<tool_call>", '{"name": "mobile_use"}', "</tool_call>"]


def with_tokens(response, tokens):
    response["choices"][0]["logprobs"] = {
        "content": [{"token": t, "logprob": -0.1, "top_logprobs": []} for t in tokens]
    }
    return response


@pytest.mark.parametrize(
    ("response", "warned"),
    [
        (completion("Thought: so", tool_calls=[CALL]), True),
        (completion("", ids=(1, 2, 3), logprobs=(-0.1,) * 3), True),
        (completion(None) | {"usage": {"prompt_tokens": 1, "completion_tokens": 20, "total_tokens": 21}}, True),
        (with_tokens(completion("Thought"), SPLIT), True),
        (with_tokens(completion("".join(SPLIT)), SPLIT), False),
        (completion("", ids=(1,), logprobs=(-0.1,)), False),
        (completion("", ids=(1, 2, 3), logprobs=(-0.1,) * 3, reasoning="so"), False),
        (completion("no call at all"), False),
    ],
)
def test_tokens_without_their_text_are_reported_once(stand_in, response, warned, caplog):
    policy = ServerPolicy(stand_in(lambda body: response).url, "vlm")
    act(policy), act(policy)
    said = [record.getMessage() for record in caplog.records if "tokens of a response" in record.getMessage()]
    assert len(said) == warned and all("start it without --tool-call-parser" in line for line in said)


def test_a_server_says_that_a_response_was_cut_off(stand_in):
    cut = stand_in(lambda body: completion("Thought: I", finish_reason="length"))
    actor = ModelActor(ServerPolicy(cut.url, "vlm"), ContextPolicy(format="qwen3-vl"), Sampling(1.0, 8))
    assert asyncio.run(actor.decide(TASK, [], SEEN, Screen((), 1080, 2400), "k")).action.why == Why.CUT_OFF
