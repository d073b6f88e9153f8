"""The judge: which model is asked, what it is shown, and what it may cost."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from mobilerl.config.types import Count, Positive, Rate, Section

NotNegative = Annotated[float, Field(ge=0.0)]


class JudgeSection(Section):
    """A vision-language model at an OpenAI-compatible endpoint that decides whether an episode completed its task."""

    url: str = ""
    """Base URL, as in http://127.0.0.1:8000/v1; empty for no judge."""
    model: str = ""
    """Name of the model at the endpoint."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the API key. The key itself belongs in no recipe."""
    reward: bool = False
    """Use the judge's verdicts as rewards, in place of the tasks' own checks."""
    actions: Count = 2
    """Number of last actions described in the prompt (DistRL: 2, DigiRL: 0)."""
    examples: Literal["images", "words", "none"] = "images"
    """Worked examples in the prompt: with screenshots as images, with screenshots described in words, or none."""
    unfinished: Literal["failure", "judge"] = "failure"
    """Verdict on an episode that the agent did not finish: a failure, or judged by its last screen."""
    votes: Positive = 1
    """Number of independent verdicts."""
    rule: Literal["majority", "unanimous"] = "majority"
    """Votes needed for a success: more than half, or all."""
    temperature: NotNegative | None = 0.0
    """Sampling temperature; null for the server's default, for models that accept none."""
    max_tokens: Positive = 512
    """Maximum length of a reply, in tokens. Reasoning models need more."""
    limit_as: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the token limit in requests; newer models of OpenAI accept only the second."""
    timeout_s: Rate = 120.0
    """Time limit of a request, in seconds."""
    deadline_s: Rate = 600.0
    """Time limit of a verdict with all its requests and waits, in seconds."""
    requests_per_minute: Rate | None = None
    """Rate limit; requests are evenly spaced. Null for no limit."""
    concurrency: Positive = 8
    """Maximum number of requests in flight."""
    prompt_price: NotNegative = 0.0
    """Price of a million prompt tokens, in any currency."""
    completion_price: NotNegative = 0.0
    """Price of a million completion tokens."""
    cache: str = ""
    """Folder that caches replies; empty for no cache."""

    @model_validator(mode="after")
    def _can_be_asked(self) -> JudgeSection:
        if self.reward and not self.url:
            raise ValueError("judge.reward needs a judge: set judge.url and judge.model")
        if self.url:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"judge.url is {self.url!r}; it must look like http://HOST:PORT/v1")
            if not self.model:
                raise ValueError("judge.url needs judge.model, the name under which the endpoint serves the model")
        return self

    @model_validator(mode="after")
    def _votes_make_sense(self) -> JudgeSection:
        if self.votes > 1 and self.temperature == 0:
            raise ValueError("judge.votes above 1 need judge.temperature above 0: at 0 all votes are the same")
        if self.rule == "majority" and self.votes % 2 == 0:
            raise ValueError(
                f'judge.votes = {self.votes} can end in a tie: use an odd number, or judge.rule = "unanimous"'
            )
        return self

    def shared_by(self, processes: int) -> JudgeSection:
        """The settings of each of `processes` that use the judge at the same time and share its limits."""
        rate = self.requests_per_minute
        return self.model_copy(
            update={
                "requests_per_minute": None if rate is None else rate / processes,
                "concurrency": max(1, self.concurrency // processes),
            }
        )
