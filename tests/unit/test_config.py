import json

import pytest
from measured import processor_time

from mobilerl.config import ConfigError, Recipe, load_recipe, read_saved, save_recipe
from mobilerl.config.reading import claim

RECIPES = ("recipes/sft.toml", "recipes/adagrpo.toml")


def write(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_defaults_are_a_valid_recipe():
    recipe = load_recipe(None)
    assert recipe.engine.type == "local" and recipe.collect.max_staleness == 0


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_that_come_along_are_valid(name, pytestconfig):
    assert isinstance(load_recipe(pytestconfig.rootpath / name), Recipe)


def test_command_line_wins_over_file_and_file_over_default(tmp_path):
    path = write(tmp_path, "[train]\niterations = 7\nseed = 3\n[algorithm.replay]\ngamma = 0.5\n")
    recipe = load_recipe(path, ["--train.iterations", "9", "--algorithm.credit.spa", "false"])
    assert (recipe.train.iterations, recipe.train.seed, recipe.algorithm.replay.gamma) == (9, 3, 0.5)
    assert recipe.algorithm.credit.spa is False
    assert recipe.train.mini_batch == Recipe().train.mini_batch


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--train.sede", "1"], "did you mean 'train.seed'"),
        (["--collect.group_size", "1"], "at least two episodes: set collect.group_size"),
        (["--agent.screenshots", "two"], "agent.screenshots: Input should be a valid integer"),
        (["--phone.popup_rate", "1.5"], "phone.popup_rate: Input should be less than or equal to 1"),
        (["--agent.screen_style", "none"], 'agent.grounding = "mark" needs agent.screen_style = "marks"'),
        (["--collect.workers", "2", "--collect.max_staleness", "1"], "set algorithm.credit.max_refills = 0"),
        (["--judge.url", "http://h/v1", "--judge.model", "m", "--judge.reward", "true", "--collect.workers", "9"],
         "set judge.concurrency to at least 9"),
        (["--algorithm.loss.type", "aride", "--algorithm.loss.kl_coef", "0.1"], "kl_coef has no part in"),
        (["--algorithm.loss.type", "aride", "--algorithm.loss.recompute_old", "true"], "recompute_old has no part in"),
        (["--train.updates", "9", "--algorithm.replay.gamma", "1", "--algorithm.loss.recompute_old", "true"],
         "recompute_old scores fresh rows"),
        (["--train.updates", "9", "--algorithm.replay.gamma", "1", "--train.passes", "2"],
         "train.passes go over fresh rows"),
        (["--offline.trajectories", "runs/x", "--train.updates", "9", "--algorithm.replay.gamma", "1"],
         "has no group-relative advantage"),
        (["--algorithm.critic.type", "digirl"], 'algorithm.credit.type = "values" and algorithm.critic.type belong'),
        (["--algorithm.replay.type", "prioritized"], 'set it'),
        (["--train.seed"], "--train.seed: expected one argument"),
        (["stray"], "stray"),
    ],
)
def test_wrong_flags_are_one_line_that_names_them(flags, says):
    with pytest.raises(ConfigError) as caught:
        load_recipe(None, flags)
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[train]\niteration = 5\n", "train.iteration: there is no such setting; did you mean 'iterations'?"),
        ("[trian]\niterations = 5\n", "trian: there is no such setting; did you mean 'train'?"),
        ("[train]\niterations = 0\n", "train.iterations: Input should be greater than or equal to 1 (given: 0)"),
        ("[train\n", "is not valid TOML"),
    ],
)
def test_wrong_recipes_are_one_line_that_names_file_and_field(tmp_path, text, says):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_recipe(path)
    assert str(path) in str(caught.value) and says in str(caught.value) and "\n" not in str(caught.value)


def test_missing_recipe(tmp_path):
    with pytest.raises(ConfigError, match="there is no recipe"):
        load_recipe(tmp_path / "nix.toml")


def test_saved_recipe_reads_back_equal(tmp_path):
    recipe = load_recipe(None, ["--train.seed", "5", "--agent.history_steps", "4"])
    save_recipe(recipe, tmp_path / "config.json")
    assert read_saved(tmp_path / "config.json") == recipe


def test_a_run_directory_belongs_to_its_recipe(tmp_path):
    run_dir = tmp_path / "runs" / "mine"
    claim(load_recipe(None), run_dir)
    claim(load_recipe(None, ["--train.iterations", "9"]), run_dir, may_change=["train.iterations"])
    assert read_saved(run_dir / "config.json").train.iterations == 9
    other = load_recipe(None, ["--algorithm.replay.gamma", "0.5", "--train.iterations", "8", "--model", "elsewhere"])
    with pytest.raises(ConfigError, match=r"another recipe \(model, algorithm.replay.gamma differ\): .*mine/config"):
        claim(other, run_dir, may_change=["train.iterations"])
    many = [w for name in ("seed", "passes", "mini_batch", "iterations") for w in (f"--train.{name}", "3")]
    with pytest.raises(ConfigError, match=r"\(model, sft.seed, train.iterations, train.mini_batch and 2 more differ\)"):
        claim(load_recipe(None, [*many, "--model", "elsewhere", "--sft.seed", "4"]), run_dir)
    assert read_saved(run_dir / "config.json").model == "", "a refused recipe claims nothing"


def test_removed_settings_of_a_saved_recipe_are_left_out_if_nothing_changes(tmp_path):
    recipe = load_recipe(None, ["--train.seed", "3"])
    path = tmp_path / "config.json"
    saved = recipe.model_dump(mode="json")
    saved["sft"]["lesson_rate"] = 2e-3
    saved["algorithm"]["critic"]["hidden"] = 256
    path.write_text(json.dumps(saved))
    assert read_saved(path) == recipe
    saved["algorithm"]["critic"]["hidden"] = 64
    path.write_text(json.dumps(saved))
    with pytest.raises(ConfigError, match="algorithm.critic.hidden was removed and is always 256"):
        read_saved(path)


def test_removed_settings_of_a_recipe_are_refused_by_name(tmp_path):
    (tmp_path / "old.toml").write_text("[sft]\nlesson_share = 0.15\n")
    with pytest.raises(ConfigError, match="sft.lesson_share: this setting was removed and is always 0.15"):
        load_recipe(tmp_path / "old.toml")
    with pytest.raises(ConfigError, match="--dpo.warmup: this setting was removed"):
        load_recipe(None, ["--dpo.warmup", "0.1"])


def test_damaged_or_foreign_saved_recipe(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"train": ')
    with pytest.raises(ConfigError, match="is not a saved recipe"):
        read_saved(path)
    path.write_text(json.dumps({"vocab_size": 3}))
    with pytest.raises(ConfigError, match="vocab_size: there is no such setting"):
        read_saved(path)


def test_environment_variables_do_not_leak_in(monkeypatch):
    monkeypatch.setenv("TRAIN", '{"seed": 9}')
    monkeypatch.setenv("MODEL", "elsewhere")
    assert load_recipe(None) == Recipe() and load_recipe(None).model == ""


@pytest.mark.parametrize("modules", ["mobilerl, mobilerl.config, envs", "mobilerl.cli"])
def test_imports_are_quick_and_without_torch(modules):
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    status, _, seconds = processor_time(code, enough=2.0)
    assert status == 0 and seconds < 2.0
