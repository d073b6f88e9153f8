"""Settings of the judge: its model, its prompt and its limits."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from mobilerl.config.marks import ANY, RESUMABLE, NotWith, OnlyWith
from mobilerl.config.types import Count, Positive, Section, Url

ASKED = OnlyWith({"judge.url": ANY})


class JudgeSection(Section):
    """A vision-language model at an OpenAI-compatible endpoint that decides whether an episode completed its task."""

    url: Annotated[Url, OnlyWith({"judge.reward": (True,)}, ("train",)), RESUMABLE] = ""
    """Base URL, as in http://127.0.0.1:8000/v1; empty for no judge. Its key is read from OPENAI_API_KEY."""
    model: Annotated[str, ASKED] = ""
    """Name of the model at the endpoint."""
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
    temperature: Annotated[Annotated[float, Field(ge=0.0)] | None, ASKED] = 0.0
    """Sampling temperature; null for the server's default, for models that do not accept one."""
    concurrency: Annotated[Positive, ASKED, RESUMABLE] = 8
    """Maximum number of requests in flight."""
    cache: Annotated[str, ASKED, RESUMABLE] = ""
    """Folder for cached responses; empty for no cache."""
    timeout_s: ClassVar[float] = 120.0
    """Time limit of a request in seconds, three times as long with retries; not a setting."""
    longest_s: ClassVar[float] = 9 * timeout_s
    """Maximum seconds for a verdict: a question asked up to three times, each with its retries; not a setting."""

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

    def shared_by(self, processes: int) -> JudgeSection:
        """Settings for each of `processes` processes that use the judge at the same time and share its limits."""
        return self.model_copy(update={"concurrency": max(1, self.concurrency // processes)})
