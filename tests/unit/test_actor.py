"""A model's prompt: a history that does not fit is shortened, and a screen that does not is an invalid step."""

import asyncio

import pytest

from mobilerl.envs.base import Back, Invalid, Observation, Task
from mobilerl.policy.actor import ModelActor
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import Turn
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling

TASK = Task("t-0", "t", "Do it", {}, 0, 10, "sim")
CONTEXT = ContextPolicy(screenshots=0, layout="compact", grounding="mark", screen_style="marks")


class Model:
    def __init__(self) -> None:
        self.asked = []

    async def act(self, messages, images, sampling, key=""):
        self.asked.append(messages[-1]["content"][-1]["text"])
        return Completion((1,), (2,), (0.0,), 0, '<answer>do(action="Back")</answer>')


@pytest.mark.parametrize(("most", "turns"), [(400, 8), (116, 4), (56, 2), (46, 1), (36, 0)])
def test_history_is_shortened_to_what_fits(most, turns):
    model = Model()
    seen = Observation(b"", 100, 200, "", "App", 0)
    history = [Turn(seen, "", f"a thought {i}", Back(), "back") for i in range(8)]
    actor = ModelActor(model, CONTEXT, Sampling(1.0, 8), lambda m, _: len(m[-1]["content"][-1]["text"]) <= most)
    decided = asyncio.run(actor.decide(TASK, history, seen, Screen((), 100, 200), "k"))
    assert decided.action == Back()
    assert [f"a thought {i}" in model.asked[0] for i in range(8)] == [i >= 8 - turns for i in range(8)]


def test_a_screen_that_does_not_fit_is_an_invalid_step_and_the_model_is_not_asked():
    model = Model()
    actor = ModelActor(model, CONTEXT, Sampling(1.0, 8), lambda messages, images: False)
    seen = Observation(b"", 100, 200, "", "App", 0)
    decided = asyncio.run(actor.decide(TASK, [], seen, Screen((), 100, 200), "k"))
    assert isinstance(decided.action, Invalid) and model.asked == [] and decided.completion.token_ids == ()
