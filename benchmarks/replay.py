"""What replayed rows with full-size screenshots cost: memory to hold them, time to draw them and to make batches.

The buffer holds PNGs, each once, and pixels are made when a row is used. Rows are those of made-up successes of ten
steps whose prompts show the last two screens, as MobileRL's do. The screens are the embedded phone's at 1080x2400. Only
some are drawn; every other one is a copy of a drawn one that differs in a comment of the file, so that it is held like
a screen of its own. Token ids are held as they are after a checkpoint was read: a number of its own each.
"""

from __future__ import annotations

import random
import statistics
import struct
import sys
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.flops import Network, peak_flops, update_flops
from benchmarks.networks import Shape, make_checkpoint, published_config
from benchmarks.rows import FULL, episodes
from envs.base import Observation
from envs.phone.env import PhoneEnv
from mobilerl.agent.context import build_messages
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.engines.codec import Codec
from mobilerl.records import Completion, Row, Status, Step, Trajectory
from mobilerl.setup import make_context
from sft.samples import ExpertStep

STEPS = 10
REPLY = 60
"""Tokens of a made-up reply, about what a thought and a box take."""
MINI_BATCH = 256
GAMMA = 0.25
GIB = 2**30
DEVICE, NETWORK, UTILISATION = "H100 SXM", "7B", 0.4
"""What the need for rows is worked out for, on paper."""


def measure(rows: int, screens: int, max_pixels: int, collated: int, threads: Sequence[int]) -> dict[str, Any]:
    """Bytes held, rows drawn and collated per second, and how many an H100 would use up. ValueError for small sizes."""
    with TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        make_checkpoint(model, Shape(64, 1), max_pixels)
        codec = Codec.load(model, max_pixels)
        drawn = list(islice(_steps(), screens))
        before = _resident()
        replay = fill(codec, drawn, rows)
        grown = _resident() - before
        sizes = _sizes(replay)
        chosen = [row for row, _ in replay.draw(4 * collated + STEPS, random.Random(1))][:collated]
        if len(chosen) < collated:
            raise ValueError(f"--collate is {collated}; {rows} rows give at most {len(chosen)} to collate")
        per_screen = int(codec.pixels(chosen[0].images[0])[1].prod())
        need = statistics.harmonic_mean([_rows_per_s(row, per_screen) for row in chosen])
        collating = [_collating(model, max_pixels, chosen, n, need) for n in threads]
    held, screens_held, shown = deep_bytes(replay.state_dict()), sum(sizes), sum(len(r.images) for r in chosen)
    pixels = replay.size_rows * shown / len(chosen) * per_screen * _patch_bytes(codec)
    return {
        "rows": replay.size_rows, "trajectories": len(replay), "screens": len(sizes), "drawn_screens": len(drawn),
        "max_pixels": max_pixels, "mean_tokens": statistics.fmean(len(r.prompt_ids) + REPLY for r in chosen),
        "held_gib": held / GIB, "resident_growth_gib": grown / GIB, "screens_gib": screens_held / GIB,
        "mean_png_kb": screens_held / len(sizes) / 1e3,
        "largest mean PNG for 4 GiB, kB": (4 * GIB - held + screens_held) / len(sizes) / 1e3,
        "GiB as pixel values": pixels / GIB, "drawn_rows_per_s": _drawing(replay),
        f"rows/s that {NETWORK} uses up on one {DEVICE} at {UTILISATION:.0%} (by formula)": need,
        "collating": collating,
    }  # fmt: skip


# --- the buffer ----------------------------------------------------------------------------------------------------


def _steps() -> Iterator[ExpertStep]:
    """Steps with screens that are all different."""
    seen = set()
    for steps in episodes(PhoneEnv("bench", FULL.width, FULL.height)):
        for step in steps:
            if step.observation.screenshot not in seen:
                seen.add(step.observation.screenshot)
                yield step


