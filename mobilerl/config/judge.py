"""The judge: which model is asked, what it is shown, and what it may cost."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from mobilerl.config.types import Count, Positive, Rate, Section

NotNegative = Annotated[float, Field(ge=0.0)]


class JudgeSection(Section):
    """A vision-language model behind an OpenAI-compatible endpoint that says whether an episode did its task."""

    url: str = ""
    """Base address, as in http://127.0.0.1:8000/v1; empty for no judge."""
    model: str = ""
    """Name under which the endpoint serves the model."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the key. The key itself belongs in no recipe."""
    reward: bool = False
    """Train on the judge's verdicts in place of the tasks' own checks."""

    actions: Count = 2
    """How many of the last actions are told in words: 2 as DistRL, 0 as DigiRL."""
    examples: Literal["images", "words", "none"] = "images"
    """Worked examples in the prompt: with their screens as pictures, with the screens told in words, or none."""
    unfinished: Literal["failure", "judge"] = "failure"
    """An episode in which the agent never said that it was done: a failure unasked, or judged by its last screen."""

    votes: Positive = 1
    """Independent verdicts asked for."""
    rule: Literal["majority", "unanimous"] = "majority"
    """What makes a success: more than half of the votes, or all of them."""
    reasks: Count = 2
    """Times a vote that cannot be read is asked for again."""

    temperature: NotNegative | None = 0.0
    """None leaves it to the server, for models that take no temperature."""
    max_tokens: Positive = 512
    """Longest reply, in tokens. Models that think before they answer need more."""
    limit_as: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Under which name the limit is sent; newer models of OpenAI take only the second."""

    timeout_s: Rate = 120.0
    """Seconds one request may take."""
    retries: Count = 4
    """Times a request is repeated after a time-out, a broken connection, a 429 or a 5xx."""
    deadline_s: Rate = 600.0
    """Seconds a verdict may take in all, waiting for the rate limit included."""
    requests_per_minute: Rate | None = None
    """Requests are spaced evenly at this rate; None for no limit."""
    concurrency: Positive = 8
    """Requests under way at once."""

    prompt_price: NotNegative = 0.0
    """Money per million prompt tokens, in any currency."""
    completion_price: NotNegative = 0.0
    """Money per million completion tokens."""
    cache: str = ""
    """Folder in which replies are kept, so that nothing is paid for twice; empty for none."""

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
            raise ValueError("judge.votes above 1 need judge.temperature above 0: at 0 all votes are one and the same")
        if self.rule == "majority" and self.votes % 2 == 0:
            raise ValueError(
                f'judge.votes = {self.votes} can end in a tie: use an odd number, or judge.rule = "unanimous"'
            )
        return self

    def shared_by(self, processes: int) -> JudgeSection:
        """The share of each of `processes` that ask at the same time: together they keep to the limits."""
        rate = self.requests_per_minute
        return self.model_copy(
            update={
                "requests_per_minute": None if rate is None else rate / processes,
                "concurrency": max(1, self.concurrency // processes),
            }
        )
