"""How long new weights take to reach a running vLLM, and what requests feel of it, beside a restart of its process.

The engine is the one that trains with `engine.sampler = "vllm"`, on a checkpoint of random weights. A thread keeps some
requests in flight all the time; each answer is followed by the next request. The weights change between two sets and
are published the way a run publishes them. Requests that vLLM has begun end first, later ones are held until the new
weights are in. What was answered around a refresh is scored by the learner with both sets: an answer is of mixed
versions unless it fits the weights of the version it names and not the others.

A restart brings the same weights by way of a saved checkpoint: vLLM is ended, started and loaded with that file. vLLM
runs eagerly (`vllm.eager`), which starts fastest. Neither way is spared its writing to disk.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.networks import Shape, make_checkpoint
from benchmarks.rows import SMALL, episodes
from benchmarks.traffic import Answer, Traffic
from envs.phone.env import PhoneEnv
from mobilerl.config import Recipe
from mobilerl.engines.base import Request, Sampling
from mobilerl.engines.codec import Codec
from mobilerl.records import Row
from mobilerl.setup import make_context, make_trainer_engine
from sft.samples import encode

if TYPE_CHECKING:
    from torch import Tensor

    from mobilerl.engines.local import LocalEngine
    from mobilerl.engines.vllm.engine import VllmEngine

GB = 1e9
TOKENS = (16, 64)
"""Fewest and most tokens of an answer; they differ so that answers come one by one."""
PROMPTS = 64
CLEARLY = 10.0
"""Times that an answer must be nearer to the weights of its version than to the other ones."""


@dataclass(frozen=True, slots=True)
class Load:
    """`requests` are in flight at once; `rounds` counts refreshes."""

    requests: int = 8
    rounds: int = 5
    restarts: int = 3


def measure(shape: Shape, load: Load) -> dict[str, Any]:
    """Times of both ways, and checks of what was answered meanwhile. ValueError for what cannot be measured here."""
    if shape.hidden % 32:
        raise ValueError(f"--hidden is {shape.hidden}; it must be a multiple of 32")
    if find_spec("vllm") is None:
        raise ValueError("bench refresh needs vLLM, which is not installed: pip install 'mobilerl[vllm]'")
    busy = os.getloadavg()[0]
    with TemporaryDirectory() as name:
        folder = Path(name)
        make_checkpoint(folder / "model", shape, max_pixels=0)
        engine = make_trainer_engine(_recipe(folder / "model", load.requests))
        try:
            asked = make_requests(engine.codec)
            size = sum(p.nbytes for p in engine.learner.model.parameters()) / GB
            states = _two_states(engine.learner)
            answers, swaps, lost = _refresh(engine, states, asked, load)
            checked = check(engine.learner, states, [a for s in swaps for a in around(answers, s)])
            restarts = [_restart(engine, folder / f"saved{i}", asked, load.requests) for i in range(load.restarts)]
        finally:
            engine.close()
    return {
        "model": f"{shape.hidden} wide, {shape.layers} layers", "weights_gb": size, "requests": load.requests,
        "rounds": load.rounds, "load_average_before": busy, "load_average_after": os.getloadavg()[0],
        "lost": lost, "of_a_wrong_version": wrong_versions(answers, swaps), **checked,
        **figures(answers, swaps, restarts, size),
    }  # fmt: skip


def _recipe(model: Path, requests: int) -> Recipe:
    return Recipe(
        model=str(model),
        agent={"max_new_tokens": TOKENS[1]},
        engine={"sampler": "vllm"},
        vllm={"max_prompt": 2048, "max_sequences": requests, "eager": True},
    )


def make_requests(codec: Codec) -> list[Request]:
    """Prompts of expert episodes on the embedded phone, each with its screen."""
    context, lengths = make_context(SMALL.agent), random.Random(0)
    steps = (step for steps in episodes(PhoneEnv("bench", SMALL.width, SMALL.height)) for step in steps)
    samples = [encode(step, context, codec) for step in islice(steps, PROMPTS)]
    return [Request(s.prompt_ids, s.images, Sampling(1.0, lengths.randint(*TOKENS))) for s in samples]


# --- refreshing ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Swap:
    """A refresh from `begin` to `end`, in seconds of the answers' clock, which brought the weights of `version`."""

    begin: float
    end: float
    version: int

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def _two_states(learner: LocalEngine) -> tuple[list[Tensor], list[Tensor]]:
    """The learner's weights, for even versions, and others that are a fifth of their spread away, for odd ones."""
    import torch

    torch.manual_seed(1)
    weights = [p.detach().clone() for p in learner.model.parameters()]
    return weights, [w + torch.randn_like(w) * 0.2 * (w.std() if w.numel() > 1 else 0.1) for w in weights]


