"""Checkpoint folders whose parts do not belong together are refused in one line, for every model family."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from family_fixtures import corpus_fixture, family_fixture, folder_fixture, steps_fixture  # noqa: F401 - fixtures
from model_families import FAMILIES, tokenizer_of

from mobilerl.config import ConfigError
from mobilerl.engines.codec import Codec

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def edit(name: str, **values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def remove(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


BROKEN = {
    "patch size": (edit("preprocessor_config.json", patch_size=8), "patch_size is 8, but the model's patch_size is"),
    "merging": (edit("preprocessor_config.json", merge_size=4), "merge_size is 4, but the model's spatial_merge_size"),
    "frames": (edit("preprocessor_config.json", temporal_patch_size=1), "temporal_patch_size is 1, but"),
    "placeholder": (edit("config.json", image_token_id=3), "write 0 placeholders with the model's id for them, 3"),
    "template": (remove("chat_template.jinja"), "no chat template"),
    "processor": (remove("preprocessor_config.json"), "holds no preprocessor_config.json"),
    "kind of processor": (
        edit("preprocessor_config.json", image_processor_type="NobodysImageProcessor"), "NobodysImageProcessor",
    ),
    "damage": (lambda folder: (folder / "preprocessor_config.json").write_text("{"), "cannot be read"),
    "no tokenizer": (remove("tokenizer.json", "tokenizer_config.json"), "take the tokenizer"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_parts_that_do_not_belong_together_are_one_line_with_the_cure(folder, tmp_path, kind):
    broken = tmp_path / "copy"
    shutil.copytree(folder, broken)
    change, says = BROKEN[kind]
    change(broken)
    with pytest.raises(ConfigError) as error:
        Codec.load(broken)
    said = str(error.value)
    assert says in said and str(broken) in said and "of the model the weights are from" in said and "\n" not in said


def test_a_tokenizer_of_another_family_is_refused(family, folder, corpus, tmp_path):
    other = FAMILIES["GLM-4.1V" if family.name != "GLM-4.1V" else "Qwen3-VL"]
    broken = tmp_path / "copy"
    shutil.copytree(folder, broken)
    tokenizer_of(other, corpus, size=650).save_pretrained(broken)
    with pytest.raises(ConfigError, match="write 0 placeholders"):
        Codec.load(broken)
    tokenizer_of(family, corpus, size=900).save_pretrained(broken)
    with pytest.raises(ConfigError, match="the tokenizer has .* tokens, but the model only"):
        Codec.load(broken)
