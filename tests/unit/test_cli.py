import errno
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from mobilerl import cli
from mobilerl.cli import main
from mobilerl.config import ConfigError
from mobilerl.config.named import load_named
from mobilerl.doctor.packages import installs
from mobilerl.models.checkpoint_folder import save_agent
from mobilerl.training.interrupt import Stopped


def error_of(capsys, *words) -> str:
    """The one line a command that must fail leaves on stderr."""
    assert main(words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("mobilerl: error: ")
    return lines[0].removeprefix("mobilerl: error: ")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    from mobilerl.models import tiny

    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny.create(path, ["open the settings"], hidden=32, layers=1, heads=2)
    return path


def test_without_a_command_there_is_help(capsys):
    assert main([]) == 2
    assert "usage: mobilerl" in (text := capsys.readouterr().err) and "train " in text


def test_an_unknown_option_refers_to_the_help_of_its_command(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["demo", "--ouput", "x"])
    assert "demo does not know '--ouput'; see mobilerl demo --help" in capsys.readouterr().err


SOURCES = '[{{"format": "aitw", "path": "{dir}/nix"}}]'


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("train", "--config", "adagrpo", "--run-dir", "{dir}/r", "--model", "{dir}/nix"), "no checkpoint folder"),
        (("train", "--run-dir", "{dir}/r", "--config", "{dir}/nix.toml"), "no recipe"),
        (("train", "--run-dir", "{dir}/r", "--model", "m"), "needs a recipe, a file or one of adagrpo, "),
        (("sft", "--run-dir", "{dir}/r"), "`mobilerl sft` needs a recipe"),
        (("pages", "--run-dir", "{dir}/r", "--model", "m"), "`mobilerl pages` needs a recipe"),
        (("train", "--config", "gpu/qwen2.5-vl-3b-lora", "--run-dir", "{dir}/r"), "--model is missing"),
        (("train", "--config", "adagrpo", "--run-dir", "/proc/version", "--model", "m"), "is a file"),
        (("train", "--config", "adagrpo", "--run-dir", "{dir}/r", "--model", "m", "--resume"), "no run to resume"),
        (("eval", "sim", "--out", "{dir}"), "--model is missing"),
        (("eval", "sim", "--agent", "expert"), "--out DIR is missing"),
        (("eval", "sim", "--agent", "noop", "--model", "{dir}", "--out", "{dir}"), "needs no model"),
        (("eval", "sim", "--agent", "noop", "--template", "Nix", "--out", "{dir}"), "no task template is called 'Nix'"),
        (("eval", "sim", "--agent", "noop", "--trials", "0", "--out", "{dir}"), "--trials: Input should"),
        (("view", "{dir}/nix"), "no such run directory"),
        (
            ("sft", "--config", "sft", "--dry-run", "--run-dir", "{dir}/r", "--sft.sources", SOURCES),
            "/nix does not exist",
        ),
        (("phone", "serve", "--authorized-keys", "{dir}/nix"), "No such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, says, tmp_path, capsys):
    assert says in error_of(capsys, *(w.format(dir=tmp_path) for w in words))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: os.truncate(path / "model.safetensors", 1000), "cannot be loaded"),
        (lambda path: (path / "model.safetensors").unlink(), "no *.safetensors weights"),
        (lambda path: (path / "config.json").write_text('{"model_type": "gpt2"}'), "'gpt2' are not supported"),
        (lambda path: (path / "config.json").write_text('{"model_type": "qwen3_5_moe"}'), "no mixture of experts"),
        (lambda path: (path / "agent.json").write_text('{"grounding": '), "agent.json is damaged"),
    ],
)
def test_damaged_checkpoints(damage, says, checkpoint, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    damage(copy)
    assert says in error_of(capsys, "eval", "sim", "--model", str(copy), "--out", str(tmp_path / "out"))


def test_agent_settings_come_from_the_checkpoint_and_the_command_line_wins(checkpoint, tmp_path, capsys):
    from mobilerl.config import AgentSection

    run = tmp_path / "run"
    shutil.copytree(checkpoint, run / "final")  # a run directory stands for its newest checkpoint
    save_agent(AgentSection(screenshots=0, history_steps=2, max_new_tokens=5, max_invalid=1), run / "final")
    words = ["eval", "sim", "--model", str(run), "--template", "TodoDue", "--instances", "1", "--engine.threads", "1"]
    assert main([*words, "--agent.max_new_tokens", "3", "--out", str(tmp_path / "out")]) == 0
    assert "from the checkpoint; from the command line: --agent.max_new_tokens" in capsys.readouterr().out
    protocol = json.loads((tmp_path / "out" / "results.json").read_text())["protocol"]
    assert protocol["model"] == str(run / "final") and len(protocol["weights_sha256"]) == 64
    assert (protocol["agent.screenshots"], protocol["agent.history_steps"]) == (0, 2)
    assert (protocol["agent.max_new_tokens"], protocol["agent.max_invalid"]) == (3, 1)


def test_a_mistake_that_can_be_known_leaves_no_run_behind(tmp_path, checkpoint, capsys):
    """Else the same command without the mistake would be told that the directory already holds a run."""
    run = tmp_path / "run"
    words = ["train", "--config", "adagrpo", "--run-dir", str(run), "--model", str(checkpoint)]
    for wrong in (["--tasks.templates", "Nix"], ["--fleet.type", "adb", "--fleet.serials", '["a,b"]']):
        assert main([*words, *wrong]) == 2
        assert not run.exists()
    capsys.readouterr()


def _fail(error, arguments=2):
    def run(*given):
        assert len(given) == arguments
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/runs/a"), "the disk is full (/runs/a)"),
        (KeyError("no task template is called 'Nix'"), "mobilerl: error: no task template is called 'Nix'"),
        (ValueError("two\nlines"), "mobilerl: error: two lines"),
    ],
)
def test_expected_errors_are_one_line_and_a_traceback_with_debug(monkeypatch, capsys, tmp_path, error, says):
    monkeypatch.setattr(cli.train, "run", _fail(error))
    assert main(["train", "--run-dir", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
    with pytest.raises(type(error)):
        main(["train", "--debug", "--run-dir", str(tmp_path)])


@pytest.mark.parametrize(
    ("error", "code", "says", "begun"),
    [
        (KeyboardInterrupt(), 130, "stopped", False),
        (Stopped(signal.SIGTERM, "iteration 3 is saved"), 143, "iteration 3 is saved", True),
    ],
)
def test_a_stopped_run_prints_the_command_that_continues_it(monkeypatch, capsys, tmp_path, error, code, says, begun):
    """Before the run directory is claimed there is nothing to resume."""
    run = tmp_path / "my run"
    monkeypatch.setattr("mobilerl.training.online.train", _fail(error, 1))
    if begun:
        run.mkdir()
        (run / "config.json").touch()
    assert main(["train", "--config", "adagrpo", "--run-dir", str(run), "--model", "m"]) == code
    resume = " --resume" if begun else ""
    wanted = f"{says}; resume with\n  mobilerl train --config adagrpo --run-dir '{run}' --model m{resume}"
    assert capsys.readouterr().err.strip() == wanted


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch, capsys, tmp_path):
    words = ["train", "--run-dir", str(tmp_path)]
    monkeypatch.setattr(cli.train, "run", _fail(ModuleNotFoundError("No module named 'adbutils'", name="adbutils")))
    assert main(words) == 2
    said = "mobilerl: error: train needs adbutils, which is not installed: pip install 'mobilerl[adb]'\n"
    assert capsys.readouterr().err == said
    monkeypatch.setattr(
        cli.train, "run", _fail(ModuleNotFoundError("No module named 'mobilerl.envs.gone'", name="mobilerl.envs.gone"))
    )
    with pytest.raises(ModuleNotFoundError):  # a bug
        main(words)
    assert [installs(name) for name in ("mobilerl.algorithms.nix", "torch.nix", "mobilerl.sft.nix", None)] == [""] * 4


def test_a_misspelt_module_of_an_algorithm_or_suite_is_named():
    with pytest.raises(
        ConfigError, match=r"A.implementation = 'mobilerl.algorithms.gigop:GiGPO' cannot be imported \(No"
    ):
        load_named("mobilerl.algorithms.gigop:GiGPO", "A.implementation")
    for name in ("mylab.algorithm:Mine", "mobilerl.algorithms.gigpo:GiPO"):
        with pytest.raises(ConfigError, match="correct the name, or install"):
            load_named(name, "A.implementation")
    assert load_named("mobilerl.algorithms.gigpo:GiGPO", "A.implementation").__name__ == "GiGPO"


def test_output_that_nobody_reads_any_more_is_no_error():
    """As of `mobilerl settings --all | head -1`."""
    words = [sys.executable, "-m", "mobilerl", "settings", "--all"]
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(words, stdout=writer, stderr=subprocess.PIPE, text=True) as child:
        os.close(writer)
        assert (child.stderr.read(), child.wait()) == ("", 141)


def test_the_package_without_extras_names_those_that_a_recipe_needs():
    """The recipes' scripts ask it before anything else is installed."""
    absent = "import sys; sys.modules.update(dict.fromkeys(['adbutils', 'docker', 'torch', 'transformers', 'httpx']))\n"
    code = absent + "from mobilerl.cli import main; main(['doctor', '--extras', '--fleet.type', 'docker'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("local,docker\n", "")
