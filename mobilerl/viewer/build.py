"""Builds `view/index.html` of a run, and the scripts in `view/data/` that it loads when they are needed.

The page needs no network and no server. Everything a model or an app wrote reaches it as JSON and is put there as
text, never as HTML; a content security policy forbids any script but the page's own and those of its folder. Screens
are shown from `screens/`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from mobilerl.train.tracking import read_metrics
from mobilerl.viewer.episodes import write_episodes
from mobilerl.viewer.evaluations import evaluations_of, pairs_between, pairs_within
from mobilerl.viewer.fleetboard import fleet_board
from mobilerl.viewer.scripts import to_json, write_file, write_script
from mobilerl.viewer.taskboard import task_board

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = (
    "util.js", "format.js", "loading.js", "virtual.js", "charts.js", "curves.js", "overview.js", "evaluations.js",
    "pairs.js", "strips.js", "taskboard.js", "fleetboard.js", "phone.js", "player.js", "trajectories.js", "lanes.js",
    "groups.js", "diff.js", "keys.js", "main.js",
)  # fmt: skip
STYLES = ("base.css", "overview.css", "boards.css", "player.css")


def build(run_dir: Path | str, against: Path | str | None = None) -> Path:
    """Writes `run_dir/view/index.html` and returns its path. Anything the run does not have yet is left out.

    With `against`, another run, the page also shows how the two differ; that run's folder is only read. Raises
    ValueError when one of them is not a folder or one of their files cannot be read.
    """
    run = _folder(run_dir)
    view = run / "view"
    runs = [_write_run(run, view, "data", "../")]
    evaluations = [evaluations_of(run)]
    pairs = {"within": pairs_within(evaluations[0]), "between": []}
    if against is not None:
        other = _folder(against)
        if other.resolve() == run.resolve():
            raise ValueError(f"{other} is the run itself; name another run to compare it with")
        prefix = quote(os.path.relpath(other.resolve(), view.resolve())) + "/"
        runs.append(_write_run(other, view, "against", prefix))
        evaluations.append(evaluations_of(other))
        pairs["between"] = pairs_between(*evaluations)
    else:
        shutil.rmtree(view / "against", ignore_errors=True)
    write_script(view, "data/pairs", pairs)
    for one, found in zip(runs, evaluations, strict=True):
        one["evaluations"] = [{k: v for k, v in e.items() if k not in ("instances", "unseen_templates")} for e in found]
    heads = {kind: [{k: v for k, v in p.items() if k != "rows"} for p in found] for kind, found in pairs.items()}
    write_file(view / "index.html", _render({"runs": runs, "pairs": heads}))
    return view / "index.html"


def _folder(path: Path | str) -> Path:
    if not Path(path).is_dir():
        raise ValueError(f"{path}: there is no such run directory")
    return Path(path)


def _write_run(run: Path, view: Path, folder: str, root: str) -> dict[str, Any]:
    """Writes the scripts of one run to `view/<folder>/` and returns what the page holds of it from the start.

    `root` leads from the page to the run's folder.
    """
    index = write_episodes(run, view, folder)
    tasks, fleet = task_board(run, index), fleet_board(run, index)
    for name, content in (("index", index), ("tasks", tasks), ("fleet", fleet)):
        write_script(view, f"{folder}/{name}", content)
    return {
        "name": run.resolve().name,
        "folder": folder,
        "root": root,
        "metrics": columns(read_metrics(run / "metrics.jsonl")),
        "trajectories": len(index["rows"]),
        "sources": len(index["sources"]),
        "tasks": _counted(task["state"] for task in tasks["tasks"]),
        "devices": len(fleet["devices"]),
        "outcomes": _counted(row[3] for row in index["rows"]),
    }


def _counted(values: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows of metrics by key, shorter than as objects; null where a row lacks the key. Numbers keep six digits."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [_shortened(row.get(key)) for row in rows] for key in keys}


def _shortened(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _render(data: Mapping[str, Any]) -> str:
    script = "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in SCRIPTS)
    style = "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in STYLES)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    return environment.get_template("index.html.j2").render(
        run=data["runs"][0]["name"], style=Markup(style), script=Markup(script), script_digest=digest,
        data=Markup(to_json(data)),
    )  # fmt: skip
