"""Checkpoints: a Hugging Face model folder with the trainer's whole state, put in place by one rename.

    checkpoints/iter-000010/
        config.json, model.safetensors, tokenizer..., preprocessor_config.json, agent.json
        trainer.pt       optimiser, version and torch RNG (the engine's)
        state.json       iteration, curriculum, Python RNG, counters, replay's order
        critic.pt        value functions and their optimisers, where the recipe has some
        replay.jsonl     replayed trajectories; their screens in screens/

A folder that lacks `state.json`, which is written last, or whose name starts with a dot was never finished.
`state.json` lists the size of every other file, so that one that was cut short is noticed before it is read.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from mobilerl.algorithms.replay import Replay
from mobilerl.atomic_files import remove_leftovers, sync_folder, sync_path
from mobilerl.config import AgentSection
from mobilerl.engines.base import Engine, EngineError
from mobilerl.screen_files import ScreenFolder
from mobilerl.setup import save_agent
from mobilerl.trajectory_files import read_records, trajectory_from_dict, trajectory_to_dict

if TYPE_CHECKING:
    from mobilerl.train.critics import Critic

SCHEMA = 1
STATE_FILE = "state.json"
REPLAY_FILE = "replay.jsonl"
CRITIC_FILE = "critic.pt"
SCREENS = "screens"
NEEDED = frozenset({"iteration", "files", "replay", "elapsed_s", "env_steps", "sampler", "rng"})
"""Fields of state.json, beside its schema."""


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read; the message is one line with the cure."""


def folder_name(iteration: int) -> str:
    return f"iter-{iteration:06d}"


def latest(run_dir: Path) -> Path | None:
    """The newest finished checkpoint of a run."""
    done = [p for p in (run_dir / "checkpoints").glob("iter-*") if (p / STATE_FILE).is_file()]
    return max(done, default=None)


def save(run_dir: Path, iteration: int, engine: Engine, agent: AgentSection, replay: Replay | None,
         critic: Critic | None, state: Mapping[str, Any], keep: int) -> Path:  # fmt: skip
    """Writes everything beside its final place, syncs it, and renames; then drops all but the newest `keep`.

    `state`: `elapsed_s`, `env_steps`, `sampler` and `rng`. Whatever goes wrong before the rename (a full disk, a kill)
    leaves the earlier checkpoints as they were.
    """
    parent = run_dir / "checkpoints"
    final, temporary = parent / folder_name(iteration), parent / f".{folder_name(iteration)}.tmp"
    try:
        clean(run_dir)
        temporary.mkdir(parents=True)
        engine.save(temporary)
        save_agent(agent, temporary)
        entries = _write_replay(temporary, replay) if replay is not None else None
        if critic is not None:
            import torch

            torch.save(critic.state_dict(), temporary / CRITIC_FILE)
        content = {"schema": SCHEMA, "iteration": iteration, "files": _sizes(temporary), "replay": entries, **state}
        (temporary / STATE_FILE).write_text(json.dumps(content))
        sync_folder(temporary)
        if final.exists():
            _discard(final)
        os.rename(temporary, final)
        sync_path(parent)
    except Exception as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, EngineError) or not _is_disks(error):
            raise
        last = latest(run_dir)
        raise CheckpointError(
            f"checkpoint {final} could not be written ({_reason(error)}); "
            f"{f'{last} is intact' if last else 'there is no earlier one'}: make room, then go on with --resume"
        ) from error
    for old in sorted(p for p in parent.glob("iter-*"))[:-keep]:
        _discard(old)
    return final


def _is_disks(error: Exception) -> bool:
    """torch reports a write that failed as a RuntimeError, the tokenizers library as an Exception of no class."""
    from safetensors import SafetensorError

    return isinstance(error, (OSError, RuntimeError, SafetensorError)) or type(error) is Exception


