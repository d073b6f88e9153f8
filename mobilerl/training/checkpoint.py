"""Checkpoints: a Hugging Face model folder with the trainer's whole state, committed by one rename.

    checkpoints/iter-000010/
        config.json, model.safetensors, tokenizer..., preprocessor_config.json, agent.json
        trainer.pt       optimizer, version and torch RNG (the engine's)
        state.json       iteration, curriculum, Python RNG, counters, replay's order
        critic.pt        value functions and their optimisers, if the algorithm has any
        replay.jsonl     trajectories of the replay buffer; their screens in screens/

A folder without `state.json`, which is written last, or whose name starts with a dot is incomplete. `state.json` lists
the size and the digest (XXH3, 128 bit) of every other file and ends with its own, so that damage is noticed before
anything is read. Folders with other names than `iter-` and the iteration are never touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Annotated, Any

import xxhash
from pydantic import ConfigDict, Field

from mobilerl.config import AgentSection, ConfigError, validate
from mobilerl.config.types import Count, Section, Weight
from mobilerl.models.checkpoint_folder import STATE_FILE, checkpoints, folder_name, latest, save_agent
from mobilerl.records.engine import Engine, EngineError
from mobilerl.records.files import read_records, trajectory_from_dict, trajectory_to_dict
from mobilerl.records.screens import ScreenFolder
from mobilerl.system.atomic_files import remove_leftovers, sync_folder, sync_path

if TYPE_CHECKING:
    from mobilerl.algorithms.base import Algorithm
    from mobilerl.training.tasks import TaskSampler

SCHEMA = 2
REPLAY_FILE = "replay.jsonl"
CRITIC_FILE = "critic.pt"
SCREENS = "screens"
DAMAGED = (LookupError, ValueError, TypeError, AttributeError, OverflowError, RuntimeError)
"""Exceptions that loading an impossible value may raise."""
_TEMPORARY = re.compile(r"\.iter-\d{6,18}(\.old)?\.tmp", re.ASCII)
_Name = Annotated[str, Field(max_length=255)]


class SavedState(Section):
    """The fields of state.json."""

    model_config = ConfigDict(extra="ignore", strict=True)

    iteration: Count
    files: dict[_Name, Count]
    digests: dict[_Name, str] = {}
    """Missing in checkpoints of version 0.1."""
    replay: dict[str, Any] | None
    elapsed_s: Weight
    env_steps: Count
    sampler: dict[str, Any]
    rng: list[Any]


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read; the message is one line with the fix."""


def save(
    run_dir: Path,
    iteration: int,
    engine: Engine,
    agent: AgentSection,
    algorithm: Algorithm | None,
    state: Mapping[str, Any],
    keep: int,
) -> Path:
    """Writes a checkpoint to a temporary folder, syncs and renames it, then deletes all but the newest `keep`.

    `state` holds `elapsed_s`, `env_steps`, `sampler` and `rng`. A failure before the rename (a full disk, a kill)
    leaves the earlier checkpoints untouched. Raises CheckpointError if the files cannot be written.
    """
    parent = run_dir / "checkpoints"
    final, temporary = parent / folder_name(iteration), parent / f".{folder_name(iteration)}.tmp"
    try:
        clean(run_dir)
        temporary.mkdir(parents=True)
        engine.save(temporary)
        save_agent(agent, temporary)
        replay = _write_algorithm(temporary, algorithm) if algorithm is not None else None
        files = _files(temporary)
        content = {
            **{"schema": SCHEMA, "iteration": iteration, "files": {n: p.stat().st_size for n, p in files.items()}},
            **{"digests": {n: _digest(p) for n, p in files.items()}, "replay": replay, **state},
        }
        (temporary / STATE_FILE).write_text(json.dumps(content | {"digest": _digest_of(content)}))
        sync_folder(temporary)
        if final.exists():
            _discard(final)
        os.rename(temporary, final)
        sync_path(parent)
    except Exception as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, EngineError) or not _is_disk_error(error):
            raise
        raise CheckpointError(
            f"checkpoint {final} could not be written ({_reason(error)}); "
            f"{left_of(run_dir)}: free disk space, then use --resume"
        ) from error
    for old in checkpoints(run_dir)[:-keep]:
        _discard(old)
    return final


def left_of(run_dir: Path) -> str:
    """What an error leaves of a run, in words."""
    last = latest(run_dir)
    return f"{last} is intact" if last else "there is no earlier checkpoint"


def _is_disk_error(error: Exception) -> bool:
    """Whether a write failed: torch raises a RuntimeError for that, the tokenizers library a plain Exception."""
    from safetensors import SafetensorError

    return isinstance(error, (OSError, RuntimeError, SafetensorError)) or type(error) is Exception


def _reason(error: BaseException) -> str:
    """The operating system's error if a library wrapped it in its own, else the message of `error`."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split()) or type(error).__name__


def _discard(folder: Path) -> None:
    """Deletes a checkpoint. It is renamed first: a partly deleted one must not look complete."""
    rest = folder.with_name(f".{folder.name}.old.tmp")
    os.rename(folder, rest)
    shutil.rmtree(rest)


def _files(folder: Path) -> dict[str, Path]:
    """Maps relative paths to files, leaving out the screens, whose names are their digests."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and SCREENS not in p.relative_to(folder).parts)
    return {str(p.relative_to(folder)): p for p in files}


def _digest(path: Path) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, xxhash.xxh3_128).hexdigest()


