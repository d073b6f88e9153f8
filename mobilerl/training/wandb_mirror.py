"""Weights & Biases as a mirror of metrics.jsonl, online or offline."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from PIL import Image

from mobilerl.models.checkpoint_folder import one_line
from mobilerl.system.atomic_files import write_atomic
from mobilerl.system.terminal import say
from mobilerl.training.mirror import End, Level, Mirror, Row

PROJECT = "mobilerl"
MODES = ("off", "offline", "online")
MODE_NAMES = {"disabled": "off", "dryrun": "offline", "run": "online"}
"""Names that WANDB_MODE has for some of MODES."""
TIMEOUTS_S = {"WANDB_INIT_TIMEOUT": "30", "WANDB_FINISH_TIMEOUT": "120"}
"""Seconds that a server out of reach may delay the start and the end of a run, unless the user's environment has its
own; wandb's defaults are 90 seconds and forever."""
GRACE_S = 10.0
"""Seconds beyond the time limit of the end. wandb 0.31 ignores the limit while it has an alert to send."""
LATER = "logging offline; upload the run later with `wandb sync`"


def wandb_mode(setting: str) -> str:
    """The setting, or the environment variable WANDB_MODE if that shows less of the run."""
    given = os.environ.get("WANDB_MODE", "").lower()
    given = MODE_NAMES.get(given, given)
    return min(setting, given, key=MODES.index) if given in MODES else setting


class Wandb(Mirror):
    """Logs to Weights & Biases. If `online` fails, or without an API key, it logs offline and says so."""

    def __init__(self, run_dir: Path, mode: str, config: Row | None) -> None:
        for name, seconds in TIMEOUTS_S.items():
            os.environ.setdefault(name, seconds)
        self._run_dir, self._config = run_dir, config
        self._run = self._start(mode)
        # wandb drops rows whose own step goes back, as it does in a resumed run: use `iteration` as the axis instead.
        self._run.define_metric("iteration")
        self._run.define_metric("*", step_metric="iteration")

    def _start(self, mode: str) -> Any:
        if mode == "online":
            try:
                return self._online()
            except Exception as error:
                say(f"wandb: {one_line(error)}; {LATER}", stderr=True)
        return self._init(mode="offline")

    def _online(self) -> Any:
        import wandb

        if not wandb.api.api_key:
            raise ValueError("no API key")
        identity = self._run_dir / "wandb-run-id"  # a resumed run continues the same wandb run
        if not identity.exists():
            write_atomic(identity, uuid.uuid4().hex[:12].encode())
        return self._init(mode="online", id=identity.read_text().strip(), resume="allow")

    def _init(self, **options: Any) -> Any:
        import wandb

        return wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=os.environ.get("WANDB_NAME", self._run_dir.resolve().name),
            config=dict(self._config or {}),
            dir=str(self._run_dir),
            **options,
        )

    def log(self, row: Row) -> None:
        self._run.log({key: value for key, value in row.items() if value is not None})

    def images(self, iteration: int, images: Sequence[Image.Image]) -> None:
        from wandb import Image as WandbImage

        self._run.log({"iteration": iteration, "episodes": [WandbImage(image) for image in images]})

    def alert(self, title: str, text: str, level: Level) -> None:
        self._run.alert(title, text, level=level)

    def close(self, end: End = "finished") -> None:
        """Uploads what is left. If that takes too long, ends wandb's process; all is on disk for `wandb sync`."""
        failures: list[Exception] = []

        def finish() -> None:
            try:
                self._run.finish(exit_code=int(end == "failed"))
            except Exception as error:
                failures.append(error)

        limit_s = float(os.environ["WANDB_FINISH_TIMEOUT"])
        ending = threading.Thread(target=finish, name="wandb-finish", daemon=True)
        ending.start()
        ending.join(limit_s + GRACE_S if limit_s else None)
        if ending.is_alive():
            _kill_service()
            raise TimeoutError(f"the server did not take everything within {limit_s:g} s; use `wandb sync` later")
        if failures:
            raise failures[0]


def _kill_service() -> None:
    """Kills wandb's own process, for which Python would otherwise wait at exit."""
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            with suppress(OSError):
                if "wandb-core" in Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(int(pid), signal.SIGKILL)
