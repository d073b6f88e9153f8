"""`mobilerl settings`."""

import json
import re

import pytest

from mobilerl.cli import main
from mobilerl.config import Recipe


def flags_in(text: str) -> set[str]:
    return set(re.findall(r"^  (--[\w.]+)", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["phone.popup_rate"], {"--phone.popup_rate"}),
        (["popup_rate"], {"--phone.popup_rate"}),
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
