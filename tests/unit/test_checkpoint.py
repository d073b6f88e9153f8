"""Checkpoints: whole or not there, and every damage named. Faults are injected at every call to the system."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from made_groups import make_trajectory
from safetensors import SafetensorError

from mobilerl import tiny
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.config import AgentSection, CriticSection, DigirlSection
from mobilerl.engines.base import EngineError
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.setup import read_agent
from mobilerl.train import checkpoint
from mobilerl.train.checkpoint import (
    CheckpointError,
    latest,
    load_critic,
    load_engine,
    load_replay,
    read_state,
    save,
)
from mobilerl.train.critics.digirl import DigirlCritic
from mobilerl.train.critics.features import Encoder

STATE = {"elapsed_s": 1.5, "env_steps": 7, "sampler": {"seen": 3}, "rng": checkpoint.rng_to_json(random.Random(3))}


class FileEngine:
    """Saves its version in two files. `fault` is raised in its save."""

    def __init__(self, version: int = 0, fault: Exception | None = None) -> None:
        self.version, self.fault = version, fault

    def save(self, path: Path) -> None:
        (path / "config.json").write_text("{}")
        if self.fault:
            raise self.fault
        (path / "weights").write_bytes(b"w" * (100 + self.version))

    def load(self, path: Path) -> None:
        self.version = len((path / "weights").read_bytes()) - 100


def make_replay(entries: int = 2) -> AdaptivePositiveReplay:
    replay = AdaptivePositiveReplay(8, 8, 0.25)
    old = [make_trajectory(f"t{i}", 1.0, 2, screenshot=b"png %d" % i) for i in range(entries)]
    replay.insert(old, [1.0 + i for i in range(entries)], 1)
    return replay


def save_at(run_dir: Path, iteration: int, keep: int = 2, engine=None, replay=None) -> Path:
    engine = engine or FileEngine(iteration)
    return save(run_dir, iteration, engine, AgentSection(), replay or make_replay(), None, STATE, keep)


def assert_whole(folder: Path, version: int) -> None:
    """Everything in the folder can be loaded again."""
    state = read_state(folder)
    engine, replay = FileEngine(), AdaptivePositiveReplay(8, 8, 0.25)
    load_engine(folder, engine)
    load_replay(folder, state, replay)
    assert engine.version == state["iteration"] == version
    assert replay.state_dict() == make_replay().state_dict()
    assert read_agent(folder) == AgentSection()


# --- whole or not there ------------------------------------------------------------------------------------------


def test_what_was_saved_comes_back(tmp_path):
    folder = save_at(tmp_path, 4)
    assert folder == latest(tmp_path) == tmp_path / "checkpoints" / "iter-000004"
    assert_whole(folder, 4)
    state = read_state(folder)
    assert {k: state[k] for k in STATE} == STATE
    rng = random.Random()
    checkpoint.rng_from_json(rng, state["rng"])
    assert rng.getstate() == random.Random(3).getstate()


def test_a_run_without_replay_has_none_to_load(tmp_path):
    folder = save(tmp_path, 1, FileEngine(1), AgentSection(), None, None, STATE, 2)
    replay = AdaptivePositiveReplay(8, 8, 0.25)
    load_replay(folder, read_state(folder), replay)
    assert len(replay) == 0 and not (folder / checkpoint.REPLAY_FILE).exists()


class Disk:
    """Counts the calls that change the disk, and lets the n-th one fail."""

    CALLS = ("open", "fsync", "rename", "replace", "mkdir")

    def __init__(self, monkeypatch) -> None:
        self.left: int | None = None
        for name in self.CALLS:
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name)))
        # pathlib goes through io.open; of both, only writing is counted.
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


def test_a_fault_at_any_write_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        disk = Disk(patch)
        failed = 0
        for n in range(200):
            run_dir = tmp_path / str(n)
            save_at(run_dir, 2)
            disk.left = n
            try:
                save_at(run_dir, 4)
            except CheckpointError as problem:
                failed += 1
                text = str(problem)
                assert "\n" not in text and "No space left on device" in text and "make room" in text
                assert f"{latest(run_dir)} is intact" in text
                assert disk.left is None
            else:
                if disk.left is not None:  # the fault lies beyond the last call: everything has been tried
                    break
            disk.left = None
            # Only the last sync comes after the rename: then the new one is there, whole.
            assert_whole(latest(run_dir), 4 if latest(run_dir).name.endswith("4") else 2)
            assert not [p for p in (run_dir / "checkpoints").iterdir() if p.name.startswith(".")]
            save_at(run_dir, 6)  # and the run can go on
            assert_whole(latest(run_dir), 6)
        else:
            pytest.fail("the faults never ended")
    assert failed > 15


def test_every_file_is_put_on_disk_once_and_before_the_rename(tmp_path, monkeypatch):
    synced: list[str] = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")) or real(handle)
    )
    folder = save_at(tmp_path, 2)
    *before, last = synced
    assert last == str(folder.parent)
    being_written = str(folder.with_name(f".{folder.name}.tmp"))
    content = [folder, *folder.rglob("*")]
    assert len(list((folder / "screens").iterdir())) == 2
    assert sorted(before) == sorted(str(p).replace(str(folder), being_written) for p in content)


@pytest.mark.parametrize(
    "fault",
    [
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"),
        Exception("No space left on device (os error 28)"),  # tokenizers
    ],
)
def test_a_librarys_own_error_for_a_full_disk_is_a_checkpoint_error_too(tmp_path, fault):
    save_at(tmp_path, 2)
    with pytest.raises(CheckpointError) as caught:
        save_at(tmp_path, 4, engine=FileEngine(4, fault))
    assert str(fault) in str(caught.value) and "make room, then go on with --resume" in str(caught.value)
    assert latest(tmp_path).name == "iter-000002"
    assert_whole(latest(tmp_path), 2)


def test_what_the_system_said_is_dug_out_of_a_librarys_error(tmp_path):
    fault = RuntimeError("unexpected pos 576 vs 534")
    fault.__context__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(CheckpointError, match="No space left on device.*there is no earlier one"):
        save_at(tmp_path, 2, engine=FileEngine(2, fault))


@pytest.mark.parametrize("fault", [TypeError("not a disk's"), EngineError("a worker of the engine ended")])
def test_a_bug_or_a_dead_engine_is_not_taken_for_a_full_disk(tmp_path, fault):
    with pytest.raises(type(fault), match=str(fault)):
        save_at(tmp_path, 2, engine=FileEngine(2, fault))
    assert not list((tmp_path / "checkpoints").iterdir())


def test_the_newest_are_kept_and_leftovers_of_a_kill_go(tmp_path):
    for name in (".iter-000003.tmp", ".iter-000001.old.tmp"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    for i in (2, 4, 6, 8):
        save_at(tmp_path, i, keep=2)
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["iter-000006", "iter-000008"]
    save_at(tmp_path, 10, keep=1)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["iter-000010"]


def test_a_file_that_a_killed_process_had_half_written_goes(tmp_path):
    began = "import os\nos.replace = lambda *_: os._exit(9)\n"
    for name in ("config.json", "trajectories/iter-000002.jsonl", "advantages/iter-000002.json", "screens/a.png"):
        write = f"from pathlib import Path\nfrom mobilerl import atomic_files\n{began}"
        write += f"atomic_files.write_atomic(Path({str(tmp_path / name)!r}), b'half')"
        assert subprocess.run([sys.executable, "-c", write]).returncode == 9
    (tmp_path / ".note.tmp").write_text("the user's")
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 5
    checkpoint.clean(tmp_path)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [".note.tmp"]


def test_unfinished_folders_are_no_checkpoints(tmp_path):
    assert latest(tmp_path) is None
    save_at(tmp_path, 2)
    (tmp_path / "checkpoints" / "iter-000004").mkdir()
    shutil.copytree(tmp_path / "checkpoints" / "iter-000002", tmp_path / "checkpoints" / ".iter-000006.tmp")
    assert latest(tmp_path).name == "iter-000002"
    # A folder in the way that is none is replaced.
    assert_whole(save_at(tmp_path, 4), 4)


# --- damage ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A run with a checkpoint of a real engine that has made a step's worth of optimiser state."""
    torch.set_num_threads(1)
    base, run_dir = tmp_path_factory.mktemp("base"), tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    tiny.create(base, ["open the settings"], hidden=32, layers=1, heads=2, vision_hidden=16)
    engine = LocalEngine(base, LocalSettings())
    for p in engine.model.parameters():
        p.grad = torch.ones_like(p)
    engine.optimizer.step()
    return base, save(run_dir, 2, engine, AgentSection(), make_replay(), make_critic(), STATE, 2)


