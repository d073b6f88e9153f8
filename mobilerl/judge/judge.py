"""`Judge`, which decides on an episode by the answer of a model."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from mobilerl.config import ConfigError, JudgeSection
from mobilerl.envs.base import Finish, Observation
from mobilerl.inference.client import ChatClient, Refused, Response, Unreachable
from mobilerl.judge.cache import ResponseCache, response_key
from mobilerl.judge.examples import EXAMPLES, PROBE, Case
from mobilerl.judge.prompt import Message, NotJudgeable, asked_again, build_messages, case_of, probe_case, prompt_hash
from mobilerl.judge.verdict import Verdict, Vote, read_verdict
from mobilerl.records import Status, Trajectory

REASKS = 2
"""Maximum number of times that a vote is requested again if it cannot be parsed."""
RETRIES = 4
MAX_TOKENS = 4096
"""Maximum length of a response; models that reason need more than the status line."""
IN_PROTOCOL = ("every_step", "actions", "screenshots", "max_pixels", "examples", "unfinished")
"""Settings that affect a verdict."""


def chat_client(settings: JudgeSection, max_tokens: int = MAX_TOKENS) -> ChatClient:
    """Makes the client of the judge's endpoint, with the sampling settings in its `fields`."""
    fields: dict[str, Any] = {"max_tokens": max_tokens}
    if settings.temperature is not None:
        fields["temperature"] = settings.temperature
    return ChatClient(
        settings.url,
        settings.model,
        fields,
        timeout_s=settings.timeout_s,
        retries=RETRIES,
        concurrency=settings.concurrency,
    )


class Judge:
    """Judges episodes by the model and rule of the settings. Use it as an async context manager, or call `close`.

    Many verdicts may be requested at once.
    """

    def __init__(self, settings: JudgeSection) -> None:
        if not settings.url:
            raise ConfigError("there is no judge to ask: set judge.url and judge.model")
        self.settings = settings
        self.client = chat_client(settings)
        self.counts: Counter[str] = Counter()
        """Counts of verdicts, no_verdicts (verdicts that are None), reasked, cache_hits and cache_misses."""
        self._cache = ResponseCache(settings.cache) if settings.cache else None

    async def close(self) -> None:
        await self.client.close()

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def verdict(self, trajectory: Trajectory, final: Observation | None = None) -> Verdict:
        """Judges whether an episode completed its task. `final` is the observation after its last step.

        Raises only ConfigError; a failing server or an unreadable response gives a verdict of None.
        """
        s, steps = self.settings, trajectory.steps if trajectory.status is not Status.INFRA_ERROR else ()
        decided = s.every_step or s.unfinished == "failure"
        if decided and steps and not isinstance(steps[-1].action, Finish):
            return self._count(Verdict(False, reason="the agent did not say that it was done"))
        try:
            case = self.case(trajectory, final)
        except NotJudgeable as problem:
            return self._count(Verdict(None, reason=str(problem)))
        return await self.judge(case)

    def case(self, trajectory: Trajectory, final: Observation | None = None) -> Case:
        """The case of an episode as the settings want it (`case_of`)."""
        return case_of(trajectory, self.settings.actions, final, self.settings.screenshots)

    async def judge(self, case: Case) -> Verdict:
        """Like `verdict`, for a case built by the caller, such as the screen after any step (DigiRL)."""
        # In a thread: to scale a long trace down takes seconds.
        messages = await asyncio.to_thread(build_messages, case, self.settings.examples, self.settings.max_pixels)
        try:
            vote = await self._ask(messages)
        except (Unreachable, Refused) as fault:
            vote = Vote(None, reason=f"the judge {fault}")
        return self._count(Verdict(vote.success, vote, vote.reason))

    async def check(self) -> None:
        """Asks one question with an obvious answer, without the cache.

        Raises ConfigError for a wrong address, key or model, and if the model's responses cannot be used.
        """
        s = self.settings
        if self._cache:
            self._cache.check()
        who = f"the judge {s.model!r} at {self.client.url}"
        probe = probe_case(s.actions, s.screenshots)
        try:
            vote = await self._ask(build_messages(probe, s.examples, s.max_pixels), is_check=True)
        except Unreachable as fault:
            raise ConfigError(f"{who} {fault}; start the server or correct judge.url") from None
        except Refused as fault:
            images = 1 + len(probe.before) + (len(EXAMPLES) if s.examples == "images" else 0)
            fix = f"use a model that accepts {images} images in a prompt, or change the setting named above"
            raise ConfigError(f"{who} {fault}; {fix}") from None
        if vote.success is None:
            raise ConfigError(f"{who} gives no verdict: {vote.reason}; use a model that follows instructions")
        if vote.success:
            raise ConfigError(
                f"{who} calls an untouched home screen a success for {PROBE.case.instruction!r}; use a better model"
            )

    async def _ask(self, messages: list[Message], is_check: bool = False) -> Vote:
        """Requests a vote, again if it cannot be parsed; for a check without cache and with one retry."""
        vote = Vote(None)
        for attempt in range(REASKS + 1):
            if attempt:
                self.counts["reasked"] += 1
                messages = asked_again(messages, vote.text)
            response = await self._response(messages, is_check)
            vote = read_verdict(response.text)
            if vote.success is not None:
                break
            if response.cut_off:
                vote = replace(vote, reason=f"{vote.reason} (it was cut off after {MAX_TOKENS} tokens)")
        return vote

    async def _response(self, messages: list[Message], is_check: bool) -> Response:
        """Requests a response. Only responses with a verdict are cached, since another attempt may give a better
        one."""
        if self._cache is None or is_check:
            return await self.client.ask(messages, retries=1 if is_check else None)
        key = response_key(self.settings.model, messages, self.client.fields)
        if (known := self._cache.get(key)) is not None:
            self.counts["cache_hits"] += 1
            return Response(known, cut_off=False)
        self.counts["cache_misses"] += 1
        response = await self.client.ask(messages)
        if read_verdict(response.text).success is not None:
            await asyncio.to_thread(self._cache.put, key, response.text, self.settings.model)
        return response

    def _count(self, verdict: Verdict) -> Verdict:
        self.counts["verdicts"] += 1
        self.counts["no_verdicts"] += verdict.success is None
        return verdict

    def protocol(self) -> dict[str, Any]:
        """Settings that affect a verdict, as JSON values."""
        s = self.settings
        return {
            "judge.model": s.model,
            "judge.prompt_hash": prompt_hash(s.actions, s.examples, s.screenshots),
            "judge.sampling": dict(self.client.fields),
            **{f"judge.{name}": getattr(s, name) for name in IN_PROTOCOL},
            "judge.reasks": REASKS,
        }

    def metrics(self) -> dict[str, float]:
        """Counters for metrics.jsonl."""
        names = ("verdicts", "no_verdicts", "reasked", "cache_hits", "cache_misses")
        values = asdict(self.client.usage) | {name: self.counts[name] for name in names}
        return {f"judge/{name}": value for name, value in values.items()}


def check_judge(settings: JudgeSection) -> None:
    """Runs `Judge.check` for callers without an event loop."""

    async def check() -> None:
        async with Judge(settings) as judge:
            await judge.check()

    asyncio.run(check())
