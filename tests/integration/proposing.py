"""Stage 2's proposing on made steps of a recording, as a process that may be killed, and its speed:

    python tests/integration/proposing.py [--steps 400] [--candidates 8] [--concurrency 64] [--delay 2]

asks a server that answers after `delay` seconds, in a process of its own, and prints how many proposals came per second
and how many could have. With --url it asks the server there and writes what was kept to --run-dir.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.append(str(Path(__file__).parents[1]))

from http_stand_in import ChatServer, text_of  # noqa: E402

from mobilerl.config import Recipe  # noqa: E402
from mobilerl.envs.base import Observation, Tap, Task  # noqa: E402
from mobilerl.policy.context import make_context  # noqa: E402
from mobilerl.policy.screen import parse_screen  # noqa: E402
from mobilerl.sft.proposal_log import log_of  # noqa: E402
from mobilerl.sft.proposers import reasoned  # noqa: E402
from mobilerl.sft.samples import ExpertStep  # noqa: E402

XML = """<hierarchy>
<node class="Button" text="Save" clickable="true" bounds="[0,0][500,300]"/>
<node class="Button" text="Delete" clickable="true" bounds="[500,0][1000,300]"/>
</hierarchy>"""
SAVE, DELETE = "[0,0,462,125]", "[463,0,925,125]"
"""Boxes on a screen of 1080 x 2400 px."""
KEPT = 4
"""One of so many steps is answered with another action."""
READY = "ready"
"""Answer to the first request, which is to show whether the server works."""


def made_steps(count: int, width: int, height: int) -> Iterator[ExpertStep]:
    """Recorded steps, each with a screenshot of its own."""
    screen = parse_screen(XML, 1080, 2400)
    for number in range(count):
        out = io.BytesIO()
        Image.new("RGB", (width, height), (number % 256, number // 256 % 256, 90)).save(out, "PNG")
        task = Task(f"made/{number}", "made", f"Save note {number}.", {}, 0, 1, "made")
        yield ExpertStep(task, (), Observation(out.getvalue(), 1080, 2400, XML, "Notes", 0), screen, Tap(200, 60))


def answer(request: dict[str, Any]) -> str:
    """Depends on the step alone, so that it is the same when asked again."""
    asked = "".join(map(text_of, request["messages"]))
    if "Save note " not in asked:
        return READY
    number = int(asked.partition("Save note ")[2].partition(".")[0])
    box = DELETE if number % KEPT == 0 else SAVE
    return f'<think>save note {number}</think><answer>do(action="Tap", element={box})</answer>'


class SlowServer(ChatServer):
    """Proposes after `delay` seconds; answers a first request, which is none for a proposal, at once."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        super().__init__(self.answer_late)

    def answer_late(self, request: dict[str, Any]) -> str:
        text = answer(request)
        time.sleep(self.delay if text != READY else 0)
        return text


def propose(url: str, run_dir: Path, steps: int, candidates: int, concurrency: int, size: tuple[int, int]) -> list[str]:
    """The thoughts that were kept."""
    settings = {"proposer_url": url, "proposer_model": "vlm", "candidates": candidates}
    recipe = Recipe(sft={**settings, "proposer_concurrency": concurrency})
    made = made_steps(steps, *size)
    return [thought for _, thought in reasoned(recipe, 1, run_dir, Path(), make_context(recipe.agent), [], made)]


def serve(delay: float, ready: Connection) -> None:
    ready.send(SlowServer(delay).url)
    time.sleep(1e9)


def measure(steps: int, candidates: int, concurrency: int, delay: float, size: tuple[int, int]) -> None:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(delay, theirs), daemon=True)
    server.start()
    url = ours.recv()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        propose(url, Path(folder), steps, candidates, concurrency, size)
        seconds = time.monotonic() - began
        count = len(log_of(Path(folder), "stage2-round1").read_bytes().splitlines())
    server.kill()
    speed, most = count / seconds, concurrency / delay
    print(f"{count} proposals in {seconds:.1f} s: {speed:.1f} per second, {speed / most:.0%} of {most:g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--delay", type=float, default=2.0)
    parser.add_argument("--size", type=int, nargs=2, default=(1080, 2400))
    parser.add_argument("--url")
    parser.add_argument("--run-dir", type=Path)
    args = parser.parse_args()
    shared = (args.steps, args.candidates, args.concurrency)
    if args.url:
        kept = propose(args.url, args.run_dir, *shared, args.size)
        (args.run_dir / "kept.json").write_text(json.dumps(kept))
    else:
        measure(*shared, args.delay, args.size)


if __name__ == "__main__":
    main()
