"""Mirrors of metrics and pictures of episodes outside the run directory: wandb, TensorBoard and Trackio."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image
from rich.console import Console

from mobilerl.atomic_files import write_atomic
from mobilerl.config import TrackingSection
from mobilerl.installed import is_installed

Row = Mapping[str, Any]
PROJECT = "mobilerl"


class Mirror(Protocol):
    """Shows the metrics of one run in another tool. It is opened at the first row."""

    def log(self, row: Row) -> None: ...
    def pictures(self, iteration: int, pictures: Sequence[Image.Image]) -> None: ...
    def close(self) -> None: ...


def open_mirrors(
    run_dir: Path, settings: TrackingSection, config: Row | None, resumed_at: int | None
) -> Iterator[Mirror]:
    """Yields the enabled mirrors. `resumed_at` is the first iteration of a resumed run, None for a new run."""
    if settings.wandb != "off":
        yield Wandb(run_dir, settings.wandb, config)
    if settings.tensorboard:
        yield TensorBoard(run_dir, resumed_at)
    if settings.trackio:
        yield Trackio(run_dir, config, resumed=resumed_at is not None)


def check_packages(settings: TrackingSection) -> None:
    """Raises ModuleNotFoundError if a package is missing, so that a run does not fail after its first iteration."""
    wanted = {"wandb": settings.wandb != "off", "tensorboard": settings.tensorboard, "trackio": settings.trackio}
    for name, is_on in wanted.items():
        if is_on and not is_installed(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _numbers(row: Row) -> dict[str, float]:
    return {key: value for key, value in row.items() if isinstance(value, int | float) and key != "iteration"}


class Wandb:
    """Logs to Weights & Biases. Without an API key, `online` logs offline, for `wandb sync` to upload later."""

    def __init__(self, run_dir: Path, mode: str, config: Row | None) -> None:
        import wandb

        if mode == "online" and not wandb.api.api_key:
            Console(stderr=True).print("wandb: no API key, logging offline; upload the run later with `wandb sync`")
            mode = "offline"
        identity = run_dir / "wandb-run-id"  # a resumed run continues the same wandb run
        if mode == "online" and not identity.exists():
            write_atomic(identity, uuid.uuid4().hex[:12].encode())
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=os.environ.get("WANDB_NAME", run_dir.resolve().name),
            config=config,
            dir=str(run_dir),
            mode=mode,
            **({"id": identity.read_text().strip(), "resume": "allow"} if mode == "online" else {}),
        )
        # wandb drops rows whose own step goes back, as it does in a resumed run: use `iteration` as the axis instead.
        self._run.define_metric("iteration")
        self._run.define_metric("*", step_metric="iteration")

    def log(self, row: Row) -> None:
        self._run.log({key: value for key, value in row.items() if value is not None})

    def pictures(self, iteration: int, pictures: Sequence[Image.Image]) -> None:
        from wandb import Image as WandbImage

        self._run.log({"iteration": iteration, "episodes": [WandbImage(picture) for picture in pictures]})

    def close(self) -> None:
        self._run.finish()


class TensorBoard:
    """Writes event files to `run_dir/tensorboard`."""

    def __init__(self, run_dir: Path, resumed_at: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run_dir / "tensorboard"), purge_step=resumed_at)

    def log(self, row: Row) -> None:
        for key, value in _numbers(row).items():
            self._writer.add_scalar(key, value, row["iteration"])
        self._writer.flush()

    def pictures(self, iteration: int, pictures: Sequence[Image.Image]) -> None:
        for number, picture in enumerate(pictures):
            self._writer.add_image(f"episodes/{number}", np.asarray(picture), iteration, dataformats="HWC")
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Trackio:
    """Logs to Trackio's local database (in $TRACKIO_DIR or Trackio's own folder), which `trackio show` displays."""

    def __init__(self, run_dir: Path, config: Row | None, resumed: bool) -> None:
        import trackio

        resume = "allow" if resumed else "never"
        self._run = trackio.init(PROJECT, run_dir.resolve().name, config=dict(config or {}), resume=resume, embed=False)

    def log(self, row: Row) -> None:
        self._run.log(_numbers(row), step=row["iteration"])

    def pictures(self, iteration: int, pictures: Sequence[Image.Image]) -> None:
        import trackio

        self._run.log({f"episodes/{n}": trackio.Image(picture) for n, picture in enumerate(pictures)}, step=iteration)

    def close(self) -> None:
        self._run.finish()
