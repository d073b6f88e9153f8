"""Mirrors of metrics and images of episodes outside the run directory: wandb, TensorBoard and Prometheus."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from mobilerl.config import ConfigError, TrackingSection
from mobilerl.system.installed import is_installed
from mobilerl.system.terminal import say
from mobilerl.training.mirror import End, Guarded, Mirror, Row, numbers
from mobilerl.training.prometheus import Prometheus
from mobilerl.training.wandb_mirror import Wandb, wandb_mode


def open_mirrors(
    run_dir: Path, settings: TrackingSection, config: Row | None, resumed_at: int | None
) -> Iterator[Mirror]:
    """Yields the enabled mirrors. `resumed_at` is the first iteration of a resumed run, None for a new run.

    None of them raises an error, since a run must not end because its metrics cannot be shown.
    """
    mode = wandb_mode(settings.wandb)
    if mode != settings.wandb:
        say(f"wandb: {mode}, since the environment has WANDB_MODE={os.environ['WANDB_MODE']}", stderr=True)
    if mode != "off":
        yield Guarded("wandb", partial(Wandb, run_dir, mode, config))
    if settings.tensorboard:
        yield Guarded("TensorBoard", partial(TensorBoard, run_dir, resumed_at))
    if settings.prometheus_file:
        yield Guarded("Prometheus", partial(Prometheus, Path(settings.prometheus_file), run_dir))


def check_mirrors(settings: TrackingSection) -> None:
    """Checks what would fail only after the first iteration.

    Raises ModuleNotFoundError for a missing package, and ConfigError for a file that cannot be written.
    """
    wandb = wandb_mode(settings.wandb) != "off"
    wanted = {"wandb": wandb, "tensorboard": settings.tensorboard}
    for name, is_on in wanted.items():
        if is_on and not is_installed(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    if settings.prometheus_file and not os.access(folder := Path(settings.prometheus_file).parent, os.W_OK | os.X_OK):
        problem = "no permission to write in it" if folder.is_dir() else "no such folder"
        raise ConfigError(f"tracking.prometheus_file: {folder}: {problem}; name a file that this user can write")


class TensorBoard(Mirror):
    """Writes event files to `run_dir/tensorboard`."""

    def __init__(self, run_dir: Path, resumed_at: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run_dir / "tensorboard"), purge_step=resumed_at)

    def log(self, row: Row) -> None:
        for key, value in numbers(row).items():
            self._writer.add_scalar(key, value, row["iteration"])
        self._writer.flush()

    def images(self, iteration: int, images: Sequence[Image.Image]) -> None:
        for number, image in enumerate(images):
            self._writer.add_image(f"episodes/{number}", np.asarray(image), iteration, dataformats="HWC")
        self._writer.flush()

    def close(self, end: End = "finished") -> None:
        self._writer.close()
