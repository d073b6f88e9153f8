"""The text of the prompts of a run, which are saved as token ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mobilerl.viewer.evaluations import evaluation_folders
from mobilerl.viewer.steps import Decode


def decoder_of(run: Path) -> Decode | None:
    """Reads the tokenizer of the run's newest checkpoint, or of the model it started from.

    None if neither is a folder with a tokenizer.json: a model from the hub is in the first checkpoint.
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
            continue  # what reads these files for their own sake reports it
        if name and isinstance(name, str):
            yield Path(name)
