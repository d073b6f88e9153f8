"""Settings of the judge: its model, its prompt and its limits."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from mobilerl.config.marks import ANY, RESUMABLE, NotWith, OnlyWith
from mobilerl.config.types import Count, Positive, Rate, Section, Url

ASKED = OnlyWith({"judge.url": ANY})


class JudgeSection(Section):
    """A vision-language model at an OpenAI-compatible endpoint that decides whether an episode completed its task."""

    url: Annotated[Url, OnlyWith({"judge.reward": (True,)}, ("train",)), RESUMABLE] = ""
    """Base URL, as in http://127.0.0.1:8000/v1; empty for no judge."""
    model: Annotated[str, ASKED] = ""
    """Name of the model at the endpoint."""
    api_key_env: Annotated[str, ASKED, RESUMABLE] = "OPENAI_API_KEY"
    """Environment variable with the API key. Do not put the key itself into a recipe."""
    reward: bool = False
    """Use the judge's verdicts as rewards instead of the tasks' own checks."""
    every_step: Annotated[bool, OnlyWith({"judge.reward": (True,)})] = False
    """Ask after every action; a success ends the episode (DigiRL). By default only the end of an episode is judged."""
    actions: Annotated[Count, ASKED] = 2
    """Number of last actions described in the prompt (DistRL: 2, DigiRL: 0)."""
    screenshots: Annotated[Positive, ASKED] = 1
    """Maximum number of screenshots in the prompt: the final one, and others from before the described actions, evenly
    spaced. The whole trace has one before every action (MobileRL)."""
    max_pixels: Annotated[Positive | None, ASKED] = None
    """Maximum size of the judged screenshots, in pixels; larger ones are scaled down. null for no limit."""
    examples: Annotated[Literal["images", "words", "none"], ASKED] = "images"
    """Worked examples in the prompt: with screenshots as `images`, with screenshots described in `words`, or `none`."""
    unfinished: Annotated[Literal["failure", "judge"], ASKED, NotWith("judge.every_step", (True,))] = "failure"
    """Verdict on an episode that the agent did not finish: always `failure`, or `judge` by its last screen."""
    votes: Annotated[Positive, ASKED] = 1
    """Number of independent verdicts, of which more than half decide."""
    temperature: Annotated[Annotated[float, Field(ge=0.0)] | None, ASKED] = 0.0
    """Sampling temperature; null for the server's default, for models that do not accept one."""
    max_tokens: Annotated[Positive, ASKED] = 512
    """Maximum length of a response, in tokens. Reasoning models need more."""
    timeout_s: Annotated[Rate, ASKED, RESUMABLE] = 120.0
    """Time limit of a request, in seconds; with retries it may take three times as long."""
    concurrency: Annotated[Positive, ASKED, RESUMABLE] = 8
    """Maximum number of requests in flight."""
    cache: Annotated[str, ASKED, RESUMABLE] = ""
    """Folder for cached responses; empty for no cache."""

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
        if self.votes % 2 == 0:
            raise ValueError(f"judge.votes = {self.votes} can end in a tie: use an odd number")
        return self

    @property
    def longest_s(self) -> float:
        """Maximum seconds for a verdict: a question asked up to three times, each with its retries."""
        return 9 * self.timeout_s

    def shared_by(self, processes: int) -> JudgeSection:
        """Settings for each of `processes` processes that use the judge at the same time and share its limits."""
        return self.model_copy(update={"concurrency": max(1, self.concurrency // processes)})
