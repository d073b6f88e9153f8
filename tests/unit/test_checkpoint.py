"""Checkpoints: complete or absent, and every damage named. Faults are injected into every call to the system."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from made_algorithms import make
from made_groups import make_trajectory
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mobilerl.algorithms.base import Algorithm
from mobilerl.config import AgentSection
from mobilerl.config.algorithms import AdaGRPOSection, DigiRLSection
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.envs.base import Task
from mobilerl.models import tiny
from mobilerl.models.checkpoint_folder import read_agent
from mobilerl.records.engine import EngineError
from mobilerl.training import checkpoint
from mobilerl.training.checkpoint import (
    CheckpointError,
    latest,
    load_algorithm,
    load_engine,
    load_sampler,
    read_state,
    save,
)
from mobilerl.training.tasks import TaskSampler

STATE = {"elapsed_s": 1.5, "env_steps": 7, "sampler": {"seen": 3}, "rng": checkpoint.rng_to_json(random.Random(3))}


class Killed(BaseException):
    """Nothing catches it, as nothing catches a SIGKILL: what `save` would clean up stays."""


class FileEngine:
    """Saves its version in two files. `fault` is raised between them."""

    def __init__(self, version: int = 0, fault: BaseException | None = None) -> None:
        self.version, self.fault = version, fault

    def save(self, path: Path) -> None:
        (path / "config.json").write_text("{}")
        if self.fault:
            raise self.fault
        (path / "weights").write_bytes(b"w" * (100 + self.version))

    def load(self, path: Path) -> None:
        self.version = len((path / "weights").read_bytes()) - 100


def algorithm(filled: bool = False) -> Algorithm:
    made = make(AdaGRPOSection())
    if filled:
        old = [make_trajectory(f"t{i}", 1.0, 2, screenshot=b"png %d" % i) for i in range(2)]
        made.replay.insert(old, [1.0, 2.0], 1)
    return made


def save_at(run_dir: Path, iteration: int, keep: int = 2, fault: BaseException | None = None) -> Path:
    return save(run_dir, iteration, FileEngine(iteration, fault), AgentSection(), algorithm(filled=True), STATE, keep)


def assert_complete(folder: Path, version: int) -> None:
    """Everything in the folder can be loaded again."""
    state, engine, restored = read_state(folder), FileEngine(), algorithm()
    load_engine(folder, engine)
    load_algorithm(folder, state, restored)
    assert engine.version == state["iteration"] == version and read_agent(folder) == AgentSection()
    assert restored.state_dict() == algorithm(filled=True).state_dict()


# --- complete or absent --------------------------------------------------------------------------------------------


def test_a_saved_checkpoint_is_restored(tmp_path):
    folder = save_at(tmp_path, 4)
    assert folder == latest(tmp_path) == tmp_path / "checkpoints" / "iter-000004"
    assert_complete(folder, 4)
    state, rng = read_state(folder), random.Random()
    assert {k: state[k] for k in STATE} == STATE
    checkpoint.rng_from_json(rng, state["rng"])
    assert rng.getstate() == random.Random(3).getstate()


class Disk:
    """Counts the calls that change the disk, and lets the n-th one fail."""

    def __init__(self, monkeypatch) -> None:
        self.left: int | None = None
        for name in ("open", "fsync", "rename", "replace", "mkdir"):
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name)))
        # pathlib uses io.open; of both, only writing is counted.
        monkeypatch.setattr("io.open", self._wrap(io.open, writing_only=True))
        monkeypatch.setattr("builtins.open", self._wrap(open, writing_only=True))

    def _wrap(self, real, writing_only: bool = False):
        def call(*args, **kwargs):
            mode = kwargs.get("mode", args[1] if len(args) > 1 else "r")
            if self.left is not None and not (writing_only and "r" in str(mode)):
                self.left -= 1
                if self.left < 0:
                    self.left = None
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        return call


def test_a_fault_at_any_write_leaves_the_checkpoint_before_it(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        disk, failed = Disk(patch), 0
        for n in range(200):
            run_dir = tmp_path / str(n)
            save_at(run_dir, 2)
            disk.left = n
            try:
                save_at(run_dir, 4)
            except CheckpointError as problem:
                failed += 1
                assert "\n" not in str(problem) and "No space left on device" in str(problem)
                assert f"{latest(run_dir)} is intact" in str(problem)
            else:
                if disk.left is not None:  # the fault lies beyond the last call: everything has been tried
                    break
            # Only the last sync comes after the rename: then the new one is there, complete.
            assert_complete(latest(run_dir), 4 if latest(run_dir).name.endswith("4") else 2)
            assert not [p for p in (run_dir / "checkpoints").iterdir() if p.name.startswith(".")]
            save_at(run_dir, 6)
            assert_complete(latest(run_dir), 6)
        else:
            pytest.fail("the faults never ended")
    assert failed > 15


def test_every_file_is_synced_once_and_before_the_rename(tmp_path, monkeypatch):
    synced: list[str] = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")) or real(handle)
    )
    folder = save_at(tmp_path, 2)
    *before, last = synced
    assert last == str(folder.parent) and len(list((folder / "screens").iterdir())) == 2
    temporary = str(folder.with_name(f".{folder.name}.tmp"))
    assert sorted(before) == sorted(str(p).replace(str(folder), temporary) for p in [folder, *folder.rglob("*")])


HIDDEN = RuntimeError("unexpected pos 576 vs 534")
HIDDEN.__context__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (SafetensorError("No space left on device (os error 28)"), CheckpointError),
        (HIDDEN, CheckpointError),  # torch
        (EngineError("a worker of the engine ended"), EngineError),
    ],
)
def test_only_errors_of_the_disk_become_checkpoint_errors(tmp_path, fault, raised):
    save_at(tmp_path, 2)
    with pytest.raises(raised, match="No space left.*is intact" if raised is CheckpointError else str(fault)):
        save_at(tmp_path, 4, fault=fault)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["iter-000002"]
    assert_complete(latest(tmp_path), 2)


HALF_WRITTEN = """
import os, sys
from pathlib import Path
from mobilerl.system import atomic_files
os.replace = lambda *_: os._exit(9)
atomic_files.write_atomic(Path(sys.argv[1]), b"half")
"""


def test_a_file_half_written_by_a_killed_process_is_removed(tmp_path):
    assert subprocess.run([sys.executable, "-c", HALF_WRITTEN, tmp_path / "screens/a.png"]).returncode == 9
    (tmp_path / ".note.tmp").write_text("the user's")
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 2
    checkpoint.clean(tmp_path)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [".note.tmp"]


def test_the_newest_complete_checkpoints_are_kept_after_any_kill(tmp_path):
    assert latest(tmp_path) is None
    for i in range(1, 6):
        with pytest.raises(Killed):
            save_at(tmp_path, i, fault=Killed())
        assert (tmp_path / f"checkpoints/.iter-{i:06d}.tmp").is_dir()
        assert latest(tmp_path) == (tmp_path / f"checkpoints/iter-{i - 1:06d}" if i > 1 else None)
        assert_complete(save_at(tmp_path, i), i)
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["iter-000004", "iter-000005"]
    (tmp_path / "checkpoints" / "iter-000006").mkdir()  # without state.json it is no checkpoint, and is replaced
    assert latest(tmp_path).name == "iter-000005"
    assert_complete(save_at(tmp_path, 6), 6)


# --- damage --------------------------------------------------------------------------------------------------------


def critics() -> Algorithm:
    """An algorithm with value functions."""
    return make(DigiRLSection(), features=lambda: SimpleNamespace(size=3))


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The base model and a checkpoint of a real engine with optimizer state."""
    torch.set_num_threads(1)
    base, run_dir = tmp_path_factory.mktemp("base"), tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    tiny.create(base, ["open the settings"], hidden=32, layers=1, heads=2, vision_hidden=16)
    engine = LocalEngine(base, LocalSettings())
    for p in engine.model.parameters():
        p.grad = torch.ones_like(p)
    engine.optimizer.step()
    engine.steps = 1
    filled = critics()
    filled.replay.insert([make_trajectory("t", 1.0, 2, screenshot=b"png")], 1)
    return base, save(run_dir, 2, engine, AgentSection(), filled, STATE, 2)


