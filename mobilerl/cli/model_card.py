"""Model card of a trained model: the README.md in its folder that the Hugging Face Hub shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl import __version__
from mobilerl.cli import published
from mobilerl.config import Recipe, read_saved
from mobilerl.config.reading import CONFIG_FILE
from mobilerl.config.suite import suite_name
from mobilerl.eval.policies import weights_digest
from mobilerl.eval.report import percent
from mobilerl.models.checkpoint_folder import read_agent
from mobilerl.models.hub_names import is_hub_id
from mobilerl.models.text_models import holds_text_model
from mobilerl.policy.formats.choice import published_name
from mobilerl.suites.command import eval_commands
from mobilerl.system.atomic_files import write_atomic
from mobilerl.viewer.evaluations import evaluations_of

CARD = "README.md"


def write_card(run_dir: Path, folder: Path, name: str, base: str, license_id: str | None) -> None:
    """Writes the card of the model in `folder`, of the run `run_dir`, that is to be `name` on the Hub.

    `base` is the Hub id of an adapter's base model; "" for full weights.
    """
    recipe = read_saved(run_dir / CONFIG_FILE) if folder != run_dir and (run_dir / CONFIG_FILE).is_file() else None
    evaluations = evaluations_of(run_dir)
    trained_on = [suite_name(type(recipe.suite))] if recipe is not None else []
    suites = dict.fromkeys([*trained_on, *(e["suite"] for e in evaluations)])
    lines = [*_header(folder, base, recipe, license_id), *_introduction(name, folder, base or _start(recipe))]
    lines += _commands(name, suites)
    lines += _results(evaluations, folder)
    if recipe is not None:
        lines += ["## Training", "", "Settings that differ from the defaults:", ""]
        lines += [*(f"- `{key}`: {_format_value(value)}" for key, value in published.settings(recipe).items()), ""]
    write_atomic(folder / CARD, "\n".join(lines).encode())


def _start(recipe: Recipe | None) -> str:
    """Hub id of the model that the run started from; "" if it is not on the Hub or unknown."""
    name = published_name(recipe.model).strip() if recipe is not None and recipe.model else ""
    return name if is_hub_id(name) else ""


def _header(folder: Path, base: str, recipe: Recipe | None, license_id: str | None) -> Iterator[str]:
    """Metadata of the card. It names a base model only if that is on the Hub."""
    yield "---"
    if license_id:
        yield f"license: {json.dumps(license_id)}"
    if start := base or _start(recipe):
        yield f"base_model: {start}"
    task = "text-generation" if holds_text_model(folder) else "image-text-to-text"
    yield from (f"library_name: {'peft' if base else 'transformers'}", f"pipeline_tag: {task}")
    yield from ("tags:", "- mobilerl", "- gui-agent", "- reinforcement-learning", "---", "")


def _introduction(name: str, folder: Path, start: str) -> Iterator[str]:
    agent = read_agent(folder)
    format_ = (agent and agent.format) or "mobilerl"
    origin = f", from {start}" if start else ""
    yield from (f"# {name.partition('/')[2]}", "")
    yield from (f"A phone-using agent trained with mobilerl {__version__}{origin}.", "")
    yield from (f"Prompts and responses are in the format `{format_}`; `agent.json` has the agent's settings.", "")


def _commands(name: str, suites: Iterable[str]) -> Iterator[str]:
    """The commands that evaluate the model, each on a suite of its own."""
    commands = eval_commands()
    known = [commands[suite] for suite in suites if suite in commands]
    if known:
        words = (filter(None, ["mobilerl eval", command.name, command.required]) for command in known)
        yield from (*(f"    {' '.join(called)} --model {name} --out results" for called in words), "")


def _results(evaluations: Sequence[Mapping[str, Any]], folder: Path) -> Iterator[str]:
    if not evaluations:
        return
    digest = weights_digest(folder)
    yield from ("## Results", "")
    yield from (
        "| suite | evaluation | weights | success rate | 95 % interval | successes / trials |",
        "|---" * 6 + "|",
    )
    for e in evaluations:
        measured = e["protocol"].get("weights_sha256")
        weights = "not recorded" if measured is None else "these" if measured == digest else "others"
        interval = " to ".join(map(percent, e["ci95"]))
        rate, counts = percent(e["success_rate"]), f"{e['successes']} / {e['trials']}"
        yield f"| {e['suite']} | {e['name']} | {weights} | {rate} | {interval} | {counts} |"
    yield ""
    for e in evaluations:
        yield from (f"### Protocol of {e['name']}", "")
        yield from (f"- {key}: {_format_value(value)}" for key, value in published.protocol(e["protocol"]).items())
        yield ""


def _format_value(value: Any) -> str:
    """A value as JSON, lists as words."""
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, list):
        return ", ".join(map(_format_value, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value)
