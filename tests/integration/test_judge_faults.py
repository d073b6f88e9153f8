"""The judge against a stand-in server that fails: what is retried, what gives no verdict, and what stops a run."""

import asyncio
import socket
import time

import pytest
from test_judge_stand_in import FAILURE, NONSENSE, SUCCESS, Raw, completion, error, stand_in  # noqa: F401

from mobilerl.config import ConfigError, JudgeSection
from mobilerl.judge import client
from mobilerl.judge.judge import Judge, check_judge
from mobilerl.judge.prompt import Case

CASE = Case("set an alarm", b"png bytes", ("tap OK",), "")
BUSY = error(503, "overloaded")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client, "BACKOFF_S", 0.01)


def section(server, **wanted):
    url = server if isinstance(server, str) else server.url
    return JudgeSection(**{"url": url, "model": "judge-1", "examples": "none", "timeout_s": 60.0} | wanted)


def ask(server, case=CASE, **wanted):
    """(verdict, the judge that gave it)"""

    async def main():
        async with asyncio.timeout(120), Judge(section(server, **wanted)) as judge:
            return await judge.judge(case), judge

    return asyncio.run(main())


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# --- faults that pass --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        BUSY,
        error(500, "oops"),
        error(408, "slow"),
        error(429, "slow down"),
        error(429, "slow down", Retry_After="0"),
        Raw(502, b"<html>bad gateway</html>", {"Content-Type": "text/html"}),
        Raw(200, b"<html>maintenance</html>", {"Content-Type": "text/html"}),
        Raw(200, b'{"choices": [{"mess'),
        Raw(200, b'{"choices": []}'),
        Raw(200, b'{"choices": "none"}'),
        Raw(200, b'{"choices": [{"message": null}]}'),
        Raw(200, b"[]"),
        Raw(200, b"null"),
        Raw(200, b"{}", {"Content-Type": "application/json", "Content-Length": "999", "Connection": "close"}),
    ],
)
def test_a_fault_that_passes_costs_a_retry_only(stand_in, fault):  # noqa: F811
    stand_in.answers = (fault, fault, SUCCESS)
    verdict, judge = ask(stand_in)
    assert verdict.success is True and len(verdict.votes) == 1
    assert len(stand_in.asked) == 3
    assert (judge.client.usage.requests, judge.client.usage.retries, judge.client.usage.replies) == (3, 2, 1)


def test_retry_after_holds_back_every_request(stand_in, monkeypatch):  # noqa: F811
    """The first request is told to wait: the second, asked for only then, waits as well."""
    stand_in.answers = (error(429, "slow down", Retry_After="1"), SUCCESS)

    async def main():
        told, hold = asyncio.Event(), client.Pace.hold
        monkeypatch.setattr(client.Pace, "hold", lambda pace, seconds: (hold(pace, seconds), told.set()))
        async with Judge(section(stand_in)) as judge:
            first = asyncio.create_task(judge.judge(CASE))
            async with asyncio.timeout(10):
                await told.wait()
            second = await judge.judge(Case("another", b"png", (), ""))
            return await first, second

    verdicts = asyncio.run(main())
    assert [v.success for v in verdicts] == [True, True]
    refused, *others = [a.at for a in stand_in.asked]
    assert len(others) == 2 and min(others) - refused >= 1.0


def test_a_server_that_asks_for_a_very_long_wait_is_not_waited_for(stand_in):  # noqa: F811
    stand_in.answers = (error(429, "tomorrow", Retry_After="86400"),)
    verdict, _ = ask(stand_in)
    assert verdict.success is None and "asks for a wait of 86400 s" in verdict.reason
    assert len(stand_in.asked) == 1


# --- faults that stay: no verdict, which is not a failure --------------------------------------------------------


def test_a_server_that_keeps_failing_gives_no_verdict(stand_in):  # noqa: F811
    stand_in.answers = (BUSY,)
    verdict, judge = ask(stand_in, retries=2)
    assert verdict.success is None
    assert verdict.reason == "the judge answered 503: overloaded (tries: 3)"
    assert len(stand_in.asked) == 3
    assert judge.counts == {"verdicts": 1, "no_verdicts": 1}


def test_a_request_that_hangs_is_given_up(stand_in):  # noqa: F811
    stand_in.answer = stand_in.hang
    began = time.monotonic()
    verdict, _ = ask(stand_in, timeout_s=0.3, retries=1)
    assert verdict.success is None
    assert verdict.reason == "the judge gave no answer within 0.3 s (tries: 2)"
    assert time.monotonic() - began >= 0.6


def test_a_reply_that_trickles_is_given_up_as_well(stand_in):  # noqa: F811
    slow = completion(SUCCESS)
    slow.trickle_s = 0.1
    stand_in.answers = (slow,)
    verdict, _ = ask(stand_in, timeout_s=0.5, retries=0)
    assert verdict.success is None and "gave no answer within 0.5 s" in verdict.reason