def fill(codec: Codec, steps: Sequence[ExpertStep], rows: int) -> AdaptivePositiveReplay:
    """A buffer of at least `rows` rows, in trajectories of STEPS."""
    count = -(-rows // STEPS)
    replay = AdaptivePositiveReplay(capacity=count, kappa=count, gamma=GAMMA)
    marker = -(-int(codec.pixels(steps[0].observation.screenshot)[1].prod()) // codec.merge)
    texts = [_text_ids(codec, step) for step in steps]
    trajectories = [_trajectory(codec, steps, texts, marker, number) for number in range(count)]
    replay.insert(trajectories, [1.0 + i / count for i in range(count)], iteration=0)
    return replay


def _text_ids(codec: Codec, step: ExpertStep) -> list[int]:
    """Ids of a prompt with one placeholder for each of two screens."""
    context = make_context(FULL.agent)
    messages, _ = build_messages(step.task, step.turns[-1:], step.observation, step.screen, context)
    text = codec.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return codec.tokenizer(text, add_special_tokens=False)["input_ids"]


def _trajectory(codec: Codec, steps: Sequence[ExpertStep], texts: Sequence[Sequence[int]], marker: int, number: int
                ) -> Trajectory:  # fmt: skip
    screens = []
    made = []
    for i in range(STEPS):
        which = (number * STEPS + i) % len(steps)
        step, turn = steps[which], number * STEPS + i
        screens.append(_copy(step.observation.screenshot, turn))
        seen = step.observation
        observation = Observation(screens[-1], seen.width, seen.height, _own(seen.xml), seen.app, i)
        images = tuple(screens[-2:])
        ids = _expanded(texts[which], codec.image_token_id, marker, len(images))
        completion = Completion(ids, tuple(range(300, 300 + REPLY)), tuple(-k / 7 for k in range(REPLY)), 0, "x" * 200)
        made.append(Step(observation, completion, images, "x" * 120, step.action))
    return Trajectory(f"t{number}", steps[0].task, tuple(made), 1.0, Status.FINISHED, "bench")


def _own(text: str) -> str:
    """The same text in memory of its own."""
    return text.encode().decode()


def _expanded(ids: Sequence[int], image_id: int, marker: int, images: int) -> tuple[int, ...]:
    """Placeholders expanded to `marker` ids for `images` images (an episode's first row shows one)."""
    expanded: list[int] = []
    left = images
    for token in ids:
        if token == image_id:
            expanded.extend([token] * (marker if left > 0 else 0))
            left -= 1
        else:
            expanded.append(token)
    return tuple(array("q", expanded))


def _copy(png: bytes, number: int) -> bytes:
    """The same picture with a comment, in front of the end of the file: other bytes, decoded alike."""
    body = b"tEXtComment\0" + str(number).encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:-12] + chunk + png[-12:]


# --- measuring -----------------------------------------------------------------------------------------------------


def deep_bytes(value: Any, seen: set[int] | None = None) -> int:
    """Bytes of memory that `value` and all it refers to take, each object once; in tuples of numbers, every number."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        parts: Any = [*value.keys(), *value.values()]
    elif isinstance(value, (tuple, list)):
        if value and isinstance(value[-1], (int, float)):
            return size + sum(map(sys.getsizeof, value))
        parts = value
    elif is_dataclass(value):
        parts = [getattr(value, f.name) for f in fields(value)]
    else:
        return size
    return size + sum(deep_bytes(part, seen) for part in parts)


def _sizes(replay: AdaptivePositiveReplay) -> list[int]:
    """Bytes of every screen held, once each."""
    entries = replay.state_dict()["entries"]
    screens = {id(png): len(png) for e in entries for s in e["trajectory"].steps for png in s.images}
    return list(screens.values())


def _drawing(replay: AdaptivePositiveReplay, seconds: float = 1.0) -> float:
    rng, count = random.Random(0), 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        count += len(replay.draw(MINI_BATCH, rng))
    return count / seconds


def _collating(model: Path, max_pixels: int, rows: Sequence[Row], threads: int, need: float) -> dict[str, Any]:
    """Micro-batches of two rows, from cold. With 1 thread `collate` makes the pictures, else others make them ahead."""
    codec = Codec.load(model, max_pixels)
    wall, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        ahead = _Ahead(pool, codec, [png for row in rows for png in row.images], 2 * threads)
        for i in range(0, len(rows), 2):
            part = rows[i : i + 2]
            if threads > 1:
                ahead.wait_for([png for row in part for png in row.images])
            codec.collate([r.prompt_ids + r.response_ids for r in part], [r.images for r in part], pad_left=True)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    speed = len(rows) / wall
    return {"threads": threads, "collated_rows_per_s": speed, "collated_rows_per_cpu_s": len(rows) / cpu,
            "times_the_need": speed / need}  # fmt: skip


class _Ahead:
    """Makes pictures in other threads, at most `depth` ahead of those that were waited for."""

    def __init__(self, pool: ThreadPoolExecutor, codec: Codec, images: Sequence[bytes], depth: int) -> None:
        self._left = iter(dict.fromkeys(images))
        self._submit: Callable[[bytes], Future[Any]] = lambda png: pool.submit(codec.pixels, png)
        self._depth = depth
        self._made: dict[bytes, Future[Any]] = {}

    def wait_for(self, images: Sequence[bytes]) -> None:
        for png in dict.fromkeys(images):
            while len(self._made) < self._depth and (ahead := next(self._left, None)) is not None:
                self._made[ahead] = self._submit(ahead)
            if png in self._made:  # else it was waited for with an earlier row
                self._made.pop(png).result()


def _rows_per_s(row: Row, per_screen: int) -> float:
    """Rows like this one that an update of NETWORK on DEVICE uses up; a screen has `per_screen` patches."""
    network = Network.of(published_config(NETWORK))
    flops = update_flops(network, len(row.prompt_ids), REPLY, [per_screen] * len(row.images))
    return UTILISATION * (peak_flops(DEVICE) or 0.0) / flops


def _patch_bytes(codec: Codec) -> int:
    """A patch's pixels as float32."""
    processor = codec.image_processor
    return 4 * 3 * processor.temporal_patch_size * processor.patch_size**2


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
