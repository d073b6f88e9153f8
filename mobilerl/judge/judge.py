"""`Judge`: from an episode to a verdict, by the votes of a model."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from envs.base import Finish, Observation
from mobilerl.config import ConfigError, JudgeSection
from mobilerl.judge.cache import ReplyCache, reply_key
from mobilerl.judge.client import ChatClient, Refused, Reply, Unreachable
from mobilerl.judge.examples import EXAMPLES, PROBE
from mobilerl.judge.prompt import (
    Case,
    Message,
    NotJudgeable,
    asked_again,
    build_messages,
    case_of,
    example_case,
    prompt_hash,
)
from mobilerl.judge.verdict import read_verdict
from mobilerl.judge.votes import Verdict, Vote, tally
from mobilerl.records import Status, Trajectory


class Judge:
    """Judges episodes by the settings' model and rule. Use as an async context manager, or call `close`.

    It belongs to the event loop in which it is first used. Many verdicts may be asked for at once.
    """

    def __init__(self, settings: JudgeSection) -> None:
        if not settings.url:
            raise ConfigError("there is no judge to ask: set judge.url and judge.model")
        self.settings = settings
        self.client = ChatClient(settings)
        self.counts: Counter[str] = Counter()
        """verdicts, no_verdicts (those of them that are None), reasked, cache_hits, cache_misses; all only grow."""
        self._cache = ReplyCache(settings.cache) if settings.cache else None

    async def close(self) -> None:
        await self.client.close()

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- asking ----------------------------------------------------------------------------------------------

    async def verdict(self, trajectory: Trajectory, final: Observation | None = None) -> Verdict:
        """Whether the episode did its task. `final` is what was seen after its last step.

        Raises ConfigError only: what goes wrong with the server or the reply gives a verdict of None.
        """
        played = trajectory.steps if trajectory.status is not Status.INFRA_ERROR else ()
        if self.settings.unfinished == "failure" and played and not isinstance(played[-1].action, Finish):
            return self._counted(Verdict(False, reason="the agent did not say that it was done"))
        try:
            case = case_of(trajectory, self.settings.actions, final)
        except NotJudgeable as problem:
            return self._counted(Verdict(None, reason=str(problem)))
        return await self.judge(case)

    async def judge(self, case: Case) -> Verdict:
        """As `verdict`, for a case made by hand: the screen after any step, say, as DigiRL judges every one."""
        votes: list[Vote] = []
        try:
            async with asyncio.timeout(self.settings.deadline_s) as limit:
                success = await self._poll(case, votes)
        except TimeoutError:
            if not limit.expired():
                raise
            late = f"not within {self.settings.deadline_s:g} s; raise judge.deadline_s or judge.requests_per_minute"
            return self._counted(Verdict(None, tuple(votes), late))
        reason = "" if success is not None else "; ".join(dict.fromkeys(v.reason for v in votes if v.reason))
        return self._counted(Verdict(success, tuple(votes), reason))

    async def check(self) -> None:
        """Asks one question with an obvious answer, past the cache.

        Raises ConfigError with the cure for what is wrong with the address, the key, the model or its replies.
        """
        s = self.settings
        if self._cache:
            self._cache.check()
        who = f"the judge {s.model!r} at {s.url}"
        pictures = len(EXAMPLES) + 1 if s.examples == "images" else 1
        try:
            vote = await self._ask(build_messages(example_case(PROBE), s.examples), None)
        except Unreachable as fault:
            raise ConfigError(f"{who} {fault}; start the server or correct judge.url") from None
        except Refused as fault:
            cure = f"use a model that takes {pictures} pictures in a prompt, or change the setting that it names"
            raise ConfigError(f"{who} {fault}; {cure}") from None
        if vote.success is None:
            raise ConfigError(f"{who} gives no verdict: {vote.reason}; use a model that follows instructions")
        if vote.success:
            raise ConfigError(
                f"{who} calls an untouched home screen a success for {PROBE.instruction!r}; use a model that sees"
            )

    # --- votes -----------------------------------------------------------------------------------------------

    async def _poll(self, case: Case, votes: list[Vote]) -> bool | None:
        """Asks at once for as many votes as it takes at least, then for more while they can still decide."""
        messages = build_messages(case, self.settings.examples)
        while True:
            success, missing = tally(votes, self.settings.votes, self.settings.rule)
            if not missing:
                return success
            first = len(votes)
            asked = await asyncio.gather(
                *(self._vote(messages, first + i) for i in range(missing)), return_exceptions=True
            )
            for vote in asked:
                if isinstance(vote, BaseException):
                    raise vote
                votes.append(vote)

    async def _vote(self, messages: list[Message], index: int) -> Vote:
        try:
            return await self._ask(messages, index)
        except (Unreachable, Refused) as fault:
            return Vote(None, reason=f"the judge {fault}")

    async def _ask(self, messages: list[Message], index: int | None) -> Vote:
        """One vote, asked for again while it cannot be read. Index None is a check: past the cache, with one retry."""
        text = reason = ""
        for again in range(self.settings.reasks + 1):
            if again:
                self.counts["reasked"] += 1
                messages = asked_again(messages, text)
            reply = await self._reply(messages, index)
            text, reading = reply.text, read_verdict(reply.text)
            if reading.success is not None:
                return Vote(reading.success, text)
            reason = reading.reason
            if reply.cut_off:
                reason += f" (it was cut off: raise judge.max_tokens above {self.settings.max_tokens})"
        return Vote(None, text, reason)

    async def _reply(self, messages: list[Message], index: int | None) -> Reply:
        """Only replies that can be read are kept: another try may mend the others."""
        if self._cache is None or index is None:
            return await self.client.ask(messages, retries=1 if index is None else None)
        key = reply_key(self.settings.model, messages, self.client.sampling, index)
        if (known := self._cache.get(key)) is not None:
            self.counts["cache_hits"] += 1
            return Reply(known, cut_off=False)
        self.counts["cache_misses"] += 1
        reply = await self.client.ask(messages)
        if read_verdict(reply.text).success is not None:
            await asyncio.to_thread(self._cache.put, key, reply.text, self.settings.model)
        return reply

    # --- telling ---------------------------------------------------------------------------------------------

    def _counted(self, verdict: Verdict) -> Verdict:
        self.counts["verdicts"] += 1
        self.counts["no_verdicts"] += verdict.success is None
        return verdict

    def protocol(self) -> dict[str, Any]:
        """Everything that affects a verdict, in plain JSON values."""
        s = self.settings
        return {
            "judge.model": s.model,
            "judge.prompt_hash": prompt_hash(s.actions, s.examples),
            "judge.sampling": dict(self.client.sampling),
            **{f"judge.{k}": getattr(s, k) for k in ("actions", "examples", "unfinished", "votes", "rule", "reasks")},
        }

    def metrics(self) -> dict[str, float]:
        """Counters for metrics.jsonl."""
        used = self.client.usage
        values = {name: getattr(used, name) for name in used.__dataclass_fields__} | {"cost": self.client.money}
        names = ("verdicts", "no_verdicts", "reasked", "cache_hits", "cache_misses")
        return {f"judge/{k}": v for k, v in (values | {n: self.counts[n] for n in names}).items()}


def check_judge(settings: JudgeSection) -> None:
    """`Judge.check` for a caller without an event loop."""

    async def check() -> None:
        async with Judge(settings) as judge:
            await judge.check()

    asyncio.run(check())
