"""Features of screens and texts, from the vision tower and the embedding of a tiny checkpoint."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageDraw

from mobilerl import tiny
from mobilerl.engines import features as module
from mobilerl.engines.features import FrozenFeatures
from mobilerl.engines.local import LocalEngine, LocalSettings

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


def test_a_vector_belongs_to_its_screen_whatever_it_is_asked_for_with(folder):
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


def test_what_was_computed_is_kept_within_bounds(folder, monkeypatch):
    monkeypatch.setattr(module, "CACHED", 2)
    features = FrozenFeatures(folder)
    asked = []
    monkeypatch.setattr(features, "_seen", lambda pngs, real=features._seen: asked.extend(pngs) or real(pngs))
    one, two, three = (png((180, 320), box) for box in (10, 40, 70))
    features.screens([one, two, one])
    assert asked == [one, two]
    features.screens([one, three])
    features.screens([one, two])
    assert asked == [one, two, three, two]
    features.make_room(3)
    features.screens([one, two, three])
    features.screens([one, two, three])
    assert asked == [one, two, three, two, three], "a buffer is looked at once"
