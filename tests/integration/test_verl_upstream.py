"""The cures for verl's faults: that they are needed, that they are right, and how verl gets them.

Needs verl (docs/cluster.md): skipped where it is not installed. Nothing of it is started.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from model_families import FAMILIES, tokenizer_of

if importlib.util.find_spec("verl") is None:
    pytest.skip("no verl in this environment", allow_module_level=True)

ROOT = Path(__file__).parents[2]
OPERATORS = """
import torch
operators = torch.library.Library("torchvision", "FRAGMENT")
if not hasattr(torch.ops.torchvision, "nms"):
    operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
"""A torchvision built for another torch cannot load its operators, and verl imports it. None of them is called here."""
GRID = torch.tensor([[1, 4, 6]])
"""Patches of one picture: time, height, width. Four make a token."""
WORDS, PICTURE_TOKENS = 5, 6
MODULES = {"GLM-4.1V": "glm4v", "Qwen2.5-VL": "qwen2_vl"}
FAILING = [("GLM-4.1V", "image"), ("GLM-4.1V", "text"), ("Qwen2.5-VL", "text")]
ALL = [*FAILING, ("Qwen2.5-VL", "image"), ("Qwen2.5-VL", "video")]
"""GLM-4.1V's videos are left out: Hugging Face marks their frames with the token of images, and verl does not."""


@pytest.fixture(scope="module")
def models() -> dict[str, torch.nn.Module]:
    torch.manual_seed(0)
    return {name: FAMILIES[name].build(tokenizer_of(FAMILIES[name], ["tap the button"] * 9)) for name in MODULES}


@pytest.fixture(scope="module")
def upstream() -> Iterator[ModuleType]:
    operators = torch.library.Library("torchvision", "FRAGMENT")  # what it defines lasts as long as this name does
    if not hasattr(torch.ops.torchvision, "nms"):
        operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    yield importlib.import_module("mobilerl.engines.verl.upstream")


@pytest.fixture
def bare(upstream: ModuleType) -> Iterator[ModuleType]:
    """Without the cures, which are there again afterwards."""
    upstream.remove()
    yield upstream
    upstream.install()


def module_of(family: str) -> ModuleType:
    return importlib.import_module(f"verl.models.transformers.{MODULES[family]}")


def inputs_of(model: torch.nn.Module, kind: str) -> dict[str, torch.Tensor]:
    """A sequence of words, with the tokens of a picture or video in the middle."""
    config = model.config
    ids = torch.arange(1, WORDS + 1)
    if kind == "text":
        return {"input_ids": ids[None]}
    patch = 3 * config.vision_config.temporal_patch_size * config.vision_config.patch_size**2
    pixels = torch.randn(int(GRID.prod()), patch, generator=torch.Generator().manual_seed(1))
    token = config.image_token_id if kind == "image" else config.video_token_id
    ids = torch.cat([ids[:2], torch.full((PICTURE_TOKENS,), token), ids[2:]])
    if kind == "image":
        return {"input_ids": ids[None], "pixel_values": pixels, "image_grid_thw": GRID}
    return {"input_ids": ids[None], "pixel_values_videos": pixels, "video_grid_thw": GRID}


def huggingface_embeddings(model: torch.nn.Module, kind: str) -> torch.Tensor:
    """What the plain model hands to its language model."""
    inputs = inputs_of(model, kind)
    positions = torch.zeros(3, *inputs["input_ids"].shape, dtype=torch.long)
    handed: list[torch.Tensor] = []
    hook = model.model.language_model.register_forward_pre_hook(
        lambda _, __, kwargs: handed.append(kwargs["inputs_embeds"]), with_kwargs=True
    )
    model.model(**inputs, position_ids=positions)
    hook.remove()
    return handed[0]


@pytest.mark.parametrize(("family", "kind"), FAILING)
def test_without_the_cures_the_functions_fail(bare, models, family, kind):
    with pytest.raises(AttributeError):
        module_of(family)._get_input_embeds(models[family].model, **inputs_of(models[family], kind))


@pytest.mark.parametrize(("family", "kind"), ALL)
def test_with_them_the_embeddings_are_those_of_hugging_face(upstream, models, family, kind):
    assert upstream.installed()
    model, inputs = models[family], inputs_of(models[family], kind)
    mask = torch.ones_like(inputs["input_ids"])
    got, got_mask = module_of(family)._get_input_embeds(model.model, attention_mask=mask, **inputs)
    torch.testing.assert_close(got, huggingface_embeddings(model, kind), rtol=0, atol=0)
    assert got_mask is mask