def _digest_of(content: Mapping[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(content).encode())


def clean(run_dir: Path) -> None:
    """Removes incomplete checkpoints and files that a killed process left in the run directory."""
    for rest in (run_dir / "checkpoints").glob(".iter-*.tmp"):
        if _TEMPORARY.fullmatch(rest.name):
            shutil.rmtree(rest)
    for name in ("", "trajectories", "advantages", "shaped_rewards", SCREENS):
        remove_leftovers(run_dir / name)


def read_state(folder: Path) -> dict[str, Any]:
    """Reads state.json and checks all files. Raises CheckpointError unless they are complete and of this version."""
    state = read_state_file(folder)
    for name, size in state["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            found = f"has {path.stat().st_size} of {size} bytes" if path.is_file() else "is missing"
            raise CheckpointError(f"{path} {found}; {_fix(folder)}")
    for name, digest in state.get("digests", {}).items():
        if _digest(folder / name) != digest:
            raise CheckpointError(f"{folder / name} is damaged: its content has another digest; {_fix(folder)}")
    return state


def read_state_file(folder: Path) -> dict[str, Any]:
    """Reads state.json alone. Raises CheckpointError unless it is complete and of this version."""
    try:
        state = json.loads((folder / STATE_FILE).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{folder / STATE_FILE} cannot be read ({error}); {_fix(folder)}") from None
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        raise CheckpointError(
            f"{folder / STATE_FILE} was written by another version of mobilerl (schema is not {SCHEMA}): "
            f"resume with that version, or start a new run with another --run-dir"
        )
    if (digest := state.pop("digest", None)) is not None and digest != _digest_of(state):
        raise CheckpointError(f"{folder / STATE_FILE} is damaged: its content has another digest; {_fix(folder)}")
    try:
        validate(SavedState, state, str(folder / STATE_FILE))
    except ConfigError as error:
        raise CheckpointError(f"{error}; {_fix(folder)}") from None
    return state


def _fix(folder: Path) -> str:
    return f"delete {folder} to resume from the checkpoint before it"


def load_engine(folder: Path, engine: Engine) -> None:
    """Loads the engine's state. Raises CheckpointError if it is damaged or belongs to a model of another shape."""
    try:
        engine.load(folder)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} is damaged or foreign: {_reason(error)}; {_fix(folder)}") from error


def _write_algorithm(folder: Path, algorithm: Algorithm) -> dict[str, Any] | None:
    """Writes trajectories to replay.jsonl and tensors to critic.pt; returns the rest of the replay buffer's state."""
    state = algorithm.state_dict()
    if state.tensors:
        import torch

        torch.save(state.tensors, folder / CRITIC_FILE)
    if state.replay is None:
        return None
    screens = ScreenFolder(folder / SCREENS, sync=False)  # `save` syncs the whole checkpoint
    with open(folder / REPLAY_FILE, "w") as f:
        for entry in state.replay["entries"]:
            f.write(json.dumps(trajectory_to_dict(entry["trajectory"], screens)) + "\n")
    rest = [{k: v for k, v in entry.items() if k != "trajectory"} for entry in state.replay["entries"]]
    return {**state.replay, "entries": rest}


def load_algorithm(folder: Path, state: Mapping[str, Any], algorithm: Algorithm) -> None:
    """Loads the state from a checkpoint with state.json `state`. Raises CheckpointError if it is damaged or foreign."""
    from mobilerl.algorithms.base import AlgorithmState

    tensors = _read_tensors(folder / CRITIC_FILE) if CRITIC_FILE in state["files"] else {}
    try:
        algorithm.load_state_dict(AlgorithmState(_read_replay(folder, state["replay"]), tensors))
    except DAMAGED as error:
        raise CheckpointError(
            f"{folder} is not of this algorithm or damaged: {_reason(error)}; {_fix(folder)}"
        ) from error


def load_sampler(folder: Path, state: Mapping[str, Any], sampler: TaskSampler, rng: random.Random) -> None:
    """Restores the curriculum and the RNG from state.json. Raises CheckpointError for impossible values."""
    for name, load in (("sampler", sampler.load_state_dict), ("rng", partial(rng_from_json, rng))):
        try:
            load(state[name])
        except DAMAGED as error:
            raise CheckpointError(f"{folder / STATE_FILE}: {name}: {_reason(error)}; {_fix(folder)}") from error


def _read_replay(folder: Path, saved: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if saved is None:
        return None
    screens = ScreenFolder(folder / SCREENS)
    try:
        records = [record for _, record in read_records(folder / REPLAY_FILE)]
        trajectories = [trajectory_from_dict(record, screens) for record in records]
        entries = [{**e, "trajectory": t} for e, t in zip(saved["entries"], trajectories, strict=True)]
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / REPLAY_FILE} is damaged ({error}); {_fix(folder)}") from None
    return {**saved, "entries": entries}


def _read_tensors(path: Path) -> dict[str, Any]:
    import torch

    try:
        return torch.load(path, weights_only=True)
    except (OSError, RuntimeError, EOFError, UnpicklingError) as error:
        raise CheckpointError(f"{path} is damaged: {_reason(error)}; {_fix(path.parent)}") from error


def rng_to_json(rng: random.Random) -> list[Any]:
    version, words, gauss = rng.getstate()
    return [version, list(words), gauss]


def rng_from_json(rng: random.Random, saved: list[Any]) -> None:
    rng.setstate((saved[0], tuple(saved[1]), saved[2]))
