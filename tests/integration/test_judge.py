"""The judge against a stand-in server: prompts, cache, limits, costs, rewards and faults."""

import asyncio

import openai
import pytest
from judge_stand_in import FAILURE, NONSENSE, SUCCESS, Raw, completion, error, stand_in  # noqa: F401

from mobilerl.config import ConfigError, JudgeSection
from mobilerl.envs.base import Observation, Wait
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.suite import make_task
from mobilerl.judge import judge as judge_module
from mobilerl.judge.examples import EXAMPLES
from mobilerl.judge.judge import Judge, check_judge
from mobilerl.judge.prompt import REMINDER, Case
from mobilerl.policy.actor import make_decision
from mobilerl.records import Status
from mobilerl.rollout.episode import EpisodeSettings, run_episode

PNG = bytes(range(256))
CASE = Case("set an alarm", PNG, ("tap OK",), "")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr(judge_module, "RETRIES", 2)


def section(server, **wanted):
    return JudgeSection(**{"url": server.url, "model": "judge-1", "examples": "none"} | wanted)


def ask(server, **wanted):
    """(verdict, the judge that gave it)"""

    async def main():
        async with asyncio.timeout(120), Judge(section(server, **wanted)) as judge:
            return await judge.judge(CASE), judge

    return asyncio.run(main())


def test_the_model_gets_the_screenshots_unchanged(stand_in):  # noqa: F811
    assert ask(stand_in, examples="images")[0].success is True
    (asked,) = stand_in.asked
    assert asked.images == [*(e.case.screenshot for e in EXAMPLES), PNG]
    assert asked.body["model"] == "judge-1"
    assert (asked.body["temperature"], asked.body["max_tokens"]) == (0.0, 4096)


def test_nonsense_is_asked_again_with_a_reminder(stand_in):  # noqa: F811
    stand_in.answers = (NONSENSE, completion(""), FAILURE)
    verdict, judge = ask(stand_in)
    assert verdict.success is False and judge.counts["reasked"] == 2
    assert stand_in.asked[1].texts[2:] == [NONSENSE, REMINDER]
    assert stand_in.asked[2].texts[2:] == [NONSENSE, REMINDER, "(nothing)", REMINDER]
    assert stand_in.asked[2].texts[:2] == stand_in.asked[0].texts


def test_another_judge_uses_the_cache(stand_in, tmp_path):  # noqa: F811
    stand_in.answers = (FAILURE,)
    first, judge = ask(stand_in, cache=str(tmp_path))
    assert judge.counts["cache_misses"] == 1 and len(stand_in.asked) == 1
    again, judge = ask(stand_in, cache=str(tmp_path))
    assert len(stand_in.asked) == 1 and judge.client.usage.requests == 0 and judge.counts["cache_hits"] == 1
    assert again == first and again.success is False


def test_tokens_are_counted(stand_in):  # noqa: F811
    stand_in.answers = (completion(NONSENSE, usage=(1000, 10)), completion(SUCCESS, usage=(1200, 30)))
    used = ask(stand_in)[1].client.usage
    assert (used.prompt_tokens, used.completion_tokens, used.responses, used.unmetered) == (2200, 40, 2, 0)


def test_a_model_that_wants_another_name_for_the_token_limit_gets_it(stand_in):  # noqa: F811
    refusal = error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    stand_in.answers = (refusal, SUCCESS)
    assert ask(stand_in)[0].success is True
    assert "max_tokens" not in stand_in.asked[1].body and stand_in.asked[1].body["max_completion_tokens"] == 4096


class Waiting:
    """An actor that never finishes."""

    async def decide(self, task, turns, observation, screen, key):
        return make_decision(Wait())


def test_an_episode_that_was_never_finished(stand_in):  # noqa: F811
    """A failure without a question by default; on request it is judged, by the screen that the rollout hands over."""
    trajectory = asyncio.run(run_episode(PhoneEnv(), Waiting(), make_task("ClockAlarmAdd", 3), "e", EpisodeSettings()))
    assert trajectory.status is Status.TRUNCATED
    final = Observation(b"the last screen", 1, 1, "", "", 9)

    async def main(**wanted):
        async with Judge(section(stand_in, **wanted)) as judge:
            return [await judge.verdict(trajectory, None), await judge.verdict(trajectory, final)]

    by_rule = asyncio.run(main())
    assert [v.success for v in by_rule] == [False, False] and not stand_in.asked
    unknown, judged = asyncio.run(main(unfinished="judge"))
    assert unknown.success is None and "was not recorded" in unknown.reason
    assert judged.success is True and stand_in.asked[0].images == [b"the last screen"]


def test_a_server_that_takes_too_few_images_for_a_trace_is_found_at_the_start(stand_in):  # noqa: F811
    stand_in.answers = (FAILURE,)
    check_judge(section(stand_in, screenshots=9, actions=5))
    assert len(stand_in.asked[-1].images) == 6
    stand_in.answers = (error(400, "At most 4 image(s) may be provided"),)
    with pytest.raises(ConfigError, match="use a model that accepts 9 images"):
        check_judge(section(stand_in, screenshots=9, actions=50))


BUSY = error(503, "overloaded")


@pytest.mark.parametrize(
    "fault",
    [
        BUSY,
        error(429, "slow down", Retry_After="0"),
        Raw(200, b"<html>maintenance</html>", {"Content-Type": "text/html"}),
        Raw(200, b'{"choices": [{"mess'),
        Raw(200, b"{}", {"Content-Type": "application/json", "Content-Length": "999", "Connection": "close"}),
    ],
)
def test_a_passing_fault_only_costs_a_retry(stand_in, fault):  # noqa: F811
    stand_in.answers = (fault, fault, SUCCESS)
    verdict, judge = ask(stand_in)
    assert verdict.success is True
    assert len(stand_in.asked) == 3
    assert (judge.client.usage.requests, judge.client.usage.retries, judge.client.usage.responses) == (3, 2, 1)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (error(401, "Incorrect API key"), "OPENAI_API_KEY"),
        (error(404, "The model `judge-1` does not exist"), "correct the model's name"),
        (error(402, "pay first"), "no credit left"),
    ],
)
def test_a_wrong_key_or_model_stops_the_run_at_once(stand_in, answer, says):  # noqa: F811
    stand_in.answers = (answer,)
    for call in (lambda: check_judge(section(stand_in)), lambda: ask(stand_in)):
        asked = len(stand_in.asked)
        with pytest.raises(ConfigError) as caught:
            call()
        assert says in str(caught.value) and "\n" not in str(caught.value)
        assert len(stand_in.asked) - asked == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (NONSENSE, "gives no verdict"),
        (SUCCESS, "calls an untouched home screen a success"),
        (completion("", "length"), "it was cut off after 4096 tokens"),
        (error(400, "At most 1 image(s) may be provided"), "use a model that accepts 5"),
        (BUSY, "start the server or correct judge.url"),
        (Raw(200, b"hello", {"Content-Type": "text/plain"}), "not a chat completion"),
    ],
)
def test_an_unusable_model_is_found_at_the_start(stand_in, answer, says):  # noqa: F811
    stand_in.answers = (answer,)
    with pytest.raises(ConfigError) as caught:
        check_judge(section(stand_in, examples="images"))
    assert says in str(caught.value) and "\n" not in str(caught.value)
