"""Downloads from and uploads to the Hugging Face Hub. huggingface_hub decides on endpoint, cache and login."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import ConfigError, Recipe
from mobilerl.models.adapter_folder import ADAPTER_FILE, BASE, adapter_base, is_adapter, read_adapter
from mobilerl.models.checkpoint_folder import STATE_FILE, check_checkpoint, check_quantization, model_of_run, one_line
from mobilerl.models.hub_names import hub_id_of, is_hub_id
from mobilerl.system.networks import check_variables

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
"""Files of a model folder: config, weights, tokenizer, chat template, image processor."""
OTHERS = ["*/*", STATE_FILE]
"""Files of these types that do not belong to the model: those in subfolders, and the state of a training run."""
LOOK_UP_S = 10.0


def local_model(model: str) -> str:
    """The folder of a model: `model` itself, the newest checkpoint of a run directory, or a download of a Hub id.

    Raises ConfigError if a download fails.
    """
    return str(download(model) if is_hub_id(model) else model_of_run(Path(model)))


def find_model(model: str | Path) -> Path:
    """The `local_model`, checked. Raises ConfigError unless it is a checkpoint that can be used."""
    folder = Path(local_model(str(model)))
    check_checkpoint(folder)
    return folder


def base_folder(adapter: str | Path) -> Path:
    """The folder of an adapter's base model, downloaded if need be. Raises ConfigError if it cannot be used."""
    base = adapter_base(adapter)
    try:
        return find_model(base)
    except ConfigError as error:
        said = str(error).removeprefix("--model ")
        raise ConfigError(f"{Path(adapter) / ADAPTER_FILE}: {BASE}, the base model: {said}") from None


def source(folder: str | Path, *names: str) -> Path:
    """The folder to read files from: `folder`, or its base model if it is an adapter that has none of these files."""
    own = Path(folder)
    return own if not is_adapter(own) or any((own / name).is_file() for name in names) else base_folder(own)


def with_local_model(recipe: Recipe) -> Recipe:
    """The recipe with its `local_model`."""
    return recipe if not recipe.model else recipe.model_copy(update={"model": local_model(recipe.model)})


def download(name: str) -> Path:
    """Downloads the files of a model that the Hub's cache lacks and returns its folder there. Its settings come first,
    so that a quantized model is refused before its weights."""
    from huggingface_hub import snapshot_download

    with _explain_errors(name):
        check_quantization(Path(snapshot_download(name, allow_patterns="*.json", ignore_patterns=OTHERS)))
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
    with _explain_errors(name):
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
def _explain_errors(name: str) -> Iterator[None]:
    """Turns errors of a request for a model into a ConfigError."""
    from httpx import HTTPError
    from huggingface_hub.errors import HfHubHTTPError

    check_variables()
    try:
        yield
    except HfHubHTTPError as error:
        raise ConfigError(f"--model {name}: {_explain_refusal(error, name)}") from None
    except (OSError, HTTPError) as error:  # no network, or offline mode
        raise ConfigError(
            f"--model {name}: there is no such folder, and the Hub cannot be reached to download it "
            f"({type(error.__cause__ or error).__name__}); correct the path, or give a folder made elsewhere with "
            f"`hf download {name} --local-dir DIR`"
        ) from None


def _explain_refusal(error: HfHubHTTPError, name: str) -> str:
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


def published_base(folder: Path, given: str | None) -> str:
    """Hub id of an adapter's base model, or `given`; "" for full weights. Raises ConfigError without a Hub id."""
    if not is_adapter(folder):
        return ""
    base = adapter_base(folder)
    if found := given or hub_id_of(base) or (base if is_hub_id(base) else ""):
        return found
    raise ConfigError(
        f"{folder} is an adapter, and its base model {base} is a folder of this machine, which nobody else has: push "
        "that first, and name it with --base ORG/NAME"
    )


def upload(folder: Path, name: str, base: str, private: bool) -> str:
    """Uploads a model folder without training state and returns its address. Raises ConfigError if that fails.

    `base` is the Hub id of an adapter's base model, which takes the place of a path.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    check_variables()
    api = HfApi()
    try:
        api.create_repo(name, private=private or None, exist_ok=True)
        message = "Upload a model trained with mobilerl"
        if base:
            adapter = json.dumps({**read_adapter(folder), BASE: base}, indent=2).encode()
            api.upload_file(path_or_fileobj=adapter, path_in_repo=ADAPTER_FILE, repo_id=name, commit_message=message)
        api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=[*FILES, "*.md"],
            ignore_patterns=[*OTHERS, ADAPTER_FILE],
            commit_message=message,
        )
    except HfHubHTTPError as error:
        raise ConfigError(
            f"{name} cannot be uploaded ({one_line(error)}): log in with `hf auth login` and a token that may write"
        ) from None
    except OSError as error:
        raise ConfigError(f"{name} cannot be uploaded, the Hub does not answer ({one_line(error)})") from None
    return f"{api.endpoint}/{name}"
