"""Features of screens and texts, from the vision tower and the embedding of a tiny checkpoint."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageDraw

from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.models import tiny
from mobilerl.models.features import FrozenFeatures

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(path, ["open the settings", "pause the music"], hidden=32, layers=1, heads=2, vision_hidden=16)
    return path


def png(size: tuple[int, int], box: int) -> bytes:
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).rectangle([box, box, box + 40, box + 40], fill="navy")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def test_the_features_of_a_screen_do_not_depend_on_the_batch(folder):
    screens = [png((180, 320), 20), png((320, 180), 60), png((180, 320), 90)]
    together = FrozenFeatures(folder).screens([*screens, b"", screens[0]])
    alone = torch.cat([FrozenFeatures(folder).screens([screen]) for screen in screens])
    torch.testing.assert_close(together[:3], alone, rtol=1e-4, atol=1e-5)
    assert torch.equal(together[0], together[4]) and not together[3].any()
    assert together[:3].square().mean(1).tolist() == pytest.approx([1.0] * 3, abs=1e-4)
    assert not torch.equal(together[0], together[2])


def test_they_are_what_the_model_itself_sees(folder):
    """The mean of what its tower hands to the language model, and of its token embeddings."""
    features, engine, screen = FrozenFeatures(folder), LocalEngine(folder, LocalSettings()), png((180, 320), 20)
    inputs = engine.codec.collate([(engine.codec.image_token_id,)], [(screen,)], pad_left=True)
    with torch.no_grad():
        tokens = engine.model.model.get_image_features(inputs["pixel_values"], inputs["image_grid_thw"]).pooler_output
    seen = tokens[0].mean(0)
    torch.testing.assert_close(features.screens([screen])[0], seen / seen.square().mean().sqrt(), rtol=1e-4, atol=1e-5)

    ids = engine.codec.tokenizer.encode("pause the music")
    read = engine.model.get_input_embeddings().weight[ids].detach().mean(0)
    torch.testing.assert_close(features.instruction("pause the music"), read / read.square().mean().sqrt())
    shown = features.prompts([[*ids, engine.codec.image_token_id], ids])
    assert torch.equal(shown[0], shown[1]), "places of images are no text"
