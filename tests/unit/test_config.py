import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from mobilerl.config import ConfigError, OptimizerSection, Recipe, load_recipe, read_saved, save_recipe
from mobilerl.config.flags import add_flags, settings_of
from mobilerl.config.packaged import recipe_names
from mobilerl.config.reading import to_toml
from mobilerl.config.training import SftSection, SourceSection


def write(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_flags_override_the_file_and_the_file_the_defaults(tmp_path):
    path = write(tmp_path, '[train]\niterations = 7\nseed = 3\nmax_minutes = "null"\n[phone]\npopup_rate = 0.5\n')
    recipe = load_recipe(
        path, ["--train.iterations", "9", "--engine.max_pixels=null", "--tasks.templates", '["a","b"]']
    )
    assert (recipe.train.iterations, recipe.train.seed, recipe.phone.popup_rate) == (9, 3, 0.5)
    assert recipe.train.max_minutes is None and recipe.engine.max_pixels is None
    assert recipe.tasks.templates == ("a", "b") and recipe.train.keep_batches == Recipe().train.keep_batches


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--train", "1"], "train: this is a section"),
        (["--algorithm.group_size", "1"], "algorithm.group_size"),
        (["--algorithm.loss.clip_low", "1.5"], "algorithm.loss.clip_low: Input should be less than"),
        (["--algorithm.type", "nix"], "'adagrpo'"),
        (["--" + "x" * 9000, "1"], "no such setting"),
    ],
)
def test_a_wrong_flag_is_named_in_one_line(flags, says):
    with pytest.raises(ConfigError) as caught:
        load_recipe(None, flags)
    assert says in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[train]\niterations = 0\n", "train.iterations: Input should be greater"),
        ("[train\n", "is not valid TOML"),
        ('[[sft.sources]]\nformat = "x"\npath = "p"\n', "sft.sources.0.format"),
    ],
)
def test_a_wrong_recipe_is_one_line_with_file_and_field(tmp_path, text, says):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_recipe(path)
    assert str(path) in str(caught.value) and says in str(caught.value) and "\n" not in str(caught.value)


def test_all_mistakes_are_named_at_once_and_blamed_on_who_made_them(tmp_path):
    path = write(
        tmp_path,
        'modle = "x"\n[train]\niterations = "many"\nseed = 1\n[phone]\nwidth = 360\n[suite]\ntype = "nix"\n'
        '[algorithm]\ntype = "digirl"\n[algorithm.replay]\nkappa = 0.5\n',
    )
    flags = ["--fleet.count", "0", "--judge.reward", "--train.sede", "1", "--fleet.serials", '["a",', "stray"]
    with pytest.raises(ConfigError) as caught:
        load_recipe(path, flags)
    expected = [
        "--train.sede: there is no such setting; did you mean '--train.seed'?",
        "command line: stray belongs to no flag",
        "--judge.reward: expected one argument",
        f"{path}: suite.type: Input should be 'phone', ",
        "--fleet.count: Input should be greater than or equal to 1 (given: '0')",
        "--fleet.serials: Input should be a list",
        f"{path}: algorithm.replay.kappa: only with algorithm.type = adagrpo (it is 'digirl'); set it as well",
        f"{path}: train.iterations: Input should be a valid integer",
        f"{path}: modle: there is no such setting; did you mean 'model'?",
    ]
    lines = str(caught.value).splitlines()
    assert len(lines) == len(expected)
    for line, begins in zip(lines, expected, strict=True):
        assert line.startswith(begins), line
    with pytest.raises(ConfigError, match="recipe.toml and the command line: judge.reward and rollout.scorer both"):
        load_recipe(
            write(tmp_path, '[rollout]\nscorer = "a:b"\n'),
            ["--judge.reward", "true", "--judge.url", "http://a", "--judge.model", "m"],
        )


