"""Do a checkpoint's weights, processor, tokenizer and the agent settings saved with it belong together?"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from mobilerl.config import ConfigError
from mobilerl.doctor.check import Check, broken, missing, ok
from mobilerl.setup import check_checkpoint, read_agent
from mobilerl.train.model_shape import ModelShape

NAME = "model and processor"


def model(path: str, max_pixels: int | None) -> Check:
    """The weights' files are measured and not read. Loading tokenizer and image processor takes some seconds."""
    if not path:
        return missing(NAME, False, "the recipe names no model; its script warms one up", "bash recipes/sft.sh")
    try:
        check_checkpoint(path)
        shape = ModelShape.of_checkpoint(Path(path))
        agent = read_agent(path)
        if find_spec("transformers") is None or find_spec("torch") is None:
            return broken(
                NAME, True, f"{path}: cannot be examined without transformers", "pip install 'mobilerl[local]'"
            )
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a folder that lacks a file must not be looked for elsewhere
        from mobilerl.engines.codec import Codec

        Codec.load(path, max_pixels)
    except ConfigError as error:
        reason, sign, cure = str(error).partition("; ")
        return broken(NAME, True, reason, cure if sign else "use another checkpoint, or make one: bash recipes/sft.sh")
    own = "with agent settings" if agent is not None else "without agent settings: the recipe's are used"
    return ok(NAME, f"{shape.parameters / 1e6:,.1f} M parameters in {path}, {own}")