def _take(learner: LocalEngine, state: Sequence[Tensor]) -> None:
    import torch

    with torch.no_grad():
        for p, value in zip(learner.model.parameters(), state, strict=True):
            p.copy_(value)


def _refresh(
    engine: VllmEngine, states: Sequence[Sequence[Tensor]], asked: Sequence[Request], load: Load
) -> tuple[list[Answer], list[Swap], int]:
    """All answers but the first, which came while vLLM was new; the refreshes; and how many requests were lost."""
    swaps: list[Swap] = []
    with Traffic(engine.submit, asked, load.requests) as traffic:
        traffic.wait(lambda answers: len(answers) >= 2 * load.requests)
        first = len(traffic.answers)
        traffic.wait(lambda answers: len(answers) >= first + 4 * load.requests)
        for _ in range(load.rounds):
            _take(engine.learner, states[(engine.version + 1) % 2])
            begin = time.perf_counter()
            version = engine.publish()
            swaps.append(Swap(begin, end := time.perf_counter(), version))
            traffic.wait(lambda answers: sum(a.asked > end for a in answers) >= 2 * load.requests)  # noqa: B023
    return traffic.answers[first:], swaps, len(traffic.lost)


def around(answers: Sequence[Answer], swap: Swap) -> list[Answer]:
    """What was in flight when a refresh began or was asked for while it went on."""
    return [a for a in answers if a.asked < swap.end and a.given > swap.begin]


def check(learner: LocalEngine, states: Sequence[Sequence[Tensor]], answers: Sequence[Answer]) -> dict[str, Any]:
    """Each answer's largest difference of a log-probability from the learner's with either set of weights."""
    rows = [
        Row("t", 0, a.request.prompt_ids, a.completion.token_ids, a.completion.logprobs, a.request.images, 0)
        for a in answers
    ]
    off: list[list[float]] = []
    for state in states:
        _take(learner, state)
        scored = learner.logprobs(rows)
        off.append([_farthest(row.rollout_logprobs, own) for row, own in zip(rows, scored, strict=True)])
    own = [off[a.completion.version % 2][i] for i, a in enumerate(answers)]
    other = [off[1 - a.completion.version % 2][i] for i, a in enumerate(answers)]
    return {
        "of_mixed_versions": sum(a * CLEARLY > b for a, b in zip(own, other, strict=True)),
        "answers around a refresh, each checked": float(len(answers)),
        "log-probability off by, at most": max(own),
        "with the other weights, at least": min(other),
    }


def _farthest(some: Sequence[float], others: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(some, others, strict=True))


def wrong_versions(answers: Sequence[Answer], swaps: Sequence[Swap]) -> int:
    """Answers that name a version older than the last refresh before they were asked for, or one not yet begun."""
    wrong = 0
    for answer in answers:
        oldest = max((s.version for s in swaps if s.end < answer.asked), default=swaps[0].version - 1)
        newest = max((s.version for s in swaps if s.begin < answer.given), default=swaps[0].version - 1)
        wrong += not oldest <= answer.completion.version <= newest
    return wrong


