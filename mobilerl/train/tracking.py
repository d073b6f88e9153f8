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
from typing import Any, Literal

from rich.console import Console

from mobilerl.atomic_files import write_atomic


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
        self,
        run_dir: Path | str,
        wandb: Literal["off", "offline", "online"] = "off",
        tensorboard: bool = False,
        project: str = "mobilerl",
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.run_dir = Path(run_dir)
        self.path = self.run_dir / "metrics.jsonl"
        self.run_dir.mkdir(parents=True, exist_ok=True)
        truncate_rows(self.path)
        self._wandb_mode, self._use_tensorboard = wandb, tensorboard
        self._project, self._name, self._config = project, name or self.run_dir.resolve().name, dict(config or {})
        self._wandb_run: Any = None
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
        if self._wandb_mode != "off":
            self._log_to_wandb(row)
        if self._use_tensorboard:
            self._log_to_tensorboard(row)

    def truncate_after(self, iteration: int) -> None:
        """Drops every later iteration; a resumed run writes them again."""
        truncate_rows(self.path, iteration)
        self._purge_step = iteration + 1
        self._close_writer()

    def close(self) -> None:
        self._close_writer()
        if self._wandb_run is not None:
            self._wandb_run.finish()
            self._wandb_run = None

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _log_to_wandb(self, row: dict[str, Any]) -> None:
        if self._wandb_run is None:
            self._wandb_run = self._start_wandb()
        self._wandb_run.log({key: value for key, value in row.items() if value is not None})

    def _start_wandb(self) -> Any:
        import wandb

        mode = self._wandb_mode
        if mode == "online" and not wandb.api.api_key:
            Console(stderr=True).print("wandb: no API key, logging offline; upload the run later with `wandb sync`")
            mode = "offline"
        resume = {"id": self._wandb_id(), "resume": "allow"} if mode == "online" else {}
        run = wandb.init(
            project=self._project, name=self._name, config=self._config, dir=str(self.run_dir), mode=mode, **resume
        )
        # wandb drops rows whose own step goes back, as it does in a resumed run: use `iteration` as the axis instead.
        run.define_metric("iteration")
        run.define_metric("*", step_metric="iteration")
        return run

    def _wandb_id(self) -> str:
        """The same each time this run directory is used, so that a resumed run continues the same wandb run."""
        path = self.run_dir / "wandb-run-id"
        if not path.exists():
            write_atomic(path, uuid.uuid4().hex[:12].encode())
        return path.read_text().strip()

    def _log_to_tensorboard(self, row: dict[str, Any]) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.run_dir / "tensorboard"), purge_step=self._purge_step)
        for key, value in row.items():
            if isinstance(value, (int, float)) and key != "iteration":
                self._writer.add_scalar(key, value, row["iteration"])
        self._writer.flush()
