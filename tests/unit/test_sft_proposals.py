"""Proposals of reasoning: asked for at once, in order, once each, and kept on disk."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from model_server import completion, stand_in_fixture  # noqa: F401 - a fixture

from mobilerl.envs.base import Observation, Tap, Task
from mobilerl.inference.server import ServerPolicy
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.screen import parse_screen
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling
from mobilerl.sft.asking import AHEAD, Asker, Model
from mobilerl.sft.proposal_log import ProposalLog
from mobilerl.sft.samples import ExpertStep

XML = """<hierarchy>
<node class="Button" text="Save" clickable="true" bounds="[0,0][50,50]"/>
<node class="Button" text="Delete" clickable="true" bounds="[50,0][100,50]"/>
</hierarchy>"""
CONTEXT = ContextPolicy(screenshots=0, screen_style="marks", grounding="mark", layout="compact")
SAMPLING = Sampling(1.0, 16)
RESPONSE = '<think>tap {0}</think><answer>do(action="Tap", element=<{0}>)</answer>'


class Parrot:
    """Answers the k-th candidate of a step with mark 1 or 2 in turn, after a while, and the last steps first."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.running = self.most = 0

    async def act(self, messages, images, sampling, key=""):
        self.keys.append(key)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.02 / (1 + int(key[:8])))
        self.running -= 1
        return Completion((1,), (2,), (-0.1,), 0, RESPONSE.format(1 + int(key[-2:]) % 2))


def steps(*names: str) -> list[ExpertStep]:
    screen, seen = parse_screen(XML, 100, 200), Observation(b"", 100, 200, XML, "App", 0)
    tasks = [Task(f"s/{name}", "T", f"do {name}", {}, 0, 9, "s") for name in names]
    return [ExpertStep(task, (), seen, screen, Tap(250, 125)) for task in tasks]


def model(policy, name="a", **more) -> Model:
    return Model(name, policy, CONTEXT, SAMPLING, **more)


def thoughts(log: Path, asked: Model, wanted, candidates=4, in_flight=8) -> list[list[str]]:
    with ProposalLog(log, asked.name) as opened:
        made = list(Asker(asked, opened, candidates, in_flight).proposals(wanted))
    assert [step for step, _ in made] == list(wanted)
    return [[p.thought for p in proposals] for _, proposals in made]


@pytest.fixture
def log(tmp_path) -> Path:
    return tmp_path / "run" / "proposals" / "stage2-round1.jsonl"


def test_proposals_come_in_the_order_of_their_steps_with_a_bounded_number_at_once(log):
    policy = Parrot()
    wanted = steps(*map(str, range(30)))
    assert thoughts(log, model(policy), wanted) == [["tap 1", "tap 2"] * 2] * 30
    assert len(set(policy.keys)) == 120 and policy.most == 8


def test_steps_are_read_as_they_are_needed(log):
    read = []

    def recorded():
        for step in steps(*map(str, range(500))):
            read.append(step)
            yield step

    with ProposalLog(log, "a") as opened:
        made = Asker(model(Parrot()), opened, 4, 8).proposals(recorded())
        for _ in range(10):
            next(made)
        assert len(read) <= 10 + AHEAD * 8 // 4 + 2
        made.close()


def test_what_is_on_disk_is_not_asked_again(log):
    first, second, other = Parrot(), Parrot(), Parrot()
    thoughts(log, model(first), steps("a", "b"))
    before = log.read_bytes()
    assert thoughts(log, model(second), steps("c", "a", "b"), candidates=5)[1] == ["tap 1", "tap 2"] * 2 + ["tap 1"]
    assert len(second.keys) == 5 + 1 + 1, "a new step, and one more of each old one"
    assert log.read_bytes().startswith(before)
    thoughts(log, model(other, "another model"), steps("a"))
    assert len(other.keys) == 4
    longer = replace(model(again := Parrot()), sampling=Sampling(1.0, 32))
    thoughts(log, longer, steps("a"))
    assert len(again.keys) == 4, "a longer response may be another"


def test_a_prompt_that_comes_again_is_asked_once(log):
    policy = Parrot()
    assert thoughts(log, model(policy), steps("a", "a", "b", "a"), candidates=1) == [["tap 1"]] * 4
    assert len(policy.keys) == 2 == len(log.read_text().splitlines())


def test_a_line_that_was_cut_off_is_asked_again(log):
    thoughts(log, model(Parrot()), steps("a", "b"))
    whole = log.read_bytes()
    log.write_bytes(whole[:-9])
    policy = Parrot()
    thoughts(log, model(policy), steps("a", "b"))
    assert len(policy.keys) == 1 and len(log.read_bytes().splitlines()) == 8
    log.write_bytes(b"{}\n" + whole)
    with pytest.raises(ValueError, match="stage2-round1.jsonl, line 1 is damaged .*: delete this line"):
        ProposalLog(log, "a")


def test_a_prompt_that_does_not_fit_has_no_proposals(log):
    policy = Parrot()
    short = model(policy, fits=lambda messages, images: "do b" not in str(messages))
    assert thoughts(log, short, steps("a", "b"), candidates=1) == [["tap 1"], []]


def test_a_busy_server_is_asked_again_and_its_tokens_are_counted(log, stand_in):
    busy = iter((429, 503))
    usage = {"prompt_tokens": 50, "completion_tokens": 3, "total_tokens": 53}

    def answer(body):
        return next(busy, None) or completion(RESPONSE.format(1)) | {"usage": usage}

    policy = ServerPolicy(stand_in(answer).url, "vlm")
    asked = model(policy, usage=policy.client.usage)
    assert thoughts(log, asked, steps("a", "b"), candidates=2) == [["tap 1"] * 2] * 2
    assert policy.client.usage.retries == 2
    with ProposalLog(log, "a") as opened:
        assert (opened.prompt_tokens, opened.completion_tokens) == (200, 12)


def test_an_error_of_the_model_ends_the_round_and_keeps_what_was_answered(log):
    class Failing(Parrot):
        async def act(self, messages, images, sampling, key=""):
            if key.startswith("00000005"):
                await asyncio.sleep(0.1)
                raise RuntimeError("the server is gone")
            return await super().act(messages, images, sampling, key)

    with pytest.raises(RuntimeError, match="the server is gone"):
        thoughts(log, model(Failing()), steps(*map(str, range(9))))
    assert 20 <= len(log.read_text().splitlines()) <= 32
    thoughts(log, model(policy := Parrot()), steps(*map(str, range(9))))
    assert 4 <= len(policy.keys) <= 16