def swap_row(answers: Sequence[Answer], swap: Swap, s_per_token: float) -> dict[str, float]:
    """What one refresh cost, in seconds as the run sees them, and the requests that were held until its end.

    `begun_s`: until vLLM had answered what it had begun; `then_s`: from there until the weights were in. `answer_s`:
    until the first answer with them. `gap_s`: the longest time without an answer meanwhile. `delay_s`: the most that a
    held request took beyond an undisturbed one of its length, below 0 where others took longer without a refresh.
    """
    new = [a for a in answers if a.completion.version == swap.version]
    first = min(a.given for a in new)
    given = sorted(a.given for a in answers if a.given <= first)
    ended = max((a.given for a in around(answers, swap) if a.completion.version < swap.version), default=swap.begin)
    held = [a for a in new if a.asked < min(swap.end, first)]  # publish may return after the first answer has come
    return {
        "refresh_s": swap.seconds,
        "begun_s": ended - swap.begin,
        "then_s": swap.end - ended,
        "answer_s": first - swap.begin,
        "gap_s": max((b - a for a, b in pairwise(given) if b > swap.begin), default=first - swap.begin),
        "held": float(len(held)),
        "delay_s": max((a.seconds - s_per_token * len(a.completion.token_ids) for a in held), default=0.0),
    }


def undisturbed(answers: Sequence[Answer], swaps: Sequence[Swap]) -> tuple[list[Answer], list[float]]:
    """The answers that no refresh met, and the gaps between answers given one after the other among them."""
    calm = [a for a in answers if not any(a.asked < s.end and a.given > s.begin for s in swaps)]
    given = sorted(a.given for a in calm)
    gaps = [b - a for a, b in pairwise(given) if not any(a < s.end and b > s.begin for s in swaps)]
    return calm, gaps


# --- restarting ----------------------------------------------------------------------------------------------------


def _restart(engine: VllmEngine, saved: Path, asked: Sequence[Request], count: int) -> dict[str, float]:
    """Seconds of a restart with the learner's weights, part by part; nothing is in flight when it begins."""
    from mobilerl.engines.vllm.sampler import VllmSampler

    times = [time.perf_counter()]
    engine.learner.model.save_pretrained(saved)
    engine.codec.save(saved)
    times.append(time.perf_counter())
    engine.sampler.close()
    times.append(time.perf_counter())
    engine.sampler = VllmSampler(saved, engine.codec, engine.sampler.settings)
    times.append(time.perf_counter())
    engine.sampler.refresh(saved / "model.safetensors", engine.version)
    times.append(time.perf_counter())
    with Traffic(engine.submit, asked, count) as traffic:
        traffic.wait(bool)
    times.append(min(a.given for a in traffic.answers))
    names = ("save_s", "end_s", "start_s", "load_s", "then_first_answer_s")
    return {"restart_s": times[-1] - times[0]} | {n: b - a for n, (a, b) in zip(names, pairwise(times), strict=True)}


# --- results -------------------------------------------------------------------------------------------------------


def figures(
    answers: Sequence[Answer], swaps: Sequence[Swap], restarts: Sequence[dict[str, float]], size: float
) -> dict[str, Any]:
    """Medians, then tables. The two ways are compared by the time until the first answer with the new weights.

    `size` is in GB.
    """
    calm, gaps = undisturbed(answers, swaps)
    pace = statistics.median(a.seconds / len(a.completion.token_ids) for a in calm)
    rows = [swap_row(answers, swap, pace) for swap in swaps]
    refresh = _spread("refresh, until publish returns", [r["refresh_s"] for r in rows], size)
    refreshed = _spread("refresh, until the first answer", [r["answer_s"] for r in rows], size)
    restarted = _spread("restart, until the first answer", [r["restart_s"] for r in restarts], size)
    return {
        "refresh_speed_against_restart": restarted["median_s"] / refreshed["median_s"],
        "refreshed_gb_per_s": 1 / refresh["s_per_gb"],
        "restarted_gb_per_s": 1 / restarted["s_per_gb"],
        "undisturbed_tokens_per_s_of_a_request": 1 / pace,
        "undisturbed_gap_median_s": statistics.median(gaps),
        "undisturbed_gap_longest_s": max(gaps),
        "ways": [refresh, _spread("of it, after what was begun", [r["then_s"] for r in rows], size), refreshed,
                 restarted],
        "refreshes": rows,
        "restarts": list(restarts),
    }  # fmt: skip


def _spread(what: str, seconds: Sequence[float], size: float) -> dict[str, Any]:
    middle = statistics.median(seconds)
    return {"what": what, "median_s": middle, "min_s": min(seconds), "max_s": max(seconds), "s_per_gb": middle / size}