def test_a_packaged_recipe_is_found_by_its_name_in_every_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = recipe_names()
    assert {"adagrpo", "sft", "generated/adagrpo"} < set(names) and "compare" not in names
    for name in names:
        load_recipe(name)
    recipe = load_recipe("generated/adagrpo")
    assert recipe.suite.type == "generated" and (Path(recipe.model) / "model.safetensors").is_file()
    assert load_recipe("sft").model == recipe.model
    (tmp_path / "sft").mkdir()
    assert load_recipe("sft").model == recipe.model
    write(tmp_path, "[train]\nseed = 3\n").rename("adagrpo")
    assert load_recipe("adagrpo").train.seed == 3, "a file of that name comes first"
    with pytest.raises(ConfigError, match="there is no recipe nix: name a file, or one of adagrpo, .*generated/sft"):
        load_recipe("nix")


def test_a_model_beside_the_recipe_comes_before_one_in_the_working_directory(tmp_path):
    path = write(tmp_path, 'model = "checkpoint"\n')
    assert load_recipe(path).model == "checkpoint"
    (tmp_path / "checkpoint").mkdir()
    assert load_recipe(path).model == str(tmp_path.resolve() / "checkpoint")
    assert load_recipe(path, ["--model", "checkpoint"]).model == "checkpoint"


def test_flags_reach_every_algorithm_of_the_union(tmp_path):
    path = write(tmp_path, '[algorithm]\ntype = "distrl"\n')
    recipe = load_recipe(path, ["--algorithm.replay.alpha", "0.25", "--algorithm.replay.priority_weights", "1,2,3"])
    assert (recipe.algorithm.replay.alpha, recipe.algorithm.replay.priority_weights) == (0.25, (1.0, 2.0, 3.0))
    assert load_recipe(None, ["--algorithm.type", "digirl", "--algorithm.top_p", "0.3"]).algorithm.top_p == 0.3
    with pytest.raises(
        ConfigError,
        match=r"algorithm.spa: only with algorithm.type = adagrpo \(it is 'distrl'\); add --algorithm.type adagrpo",
    ):
        load_recipe(path, ["--algorithm.spa", "false"])


NUMBERS = sorted(
    name
    for name, owners in settings_of([Recipe]).items()
    if any("float" in str(field.annotation) for _, field in owners)
    and not name.startswith("suite.")
    and (not name.startswith("algorithm.") or name.removeprefix("algorithm.") in OptimizerSection.model_fields)
)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_numbers_are_finite(value):
    """Infinity would train, and could not be saved as JSON and resumed."""
    assert len(NUMBERS) > 15
    for name in NUMBERS:
        with pytest.raises(ConfigError, match=f"{name}.*(finite|than|valid)"):
            load_recipe(None, [f"--{name}={value}"])


def test_every_setting_has_a_description():
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser)
    assert len(parser._actions) > 100
    assert [a.dest for a in parser._actions if a.help.startswith(" (default")] == []
    assert [g.title for g in parser._action_groups[3:] if not g.description] == []


ODD = 'a "quoted" \\ back\tslash\x7f\x01 ünï☂🦊 = # [x]'


def test_a_written_recipe_reads_back_equal(tmp_path):
    sources = (SourceSection(format="aitw", path=ODD, weight=1e-7), SourceSection(format="mobile3m", path="b"))
    recipe = Recipe(
        model=ODD,
        sft=SftSection(sources=sources, learning_rate=1e-05),
        fleet={"environment": ("A", ODD.replace("=", "-")), "type": "docker"},
        train={"seed": -3, "max_minutes": None},
    )
    for each in (recipe, Recipe()):
        assert load_recipe(write(tmp_path, to_toml(each))) == each
        save_recipe(each, tmp_path / "config.json")
        assert read_saved(tmp_path / "config.json") == each


@pytest.mark.parametrize("modules", ["mobilerl, mobilerl.config, mobilerl.envs", "mobilerl.cli"])
def test_imports_are_quick_and_without_torch(modules):
    code = f"import sys, time, {modules}; print({{'torch', 'transformers'}} & {{*sys.modules}}, time.process_time())"
    loaded, seconds = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    assert loaded == "set()" and float(seconds) < 2.0