@pytest.fixture
def copied(real, tmp_path) -> Path:
    """A copy of the checkpoint, to be damaged."""
    return Path(shutil.copytree(real[1], tmp_path / "checkpoints" / "iter-000002"))


def load_all(base: Path, folder: Path) -> None:
    state = read_state(folder)
    load_engine(folder, LocalEngine(base, LocalSettings()))
    load_algorithm(folder, state, critics())


def forge(folder: Path, **changes: object) -> None:
    """Changes fields of state.json and makes its sizes and digests right again."""
    state = json.loads((folder / "state.json").read_text())
    del state["digest"]
    (folder / "state.json").unlink()
    files = checkpoint._files(folder)
    state |= {"files": {n: p.stat().st_size for n, p in files.items()}}
    state |= {"digests": {n: checkpoint._digest(p) for n, p in files.items()}, **changes}
    (folder / "state.json").write_text(json.dumps(state | {"digest": checkpoint._digest_of(state)}))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def scramble(path: Path) -> None:
    path.write_bytes(b"\xff" * 64 + path.read_bytes()[64:])


def flip_a_byte(path: Path) -> None:
    """At the same size, near the end: among the numbers."""
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


def change_a_screen(path: Path) -> None:
    next((path.parent / "screens").iterdir()).write_bytes(b"another screen")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", scramble),
        *(
            (name, flip_a_byte)
            for name in ("model.safetensors", "tokenizer.json", "trainer.pt", "replay.jsonl", "state.json")
        ),
        ("critic.pt", scramble),
        ("replay.jsonl", change_a_screen),
        ("trainer.pt", cut),
        ("state.json", scramble),
    ],
)
def test_damage_is_one_line_that_names_the_file_and_the_fix(real, copied, name, damage):
    load_all(real[0], copied)
    damage(copied / name)
    with pytest.raises(CheckpointError) as caught:
        load_all(real[0], copied)
    assert "\n" not in str(caught.value) and f"delete {copied}" in str(caught.value)
    assert name in str(caught.value) or "the model's files" in str(caught.value)


