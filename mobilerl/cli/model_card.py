"""Model card of a trained model: the README.md in its folder that the Hugging Face Hub shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mobilerl import __version__
from mobilerl.atomic_files import write_atomic
from mobilerl.config import ConfigError, Recipe, read_saved
from mobilerl.config.reading import CONFIG_FILE, differences
from mobilerl.eval.policies import find_model, weights_digest
from mobilerl.eval.report import percent
from mobilerl.models.checkpoint_folder import read_agent
from mobilerl.models.hub import is_hub_id
from mobilerl.policy.formats.choice import published_name
from mobilerl.redaction import without_users
from mobilerl.viewer.evaluations import evaluations_of

CARD = "README.md"
_OF_RESULTS = ("prompt_hash", "model", "weights_sha256")
"""Parts of a protocol that the card gives elsewhere or that are meaningful only on this machine."""


def write_card(run_dir: Path, name: str, license_id: str | None) -> Path:
    """Writes the card into the folder of the run's model and returns the folder. Raises ConfigError without a model."""
    if not is_hub_id(name):
        raise ConfigError(f"--to {name}: a name on the Hub is ORG/NAME, of letters, digits, '-', '_' and '.'")
    folder = find_model(run_dir)
    recipe = read_saved(run_dir / CONFIG_FILE) if folder != run_dir and (run_dir / CONFIG_FILE).is_file() else None
    lines = [*_header(recipe, license_id), *_introduction(name, folder, recipe), *_results(run_dir, folder)]
    if recipe is not None:
        lines += ["## Training", "", "Settings that differ from the defaults:", "", *_settings(recipe), ""]
    write_atomic(folder / CARD, "\n".join(lines).encode())
    return folder


def _base(recipe: Recipe | None) -> str:
    """Name of the model that the run started from; "" for a tiny one or if unknown."""
    return published_name(recipe.model).strip() if recipe is not None and recipe.model else ""


def _header(recipe: Recipe | None, license_id: str | None) -> Iterator[str]:
    """Metadata of the card. It names a base model only if that is on the Hub."""
    yield "---"
    if license_id:
        yield f"license: {json.dumps(license_id)}"
    if is_hub_id(base := _base(recipe)):
        yield f"base_model: {base}"
    yield from ("library_name: transformers", "pipeline_tag: image-text-to-text")
    yield from ("tags:", "- mobilerl", "- gui-agent", "- reinforcement-learning", "---", "")


def _introduction(name: str, folder: Path, recipe: Recipe | None) -> Iterator[str]:
    agent = read_agent(folder)
    format_ = (agent and agent.format) or "mobilerl"
    base = f", from {_base(recipe)}" if is_hub_id(_base(recipe)) else ""
    yield from (f"# {name.partition('/')[2]}", "")
    yield from (f"A phone-using agent trained with mobilerl {__version__}{base}.", "")
    yield from (f"Prompts and replies are in the format `{format_}`; `agent.json` has the agent's settings.", "")
    yield from (f"    mobilerl eval sim --model {name} --out results", "")


def _results(run_dir: Path, folder: Path) -> Iterator[str]:
    evaluations = evaluations_of(run_dir)
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
        yield from (f"- {key}: {_shown(value)}" for key, value in e["protocol"].items() if key not in _OF_RESULTS)
        yield ""


def _settings(recipe: Recipe) -> Iterator[str]:
    values = recipe.model_dump(mode="json")
    for name in differences(Recipe(), recipe):
        if name != "model":
            value: Any = values
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            yield f"- `{name}`: {_shown(value)}"


def _shown(value: Any) -> str:
    """A value as JSON, with absolute paths reduced to their last part and addresses without credentials."""
    if isinstance(value, str):
        return without_users(Path(value).name if value.startswith("/") else value)
    if isinstance(value, Mapping):
        return json.dumps({key: _shown(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    return json.dumps(value)
