"""What a dry run says: the recipe reads back as it was printed, and the estimate is worth something."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from envs.phone.env import PhoneEnv
from envs.phone.tasks import suite
from mobilerl.cli import main
from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.config.model import TinySection
from mobilerl.config.toml import null_flags, to_toml
from mobilerl.config.training import SftSection, SourceSection
from mobilerl.setup import save_agent
from mobilerl.train.cost import memory_total, training_cost
from mobilerl.train.cost_parts import Step
from mobilerl.train.dry_run import check_devices, check_writable
from mobilerl.train.memory_cost import activation_mb
from mobilerl.train.model_shape import TINY_VOCABULARY, ModelShape
from mobilerl.train.warm_up_cost import warm_up_cost


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    from mobilerl import tiny
    from sft.vocabulary import corpus

    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny.create(path, corpus(PhoneEnv("sim-0", 360, 720, 0.0)))
    return path


def recipe_of(checkpoint, *flags: str) -> Recipe:
    return load_recipe(None, ["--model", str(checkpoint), "--agent.layout", "compact", *flags])


def items(recipe, budgets=(10, 20)):
    return {(i.group, i.what): i for i in training_cost(recipe, budgets, ModelShape.of_checkpoint(Path(recipe.model)))}


# --- TOML --------------------------------------------------------------------------------------------------------


def read_back(recipe: Recipe, tmp_path) -> Recipe:
    (tmp_path / "again.toml").write_text(to_toml(recipe))
    return load_recipe(tmp_path / "again.toml", null_flags(recipe))


ODD = 'a "quoted" \\ back\tslash\x7f\x01 ünï☂🦊 = # [x]'


@pytest.mark.parametrize("name", ["adagrpo.toml", "sft.toml", "filtered_bc.toml"])
def test_a_resolved_recipe_reads_back_equal(name, tmp_path, pytestconfig):
    recipe = load_recipe(pytestconfig.rootpath / "recipes" / name, ["--algorithm.loss.is_cap", "null"])
    assert null_flags(recipe) == ["--algorithm.loss.is_cap", "null"]
    assert read_back(recipe, tmp_path) == recipe


def test_odd_values_read_back_equal(tmp_path):
    sources = (SourceSection(format="aitw", path=ODD, weight=1e-7), SourceSection(format="mobile3m", path="b"))
    recipe = Recipe(
        model=ODD, sft=SftSection(sources=sources, learning_rate=1e-05),
        fleet={"environment": ("A=1", ODD), "type": "docker"}, train={"seed": -3},
    )  # fmt: skip
    assert read_back(recipe, tmp_path) == recipe
    assert read_back(Recipe(), tmp_path) == Recipe()


def test_changed_values_name_their_default():
    text = to_toml(load_recipe(None, ["--train.seed", "7", "--collect.temperature", "0.5"]))
    assert "seed = 7  # default 0" in text and "temperature = 0.5  # default 1.0" in text
    assert text.count("# default") == 2 and "\n# history_steps = null\n" in text


# --- counts ------------------------------------------------------------------------------------------------------


def test_counts_are_the_recipes_own_arithmetic(checkpoint):
    found = items(
        recipe_of(checkpoint, "--collect.tasks_per_iteration", "4", "--collect.group_size", "8",
                  "--train.iterations", "10", "--train.mini_batch", "128", "--train.passes", "2")
    )  # fmt: skip
    episodes = found["iteration", "episodes"]
    assert (episodes.low, episodes.high) == (32, 64)  # every group may be refilled once
    assert found["iteration", "steps in an iteration"].high == 64 * 15
    # Of a mini-batch of 128 a quarter is replayed: 960 rows are ten mini-batches, gone through twice.
    assert found["iteration", "optimiser steps"].high == 2 * 10
    assert found["run", "episodes"].high == 640 and found["run", "optimiser steps"].high == 200


def test_a_limit_of_steps_or_minutes_bounds_the_run(checkpoint):
    flags = ["--collect.tasks_per_iteration", "4", "--train.iterations", "1000", "--train.max_env_steps", "5000"]
    steps = items(recipe_of(checkpoint, *flags))["run", "steps on devices"]
    assert 5000 <= steps.high <= 5000 + 64 * 15
    assert items(recipe_of(checkpoint, "--train.max_minutes", "5"))["run", "episodes"].low == 0


def test_updates_from_the_replay_alone(checkpoint):
    flags = ["--train.updates", "20", "--algorithm.replay.type", "circular", "--algorithm.replay.gamma", "1.0"]
    assert items(recipe_of(checkpoint, *flags))["iteration", "optimiser steps"].high == 20


def test_processes(checkpoint):
    assert items(recipe_of(checkpoint))["machines", "processes"].high == 1
    assert items(recipe_of(checkpoint, "--collect.workers", "3"))["machines", "processes"].high == 4
    vllm = ["--engine.sampler", "vllm", "--vllm.tensor_parallel", "2"]
    assert items(recipe_of(checkpoint, *vllm))["machines", "processes"].high == 4
    verl = ["--engine.type", "verl", "--cluster.nodes", "2", "--cluster.rollout_nodes", "1"]
    assert items(recipe_of(checkpoint, *verl))["machines", "GPUs"].high == 24


# --- memory ------------------------------------------------------------------------------------------------------


def test_parameters_are_counted_in_the_files_without_loading_them(checkpoint):
    from mobilerl.engines.loading import load_model

    shape = ModelShape.of_checkpoint(checkpoint)
    assert shape.parameters == sum(p.numel() for p in load_model(checkpoint).parameters())
    guessed = ModelShape.of_tiny(TinySection())
    assert guessed.parameters == pytest.approx(shape.parameters, rel=0.1)
    assert shape.vocabulary == pytest.approx(TINY_VOCABULARY, rel=0.1)


def test_lora_parameters(checkpoint):
    from mobilerl.engines.loading import add_lora, load_model

    model = add_lora(load_model(checkpoint), 8)
    wanted = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert ModelShape.of_checkpoint(checkpoint).lora_parameters(8) == wanted
    learned = items(recipe_of(checkpoint, "--engine.lora_rank", "8"))["memory", "gradients"].high
    assert learned == pytest.approx(4 * wanted / 2**20)


def test_what_memory_depends_on(checkpoint):
    def part(name: str, *flags: str) -> float:
        return items(recipe_of(checkpoint, *flags))["memory", name].high

    half, whole = (part("activations", "--engine.micro_tokens", n) for n in ("8192", "16384"))
    assert whole == pytest.approx(2 * half, rel=0.05)
    assert part("activations", "--engine.recompute", "true") < 0.5 * part("activations")
    assert part("replay", "--algorithm.replay.capacity", "64") == pytest.approx(part("replay") / 8)
    assert part("reference weights", "--algorithm.loss.kl_coef", "0.1") == part("weights")
    assert ("memory", "reference weights") not in items(recipe_of(checkpoint))


def test_activations_are_close_to_what_torch_keeps(checkpoint):
    """The tensors that autograd saves for the backward pass of one micro-batch of text, counted once each."""
    import torch

    from mobilerl.engines.loading import load_model

    model, rows, length = load_model(checkpoint), 8, 100
    kept: dict[int, int] = {}

    def keep(tensor):
        if not isinstance(tensor, torch.nn.Parameter):
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.randint(200, 300, (rows, length))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=ids, attention_mask=torch.ones_like(ids), logits_to_keep=2).logits.float().logsumexp(-1).sum()
    recipe = recipe_of(checkpoint, "--agent.screenshots", "0", "--agent.max_new_tokens", "1")
    shape = ModelShape.of_checkpoint(checkpoint)
    estimate = activation_mb(recipe, shape, Step(0, 99, 0.0, 0.0), rows * length, 4)
    measured = sum(kept.values()) / 2**20
    assert 0.5 < estimate / measured < 2.0, (estimate, measured)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("micro_tokens", [2048, 16384])
def test_the_estimate_is_within_a_factor_of_two_of_a_real_run(checkpoint, tmp_path, micro_tokens):
    """Random weights play badly, but they play, are sampled from, scored and updated: peak memory of the process."""
    flags = ["--phone.count", "16", "--collect.tasks_per_iteration", "8", "--collect.group_size", "8",
             "--algorithm.credit.drop_constant_groups", "false", "--train.iterations", "1", "--engine.threads", "1",
             "--engine.micro_tokens", str(micro_tokens), "--agent.max_invalid", "8"]  # fmt: skip
    recipe = recipe_of(checkpoint, *flags)
    save_agent(recipe.agent, checkpoint)
    words = ["train", "--run-dir", str(tmp_path / "run"), "--model", str(checkpoint), *flags]
    code = (
        "import resource, subprocess, sys; "
        "subprocess.run([sys.executable, '-m', 'mobilerl', *sys.argv[1:]], check=True,"
        "stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    peak = int(done.stdout) / 1024
    budgets = [task.max_steps for task in suite.train_tasks(20)]
    estimate = memory_total(training_cost(recipe, budgets, ModelShape.of_checkpoint(checkpoint)))
    print(f"peak {peak:.0f} MiB, estimate {estimate:.0f} MiB")
    assert 0.5 < estimate / peak < 2.0


def test_a_large_model_on_gpus(checkpoint, tmp_path):
    """The arithmetic, on a configuration of Qwen2.5-VL-7B's published shape without its weights."""
    folder = tmp_path / "seven"
    folder.mkdir()
    config = {
        "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False,
        "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "patch_size": 14,
                          "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps({"max_pixels": 1003520}))
    shape = ModelShape.of_checkpoint(folder)
    assert shape.parameters == pytest.approx(8.29e9, rel=0.1)
    assert shape.image_tokens(1080, 2400, None) == 1280 and shape.image_tokens(1080, 2400, 501760) == 640
    recipe = load_recipe(None, ["--model", str(folder), "--engine.type", "verl", "--cluster.gpus_per_node", "8"])
    found = {i.what: i.high for i in training_cost(recipe, [20], shape) if i.group == "memory of a GPU"}
    assert found["weights, gradients, optimiser"] == pytest.approx(16 * shape.parameters / 8 / 2**20)


# --- the commands ------------------------------------------------------------------------------------------------


def test_dry_run_prints_a_recipe_that_can_be_used_and_leaves_nothing(checkpoint, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", "--dry-run", "--run-dir", str(run), "--model", str(checkpoint), "--algorithm.loss.is_cap", "null"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert not run.exists() and "episodes" in said.err and "optimiser" in said.err
    (tmp_path / "resolved.toml").write_text(said.out)
    assert tomllib.loads(said.out)["model"] == str(checkpoint)
    assert "give as well: --algorithm.loss.is_cap null" in said.out
    again = ["train", "--dry-run", "--run-dir", str(run), "--config", str(tmp_path / "resolved.toml")]
    assert main([*again, "--algorithm.loss.is_cap", "null"]) == 0
    assert capsys.readouterr().out == said.out


def test_dry_run_of_the_warm_up(tmp_path, capsys):
    assert main(["sft", "--dry-run", "--run-dir", str(tmp_path / "run"), "--sft.stage2_rounds", "3"]) == 0
    said = capsys.readouterr()
    assert tomllib.loads(said.out)["sft"]["stage2_rounds"] == 3 and not (tmp_path / "run").exists()
    assert "optimiser steps, stage 2" in said.err


def test_warm_up_counts():
    recipe = load_recipe(None, ["--sft.demos_per_template", "10", "--sft.lessons", "0", "--sft.stage1_epochs", "2",
                                "--sft.single_steps", "0", "--sft.batch_size", "20"])  # fmt: skip
    cost = warm_up_cost(recipe, [4, 6], ModelShape.of_tiny(recipe.tiny))
    found = {i.what: i.high for i in cost if i.group == "warm-up"}
    assert found["demonstrations"] == 20 and found["demonstrated steps"] == 100
    assert found["optimiser steps, stage 1"] == 10 and "optimiser steps, lessons" not in found
    one = {i.what: i.high for i in warm_up_cost(recipe, [4, 6], ModelShape.of_tiny(recipe.tiny), (1,))}
    assert one["optimiser steps, stage 1"] == 10 and "optimiser steps, stage 2" not in one
    disk = next(i.high for i in cost if i.what == "checkpoints")
    assert one["checkpoints"] == pytest.approx(disk * 5 / (5 + recipe.sft.stage2_rounds))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--fleet.type", "adb", "--fleet.serials", '["a b"]'), "'a b' is no serial"),
        (
            ("--fleet.type", "adb", "--fleet.serials", '["h:5555","h:5555"]', "--phone.count", "2"),
            "names a device twice",
        ),
        (
            ("--fleet.type", "adb", "--fleet.serials", '["h:5555"]', "--phone.count", "2"),
            "names 1 devices, 2 are wanted",
        ),
        (("--fleet.type", "docker", "--fleet.environment", '["MOBILERL_NIX"]'), "MOBILERL_NIX is not set here"),
    ],
)
def test_devices_that_cannot_be_used(flags, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        check_devices(load_recipe(None, list(flags)))


def test_serials_as_adb_prints_them_are_taken():
    serials = ["emulator-5554", "R58M12ABCDE", "192.168.0.5:5555", "avd-3.1:5555", "[fe80::1]:5555"]
    flags = ["--fleet.type", "adb", "--phone.count", "5", "--fleet.serials", json.dumps(serials)]
    check_devices(load_recipe(None, flags))


def test_a_run_directory_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        check_writable(tmp_path / "file" / "run")
    check_writable(tmp_path / "not" / "yet")
    with pytest.raises(ConfigError, match="no permission|is a file"):
        check_writable(Path("/proc/version/run"))


def test_a_run_that_is_there_is_minded(checkpoint, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", "--dry-run", "--run-dir", str(run), "--model", str(checkpoint)]
    assert main([*words, "--resume"]) == 2
    assert f"{run} holds no run to resume" in capsys.readouterr().err
    run.mkdir()
    (run / "config.json").write_text(load_recipe(None, ["--model", str(checkpoint)]).model_dump_json())
    assert main(words) == 2
    assert f"{run} already holds a run" in capsys.readouterr().err
    assert main([*words, "--resume", "--train.seed", "5"]) == 2
    assert "train.seed differ" in capsys.readouterr().err
    assert json.loads((run / "config.json").read_text())["train"]["seed"] == 0


def test_weights_cut_short_are_noticed_before_anything_starts(checkpoint, tmp_path, capsys):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    with open(copy / "model.safetensors", "r+b") as f:
        f.truncate(5000)
    assert main(["train", "--dry-run", "--run-dir", str(tmp_path / "run"), "--model", str(copy)]) == 2
    assert "cannot be read as a vision-language checkpoint" in capsys.readouterr().err
