"""Models on the Hugging Face Hub: downloads by id, and uploads. Endpoint, cache and login are huggingface_hub's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import ConfigError, Recipe
from mobilerl.models.checkpoint_folder import STATE_FILE, one_line

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
"""Files of a model folder: config, weights, tokenizer, chat template, image processor."""
OTHERS = ["*/*", STATE_FILE]
"""Files of these kinds that are not the model's: those in folders, and a training run's state."""
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def is_hub_id(model: str | Path) -> bool:
    """Whether `model` is written `org/name` and does not begin with a folder that is here."""
    return bool(_ID.fullmatch(str(model))) and not Path(str(model).partition("/")[0]).exists()


def local_model(model: str) -> str:
    """A folder as it is; a Hub id downloaded into the Hub's cache. Raises ConfigError if that is not possible."""
    return str(download(model)) if is_hub_id(model) else model


def with_local_model(recipe: Recipe) -> Recipe:
    """The recipe with its model as a folder."""
    return recipe.model_copy(update={"model": local_model(recipe.model)})


def download(name: str) -> Path:
    """The folder of a model in the Hub's cache; only files that are missing there are downloaded."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(name, allow_patterns=FILES, ignore_patterns=OTHERS))
    except HfHubHTTPError as error:
        raise ConfigError(f"--model {name}: {_refused(error, name)}") from None
    except OSError as error:  # no network, or told to stay offline
        raise ConfigError(
            f"--model {name}: there is no such folder, and the Hub cannot be reached to download it "
            f"({type(error.__cause__ or error).__name__}); correct the path, or give a folder made elsewhere with "
            f"`hf download {name} --local-dir DIR`"
        ) from None


def _refused(error: HfHubHTTPError, name: str) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return f"ask for access at {constants.ENDPOINT}/{name}, then log in with `hf auth login`"
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"there is no such folder here and no model of that name on {constants.ENDPOINT}: correct it, or log in "
            "with `hf auth login` if the model is private"
        )
    return f"the Hub refuses ({one_line(error)}); log in with `hf auth login`, or try again later"


def upload(folder: Path, name: str, private: bool) -> str:
    """Uploads a model folder, without training state, and returns its address. Raises ConfigError."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi()
    try:
        api.create_repo(name, private=private or None, exist_ok=True)
        api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=[*FILES, "*.md"],
            ignore_patterns=OTHERS,
            commit_message="Upload a model trained with mobilerl",
        )
    except HfHubHTTPError as error:
        raise ConfigError(
            f"{name} cannot be uploaded ({one_line(error)}): log in with `hf auth login` and a token that may write"
        ) from None
    except OSError as error:
        raise ConfigError(f"{name} cannot be uploaded, the Hub does not answer ({one_line(error)})") from None
    return f"{api.endpoint}/{name}"
