"""How batches are shared by ranks, how samples travel to them, and what is refused before anything starts."""

import json
import os
import random
import stat
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.config.reading import claim
from sft import placement
from sft.batches import LengthBatches, RankBatches, completed, stand_in
from sft.placement import CONFIGS, check, deepspeed_file
from sft.run import PLACEMENT
from sft.sample_files import SampleFile, write_samples
from sft.samples import Sample
from sft.trainer import check_engine

ROOT = Path(__file__).parents[2]
SAMPLES = [
    Sample((1, 2, 3), (4, 5), (b"png one",)),
    Sample((6,), (7, 8, 9), (), trained=(True, False, True)),
    Sample((10, 11), (12,), (b"png two", b"png one")),
]


# --- ranks -------------------------------------------------------------------------------------------------------


@given(count=st.integers(1, 90), ranks=st.integers(1, 4), micro=st.integers(1, 3), accumulation=st.integers(1, 3))
def test_ranks_share_the_batches_of_one_process(count, ranks, micro, accumulation):
    lengths = [random.Random(i).randrange(5, 99) for i in range(count)]
    size = ranks * micro * accumulation
    alone = [sorted(batch) for batch in LengthBatches(lengths, size, 1)]
    parts = [RankBatches(LengthBatches(lengths, size, 1), rank, ranks, micro) for rank in range(ranks)]
    shares = [list(part) for part in parts]
    assert {len(share) for share in shares} == {len(part) for part in parts} == {len(alone) * accumulation}
    assert all(len(step) <= micro for share in shares for step in share)
    for number, batch in enumerate(alone):
        steps = slice(number * accumulation, (number + 1) * accumulation)
        assert sorted(i for share in shares for step in share[steps] for i in step) == batch


def test_every_rank_has_a_row_and_an_image_where_any_has():
    filler = stand_in(SAMPLES, [len(s) for s in SAMPLES], [len(s.images) for s in SAMPLES])
    assert filler.images == (b"png two", b"png one") and not any(filler.trained), "the shortest that has images"
    assert completed([], filler) == [filler]
    assert completed([SAMPLES[1]], filler) == [SAMPLES[1], filler]
    assert completed([SAMPLES[0], SAMPLES[1]], filler) == [SAMPLES[0], SAMPLES[1]]
    text = stand_in(SAMPLES[1:2], [4], [0])
    assert completed([SAMPLES[1]], text) == [SAMPLES[1]] and completed([], text) == [text]


# --- samples in a file -------------------------------------------------------------------------------------------


def test_samples_come_back_from_their_file_with_each_image_stored_once(tmp_path):
    path = tmp_path / "samples.safetensors"
    write_samples(SAMPLES, path)
    read = SampleFile(path)
    assert list(read) == SAMPLES
    assert read.lengths() == [5, 4, 3] and read.images() == [1, 0, 2]
    assert path.read_bytes().count(b"png one") == 1


def test_samples_without_any_image_and_a_file_of_something_else(tmp_path):
    path = tmp_path / "samples.safetensors"
    write_samples(SAMPLES[1:2], path)
    assert list(SampleFile(path)) == SAMPLES[1:2]
    from safetensors.torch import save_file

    save_file({}, path)
    with pytest.raises(ValueError, match="not a file of samples"):
        SampleFile(path)


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--sft.deepspeed", "zero2"), "sft.deepspeed needs processes"),
        (("--sft.nodes", "2"), "sft.nodes above 1 needs sft.processes"),
        (("--sft.nodes", "2", "--sft.processes", "8"), "sft.rendezvous = HOST:PORT"),
        (("--sft.node_rank", "1"), "sft.node_rank counts from 0"),
    ],
)
def test_settings_that_do_not_fit_together_are_one_line(flags, said):
    with pytest.raises(ConfigError, match=said) as error:
        load_recipe(None, flags)
    assert "\n" not in str(error.value)


def recipe(**sft: object) -> Recipe:
    return Recipe(sft=sft)


def test_a_batch_that_cannot_be_shared_is_refused():
    check(recipe(processes=4, batch_size=32, lesson_batch=16, micro_batch=2))
    with pytest.raises(ConfigError, match=r"sft.batch_size = 32 cannot be shared by 3 processes: make it a multiple"):
        check(recipe(processes=3))
    with pytest.raises(ConfigError, match=r"sft.lesson_batch = 16 .* 4 processes x sft.micro_batch \(8\)"):
        check(recipe(processes=4, micro_batch=8))
    check(recipe(processes=4, micro_batch=8, lessons=0))


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(placement.torch.cuda, "device_count", lambda: 2)
    check(recipe(processes=2))
    with pytest.raises(ConfigError, match="sft.processes = 4, but this machine has 2 GPUs"):
        check(recipe(processes=4))


