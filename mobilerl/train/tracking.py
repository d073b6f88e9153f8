"""Metrics of a run: metrics.jsonl always, wandb and TensorBoard on request.

metrics.jsonl is authoritative: one JSON object per iteration, on disk before `log` returns. The other two mirror it.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from mobilerl.atomic_files import write_atomic
from mobilerl.config import TrackingSection


def read_metrics(path: Path | str) -> list[dict[str, Any]]:
    """The objects of a metrics.jsonl, oldest first; [] when there is no file.

    An incomplete last line, left by a crash, is skipped. Any other line that is not an object with an integer
    `iteration` raises ValueError naming file and line.
    """
    return [row for _, row in _complete_lines(Path(path))]


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Appends one line of JSON and syncs it to disk."""
    with open(path, "ab") as f:
        f.write((json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n").encode())
        f.flush()
        os.fsync(f.fileno())


def truncate_rows(path: Path, iteration: float = math.inf) -> None:
    """Drops the rows after `iteration` and an incomplete last line."""
    if path.exists():
        write_atomic(path, b"".join(line for line, row in _complete_lines(path) if row["iteration"] <= iteration))


def _complete_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return  # only the last line can lack its newline
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not a JSON object: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get("iteration"), int):
            raise ValueError(f"{path}, line {number}: expected an object with an integer `iteration`")
        yield line, row


def _to_json_value(key: str, value: Any) -> Any:
    """0-d tensors and arrays become numbers, NaN and infinities become None."""
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(k): _to_json_value(f"{key}.{k}", v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json_value(key, v) for v in value]
    raise TypeError(f"metric {key!r} is a {type(value).__name__}; expected a number, text, list or mapping")


class Tracker:
    """Appends the metrics of each iteration to `run_dir/metrics.jsonl` and mirrors them.

    wandb: "online" needs an API key; without one the run is logged offline, for `wandb sync` to upload later.
    tensorboard: event files under `run_dir/tensorboard`.
    """

    def __init__(
        self, run_dir: Path | str, settings: TrackingSection | None = None, config: Mapping[str, Any] | None = None
    ) -> None:
        self.run_dir, self._settings, self._config = Path(run_dir), settings or TrackingSection(), config
        self.path = self.run_dir / "metrics.jsonl"
        self.run_dir.mkdir(parents=True, exist_ok=True)
        truncate_rows(self.path)
        self._wandb: Any = None
        self._writer: Any = None
        self._purge_step: int | None = None

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Records one iteration. `metrics["iteration"]` must be an integer."""
        row = {key: _to_json_value(key, value) for key, value in metrics.items()}
        if not isinstance(row.get("iteration"), int):
            raise ValueError(f"metrics need an integer `iteration`, not {row.get('iteration')!r}")
        append_row(self.path, row)
        if self._settings.wandb != "off":
            self._wandb = self._wandb or self._start_wandb()
            self._wandb.log({key: value for key, value in row.items() if value is not None})
        if self._settings.tensorboard:
            self._log_to_tensorboard(row)

    def truncate_after(self, iteration: int) -> None:
        """Drops every later iteration; a resumed run writes them again."""
        truncate_rows(self.path, iteration)
        self._purge_step = iteration + 1
        self._close_writer()

    def close(self) -> None:
        self._close_writer()
        if self._wandb is not None:
            self._wandb.finish()
            self._wandb = None

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _start_wandb(self) -> Any:
        import wandb

        mode = self._settings.wandb
        if mode == "online" and not wandb.api.api_key:
            Console(stderr=True).print("wandb: no API key, logging offline; upload the run later with `wandb sync`")
            mode = "offline"
        identity = self.run_dir / "wandb-run-id"  # a resumed run continues the same wandb run
        if mode == "online" and not identity.exists():
            write_atomic(identity, uuid.uuid4().hex[:12].encode())
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "mobilerl"),
            name=os.environ.get("WANDB_NAME", self.run_dir.resolve().name),
            config=self._config,
            dir=str(self.run_dir),
            mode=mode,
            **({"id": identity.read_text().strip(), "resume": "allow"} if mode == "online" else {}),
        )
        # wandb drops rows whose own step goes back, as it does in a resumed run: use `iteration` as the axis instead.
        run.define_metric("iteration")
        run.define_metric("*", step_metric="iteration")
        return run

    def _log_to_tensorboard(self, row: dict[str, Any]) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.run_dir / "tensorboard"), purge_step=self._purge_step)
        for key, value in row.items():
            if isinstance(value, (int, float)) and key != "iteration":
                self._writer.add_scalar(key, value, row["iteration"])
        self._writer.flush()