def test_connection_refused(stand_in):  # noqa: F811
    verdict, _ = ask(f"http://127.0.0.1:{closed_port()}/v1", retries=2)
    assert verdict.success is None
    assert "cannot be reached" in verdict.reason and "tries: 3" in verdict.reason


def test_a_question_the_server_refuses_is_not_repeated(stand_in):  # noqa: F811
    stand_in.answers = (error(400, "this image is too large"),)
    verdict, _ = ask(stand_in)
    assert verdict.success is None and verdict.reason == "the judge answered 400: this image is too large"
    assert len(stand_in.asked) == 1


def test_a_verdict_has_a_deadline_that_includes_waiting_in_line(stand_in):  # noqa: F811
    async def main():
        first, *others = [Case(f"task {i}", b"png", (), "") for i in range(3)]
        async with Judge(section(stand_in, requests_per_minute=2.0)) as judge:
            assert (await judge.judge(first)).success
            judge.settings = judge.settings.model_copy(update={"deadline_s": 2.0})
            return await asyncio.gather(*(judge.judge(c) for c in others))

    verdicts = asyncio.run(main())
    assert [v.success for v in verdicts] == [None, None] and len(stand_in.asked) == 1
    assert "not within 2 s" in verdicts[1].reason and "requests_per_minute" in verdicts[1].reason


def test_the_callers_own_time_limit_stays_the_callers(stand_in):  # noqa: F811
    stand_in.answer = stand_in.hang

    async def main():
        async with Judge(section(stand_in)) as judge:
            async with asyncio.timeout(0.2):
                await judge.judge(CASE)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


# --- mistakes of the user: they stop a run, at the start or when they turn out -----------------------------------

MISTAKES = [
    (error(401, "Incorrect API key"), "answered 401: Incorrect API key; set the environment variable OPENAI_API_KEY"),
    (error(403, "not yours"), "answered 403: not yours; set the environment variable OPENAI_API_KEY"),
    (error(404, "The model `judge-1` does not exist"), "does not exist; correct judge.model (http://127.0.0.1:"),
    (error(429, "pay first", "insufficient_quota"), "pay first; the account has nothing left to pay with"),
]


@pytest.mark.parametrize(("answer", "says"), MISTAKES)
def test_a_wrong_key_or_model_stops_the_run_at_once(stand_in, answer, says):  # noqa: F811
    stand_in.answers = (answer,)
    for call in (lambda: check_judge(section(stand_in)), lambda: ask(stand_in, votes=3, temperature=1.0)):
        asked = len(stand_in.asked)
        with pytest.raises(ConfigError) as caught:
            call()
        assert says in str(caught.value) and "\n" not in str(caught.value)
        assert "'judge-1' at http://127.0.0.1:" in str(caught.value)
        assert len(stand_in.asked) - asked <= 2  # none was repeated: the second call asks for two votes at once


def test_the_key_comes_from_the_variable_that_is_named(stand_in, monkeypatch):  # noqa: F811
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    monkeypatch.setenv("JUDGE_KEY", "right")
    ask(stand_in, api_key_env="JUDGE_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    ask(stand_in)
    assert [a.key for a in stand_in.asked] == ["right", "none"]


def test_a_check_that_passes_asks_about_the_home_screen_once(stand_in):  # noqa: F811
    stand_in.answers = (FAILURE,)
    check_judge(section(stand_in, examples="images"))
    assert len(stand_in.asked) == 1 and len(stand_in.asked[0].images) == 5
    assert "Set an alarm for 6:45" in stand_in.asked[0].texts[-1]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (NONSENSE, "gives no verdict: the reply does not end in a status line"),
        (SUCCESS, "calls an untouched home screen a success"),
        (
            completion("", "length"),
            "gives no verdict: the reply is empty (it was cut off: raise judge.max_tokens above 512)",
        ),
        (
            error(400, "At most 1 image(s) may be provided"),
            "At most 1 image(s) may be provided; use a model that takes 5",
        ),
        (BUSY, "answered 503: overloaded (tries: 2); start the server or correct judge.url"),
        (
            Raw(200, b"hello", {"Content-Type": "text/plain"}),
            "not a chat completion: hello (tries: 2); start the server",
        ),
    ],
)
def test_a_model_that_is_no_judge_is_found_at_the_start(stand_in, answer, says):  # noqa: F811
    stand_in.answers = (answer,)
    with pytest.raises(ConfigError) as caught:
        check_judge(section(stand_in, examples="images"))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_wrong_address_is_found_at_the_start():
    with pytest.raises(ConfigError, match="cannot be reached: .*; start the server or correct judge.url"):
        check_judge(section(f"http://127.0.0.1:{closed_port()}/v1"))
