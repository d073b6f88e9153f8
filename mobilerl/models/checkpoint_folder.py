"""Checks and JSON files of checkpoint folders. Imports neither torch nor transformers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mobilerl.config import AgentSection, ConfigError, validate
from mobilerl.config.reading import LOCK_FILE
from mobilerl.config.renamed import REMOVED
from mobilerl.models.adapter_folder import ADAPTER_FILE, ADAPTER_WEIGHTS, BASE, adapter_base, is_adapter

MAX_PIXELS = "mobilerl_max_pixels"
"""Key in the image processor's file for the `engine.max_pixels` of the training run."""
STATE_FILE = "state.json"
"""The file that is written last into a checkpoint of a training run."""
AGENT_FILE = "agent.json"
"""The file with the agent settings that the model was trained with."""

PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
QUANTIZED = ("quantization_config", "compression_config", "quantization")
"""Keys in config.json of transformers, older versions of compressed-tensors, and MLX."""
QUANTIZED_FILES = ("quantize_config.json", "quant_config.json", "hf_quant_config.json")
"""Files of GPTQ, AWQ and ModelOpt."""


def one_line(error: BaseException) -> str:
    """The message of an error on one line, for use in another message."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def check_checkpoint(path: str | Path) -> None:
    """Raises ConfigError unless `path` is a Hugging Face model folder: full weights, or an adapter with its base model.

    Nothing is loaded or downloaded, so a base model on the Hub is not checked.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ConfigError(
            f"there is no checkpoint folder {path}: `mobilerl sft --config sft` makes one, and a model on the Hub is "
            "given as ORG/NAME"
        )
    if is_adapter(folder):
        base = adapter_base(folder)
        _check_weights(folder, ADAPTER_WEIGHTS)
        if Path(base).is_dir():
            try:
                check_checkpoint(base)
            except ConfigError as error:
                raise ConfigError(f"{folder / ADAPTER_FILE}: {BASE}, the base model: {error}") from None
        return
    check_quantization(folder)
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{path} has no config.json: it is not a Hugging Face model folder")
    _check_weights(folder, "*.safetensors")


def _check_weights(folder: Path, pattern: str) -> None:
    if any(folder.glob(pattern)):
        return
    if (folder / LOCK_FILE).is_file():
        raise ConfigError(f"{folder} is the directory of a run that has no checkpoint yet: wait for its first one")
    if pickled := next((file for kind in ("bin", "pt", "pth") for file in sorted(folder.glob(f"*.{kind}"))), None):
        raise ConfigError(
            f"{folder} has no {pattern} weights, and {pickled.name} is pickled, which is not read: save the model "
            "again with `save_pretrained`, which writes *.safetensors"
        )
    raise ConfigError(f"{folder} has no {pattern} weights: the checkpoint is incomplete; use an earlier one")


def check_quantization(folder: Path) -> None:
    """Raises ConfigError for a quantized checkpoint (AWQ, GPTQ, bitsandbytes, compressed-tensors, FP8, GGUF, MLX)."""
    try:
        config = json.loads((folder / "config.json").read_text())
        sections = [config, config.get("text_config") or {}]
        found = next(((key, s[key]) for s in sections for key in QUANTIZED if s.get(key)), None)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):  # reported where the file is needed
        found = None
    if found:
        key, settings = found
        method = settings.get("quant_method", key) if isinstance(settings, dict) else key
        what = f"{folder / 'config.json'}: {key} says that the weights are quantized ({method})"
    elif file := _quantized_file(folder):
        what = f"{file}: the weights are quantized"
    else:
        return
    raise ConfigError(
        f"{what}, and quantized weights can be neither trained nor sampled from here: use the model in 16 bits that "
        "they were made from, or evaluate them behind a model server (--model http://HOST:PORT/v1)"
    )


def _quantized_file(folder: Path) -> Path | None:
    if file := next((folder / name for name in QUANTIZED_FILES if (folder / name).is_file()), None):
        return file
    return None if any(folder.glob("*.safetensors")) else next(folder.glob("*.gguf"), None)


def save_agent(agent: AgentSection, folder: Path) -> None:
    (folder / AGENT_FILE).write_text(agent.model_dump_json(indent=2) + "\n")


def read_agent(folder: str | Path) -> AgentSection | None:
    """Agent settings saved with a checkpoint, or with the base model that an adapter was trained on with another tool.

    None if it has none. Raises ConfigError for a damaged file.
    """
    path = Path(folder) / AGENT_FILE
    if not path.is_file():
        base = adapter_base(folder) if is_adapter(folder) else ""
        return read_agent(base) if Path(base, AGENT_FILE).is_file() else None
    try:
        saved = json.loads(path.read_text())
        if isinstance(saved, dict):
            saved = {name: value for name, value in saved.items() if f"agent.{name}" not in REMOVED}
        return validate(AgentSection, saved, str(path))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is damaged: {error}") from None


def image_settings(path: Path) -> dict[str, Any] | None:
    """Settings of the image processor; None without a file. Raises ConfigError for a damaged file."""
    file = next((path / name for name in PROCESSOR_FILES if (path / name).is_file()), None)
    if file is None:
        return None
    try:
        settings = json.loads(file.read_text())
        return settings.get("image_processor", settings)
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read ({error}); copy it from the model the weights are from") from None


def chat_template(folder: str | Path) -> str | None:
    """The chat template in a file of its own; None without one."""
    template, old = Path(folder) / "chat_template.jinja", Path(folder) / "chat_template.json"
    if template.is_file():
        return template.read_text()
    return json.loads(old.read_text())["chat_template"] if old.is_file() else None  # before transformers 4.52


def generation_ends(path: Path) -> tuple[int, ...]:
    """End-of-response tokens listed in generation_config.json."""
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


def model_of_run(path: Path) -> Path:
    """The newest complete checkpoint or the final model of a run directory; `path` itself if it is not one."""
    final = path / "final"
    return latest(path) or (final if final.is_dir() else path)


def latest(run_dir: Path) -> Path | None:
    """Newest complete checkpoint of a run; None if it has none."""
    return next((path for path in reversed(checkpoints(run_dir)) if (path / STATE_FILE).is_file()), None)
