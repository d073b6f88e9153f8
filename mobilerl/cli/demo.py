"""`mobilerl demo`: lets the checkpoint that comes with the package play on embedded phones."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import load_recipe
from mobilerl.system.terminal import say

if TYPE_CHECKING:
    from mobilerl.envs.base import Observation
    from mobilerl.records import Step, Trajectory

RECIPE = "generated/adagrpo"
"""Recipe with the checkpoint and the suite whose tasks are played."""
EVALUATION = Path("eval/demo")


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "demo",
        parents=[common],
        allow_abbrev=False,
        help="let the shipped checkpoint play on embedded phones, and show its episodes",
        epilog="The checkpoint is a tiny model after SFT on generated apps, without RL. It plays one task of every "
        "template, held out from training and fixed by its seed.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="where the episodes go (default: runs/demo)"
    )
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="open the page in a browser (default: if there is a display)",
    )
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    from mobilerl.eval.policies import POLICY
    from mobilerl.models.checkpoint_folder import read_agent
    from mobilerl.records.files import load_trajectories
    from mobilerl.suites.evaluation import evaluate
    from mobilerl.suites.generated.evaluation import GeneratedPlan
    from mobilerl.viewer import build

    recipe = load_recipe(RECIPE, ["--phone.popup_rate", "0"])
    recipe = recipe.model_copy(update={"agent": read_agent(recipe.model)})
    plan = GeneratedPlan(split="dev", parts=("instances",))
    say(f"{recipe.model} plays one task of every template; this takes a minute on two cores")
    out = args.out / EVALUATION
    evaluate(recipe, plan, POLICY, recipe.model, out, replace=True, keep=True)
    [path] = out.glob("trajectories/*.jsonl")
    episodes = load_trajectories(path)
    solved = [number for number, episode in enumerate(episodes) if episode.success]
    shown = max(solved, key=lambda number: len(episodes[number].steps), default=0)
    print_episode(episodes[shown])
    above = "longest success" if solved else "first one"
    say(f"\n{len(solved)} of {len(episodes)} tasks were solved; above is the {above}")
    page = f"{build(args.out).resolve().as_uri()}#eval-000/{shown}"
    say(f"all episodes with their screens: {page}")
    has_display = sys.stdout.isatty() and bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if (has_display if args.open is None else args.open) and not webbrowser.open(page):
        raise ValueError(f"could not start a browser; open {page}")
    return 0


def print_episode(episode: Trajectory) -> None:
    """Prints the instruction, and the thought, action and result of each step."""
    say(f"\ntask: {episode.task.instruction}")
    results = [_change(step.observation, after.observation) for step, after in pairwise(episode.steps)]
    results.append(f"{episode.status}, reward {episode.reward:g}")
    for number, (step, result) in enumerate(zip(episode.steps, results, strict=True), start=1):
        say(f"\nstep {number}")
        say(f"  thought  {step.thought or '(none)'}")
        say(f"  action   {describe_action(step)}")
        say(f"  result   {step.note or result}")


def _change(before: Observation, after: Observation) -> str:
    if after.app != before.app:
        return f"{after.app} is open"
    return "the screen has changed" if after.xml != before.xml else "the screen is the same"


def describe_action(step: Step) -> str:
    """Returns the action in words, such as `tap (500, 120), Button "Save"`."""
    from mobilerl.policy.screen import parse_screen
    from mobilerl.viewer.steps import touched_element

    seen, fields = step.observation, asdict(step.action)
    kind, values = fields.pop("kind"), ", ".join(str(value) for value in fields.values())
    element = touched_element(parse_screen(seen.xml, seen.width, seen.height), asdict(step.action))
    return kind + (f" ({values})" if values else "") + (f", {element['class']} {element['text']!r}" if element else "")
