"""`mobilerl settings`, and completion in a real bash."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from mobilerl.cli import main
from mobilerl.config import Recipe


def flags_in(text: str) -> set[str]:
    return set(re.findall(r"^  (--[\w.]+)", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["phone.popup_rate"], {"--phone.popup_rate"}),
        (["popup_rate"], {"--phone.popup_rate", "--sft.popup_rate"}),
        (["vllm"], {f"--vllm.{name}" for name in Recipe().vllm.model_dump()}),
        (["openai", "endpoint", "propose"], {"--sft.proposer_url"}),
    ],
)
def test_settings_are_found_by_name_section_and_topic(words, found, capsys):
    assert main(["settings", *words]) == 0
    assert flags_in(capsys.readouterr().out) == found


def test_settings_command(capsys):
    assert main(["settings"]) == 0
    assert re.search(r"^phone +\w", capsys.readouterr().out, re.MULTILINE)
    assert main(["settings", "--json"]) == 0
    assert "train" in json.loads(capsys.readouterr().out)["properties"]
    assert main(["settings", "popup_rte"]) == 2
    assert "did you mean 'popup_rate'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("algorithm.gamma", "0.95 for gigpo, 0.9 for distrl"),
        ("algorithm.replay.capacity", "512 for adagrpo, 2000 for digirl and filtered_bc, 600 for distrl"),
        ("algorithm.type", "adagrpo"),
        ("algorithm.curriculum.patience", "2"),
    ],
)
def test_every_default_of_a_setting_of_several_algorithms_is_shown(name, shown, capsys):
    assert main(["settings", name]) == 0
    assert re.search(rf"\(default: {shown}[;)]", " ".join(capsys.readouterr().out.split()))


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "mobilerl.bash"
    with open(path, "w") as out:
        subprocess.run([sys.executable, "-m", "mobilerl", "completion", "bash"], stdout=out, check=True)
    return path


def offered(script, *words, cwd="/") -> set[str]:
    """What bash offers for the last of `words`."""
    code = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
        '_shtab_mobilerl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, cwd=cwd, timeout=20)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()) - {""}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("tr",), {"train"}),
        (("train", "--phone.pop"), {"--phone.popup_rate"}),
        (("train", "--fleet.type", ""), {"embedded", "docker", "adb", "browser"}),
        (("train", "--train.seed", "1", "--fleet.type", "a"), {"adb"}),
        (("eval", ""), {"sim", "generated", "instructions", "androidworld", "androidlab", "miniwob", "mobilegym"}),
        (("eval", "sim", "--agent", "e"), {"expert"}),
        (("view", "--fleet.ty"), set()),  # takes no settings
    ],
)
def test_bash_completes(script, words, expected):
    assert offered(script, "mobilerl", *words) == expected