@pytest.mark.parametrize("have", ["", "0.17.5"])
def test_deepspeed_must_be_there_in_its_version(monkeypatch, have):
    def version(name: str) -> str:
        if not have:
            raise placement.importlib.metadata.PackageNotFoundError(name)
        return have

    monkeypatch.setattr(placement.importlib.metadata, "version", version)
    with pytest.raises(ConfigError, match=r"sft.deepspeed needs 0.19: .*mobilerl\[deepspeed\].* plain DDP"):
        check(recipe(processes=2, deepspeed="zero2"))


def test_what_would_quietly_take_deepspeed_away_is_refused(monkeypatch):
    monkeypatch.setattr(placement, "_check_deepspeed", lambda: None)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    check(recipe(processes=2))
    with pytest.raises(ConfigError, match="unset ACCELERATE_USE_CPU"):
        check(recipe(processes=2, deepspeed="zero2"))


def test_a_model_that_deepspeed_does_not_run_is_not_trained(monkeypatch):
    class Engine(torch.nn.Module):
        pass

    monkeypatch.setitem(sys.modules, "deepspeed", types.SimpleNamespace(DeepSpeedEngine=Engine))
    check_engine(Engine())
    with pytest.raises(RuntimeError, match="the model is run by Linear"):
        check_engine(torch.nn.Linear(1, 1))


def test_deepspeed_files(tmp_path, monkeypatch):
    for name in ("zero2", "zero3", "zero2-offload", "zero3-offload"):
        path = deepspeed_file(name)
        said = json.loads(path.read_text())
        assert path.parent == CONFIGS and said["zero_optimization"]["stage"] == int(name[4])
        assert ("offload_optimizer" in said["zero_optimization"]) == name.endswith("offload")
        if name.startswith("zero3"):
            assert said["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"]
    with pytest.raises(ConfigError, match="'zero4': choose zero2"):
        deepspeed_file("zero4")
    (tmp_path / "mine.json").write_text("{")
    with pytest.raises(ConfigError, match="mine.json cannot be read as JSON"):
        deepspeed_file(str(tmp_path / "mine.json"))


def test_an_interrupted_compilation_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "_check_deepspeed", lambda: None)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    lock = tmp_path / "cpu_adam" / "lock"
    lock.parent.mkdir()
    lock.touch()
    check(recipe(processes=2, deepspeed="zero2"))
    with pytest.raises(ConfigError, match="cpu_adam/lock: DeepSpeed compiles"):
        check(recipe(processes=2, deepspeed="zero2-offload"))


def test_a_run_may_go_on_elsewhere_but_not_as_another(tmp_path):
    claim(recipe(processes=2), tmp_path, PLACEMENT)
    claim(recipe(processes=8, nodes=2, rendezvous="head:29400"), tmp_path, PLACEMENT)
    with pytest.raises(ConfigError, match=r"another recipe \(sft.learning_rate differ\)"):
        claim(recipe(processes=2, learning_rate=0.5), tmp_path, PLACEMENT)


# --- the script --------------------------------------------------------------------------------------------------


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def node_1_of_2(tmp_path: Path) -> dict[str, str]:
    """The environment of a node of a SLURM step, with stand-ins for the programs."""
    script(tmp_path / "venv/bin/mobilerl", 'printf "%s\\n" "$@" >>"$SFT_DIR/said"')
    script(tmp_path / "venv/bin/python", "")
    script(tmp_path / "bin/scontrol", "echo node7; echo node9")
    slurm = {"SLURM_JOB_ID": "5", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "node[7,9]", "SLURM_NODEID": "1"}
    return {**os.environ, **slurm, "VENV": str(tmp_path / "venv"), "SKIP_INSTALL": "yes", "SFT_DIR": str(tmp_path),
           "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}  # fmt: skip


NODES = ["--sft.nodes", "2", "--sft.node_rank", "1", "--sft.rendezvous", "node7:29400", "--sft.processes", "8"]


@pytest.mark.parametrize(
    ("name", "command", "words"), [("sft.sh", "sft", ()), ("reachagent.sh", "pages", ("--model", "m"))]
)
def test_the_scripts_take_the_nodes_from_slurm(tmp_path, name, command, words):
    subprocess.run(["bash", str(ROOT / "recipes" / name), *words, "--sft.processes", "8"], env=node_1_of_2(tmp_path),
                   check=True, timeout=60)  # fmt: skip
    said = (tmp_path / "said").read_text().split()
    assert said[-8:] == NODES and Counter(said)[command] == 1 and "eval" not in said, "evaluation is node 0's"


def test_several_nodes_of_reachagent_do_not_each_warm_up(tmp_path):
    done = subprocess.run(["bash", str(ROOT / "recipes/reachagent.sh"), "--sft.processes", "8"], text=True,
                          env=node_1_of_2(tmp_path), stderr=subprocess.PIPE, timeout=60)  # fmt: skip
    assert done.returncode == 2 and "run recipes/sft.sh on the nodes first, or give --model DIR" in done.stderr
    assert not (tmp_path / "said").exists()
