import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from mobilerl import cli, fleet
from mobilerl.cli import main
from mobilerl.doctor.packages import installs
from mobilerl.eval.run import evaluate
from mobilerl.setup import save_agent
from mobilerl.train.interrupt import Stopped


def error_of(capsys, *words) -> str:
    """The one line a command that must fail leaves on stderr."""
    assert main(words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("mobilerl: error: ")
    return lines[0].removeprefix("mobilerl: error: ")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    from mobilerl import tiny

    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny.create(path, ["open the settings"], hidden=32, layers=1, heads=2)
    return path


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("train", "--run-dir", "{dir}/r", "--train.sede", "3"), "did you mean 'train.seed'"),
        (("train", "--run-dir", "{dir}/r", "--collect.group_size", "1"), "collect.group_size"),
        (("train", "--run-dir", "{dir}/r", "--model", "{dir}/nix"), "there is no checkpoint folder"),
        (("train", "--run-dir", "{dir}/r", "--config", "{dir}/nix.toml"), "there is no recipe"),
        (("train", "--run-dir", "{dir}/r"), "--model is missing"),
        (("train", "--run-dir", "/proc/version", "--model", "m"), "is a file; choose another --run-dir"),
        (("sft", "--run-dir", "/proc/version/r"), "is a file; choose another --run-dir"),
        (("train", "--run-dir", "{dir}/r", "--model", "m", "--tasks.templates", "Nix"), "no training template 'Nix'"),
        (("train", "--run-dir", "{dir}/r", "--model", "m", "--resume"), "no run to resume"),
        (("sft", "--run-dir", "{dir}/r", "--sft.learning_rate", "-1"), "sft.learning_rate"),
        (("eval", "sim", "--out", "{dir}"), "--model DIR"),
        (("eval", "sim", "--agent", "expert"), "--out DIR is missing"),
        (("eval", "sim", "--model", "{dir}/nix", "--out", "{dir}"), "there is no checkpoint folder"),
        (("eval", "sim", "--model", "{dir}", "--out", "{dir}"), "not a Hugging Face model folder"),
        (("eval", "sim", "--agent", "noop", "--model", "{dir}", "--out", "{dir}"), "leave --model out"),
        (("eval", "sim", "--agent", "noop", "--template", "Nix", "--out", "{dir}"), "no task template is called 'Nix'"),
        (("eval", "sim", "--agent", "noop", "--trials", "0", "--out", "{dir}"), "--trials is 0"),
        (("eval", "sim", "--agent", "noop", "--compare", "{dir}/x.json", "--out", "{dir}"), "no such results.json"),
        (("view", "{dir}/nix"), "no such run directory"),
        (("phone", "serve", "--authorized-keys", "{dir}/nix"), "nix: No such file or directory"),
        (("bench", "phone", "--steps", "0"), "--steps is 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, says, tmp_path, capsys):
    assert says in error_of(capsys, *(w.format(dir=tmp_path) for w in words))


def test_a_port_that_is_taken_is_named_with_the_flag_that_mends_it(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = error_of(capsys, "phone", "serve", "--port", str(port), "--count", "2")
        assert f"{port})" in said and f"choose another --port (2 phones take {port} to {port + 1})" in said
        said = error_of(capsys, "phone", "serve", "--port", str(port - 9), "--console-port", str(port))
        assert said.strip().endswith("choose another --port or --console-port")


@pytest.mark.parametrize("words", [(), ("fly",), ("eval", "sim", "--agent", "ghost"), ("view", "x", "--stray")])
def test_usage_errors_exit_with_2(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2


def test_checkpoint_with_cut_off_weights(checkpoint, tmp_path, capsys):
    damaged = tmp_path / "damaged"
    shutil.copytree(checkpoint, damaged)
    with open(damaged / "model.safetensors", "r+b") as f:
        f.truncate(1000)
    assert "cannot be loaded" in error_of(capsys, "eval", "sim", "--model", str(damaged), "--out", str(tmp_path / "o"))


def test_checkpoint_without_weights(checkpoint, tmp_path, capsys):
    bare = tmp_path / "bare"
    shutil.copytree(checkpoint, bare, ignore=shutil.ignore_patterns("*.safetensors"))
    assert "no *.safetensors weights" in error_of(capsys, "eval", "sim", "--model", str(bare), "--out", str(tmp_path))


def test_foreign_checkpoint(checkpoint, tmp_path, capsys):
    foreign = tmp_path / "foreign"
    shutil.copytree(checkpoint, foreign)
    (foreign / "config.json").write_text(json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}))
    said = error_of(capsys, "eval", "sim", "--model", str(foreign), "--out", str(tmp_path / "o"))
    assert "'gpt2' reads no images" in said and "use a checkpoint of Qwen2.5-VL" in said


def test_damaged_agent_settings(checkpoint, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    (copy / "agent.json").write_text('{"grounding": ')
    assert "agent.json is damaged" in error_of(capsys, "eval", "sim", "--model", str(copy), "--out", str(tmp_path))


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


@pytest.mark.parametrize(
    "words", [("fly",), ("train",), ("train", "--run-dir"), ("view", "x", "--stray"), ("sft", "--stage", "3")]
)
def test_usage_errors_are_one_line_with_the_way_to_help(words, capsys):
    with pytest.raises(SystemExit):
        main(words)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("mobilerl") and lines[0].endswith("--help")


def test_a_misspelt_command_or_choice_is_guessed(capsys):
    for words, says in ((("tarin",), "did you mean 'train'?"), (("fleet", "statsu"), "did you mean 'status'?")):
        with pytest.raises(SystemExit):
            main(words)
        assert says in capsys.readouterr().err


def test_a_mistake_that_can_be_known_leaves_no_run_behind(tmp_path, checkpoint, capsys):
    """Else the same command without the mistake would be told that the directory already holds a run."""
    run = tmp_path / "run"
    words = ["train", "--run-dir", str(run), "--model", str(checkpoint)]
    for wrong in (["--tasks.templates", "Nix"], ["--fleet.type", "adb", "--fleet.serials", '["a b"]']):
        assert main([*words, *wrong]) == 2
        assert not run.exists()
    capsys.readouterr()


def _fail(error, arguments=2):
    def run(*given):
        assert len(given) == arguments
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (Stopped(signal.SIGTERM, "iteration 3 is saved"), 143, "iteration 3 is saved"),
        (OSError(errno.ENOSPC, "No space left on device", "/runs/a"), 2, "the disk is full (/runs/a); make room"),
        (KeyError("no task template is called 'Nix'"), 2, "mobilerl: error: no task template is called 'Nix'"),
        (ValueError("two\nlines"), 2, "mobilerl: error: two lines"),
    ],
)
def test_expected_errors(monkeypatch, capsys, tmp_path, error, code, says):
    monkeypatch.setattr(cli.train, "run", _fail(error))
    assert main(["train", "--run-dir", str(tmp_path)]) == code
    assert says in capsys.readouterr().err