def make_critic(size: int = 3) -> DigirlCritic:
    """Its features are asked for nothing: only what it has learned is saved."""
    return DigirlCritic(Encoder(SimpleNamespace(size=size)), CriticSection(), DigirlSection())


def test_a_critic_of_another_shape_is_refused(real):
    with pytest.raises(CheckpointError, match=r"critic\.pt is damaged or foreign.*another shape"):
        load_critic(real[1], make_critic(size=4))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def scramble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[:64] = b"\xff" * 64
    path.write_bytes(data)


def load_all(base: Path, folder: Path) -> None:
    state = read_state(folder)
    load_engine(folder, LocalEngine(base, LocalSettings()))
    load_replay(folder, state, AdaptivePositiveReplay(8, 8, 0.25))
    load_critic(folder, make_critic())


DAMAGED = {
    "model.safetensors": "model.safetensors|the model's files",
    "config.json": "config.json|the model's files",
    "trainer.pt": "trainer.pt",
    "replay.jsonl": "replay.jsonl",
    "critic.pt": "critic.pt",
    "state.json": "state.json",
}


@pytest.mark.parametrize("damage", [cut, scramble, Path.unlink])
@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_one_line_that_names_the_file_and_the_cure(real, tmp_path, name, damage):
    base, good = real
    load_all(base, good)
    folder = tmp_path / "checkpoints" / "iter-000002"
    shutil.copytree(good, folder)
    damage(folder / name)
    with pytest.raises(CheckpointError, match=DAMAGED[name]) as caught:
        load_all(base, folder)
    assert "\n" not in str(caught.value) and f"delete {folder} to resume from the checkpoint before it" in str(
        caught.value
    )


