"""SFT on many recorded steps: that memory does not grow with them, and that a run that is killed has the same samples.

    python tests/e2e/many_steps.py FOLDER [--steps 120000]

writes recordings of that many steps in FOLDER, in the format of one's own recordings, and trains a tiny model on them
(stage 1 of `mobilerl sft`). The run is killed while it encodes samples and once more while it trains. Prints the most
memory of its own (RssAnon, without mapped files) that it had in either phase, and whether its samples are those of a
run that was not killed. Recordings that are there are used again.
It takes at least 10,000 steps, after which the number of encoded samples is first shown.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from mobilerl.envs.base import Action, Finish, Swipe, Tap
from mobilerl.models import tiny
from mobilerl.sft.sources.recordings import write
from mobilerl.sft.sources.schema import Demonstration, RecordedStep, recorded_task

LENGTH, SIZE, TRAINED_ON = 10, (90, 200), 1200
"""Steps of an episode, their screens in px, and samples that are trained on."""
XML = """<hierarchy><node class="Button" text="Save" clickable="true" bounds="[0,0][45,30]"/>
<node class="Button" text="Open {0}" clickable="true" bounds="[45,0][90,30]"/></hierarchy>"""
FLAGS = """--config base/tiny-model --stage 1 --sft.demos_per_template 0 --sft.reading_samples 0 --sft.batch_size 8
    --sft.checkpoint_every 10 --agent.screenshots 1 --engine.threads 1"""
ENCODED, SAVED = re.compile(r"(\d+) samples encoded"), "trainer/checkpoint-*/complete.json"


def screen(number: int) -> bytes:
    """A screenshot of about 4 kB, each another one."""
    pixels = np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).resize(SIZE, Image.Resampling.NEAREST).save(out, "PNG", compress_level=1)
    return out.getvalue()


def episodes(count: int) -> Iterator[tuple[Demonstration, str]]:
    for episode in range(count):
        actions: list[Action] = [Tap(200, 70), Swipe(499, 499, 499, 100)] * (LENGTH // 2 - 1) + [Tap(700, 70), Finish()]
        steps = tuple(
            RecordedStep(screen(LENGTH * episode + i), *SIZE, action, XML.format(episode % 50), True, "Notes")
            for i, action in enumerate(actions)
        )
        yield Demonstration(recorded_task("made", str(episode), f"Save note {episode % 97}", LENGTH), steps), "train"


class Run:
    """One start of `mobilerl sft`, with the most memory of its own in each phase, in MiB."""

    def __init__(self, folder: Path, name: str, epochs: float) -> None:
        self.job = folder / name / ".stage1.job"
        self.out = folder / f"{name}.log"
        source = f'[{{"format": "jsonl", "path": "{folder / "data"}"}}]'
        words = [*FLAGS.split(), "--model", str(folder / "model"), "--run-dir", str(folder / name)]
        words += ["--sft.sources", source, "--sft.stage1_epochs", str(epochs)]
        self.log = open(self.out, "ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mobilerl", "sft", *words], stdout=self.log, stderr=subprocess.STDOUT
        )
        self.most = {"encoding": 0.0, "training": 0.0}

    def until(self, enough: Callable[[], bool]) -> None:
        """Waits until the process has ended, or kills it when it has come far enough."""
        while self.process.poll() is None:
            phase = "training" if (self.job / "samples").is_dir() else "encoding"
            self.most[phase] = max(self.most[phase], self._own_memory())
            if enough():
                self.process.kill()
            time.sleep(0.2)
        self.log.close()

    def encoded(self) -> int:
        return max(map(int, ENCODED.findall(self.out.read_text())), default=0)

    def _own_memory(self) -> float:
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0.0
        found = re.search(r"RssAnon:\s*(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


def digest(job: Path) -> str:
    """Digest of the encoded samples and their images."""
    made = hashlib.sha256()
    for path in sorted((job / "samples").iterdir()):
        with open(path, "rb") as file:
            hashlib.file_digest(file, lambda: made)
    return made.hexdigest()[:16]


def check(folder: Path, count: int) -> None:
    epochs = TRAINED_ON / count
    straight = Run(folder, "straight", epochs)
    straight.until(lambda: (straight.job / "samples").is_dir())
    wanted = digest(straight.job)
    first = Run(folder, "killed", epochs)
    first.until(lambda: first.encoded() >= count // 2)
    second = Run(folder, "killed", epochs)
    second.until(lambda: any(second.job.glob(SAVED)))
    samples = digest(second.job)
    third = Run(folder, "killed", epochs)
    third.until(lambda: False)
    said = third.out.read_text()
    assert third.process.returncode == 0 and "stage1: resumed after step" in said, said[-2000:]
    most = {phase: max(run.most[phase] for run in (straight, first, second, third)) for phase in straight.most}
    print(f"{count} steps: " + ", ".join(f"{value:.0f} MiB while {phase}" for phase, value in most.items()))
    print("the samples of the killed run are", "the same" if samples == wanted else "OTHERS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=120_000)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if not (args.folder / "data").is_dir():
        write(episodes(args.steps // LENGTH), args.folder / "data")
    if not (args.folder / "model").is_dir():
        torch.manual_seed(0)
        tiny.create(args.folder / "model", [XML, "Save note Open"], hidden=32, layers=1, heads=1, vision_hidden=16)
    for name in ("straight", "killed"):
        shutil.rmtree(args.folder / name, ignore_errors=True)
        (args.folder / f"{name}.log").unlink(missing_ok=True)
    check(args.folder, args.steps)


if __name__ == "__main__":
    main()
