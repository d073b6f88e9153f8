"""Memory of replayed samples with full-size screenshots, and the speed of drawing and collating them.

The buffer holds PNGs, each once; pixels are computed when a sample is used. The trajectories are synthetic: ten steps
whose prompts show the last two screens, as in MobileRL, at 1080x2400. Only some screens are drawn; the others are
copies of them.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.benchmarks.samples import episodes, make_checkpoint
from mobilerl.envs.base import Observation
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.models.codec import Codec
from mobilerl.policy.context import ContextPolicy, build_messages
from mobilerl.records import Completion, Status, Step, TrainingSample, Trajectory
from mobilerl.sft.samples import ExpertStep

CONTEXT = ContextPolicy()
"""MobileRL's context: two screenshots, and the screen as text."""
STEPS = 10
REPLY = 60
"""Tokens of a synthetic reply, about as many as a thought and a box take."""
MINI_BATCH = 256
GIB = 2**30


def measure(rows: int, screens: int, max_pixels: int, collate: int) -> dict[str, Any]:
    """Measures memory, and samples drawn and collated per second. Raises ValueError if `rows` is too small."""
    with TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        make_checkpoint(model, hidden=64, layers=1)
        codec = Codec.load(model, max_pixels)
        drawn = list(islice(_prompts(codec), screens))
        replay = fill(drawn, rows)
        chosen = list(replay.draw(4 * collate + STEPS, random.Random(1)))[:collate]
        if len(chosen) < collate:
            raise ValueError(f"--collate is {collate}; {rows} rows give at most {len(chosen)} to collate")
        cpu_s, wall_s = _collating(Codec.load(model, max_pixels), chosen)
    entries = replay.state_dict()["entries"]
    held_screens = {id(png): len(png) for e in entries for s in e["trajectory"].steps for png in s.images}
    pixels = len(replay) * STEPS * 2 * codec.pixels(chosen[0].images[0])[0].nbytes
    return {
        "rows": len(replay) * STEPS,
        "screens": len(held_screens),
        "drawn_screens": len(drawn),
        "max_pixels": max_pixels,
        "mean_tokens": statistics.fmean(len(r.prompt_ids) + REPLY for r in chosen),
        "held_gib": deep_bytes(replay.state_dict()) / GIB,
        "screens_gib": sum(held_screens.values()) / GIB,
        "mean_png_kb": statistics.fmean(held_screens.values()) / 1e3,
        "GiB as pixel values": pixels / GIB,
        "drawn_rows_per_s": _drawing(replay),
        "collated_rows_per_cpu_s": len(chosen) / cpu_s,
        "collated_rows_per_s": len(chosen) / wall_s,
        "steps_sent_per_cpu_s": _sending(codec, [step.observation.screenshot for step, _ in drawn]),
    }


def _prompts(codec: Codec) -> Iterator[tuple[ExpertStep, tuple[int, ...]]]:
    """Yields steps with distinct screens, and the token ids of their prompts with two screens."""
    seen = set()
    for steps in episodes(PhoneEnv("bench", 1080, 2400)):
        for step in steps[1:]:
            if step.observation.screenshot not in seen:
                seen.add(step.observation.screenshot)
                yield (
                    step,
                    codec.encode(*build_messages(step.task, step.turns[-1:], step.observation, step.screen, CONTEXT)),
                )


def fill(drawn: Sequence[tuple[ExpertStep, tuple[int, ...]]], rows: int) -> AdaptivePositiveReplay:
    """Makes a buffer with at least `rows` samples, in trajectories of STEPS steps."""
    count = -(-rows // STEPS)
    replay = AdaptivePositiveReplay(capacity=count, kappa=count, gamma=0.25)
    trajectories = [_trajectory(drawn, number) for number in range(count)]
    replay.insert(trajectories, [1.0 + i / count for i in range(count)], iteration=0)
    return replay


def _trajectory(drawn: Sequence[tuple[ExpertStep, tuple[int, ...]]], number: int) -> Trajectory:
    screens = [_copy(drawn[0][0].observation.screenshot, -1 - number)]
    made: list[Step] = []
    for turn in range(number * STEPS, (number + 1) * STEPS):
        step, ids = drawn[turn % len(drawn)]
        seen = step.observation
        screens.append(_copy(seen.screenshot, turn))
        # Each text and number has its own memory, as after loading a checkpoint.
        xml, ids = seen.xml.encode().decode(), tuple(array("q", ids))
        observation = Observation(screens[-1], seen.width, seen.height, xml, seen.app, len(made))
        completion = Completion(ids, tuple(range(300, 300 + REPLY)), tuple(-k / 7 for k in range(REPLY)), 0, "x" * 200)
        made.append(Step(observation, completion, tuple(screens[-2:]), "x" * 120, step.action))
    return Trajectory(f"t{number}", drawn[0][0].task, tuple(made), 1.0, Status.FINISHED, "bench")


def _copy(png: bytes, number: int) -> bytes:
    """The same image with different bytes; decoders ignore what follows the end of a PNG."""
    return png + str(number).encode()


# --- measuring -----------------------------------------------------------------------------------------------------


def deep_bytes(value: Any, seen: set[int] | None = None) -> int:
    """Bytes of memory of `value` and everything it refers to, each object once, but all numbers of a tuple."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        parts: Any = [*value.keys(), *value.values()]
    elif isinstance(value, tuple | list):
        if value and isinstance(value[-1], int | float):
            return size + sum(map(sys.getsizeof, value))
        parts = value
    elif is_dataclass(value):
        parts = [getattr(value, f.name) for f in fields(value)]
    else:
        return size
    return size + sum(deep_bytes(part, seen) for part in parts)


def _drawing(replay: AdaptivePositiveReplay) -> float:
    """Samples per second, measured for one second."""
    rng, count = random.Random(0), 0
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end:
        count += len(replay.draw(MINI_BATCH, rng))
    return float(count)


def _sending(codec: Codec, screens: Sequence[bytes]) -> float:
    """Steps per CPU second for which a driver can prepare the prompt ids and the image for an inference server."""
    content = [{"type": "image"}, {"type": "text", "text": "Open the Settings app"}]
    began = time.process_time()
    for png in screens:
        codec.encode([{"role": "user", "content": content}], [png])
        codec.pictures.scaled(png)
    return len(screens) / (time.process_time() - began)


def _collating(codec: Codec, rows: Sequence[TrainingSample]) -> tuple[float, float]:
    """CPU seconds and wall seconds to collate in micro-batches of two, with no image decoded yet."""
    began = time.process_time(), time.perf_counter()
    for i in range(0, len(rows), 2):
        part = rows[i : i + 2]
        codec.collate([r.prompt_ids + r.response_ids for r in part], [r.images for r in part], pad_left=True)
    return time.process_time() - began[0], time.perf_counter() - began[1]