def _reason(error: BaseException) -> str:
    """What the operating system said, where a library covered it with an error of its own."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split()) or type(error).__name__


def _discard(folder: Path) -> None:
    """Deletes a checkpoint. Renamed first: half of one must not pass for a whole one."""
    rest = folder.with_name(f".{folder.name}.old.tmp")
    os.rename(folder, rest)
    shutil.rmtree(rest)


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file, by its path in the folder, but the screens, which carry their own checksums as names."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and SCREENS not in p.relative_to(folder).parts)
    return {str(p.relative_to(folder)): p.stat().st_size for p in files}


def clean(run_dir: Path) -> None:
    """Removes what a killed process left half-written: checkpoints and the run's own files."""
    for rest in (run_dir / "checkpoints").glob(".iter-*.tmp"):
        shutil.rmtree(rest)
    for name in ("", "trajectories", "advantages", SCREENS):
        remove_leftovers(run_dir / name)


def read_state(folder: Path) -> dict[str, Any]:
    """Raises CheckpointError when the folder is not a whole checkpoint of this version."""
    try:
        state = json.loads((folder / STATE_FILE).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{folder / STATE_FILE} cannot be read ({error}); {_cure(folder)}") from None
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        raise CheckpointError(
            f"{folder / STATE_FILE} was written by another version of mobilerl (schema is not {SCHEMA}): "
            f"resume with that version, or start again with another --run-dir"
        )
    if missing := sorted(NEEDED - state.keys()):
        raise CheckpointError(f"{folder / STATE_FILE} lacks {', '.join(missing)}; {_cure(folder)}")
    if not isinstance(state["files"], dict) or any(len(name) > 255 for name in state["files"]):
        raise CheckpointError(f"{folder / STATE_FILE} does not list files and their sizes; {_cure(folder)}")
    for name, size in state["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            found = f"has {path.stat().st_size} of {size} bytes" if path.is_file() else "is missing"
            raise CheckpointError(f"{path} {found}; {_cure(folder)}")
    return state


def _cure(folder: Path) -> str:
    return f"delete {folder} to resume from the checkpoint before it"


def load_engine(folder: Path, engine: Engine) -> None:
    """Raises CheckpointError when weights or optimiser state are damaged or of another shape."""
    try:
        engine.load(folder)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} is damaged or foreign: {_reason(error)}; {_cure(folder)}") from error


def _write_replay(folder: Path, replay: Replay) -> dict[str, Any]:
    """Trajectories to replay.jsonl; returns the rest of the replay's state."""
    state = replay.state_dict()
    screens = ScreenFolder(folder / SCREENS, sync=False)  # `save` syncs the whole checkpoint
    with open(folder / REPLAY_FILE, "w") as f:
        for entry in state["entries"]:
            f.write(json.dumps(trajectory_to_dict(entry["trajectory"], screens)) + "\n")
    rest = [{k: v for k, v in entry.items() if k != "trajectory"} for entry in state["entries"]]
    return {**state, "entries": rest}


def load_replay(folder: Path, state: Mapping[str, Any], replay: Replay) -> None:
    """Fills `replay` from a checkpoint whose state.json is `state`."""
    saved = state["replay"]
    if saved is None:
        return
    screens = ScreenFolder(folder / SCREENS)
    try:
        records = [record for _, record in read_records(folder / REPLAY_FILE)]
        trajectories = [trajectory_from_dict(record, screens) for record in records]
        entries = [{**e, "trajectory": t} for e, t in zip(saved["entries"], trajectories, strict=True)]
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / REPLAY_FILE} is damaged ({error}); {_cure(folder)}") from None
    replay.load_state_dict({**saved, "entries": entries})


def load_critic(folder: Path, critic: Critic) -> None:
    """Raises CheckpointError when its file is missing, damaged or of another shape."""
    import torch

    try:
        critic.load_state_dict(torch.load(folder / CRITIC_FILE, weights_only=True))
    except (OSError, KeyError, ValueError, RuntimeError, EOFError, UnpicklingError) as error:
        raise CheckpointError(
            f"{folder / CRITIC_FILE} is damaged or foreign: {_reason(error)}; {_cure(folder)}"
        ) from error


def rng_to_json(rng: random.Random) -> list[Any]:
    version, words, gauss = rng.getstate()
    return [version, list(words), gauss]


def rng_from_json(rng: random.Random, saved: list[Any]) -> None:
    rng.setstate((saved[0], tuple(saved[1]), saved[2]))
