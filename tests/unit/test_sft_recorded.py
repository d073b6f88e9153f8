"""SFT on recorded demonstrations alone, for a suite without experts: both stages, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from source_files import control_episode, write_control

from mobilerl.config import ConfigError, Recipe
from mobilerl.inference.client import Usage
from mobilerl.models import tiny
from mobilerl.records import Completion
from mobilerl.sft.checks import dry_run_sft
from mobilerl.sft.run import run
from mobilerl.sft.sources.stream import hashed_split
from mobilerl.training.tracking import read_metrics

pytestmark = pytest.mark.usefixtures("one_thread")
EPISODES, STEPS = 8, 40
"""Training episodes, and their steps: launch, tap, and finish with the goal, and the first two by instructions."""
PROMPTS = {"layout": "compact", "grounding": "mark", "screen_style": "marks"}
SAVE = '<think>save it</think><answer>do(action="Tap", element=<2>)</answer>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With the recordings and a checkpoint to start from."""
    folder = tmp_path_factory.mktemp("recorded")
    keys = [k for k in range(1, 99) if hashed_split("androidcontrol", str(k)) == "train"][:EPISODES]
    write_control(folder / "control", *(control_episode(key, f"Save the note {key}") for key in keys))
    torch.manual_seed(0)
    tiny.create(folder / "model", ["save the note do step of"], hidden=16, layers=1, heads=1, vision_hidden=16)
    return folder


def recipe(folder: Path, suite: str = "androidworld", source: dict[str, object] | None = None, **sft: object) -> Recipe:
    sources = [] if source is None else [{"format": "androidcontrol", "path": str(folder / "control"), **source}]
    where = {"servers": ["http://127.0.0.1:9"]} if suite == "androidworld" else {}
    return Recipe(
        model=str(folder / "model"),
        suite={"type": suite, **where},
        engine={"lora_rank": 0},
        agent={
            "deadline_s": 3600.0,
            "screenshots": 1,
            "layout": "compact",
            "grounding": "mark",
            "screen_style": "marks",
        },
        sft={"reading_samples": 0, "batch_size": 4, "stage1_epochs": 0.3, "stage2_rounds": 1, "sources": sources} | sft,
    )


class Server:
    """In place of a model server that always proposes to save."""

    size_seen = None

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.client = SimpleNamespace(usage=Usage())

    async def act(self, messages, images, sampling, key="") -> Completion:
        self.keys.append(key)
        self.client.usage.count(SimpleNamespace(prompt_tokens=100, completion_tokens=7))
        return Completion((1,), (2,), (-0.1,), 0, SAVE)


def test_both_stages_learn_from_recordings_alone(folder, tmp_path, monkeypatch, capsys):
    server = Server()
    monkeypatch.setattr("mobilerl.inference.server.connect", lambda *args: server)
    given = recipe(folder, source={"stage2_limit": 30}, proposer_url="http://127.0.0.1:9/v1", candidates=2)
    assert dry_run_sft(given, tmp_path) == 0
    assert not (tmp_path / "config.json").exists()
    final = run(given, tmp_path)
    said = capsys.readouterr().out
    assert f"stage1: {STEPS} samples" in said and "demonstrations, " not in said
    keys = [f"{i:08d}-{k:02d}" for i in range(30) for k in range(2)]
    assert sorted(server.keys) == keys, "each step has seeds of its own"
    taps = int(said.partition("stage2-round1: ")[2].partition(" samples")[0])
    assert 8 <= taps <= 16 and f"thoughts kept for {taps / 30:.0%} of 30 steps" in said
    assert f"tap {taps} of {taps}" in said and "6,000 prompt and 420 response tokens" in said
    rows = [row for row in read_metrics(tmp_path / "metrics.jsonl") if row["stage"] == "stage2-round1"]
    assert rows[0]["sft/kept_share/tap"] == 1.0 and rows[0]["sft/kept_share/launch"] == 0.0
    assert rows[0]["sft/proposals"] == 60 and rows[0]["sft/completion_tokens"] == 420
    assert len((tmp_path / "proposals" / "stage2-round1.jsonl").read_text().splitlines()) == 60
    assert (final / "model.safetensors").read_bytes() != (tmp_path / "stage1" / "model.safetensors").read_bytes()
    (counts,) = json.loads((tmp_path / "sources.json").read_text()).values()
    assert counts["steps"] == STEPS


@pytest.mark.parametrize(
    ("settings", "stages", "told"),
    [
        ({}, (1,), "no experts' demonstrations .* give sft.sources"),
        ({"suite": "phone", "demos_per_template": 0}, (1, 2), "no experts' demonstrations .* give sft.sources"),
        ({"source": {}}, (1, 2), "so stage 2 needs sft.proposer_url, .* or use --stage 1"),
        ({"source": {"stage2_limit": 0}, "proposer_url": "http://127.0.0.1:9/v1"}, (2,), "stage2_limit is above 0"),
        ({"source": {"path": "/nowhere"}}, (1,), "/nowhere does not exist"),
    ],
)
def test_nothing_to_learn_from_is_refused_at_once_and_by_a_dry_run(folder, tmp_path, settings, stages, told):
    (tmp_path / "stage1").mkdir()
    given = recipe(folder, **settings)
    for start in (lambda: dry_run_sft(given, tmp_path, stages), lambda: run(given, tmp_path, stages)):
        with pytest.raises(ConfigError, match=told):
            start()
    assert not (tmp_path / "metrics.jsonl").exists()
