"""Decoding of a run's prompts, which are saved as token ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mobilerl.viewer.evaluations import evaluation_folders
from mobilerl.viewer.steps import Decode


def decoder_of(run: Path) -> Decode | None:
    """Loads the tokenizer of the run's newest checkpoint, or of the model that it started from.

    Returns None if neither has a tokenizer.json; a model from the Hub has one from the first checkpoint on.
    """
    path = next((path for folder in _models(run) if (path := folder / "tokenizer.json").is_file()), None)
    if path is None:
        return None
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"{path} cannot be read: {error}") from error
    return partial(tokenizer.decode, skip_special_tokens=False)


def _models(run: Path) -> Iterator[Path]:
    yield from sorted((run / "checkpoints").glob("iter-*"), reverse=True)
    for path in (run / "config.json", *(folder / "results.json" for folder in evaluation_folders(run))):
        try:
            content = json.loads(path.read_bytes())
            name = content.get("protocol", content).get("model")
        except (OSError, ValueError, AttributeError):
            continue  # reported by the code that needs these files
        if name and isinstance(name, str):
            yield Path(name)