def change(path: Path, edit: Callable[[dict], object]) -> None:
    """Edits a file of torch."""
    content = torch.load(path, weights_only=True)
    edit(content)
    torch.save(content, path)


def nan_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def without_a_tensor(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.embed_tokens.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def moments(state: dict) -> dict:
    return state["optimizer"]["state"]


HOSTILE = {
    "NaN weight": (nan_weight, "holds NaN"),
    "missing tensor": (without_a_tensor, "lacks .*embed_tokens"),
    "no optimizer state": (lambda f: change(f / "trainer.pt", lambda s: moments(s).clear()), "state is empty"),
    "another shape": (
        lambda f: change(f / "trainer.pt", lambda s: moments(s)[0].update(exp_avg=torch.zeros(3))),
        "exp_avg of parameter 0 has another shape",
    ),
    "text for a number": (lambda f: change(f / "trainer.pt", lambda s: s.update(steps="7")), "steps is '7'"),
    "NaN in a critic": (
        lambda f: change(
            f / "critic.pt",
            lambda s: [p.mul_(float("nan")) for p in s["step"]["head"].values() if p.is_floating_point()],
        ),
        "holds NaN",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_impossible_values_of_tensors_are_named(real, copied, name):
    edit, said = HOSTILE[name]
    edit(copied)
    forge(copied)
    with pytest.raises(CheckpointError, match=said) as caught:
        load_all(real[0], copied)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"iteration": "2"}, "iteration: .*valid integer"),
        ({"elapsed_s": float("nan")}, "elapsed_s: .*finite"),
        ({"files": 3}, "files: "),
        ({"rng": [3, [1, 2], None]}, "rng: "),
        ({"sampler": {"seen": -1}}, "sampler: "),
        (
            {"replay": {"iteration": 1, "entries": [{"advantage": float("nan"), "iteration": 1}] * 2}},
            "advantage is nan",
        ),
        ({"replay": {"iteration": 1, "entries": [{"advantage": "1", "iteration": 1}] * 2}}, "advantage is '1'"),
    ],
)
def test_impossible_values_of_the_state_are_named(tmp_path, changes, said):
    folder = save_at(tmp_path, 2)
    forge(folder, **changes)
    tasks = [Task("T/1", "T", "do", {}, 0, 5, "sim", "A")]
    sampler = TaskSampler(tasks, AdaGRPOSection().curriculum)
    with pytest.raises(CheckpointError, match=said) as caught:
        state = read_state(folder)
        load_algorithm(folder, state, algorithm())
        if "sampler" not in changes:
            state["sampler"] = sampler.state_dict()
        load_sampler(folder, state, sampler, random.Random())
    assert "\n" not in str(caught.value) and f"delete {folder}" in str(caught.value)


def test_only_exact_names_are_checkpoints_and_they_are_ordered_by_number(tmp_path):
    others = ("iter-best", "iter-000001-keep", "iter-7", "iter-0000008", ".iter-note.tmp")
    for name in others:
        shutil.copytree(save_at(tmp_path, 1), tmp_path / "checkpoints" / name)
    save_at(tmp_path, 999_999)
    assert save_at(tmp_path, 1_000_000) == latest(tmp_path)
    save_at(tmp_path, 1_000_001)
    kept = {p.name for p in (tmp_path / "checkpoints").iterdir()}
    assert kept == {*others, "iter-1000000", "iter-1000001"} and latest(tmp_path).name == "iter-1000001"


@pytest.mark.parametrize("name", ["trainer.pt", "critic.pt"])
def test_foreign_objects_are_never_unpickled(real, copied, tmp_path, name):
    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "was here"),))

    torch.save({"optimizer": Evil()}, copied / name)
    forge(copied)
    with pytest.raises(CheckpointError, match=name):
        load_all(real[0], copied)
    assert not (tmp_path / "was here").exists()
