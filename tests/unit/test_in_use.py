"""Settings of components that are not in use are mistakes, in a recipe file by itself and on the command line."""

from __future__ import annotations

import pytest

from mobilerl.cli import main
from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.config.flags import settings_of
from mobilerl.config.in_use import value_of
from mobilerl.config.marks import NotWith, OnlyWith, Resumable, UsedBy
from mobilerl.config.reading import to_toml

JUDGE = ["--judge.url", "http://h/v1", "--judge.model", "m"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--fleet.serials", "h:1"], "only with fleet.type = adb (it is 'embedded'); add --fleet.type adb, or leave"),
        (["--fleet.type", "docker", "--fleet.serials", "h:1"], "only with fleet.type = adb (it is 'docker')"),
        (["--fleet.reset", "app_data"], "only with fleet.type = docker or adb"),
        (
            ["--fleet.type", "adb", "--fleet.serials", "h:1", "--phone.width", "720"],
            "with fleet.type = embedded or dock",
        ),
        (["--vllm.gpu_memory", "0.5"], "only with engine.type = vllm or verl (it is 'local'); add --engine.type vllm"),
        (["--engine.type", "vllm", "--rollout.workers", "2"], "only with engine.type = local (it is 'vllm')"),
        (["--judge.model", "m"], "only with judge.url (it is ''); add --judge.url VALUE"),
        (["--judge.temperature", "1"], "only with judge.url"),
        (["--dpo.epochs", "0", "--dpo.beta", "1"], "only with dpo.epochs (it is 0)"),
        (["--eval.instances", "4"], "only with eval.every (it is 0)"),
        (["--algorithm.curriculum.type", "uniform", "--algorithm.curriculum.patience", "3"], "curriculum.type = fcf"),
        (
            ["--algorithm.replay.fraction", "0", "--algorithm.replay.kappa", "3"],
            "with algorithm.replay.fraction (it is",
        ),
        (["--agent.format", "qwen3-vl", "--agent.layout", "chat"], "only with agent.format = mobilerl or null (it is"),
        (["--suite.type", "instructions", "--suite.file", "f", "--phone.popup_rate", "0.3"], "not with suite.type = "),
    ],
)
def test_a_flag_without_effect_is_a_mistake(flags, says):
    with pytest.raises(ConfigError) as caught:
        load_recipe(None, flags)
    name = flags[-2]
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{name}: ") and says in first


@pytest.mark.parametrize(
    ("command", "flags", "says"),
    [
        ("train", ["--sft.learning_rate", "0.1"], "only for `mobilerl sft` and `mobilerl pages` and "),
        ("train", ["--dpo.beta", "0.3"], "only for `mobilerl pages`, not for `mobilerl train`; leave it out"),
        ("train", JUDGE, "only with judge.reward = true (it is false); add --judge.reward true"),
        ("sft", ["--fleet.type", "docker"], "not for `mobilerl sft`"),
        ("sft", ["--algorithm.group_size", "4"], "only for `mobilerl train`"),
        ("eval sim", ["--fleet.type", "adb", "--fleet.serials", "h:1"], "not for `mobilerl eval sim`"),
        ("eval sim", ["--eval.instances", "4"], "only for `mobilerl train`"),
        (
            "eval sim",
            ["--engine.type", "verl", "--vllm.gpu_memory", "0.5"],
            "only for `mobilerl train` and `mobilerl sft` and ",
        ),
        ("eval instructions", ["--rollout.workers", "2"], "only for `mobilerl train`"),
        ("eval androidworld", JUDGE, "not for `mobilerl eval androidworld`"),
    ],
)
def test_a_flag_for_another_command_is_a_mistake(command, flags, says):
    with pytest.raises(ConfigError) as caught:
        load_recipe(None, flags, command=command)
    assert says in str(caught.value)
    load_recipe(None, flags if flags != ["--eval.instances", "4"] else [*flags, "--eval.every", "2"])