def test_debug_shows_the_traceback_and_bugs_always_do(monkeypatch, tmp_path):
    monkeypatch.setattr(cli.train, "run", _fail(ValueError("x")))
    with pytest.raises(ValueError, match="x"):
        main(["train", "--debug", "--run-dir", str(tmp_path)])
    monkeypatch.setattr(cli.train, "run", _fail(TypeError("a bug")))
    with pytest.raises(TypeError):
        main(["train", "--run-dir", str(tmp_path)])


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (Stopped(signal.SIGTERM, "iteration 3 is saved"), 143, "iteration 3 is saved"),
    ],
)
def test_a_stopped_run_says_the_command_that_goes_on(monkeypatch, capsys, tmp_path, error, code, says, begun):
    """Before the run directory is claimed there is nothing to resume."""
    run = tmp_path / "my run"
    monkeypatch.setattr("mobilerl.train.online.train", _fail(error, 3))
    if begun:
        run.mkdir()
        (run / "config.json").touch()
    assert main(["train", "--run-dir", str(run), "--model", "m"]) == code
    resume = " --resume" if begun else ""
    wanted = f"{says}; go on with\n  mobilerl train --run-dir '{run}' --model m{resume}"
    assert capsys.readouterr().err.strip() == wanted


def test_a_stopped_warm_up_says_what_is_kept(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sft.run.run", _fail(KeyboardInterrupt(), 3))
    assert main(["sft", "--run-dir", str(tmp_path)]) == 130
    said = capsys.readouterr().err
    assert "finished stages are kept" in said and f"go on with\n  mobilerl sft --run-dir {tmp_path}" in said


def test_view_and_bench(tmp_path, capsys):
    from mobilerl.config import load_recipe

    evaluate(load_recipe(None), "noop", None, "test", 1, 1, 0.0, tmp_path / "eval" / "sim", ["TodoDue"])
    assert main(["view", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "view" / "index.html")
    assert main(["bench", "phone", "--steps", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps_per_s_xml_only"] > 0


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch, capsys, tmp_path):
    words = ["train", "--run-dir", str(tmp_path)]
    monkeypatch.setattr(cli.train, "run", _fail(ModuleNotFoundError("No module named 'httpx'", name="httpx")))
    assert main(words) == 2
    said = "mobilerl: error: train needs httpx, which is not installed: pip install 'mobilerl[androidworld]'\n"
    assert capsys.readouterr().err == said
    monkeypatch.setattr(cli.train, "run", _fail(ModuleNotFoundError("No module named 'torch'", name="torch")))
    assert main(words) == 2
    assert "pip install torch==2.13.0, then pip install 'mobilerl[local]'" in capsys.readouterr().err
    monkeypatch.setattr(cli.train, "run", _fail(ModuleNotFoundError("No module named 'envs.gone'", name="envs.gone")))
    with pytest.raises(ModuleNotFoundError):  # a bug
        main(words)


@pytest.mark.parametrize(
    ("module", "cure"),
    [
        ("yaml.nodes", "pip install 'mobilerl[androidlab]'"),
        ("PIL", "pip install mobilerl"),
        ("adbutils", "pip install 'mobilerl[adb]'"),
        ("verl", "pip install 'mobilerl[verl]'"),
        ("os", ""),
        (None, ""),
    ],
)
def test_what_installs_a_module(module, cure):
    assert installs(module) == cure


def test_output_that_nobody_reads_any_more_is_no_error():
    """As of `mobilerl settings --all | head -1`."""
    words = [sys.executable, "-m", "mobilerl", "settings", "--all"]
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(words, stdout=writer, stderr=subprocess.PIPE, text=True) as child:
        os.close(writer)
        assert (child.stderr.read(), child.wait()) == ("", 141)


def test_a_fleet_without_its_packages_says_so(monkeypatch, capsys):
    monkeypatch.setattr(fleet, "find_spec", lambda name: None)
    assert main(["fleet", "status"]) == 2
    assert "fleet.type = \"docker\" needs docker: pip install 'mobilerl[docker]'" in capsys.readouterr().err
