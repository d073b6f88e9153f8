"""Completion in a real bash; the other shells' scripts where those shells are installed."""

import os
import pty
import select
import shlex
import shutil
import subprocess
import time

import pytest

from mobilerl.cli import make_parser
from mobilerl.commands.completion import Command, Flag, bash, commands_of, fish, zsh
from mobilerl.config.describe import settings


@pytest.fixture(scope="module")
def commands():
    return list(commands_of(make_parser()))


@pytest.fixture(scope="module")
def script(commands, tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "mobilerl.bash"
    path.write_text(bash(commands))
    return path


def offered(script, *words, cwd="/", broken_at_equals=True) -> list[str]:
    """What bash offers for the last of `words`, as readline splits them."""
    split = [part for w in words for part in (w.replace("=", "\0=\0").split("\0") if broken_at_equals else [w])]
    split = [w for i, w in enumerate(split) if w or i == len(split) - 1]
    code = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=({shlex.join(split)}); COMP_CWORD={len(split) - 1}; "
        'complete -p mobilerl >/dev/null || exit 1; _mobilerl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, cwd=cwd, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("mobilerl", "tr"), {"train"}),
        (("mobilerl", "train", "--algorithm.replay.ga"), {"--algorithm.replay.gamma"}),
        (("mobilerl", "train", "--algorithm.replay.order", ""), {"top", "uniform"}),
        (("mobilerl", "train", "--algorithm.replay.order=u"), {"uniform"}),
        (("mobilerl", "train", "--algorithm.replay.order="), {"top", "uniform"}),
        (("mobilerl", "train", "--algorithm.credit.spa", "f"), {"false"}),
        (("mobilerl", "train", "--train.seed", "1", "--fleet.type", "a"), {"adb"}),
        (("mobilerl", "train", "--train.seed", ""), set()),
        (("mobilerl", "eval", ""), {"sim", "androidworld", "androidlab"}),
        (("mobilerl", "eval", "sim", "--agent", "e"), {"expert"}),
        (("mobilerl", "eval", "sim", "--phone.wi"), {"--phone.width"}),
        (("mobilerl", "fleet", ""), {"up", "status", "down"}),
        (("mobilerl", "sft", "--stage", ""), {"1", "2"}),
        (("mobilerl", "view", "--op"), {"--open"}),
        (("mobilerl", "view", "--fleet.ty"), set()),  # takes no settings
        (("mobilerl", "completion", "f"), {"fish"}),
    ],
)
def test_bash_completes(script, words, expected):
    assert set(offered(script, *words)) == expected


def test_bash_completes_files_and_folders(script, tmp_path):
    (tmp_path / "my recipe.toml").touch()
    (tmp_path / "runs").mkdir()
    assert offered(script, "mobilerl", "train", "--config", "my", cwd=tmp_path) == ["my", "recipe.toml"]
    assert offered(script, "mobilerl", "train", "--run-dir", "", cwd=tmp_path) == ["runs"]
    assert offered(script, "mobilerl", "train", "--model", "r", cwd=tmp_path) == ["runs"]


def test_every_setting_is_a_flag_of_train(script):
    wanted = {s.flag for s in settings() if s.flag}
    assert len(wanted) > 100 and wanted <= set(offered(script, "mobilerl", "train", "--"))


def test_tab_key_in_an_interactive_bash(script):
    """Readline, its word breaks and `complete` as a person meets them."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(PS1="ready>", TERM="dumb")
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    try:
        read_until(terminal, b"ready>")
        os.write(terminal, f"source {shlex.quote(str(script))}; echo sour''ced\n".encode())
        read_until(terminal, b"sourced")
        os.write(terminal, b"mobilerl train --algorithm.curric\tty\tfc\t")
        assert b"ulum.type fcf" in read_until(terminal, b"type fcf")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def read_until(terminal: int, text: bytes, seconds: float = 15.0) -> bytes:
    seen, until = b"", time.monotonic() + seconds
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, until - time.monotonic()))
        assert ready, f"{text!r} did not come: {seen!r}"
        seen += os.read(terminal, 65536)
    return seen


def test_texts_cannot_break_out_of_the_scripts(tmp_path):
    """A help text with every special character stays a text."""
    evil = "it's $(touch PWNED) `touch PWNED` \\' ; touch PWNED #"
    commands = [Command((), "", (), ("x",)), Command(("x",), evil, (Flag("--a", evil, True, ("b",)),), ())]
    path = tmp_path / "script"
    path.write_text(bash(commands))
    assert offered(path, "mobilerl", "x", "--a", "", cwd=tmp_path) == ["b"]
    assert not (tmp_path / "PWNED").exists()
    assert "\\" not in fish(commands) and fish(commands).count("'") % 2 == 0


@pytest.mark.parametrize(("shell", "make"), [("zsh", zsh), ("fish", fish)])
def test_other_shells_read_their_scripts(shell, make, commands, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    path = tmp_path / "script"
    path.write_text(make(commands))
    done = subprocess.run([shell, "--no-execute" if shell == "fish" else "-n", str(path)], capture_output=True)
    assert done.returncode == 0, done.stderr
