"""Writes `view/index.html` of a run, and the scripts in `view/data/` that the page loads on demand.

The page needs no network and no server. Text from models and apps reaches it as JSON and is inserted as text, never as
HTML; a content security policy forbids all scripts but the page's own and those in its folder. Screens are loaded from
`screens/`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from mobilerl.train.tracking import read_metrics
from mobilerl.viewer.episodes import Cache, to_json, write_episodes, write_file, write_script
from mobilerl.viewer.evaluations import RESULTS, evaluations_of, pairs_between, pairs_within
from mobilerl.viewer.status import device_table, task_table

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = (
    "util format loading virtual charts curves overview evaluations pairs strips tasks fleet phone player trajectories "
    "lanes groups diff keys main"
).split()
RUN_FILES = ("config.json", "metrics.jsonl", "trajectories/iter-*.jsonl", *RESULTS)
"""A run directory, or a folder of evaluations, has at least one of these."""
STYLES = ("base", "overview", "tables", "player")


def build(run_dir: Path | str, against: Path | str | None = None, cache: Cache | None = None) -> Path:
    """Writes `run_dir/view/index.html` and returns its path. Views without data say so.

    With `against`, another run, the page also shows how the two differ; that run's folder is only read. `cache`, empty
    at first, saves rewriting what is unchanged. Raises ValueError if either is no run or has a file it cannot read.
    """
    run = _folder(run_dir)
    view = run / "view"
    if view.is_symlink():
        raise ValueError(f"{view} is a link, through which nothing is written: remove it")
    if not cache:  # a run that was copied from elsewhere may come with scripts of its own
        shutil.rmtree(view, ignore_errors=True)
    cache = {} if cache is None else cache
    runs = [_write_run(run, view, "data", "../", cache)]
    evaluations = [evaluations_of(run)]
    pairs = {"within": pairs_within(evaluations[0]), "between": []}
    if against is not None:
        other = _folder(against)
        if other.resolve() == run.resolve():
            raise ValueError(f"{other} is the run itself; name another run to compare it with")
        root = quote(os.path.relpath(other.resolve(), view.resolve())) + "/"
        runs.append(_write_run(other, view, "against", root, cache))
        evaluations.append(evaluations_of(other))
        pairs["between"] = pairs_between(*evaluations)
    write_script(view, "data/pairs", pairs)
    for one, found in zip(runs, evaluations, strict=True):
        one["evaluations"] = [{k: v for k, v in e.items() if k not in ("instances", "unseen_templates")} for e in found]
    heads = {kind: [{k: v for k, v in p.items() if k != "rows"} for p in found] for kind, found in pairs.items()}
    write_file(view / "index.html", _render({"runs": runs, "pairs": heads}))
    return view / "index.html"


def _folder(path: Path | str) -> Path:
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such run directory")
    if not any(next(folder.glob(pattern), None) for pattern in RUN_FILES):
        raise ValueError(
            f"{folder} holds no run: it has no {', '.join(RUN_FILES)}; name the --run-dir of a run "
            "or the --out of an evaluation"
        )
    return folder


def _write_run(run: Path, view: Path, folder: str, root: str, cache: Cache) -> dict[str, Any]:
    """Writes the scripts of one run to `view/<folder>/` and returns the data that goes into the page itself.

    `root` is the path from the page to the run's folder.
    """
    index = write_episodes(run, view, folder, cache)
    tasks, fleet = task_table(run), device_table(run, index)
    for name, content in (("index", index), ("tasks", tasks), ("fleet", fleet)):
        write_script(view, f"{folder}/{name}", content)
    return {
        "name": run.resolve().name,
        "folder": folder,
        "root": root,
        "metrics": columns(read_metrics(run / "metrics.jsonl")),
        "trajectories": len(index["rows"]),
        "sources": len(index["sources"]),
        "tasks": Counter(task["state"] for task in tasks),
        "devices": len(fleet["devices"]),
        "outcomes": Counter(row[3] for row in index["rows"]),
    }


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Metrics by key, null where a row lacks the key. Numbers are rounded to six digits."""
    keys = dict.fromkeys(key for row in rows for key in row)
    values = {key: [row.get(key) for row in rows] for key in keys}
    return {k: [float(f"{v:.6g}") if isinstance(v, float) else v for v in column] for k, column in values.items()}


def _render(data: Mapping[str, Any]) -> str:
    script = "\n".join((TEMPLATES / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    style = "\n".join((TEMPLATES / f"{name}.css").read_text(encoding="utf-8") for name in STYLES)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    return environment.get_template("index.html.j2").render(
        run=data["runs"][0]["name"],
        style=Markup(style),
        script=Markup(script),
        script_digest=digest,
        data=Markup(to_json(data)),
    )
