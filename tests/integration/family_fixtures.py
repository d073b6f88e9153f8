"""Checkpoint folders of every model family, as fixtures: `family`, `folder`, and what their tokenizers are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_families import FAMILIES, Family, create

from envs.phone.env import PhoneEnv
from envs.phone.tasks import suite
from mobilerl.agent.prompts import DEFAULT_SYSTEM_PROMPTS
from sft.demonstrations import demonstrations
from sft.samples import ExpertStep


@pytest.fixture(name="steps", scope="module")
def steps_fixture() -> list[ExpertStep]:
    """Demonstrations on a phone with the proportions of a real one."""
    tasks = [suite.make_task(name, suite.HELD_OUT_SEEDS) for name in ("TodoDue", "MapsNoteDistance")]
    return demonstrations(PhoneEnv("sim-0", 270, 600, 0.0), tasks)


@pytest.fixture(name="family", scope="module", params=FAMILIES)
def family_fixture(request) -> Family:
    return FAMILIES[request.param]


@pytest.fixture(name="corpus", scope="module")
def corpus_fixture(steps) -> list[str]:
    return [DEFAULT_SYSTEM_PROMPTS["box"], *(s.screen.render("mobilerl") for s in steps)]


@pytest.fixture(name="folder", scope="module")
def folder_fixture(family, corpus, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp(family.name)
    create(family, path, corpus)
    return path