@pytest.mark.parametrize("family", MODULES)
def test_verls_own_forward_gives_the_logits_of_hugging_face(upstream, models, family):
    """As verl's workers call it: the classes' forward methods replaced by verl's."""
    model, inputs = models[family], inputs_of(models[family], "image")
    types = torch.where(inputs["input_ids"] == model.config.image_token_id, 1, 0)
    with torch.no_grad():
        plain = model(**inputs, mm_token_type_ids=types).logits
        positions, _ = model.model.get_rope_index(
            inputs["input_ids"], mm_token_type_ids=types, image_grid_thw=inputs["image_grid_thw"]
        )
        text = torch.arange(inputs["input_ids"].shape[1])[None, None]
        module, name = module_of(family), MODULES[family]
        inner, outer = type(model.model), type(model)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(inner, "forward", getattr(module, f"{name}_base_forward"))
            patch.setattr(outer, "forward", module.forward_with_normal_backend)
            position_ids = torch.cat([text, positions])  # verl puts the text's own before those of width, height, time
            got = model(**inputs, position_ids=position_ids).logits
    torch.testing.assert_close(got, plain, rtol=1e-5, atol=1e-5)


def test_padding_rows_still_touch_the_weights_that_see(upstream, models):
    """Under FSDP every rank must use every weight: a row without pictures gives them a gradient of zero, not none."""
    for family in MODULES:
        model = models[family]
        embeddings, _ = module_of(family)._get_input_embeds(model.model, **inputs_of(model, "text"))
        embeddings.sum().backward()
        gradients = [p.grad for p in model.model.visual.parameters()]
        assert all(g is not None and not g.any() for g in gradients)
        model.zero_grad()


def test_they_can_be_taken_away_and_put_back(upstream):
    glm = module_of("GLM-4.1V")
    cured = glm._get_input_embeds
    upstream.install()
    assert glm._get_input_embeds is cured, "cured twice"
    upstream.remove()
    assert not upstream.installed() and glm._get_input_embeds is cured.__wrapped__
    assert upstream.install() and glm._get_input_embeds is not cured.__wrapped__


@pytest.mark.parametrize("version", ["0.8.0", "0.10.0", "1.0.0"])
def test_other_versions_are_left_alone_and_told_so(bare, monkeypatch, caplog, version):
    monkeypatch.setattr("verl.__version__", version)
    before = module_of("GLM-4.1V")._get_input_embeds
    assert not bare.install() and not bare.installed()
    assert module_of("GLM-4.1V")._get_input_embeds is before
    assert version in caplog.text and "0.9" in caplog.text


def test_what_works_already_is_left_alone(upstream):
    def mended(model, input_ids, attention_mask=None, pixel_values=None, pixel_values_videos=None, **_):
        embeddings = model.get_input_embeddings()(input_ids)
        for pixels in (pixel_values, pixel_values_videos):
            if pixels is not None:
                assert model.visual(pixels).pooler_output.shape == (1, 1)
        return embeddings, attention_mask

    module = SimpleNamespace(__name__="verl.later", _get_input_embeds=mended)
    assert not upstream.cure(module) and module._get_input_embeds is mended


def test_what_the_cure_does_not_help_is_left_alone_and_told(upstream, caplog):
    def changed(model, input_ids, grids):
        raise AssertionError

    module = SimpleNamespace(__name__="verl.later", _get_input_embeds=changed)
    assert not upstream.cure(module) and module._get_input_embeds is changed
    assert "verl.later._get_input_embeds" in caplog.text


def test_importing_verl_installs_them_before_the_models_are_imported(tmp_path):
    """In a process of its own, through the entry point pyproject.toml declares."""
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["verl.plugins"]
    package = tmp_path / "declared-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entry_points.items()]
    (package / "entry_points.txt").write_text("\n".join(["[verl.plugins]", *lines]))
    program = (
        OPERATORS
        + """
import json, sys
import verl
plugin = sys.modules.get("mobilerl.engines.verl.upstream")
early = [name for name in plugin.MODULES if name in sys.modules]
from verl.models.transformers import glm4v, qwen2_vl
cured = [hasattr(module._get_input_embeds, "__wrapped__") for module in (glm4v, qwen2_vl)]
print(json.dumps([plugin.installed(), early, cured]))
"""
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [True, [], [True, True]]
