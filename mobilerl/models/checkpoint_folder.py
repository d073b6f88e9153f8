"""Checks and JSON files of checkpoint folders. Imports neither torch nor transformers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mobilerl.config import AgentSection, ConfigError, validate

MAX_PIXELS = "mobilerl_max_pixels"
"""Key in the image processor's file for the `engine.max_pixels` of the training run."""
STATE_FILE = "state.json"
"""The file that is written last into a checkpoint of a training run."""
AGENT_FILE = "agent.json"
"""The file with the agent settings that the model was trained with."""


def one_line(error: Exception) -> str:
    """The message of an error on one line, for use in another message."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def check_checkpoint(path: str | Path) -> None:
    """Raises ConfigError unless `path` is a Hugging Face model folder."""
    folder = Path(path)
    if not folder.is_dir():
        raise ConfigError(
            f"there is no checkpoint folder {path}: `mobilerl sft --config sft` makes one, and a model on the Hub is "
            "given as ORG/NAME"
        )
    if not ((folder / "config.json").is_file() or (folder / "adapter_config.json").is_file()):
        raise ConfigError(f"{path} has no config.json: it is not a Hugging Face model folder")
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(f"{path} has no *.safetensors weights: the checkpoint is incomplete; use an earlier one")


def save_agent(agent: AgentSection, folder: Path) -> None:
    (folder / AGENT_FILE).write_text(agent.model_dump_json(indent=2) + "\n")


def read_agent(folder: str | Path) -> AgentSection | None:
    """Agent settings saved with a checkpoint; None if it has none. Raises ConfigError for a damaged file."""
    path = Path(folder) / AGENT_FILE
    if not path.is_file():
        return None
    try:
        return validate(AgentSection, json.loads(path.read_text()), str(path))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is damaged: {error}") from None


def image_settings(path: Path) -> dict[str, Any] | None:
    """Settings of the image processor; None without a file. Raises ConfigError for a damaged file."""
    names = ("preprocessor_config.json", "processor_config.json")
    file = next((path / name for name in names if (path / name).is_file()), None)
    if file is None:
        return None
    try:
        settings = json.loads(file.read_text())
        return settings.get("image_processor", settings)
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read ({error}); copy it from the model the weights are from") from None


def generation_ends(path: Path) -> tuple[int, ...]:
    """End-of-reply tokens listed in generation_config.json."""
    file = path / "generation_config.json"
    ends = json.loads(file.read_text()).get("eos_token_id") if file.is_file() else None
    return tuple(ends) if isinstance(ends, list) else () if ends is None else (ends,)


def folder_name(iteration: int) -> str:
    return f"iter-{iteration:06d}"


def iteration_of(name: str) -> int | None:
    """Iteration in the name of a folder or file; None for other names, such as `iter-best`."""
    found = re.fullmatch(r"iter-(\d{6,18})", name, re.ASCII)
    return int(found[1]) if found and name == folder_name(int(found[1])) else None


def checkpoints(run_dir: Path) -> list[Path]:
    """Checkpoint folders of a run, oldest first, complete or not."""
    found = {iteration_of(path.name): path for path in (run_dir / "checkpoints").glob("iter-*")}
    return [found[number] for number in sorted(n for n in found if n is not None)]


def latest(run_dir: Path) -> Path | None:
    """Newest complete checkpoint of a run; None if it has none."""
    return next((path for path in reversed(checkpoints(run_dir)) if (path / STATE_FILE).is_file()), None)
