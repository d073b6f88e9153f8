"""Converts a run's trajectories to a Hugging Face dataset, one row per step in file order, and back.

`load_run` streams. To save or upload: `Dataset.from_generator(rows, FEATURES, gen_kwargs={"files": [...]})`.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Image, IterableDataset, List, Value

from mobilerl.records import Trajectory
from mobilerl.records.files import read_records, trajectory_files, trajectory_from_dict
from mobilerl.records.screens import MemoryScreens, ScreenFolder

TEXT, WHOLE, REAL, IDS = Value("string"), Value("int64"), Value("float64"), List(Value("int64"))
COMPLETION = {"prompt_ids": IDS, "token_ids": IDS, "logprobs": List(REAL), "version": WHOLE, "text": TEXT}
FEATURES = Features(
    {"id": TEXT, "step": WHOLE, "instruction": TEXT, "template": TEXT, "reward": REAL, "status": TEXT}
    | {"screenshot": Image(), "xml": TEXT, "app": TEXT, "thought": TEXT, "action": TEXT}
    | COMPLETION
    | {"images": List(TEXT), "rest": TEXT, "trajectory": TEXT}
)
"""`action`, `rest` and `trajectory` are JSON; the last two hold all fields without a column. `images` are the SHA-256
of the images in the prompt, each the screenshot of this or an earlier row of the trajectory."""


def load_run(run_dir: Path | str) -> IterableDataset:
    """Loads the trajectories of a run, one shard per iteration. Raises ValueError without any or for a damaged file."""
    files = [str(file) for file in trajectory_files(Path(run_dir))]
    return IterableDataset.from_generator(rows, features=FEATURES, gen_kwargs={"files": files})


def rows(files: Sequence[str]) -> Iterator[dict[str, Any]]:
    for file in map(Path, files):
        for _, whole in read_records(file):
            screens, steps, task = ScreenFolder(file.parent.parent / "screens"), whole.pop("steps"), whole["task"]
            about = {name: task[name] for name in ("instruction", "template")} | {"trajectory": json.dumps(whole)}
            about |= {name: whole[name] for name in ("id", "reward", "status")}
            for i, step in enumerate(steps):
                shot, seen = step["observation"]["screenshot"], step.pop("observation")
                image = {"path": None, "bytes": screens.get(shot)} if shot else None
                row = {"step": i, "screenshot": image, "xml": seen.pop("xml"), "app": seen["app"]}
                row |= {"action": json.dumps(step.pop("action")), "thought": step["thought"]}
                row |= {"images": step.pop("images"), **step.pop("completion")}
                yield about | row | {"rest": json.dumps([seen, step])}


def to_trajectories(dataset: Dataset | IterableDataset) -> Iterator[Trajectory]:
    """Inverse of `rows`, in file order. Episodes that ended before their first step are lost."""
    for _, group in groupby(dataset.cast_column("screenshot", Image(decode=False)), lambda row: row["id"]):
        screens, steps, row = MemoryScreens(), [], {}
        for row in group:
            seen, step = json.loads(row["rest"])
            screens.put(row["screenshot"]["bytes"] if row["screenshot"] else b"")
            step |= {"observation": seen | {"xml": row["xml"]}, "action": json.loads(row["action"])}
            steps.append(step | {"images": row["images"], "completion": {name: row[name] for name in COMPLETION}})
        yield trajectory_from_dict(json.loads(row["trajectory"]) | {"steps": steps}, screens)
