"""Metrics of a run: metrics.jsonl and, if enabled, its mirrors (mirrors.py).

metrics.jsonl is authoritative: one JSON object per iteration, synced to disk before `log` returns.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mobilerl.config import TrackingSection
from mobilerl.models.checkpoint_folder import one_line
from mobilerl.records import Trajectory
from mobilerl.records.drawing import draw_episode
from mobilerl.system.atomic_files import write_atomic
from mobilerl.training.interrupt import Stopped
from mobilerl.training.mirror import End, Level, Mirror
from mobilerl.training.mirrors import open_mirrors
from mobilerl.training.starts import STARTS_FILE, describe_start

SKIPPED = "train/skipped_steps"
NEG_LOGP, OLD_NEG_LOGP = "train/neg_logp", "train/entropy"
"""Mean -log p of sampled tokens, and what files of earlier versions call it."""
LEVELS: dict[End, Level] = {"finished": "INFO", "stopped": "WARN", "failed": "ERROR"}

_started: set[Path] = set()
"""Files that have a line of this process: SFT opens a tracker for each of its stages."""


def read_metrics(path: Path | str) -> list[dict[str, Any]]:
    """Reads the rows of a metrics.jsonl, oldest first, with today's names of metrics; [] if there is no file.

    An incomplete last line, left by a crash, is skipped. Raises ValueError with file and line for any other line that
    is not an object with an integer `iteration`.
    """
    return [_modern(row) for _, row in _complete_lines(Path(path))]


def _modern(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the names that its metrics have now."""
    if OLD_NEG_LOGP in row and NEG_LOGP not in row:
        row[NEG_LOGP] = row.pop(OLD_NEG_LOGP)
    return row


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
    """Turns 0-d tensors and arrays into numbers, and NaN and infinities into None."""
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


def _end(error: BaseException | None) -> End:
    if error is None:
        return "finished"
    return "stopped" if isinstance(error, Stopped) or not isinstance(error, Exception) else "failed"


class Tracker:
    """Appends each iteration's metrics to `run_dir/metrics.jsonl`; mirrors them and images of episodes."""

    def __init__(
        self, run_dir: Path | str, settings: TrackingSection | None = None, config: Mapping[str, Any] | None = None
    ) -> None:
        self.run_dir, self._settings, self._config = Path(run_dir), settings or TrackingSection(), config
        self.path = self.run_dir / "metrics.jsonl"
        self.run_dir.mkdir(parents=True, exist_ok=True)
        truncate_rows(self.path)
        self._mirrors: list[Mirror] | None = None
        self._resumed_at: int | None = None
        self._alerted: set[str] = set()

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close(error)

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Records one iteration. Raises ValueError unless `metrics["iteration"]` is an integer."""
        row = {key: _to_json_value(key, value) for key, value in metrics.items()}
        if not isinstance(row.get("iteration"), int):
            raise ValueError(f"metrics need an integer `iteration`, not {row.get('iteration')!r}")
        append_row(self.path, row)
        self._record_start(row["iteration"])
        for mirror in self._open_mirrors():
            mirror.log(row)
        if skipped := row.get(SKIPPED):
            self._alert("skips steps", f"{skipped} optimizer steps skipped in iteration {row['iteration']}", "WARN")

    def _record_start(self, iteration: int) -> None:
        """Adds this process to starts.jsonl with its first iteration, so that a start that failed leaves no line."""
        path = self.run_dir.resolve() / STARTS_FILE
        if path not in _started or not path.exists():
            append_row(path, describe_start(iteration))
            _started.add(path)

    def episodes(self, iteration: int, trajectories: Iterable[Trajectory]) -> None:
        """Shows episodes that have screenshots in the mirrors."""
        if mirrors := self._open_mirrors():
            images = [image for image in map(draw_episode, trajectories) if image is not None]
            for mirror in mirrors:
                mirror.images(iteration, images)

    def truncate_after(self, iteration: int) -> None:
        """Drops all later iterations, which a resumed run writes again."""
        self.close()
        truncate_rows(self.path, iteration)
        self._resumed_at = iteration + 1

    def close(self, error: BaseException | None = None) -> None:
        """Closes the mirrors, and sends alerts on how the run ended: with `error`, if any."""
        end = _end(error)
        wanted = self._settings.wandb == "online" or self._settings.prometheus_file
        if end == "failed" and wanted:
            self._open_mirrors()  # also if the run fails before its first iteration
        if self._mirrors:
            self._alert(end, one_line(error) if error else f"the run in {self.run_dir}", LEVELS[end])
        for mirror in self._mirrors or ():
            mirror.close(end)
        self._mirrors = None

    def _alert(self, what: str, text: str, level: Level) -> None:
        """Sends an alert, unless there was one on the same: a run may skip a step in every iteration."""
        if what not in self._alerted:
            self._alerted.add(what)
            for mirror in self._open_mirrors():
                mirror.alert(f"{self.run_dir.resolve().name[:40]}: {what}", text, level)

    def _open_mirrors(self) -> list[Mirror]:
        if self._mirrors is None:
            self._mirrors = list(open_mirrors(self.run_dir, self._settings, self._config, self._resumed_at))
        return self._mirrors