def test_what_is_in_use_or_asks_for_nothing_is_accepted():
    for command, flags in [
        ("eval sim", JUDGE),
        ("train", [*JUDGE, "--judge.reward", "true", "--judge.temperature", "1"]),
        (
            "train",
            ["--engine.type", "verl", "--rollout.workers", "0", "--cluster.nodes", "2", "--vllm.gpu_memory", "1"],
        ),
        ("train", ["--engine.type", "vllm", "--vllm.sleep", "true"]),
        ("train", ["--fleet.spares", "0", "--fleet.serials", "[]", "--fleet.kvm", "false"]),
        ("eval androidworld", ["--phone.popup_rate", "0"]),
        ("sft", ["--phone.width", "720", "--engine.threads", "1"]),  # on embedded phones, whatever the fleet is
        ("eval sim", ["--phone.width", "720", "--engine.threads", "1", "--fleet.count", "4"]),
        ("sft", ["--fleet.count", "4"]),  # for `mobilerl run`, which evaluates with the same flags
    ]:
        load_recipe(None, flags, command=command)


def test_a_file_is_checked_by_itself_and_flags_may_switch_off_what_it_configures(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text('[fleet]\nserials = ["h:1"]\n[sft]\nbatch_size = 8\n')
    with pytest.raises(ConfigError) as caught:
        load_recipe(path, ["--fleet.type", "adb"], command="train")
    said = f"{path}: fleet.serials: only with fleet.type = adb (it is 'embedded'); set it as well, or leave this out"
    assert str(caught.value) == said, "a section of another command is none"
    path.write_text('[fleet]\ntype = "adb"\nhosts = ["tcp://h:1"]\n[suite]\ntype = "instructions"\n')
    with pytest.raises(ConfigError, match="fleet.hosts: only with fleet.type = docker"):
        load_recipe(path, ["--fleet.serials", "h:1", "--suite.file", "f"])  # the file is incomplete without flags
    recipe = load_recipe("cluster/androidworld-7b", ["--engine.type", "local", "--fleet.hosts", "tcp://h:1"])
    assert recipe.engine.type == "local" and recipe.cluster.nodes == 2
    path.write_text(to_toml(recipe))
    again = load_recipe(path)
    assert again.cluster == Recipe().cluster and again.fleet == recipe.fleet, "what is resolved is in use"


def test_evaluation_flags_are_checked_and_those_of_the_program_are_not(tmp_path, capsys):
    words = [
        "eval",
        "sim",
        "--agent",
        "noop",
        "--template",
        "TodoDue",
        "--instances",
        "1",
        "--out",
        str(tmp_path / "o"),
    ]
    assert main([*words, "--fleet.type", "adb", "--fleet.serials", "h:1"]) == 2
    assert "--fleet.serials: only for `mobilerl train`" in capsys.readouterr().err and not (tmp_path / "o").exists()
    assert main(["fleet", "status", "--fleet.serials", "h:1"]) == 2
    assert "--fleet.serials: only with fleet.type = adb (it is 'docker')" in capsys.readouterr().err


def test_marks_name_settings_and_values_that_exist():
    known = settings_of([Recipe])
    marks = [mark for owners in known.values() for _, info in owners for mark in info.metadata]
    found = [mark for mark in marks if isinstance(mark, OnlyWith | NotWith)]
    assert len(found) > 40 and any(isinstance(mark, UsedBy) for mark in marks)
    for mark in found:
        for name, values in ({mark.setting: mark.values} if isinstance(mark, NotWith) else mark.any_of).items():
            assert name in known, name
            kinds = {str(info.annotation) for _, info in known[name]} | {repr(info.default) for _, info in known[name]}
            assert all(
                any(repr(value) in kind for kind in kinds) for value in values if isinstance(value, str) and value
            )
    assert value_of("algorithm.retrace", {"algorithm": {"type": "distrl"}}) is True
    assert value_of("algorithm.retrace", {}) is None
    assert not any(isinstance(mark, Resumable) and mark.from_checkpoint for mark in found)


def test_settings_show_when_they_are_in_use(capsys):
    assert main(["settings", "fleet.serials"]) == 0
    assert "only with fleet.type = adb" in " ".join(capsys.readouterr().out.split())
