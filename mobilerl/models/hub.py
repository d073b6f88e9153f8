"""Downloads from and uploads to the Hugging Face Hub. huggingface_hub decides on endpoint, cache and login."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import ConfigError, Recipe
from mobilerl.models.checkpoint_folder import STATE_FILE, check_checkpoint, one_line
from mobilerl.networks import check_variables

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
"""Files of a model folder: config, weights, tokenizer, chat template, image processor."""
OTHERS = ["*/*", STATE_FILE]
"""Files of these types that do not belong to the model: those in subfolders, and the state of a training run."""
LOOK_UP_S = 10.0
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def is_hub_id(model: str | Path) -> bool:
    """Whether `model` has the form `org/name` and does not begin with an existing folder."""
    return bool(_ID.fullmatch(str(model))) and not Path(str(model).partition("/")[0]).exists()


def local_model(model: str) -> str:
    """Returns a folder unchanged and downloads a Hub id to the Hub's cache. Raises ConfigError if that fails."""
    return str(download(model)) if is_hub_id(model) else model


def with_local_model(recipe: Recipe) -> Recipe:
    """The recipe with its model as a local folder."""
    return recipe.model_copy(update={"model": local_model(recipe.model)})


def download(name: str) -> Path:
    """Downloads the files of a model that the Hub's cache lacks and returns its folder there."""
    from huggingface_hub import snapshot_download

    with _explained(name):
        return Path(snapshot_download(name, allow_patterns=FILES, ignore_patterns=OTHERS))


@dataclass(frozen=True, slots=True)
class OnHub:
    """A model of the Hub: its folder in the cache, or the size in bytes of what would be downloaded."""

    cached: Path | None
    download: float = 0.0
    weights: float = 0.0
    """Number of parameters of a model that is not in the cache; of 2 bytes each if the Hub does not say."""


def look_up(name: str) -> OnHub:
    """Looks a model up without downloading it. Raises ConfigError if `download` could not succeed."""
    from huggingface_hub import HfApi, snapshot_download

    try:
        folder = snapshot_download(name, allow_patterns=FILES, ignore_patterns=OTHERS, local_files_only=True)
        check_checkpoint(folder)
        _check_shards(Path(folder))
        return OnHub(Path(folder))
    except (OSError, ValueError, LookupError):  # not in the cache, or not complete
        pass
    with _explained(name):
        api = HfApi()
        info = api.model_info(name, files_metadata=True, timeout=LOOK_UP_S)
        if info.gated:
            api.auth_check(name)
    files = [f for f in info.siblings or () if "/" not in f.rfilename and any(fnmatch(f.rfilename, p) for p in FILES)]
    sizes = {f.rfilename: f.size or 0 for f in files}
    weights = [size for file, size in sizes.items() if file.endswith(".safetensors")]
    if not weights:
        raise ConfigError(f"--model {name} has no *.safetensors weights on the Hub; choose another")
    return OnHub(None, sum(sizes.values()), info.safetensors.total if info.safetensors else sum(weights) / 2)


def _check_shards(folder: Path) -> None:
    """Raises FileNotFoundError if a file of the weights is missing, as after an interrupted download."""
    index = folder / "model.safetensors.index.json"
    shards = set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else set()
    if missing := [shard for shard in shards if not (folder / shard).is_file()]:
        raise FileNotFoundError(missing[0])


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns errors of a request for a model into a ConfigError."""
    from httpx import HTTPError
    from huggingface_hub.errors import HfHubHTTPError

    check_variables()
    try:
        yield
    except HfHubHTTPError as error:
        raise ConfigError(f"--model {name}: {_refused(error, name)}") from None
    except (OSError, HTTPError) as error:  # no network, or offline mode
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
    """Uploads a model folder without training state and returns its address. Raises ConfigError if that fails."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    check_variables()
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