def test_a_replayed_screen_that_changed_is_noticed(real, tmp_path):
    base, good = real
    folder = tmp_path / "iter-000002"
    shutil.copytree(good, folder)
    screen = next((folder / "screens").iterdir())
    screen.write_bytes(b"another screen")
    with pytest.raises(CheckpointError, match=f"replay.jsonl.*{screen.name} is damaged"):
        load_all(base, folder)


def test_trainer_state_is_never_unpickled(real, tmp_path):
    """A pickle that would run code is refused as damage."""
    base, good = real
    folder = tmp_path / "iter-000002"
    shutil.copytree(good, folder)

    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "was here"),))

    torch.save({"optimizer": Evil()}, folder / "trainer.pt")
    state = json.loads((folder / "state.json").read_text())
    state["files"]["trainer.pt"] = (folder / "trainer.pt").stat().st_size
    (folder / "state.json").write_text(json.dumps(state))
    with pytest.raises(CheckpointError, match="trainer.pt"):
        load_all(base, folder)
    assert not (tmp_path / "was here").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1, 2]", "another version of mobilerl"),
        ('{"schema": 99}', "another version of mobilerl"),
        ('{"schema": 1, "iteration": 2}', "lacks elapsed_s, env_steps, files, replay, rng, sampler"),
        ('{"schema": 1, "iter', "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_a_foreign_state_is_told_apart(tmp_path, content, says):
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(CheckpointError, match=says) as caught:
        read_state(tmp_path)
    assert "\n" not in str(caught.value) and "state.json" in str(caught.value)


def test_a_checkpoint_of_another_shape_of_model_is_refused(real, tmp_path):
    _, folder = real
    tiny.create(tmp_path, ["open the settings"], hidden=16, layers=1, heads=2, vision_hidden=16)
    other = LocalEngine(tmp_path, LocalSettings())
    with pytest.raises(CheckpointError, match="foreign.*size mismatch") as caught:
        load_engine(folder, other)
    assert "\n" not in str(caught.value)
