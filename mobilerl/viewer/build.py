"""Writes `view/index.html` of a run and the scripts in `view/data/` that the page loads on demand.

The page needs no network and no server. Text from models and apps is passed as JSON and inserted as text, never as
HTML; a content security policy forbids all scripts except the page's own and those in its folder. Screens are loaded
from `screens/`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from mobilerl.training.tracking import read_metrics
from mobilerl.viewer.about import about_run
from mobilerl.viewer.episodes import Cache, write_episodes
from mobilerl.viewer.evaluations import RESULTS, evaluations_of, pairs_with_others, pairs_within
from mobilerl.viewer.replay import write_replay
from mobilerl.viewer.scripts import to_json, write_file, write_script
from mobilerl.viewer.status import app_columns, columns, device_table, task_table
from mobilerl.viewer.tokens import decoder_of

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = (
    "util format loading virtual axis charts curves about overview evaluations pairs strips tasks fleet phone given "
    "player trajectories lanes groups replay diff keys live main"
).split()
RUN_FILES = ("config.json", "metrics.jsonl", "trajectories/iter-*.jsonl", *RESULTS)
"""A run directory, or a folder of evaluations, has at least one of these."""
INPUTS = (
    *("config.json", "*.jsonl", "trajectories/*", "advantages/*", "shaped_rewards/*", "checkpoints/*/state.json"),
    *(*RESULTS, "*/trajectories/*", "eval/**/trajectories/*"),
)
"""Files that a page is built from."""
MOST_RUNS = 4
"""Maximum number of runs side by side, each with its own color."""
STYLES = ("base", "overview", "tables", "player")


def build(run_dir: Path | str, against: Sequence[Path | str] = (), cache: Cache | None = None) -> Path:
    """Writes `run_dir/view/index.html` and returns its path. Views say if they have no data.

    With `against`, up to three other runs, the page also shows how they differ; their folders are only read. `cache`,
    empty at first, avoids rewriting unchanged files. Raises ValueError for a folder without a run or a damaged file.
    """
    folders = [_folder(path) for path in (run_dir, *against)]
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError(f"--against {' '.join(map(str, against))}: names the run itself, or one run twice")
    if len(folders) > MOST_RUNS:
        raise ValueError(f"--against: {len(against)} runs; at most {MOST_RUNS - 1} are shown beside the first")
    view = folders[0] / "view"
    if view.is_symlink():
        raise ValueError(f"{view} is a link, through which nothing is written: remove it")
    if not cache:  # a run copied from elsewhere may contain foreign scripts
        shutil.rmtree(view, ignore_errors=True)
    cache = {} if cache is None else cache
    version = _version(folders)
    if cache.get(view) == {"version": version} and (view / "index.html").is_file():
        return view / "index.html"
    runs = [_write_run(folder, view, number, cache) for number, folder in enumerate(folders)]
    evaluations = [evaluations_of(folder) for folder in folders]
    pairs = {"within": pairs_within(evaluations[0]), "between": pairs_with_others(evaluations)}
    write_script(view, "data/pairs", pairs)
    for one, found in zip(runs, evaluations, strict=True):
        one["evaluations"] = [{k: v for k, v in e.items() if k not in ("instances", "unseen_templates")} for e in found]
    heads = {kind: [{k: v for k, v in p.items() if k != "rows"} for p in found] for kind, found in pairs.items()}
    data = {"version": version, "runs": runs, "pairs": heads}
    write_script(view, "data/page", data)
    write_script(view, "data/version", version)
    write_file(view / "index.html", _render(data))
    cache[view] = {"version": version}
    return view / "index.html"


def _version(folders: Sequence[Path]) -> str:
    """Hash that changes whenever a file changes that the page is built from."""
    digest = hashlib.sha256()
    for path in sorted({path for folder in folders for pattern in INPUTS for path in folder.glob(pattern)}):
        with suppress(FileNotFoundError):  # a checkpoint that has just been replaced
            stat = path.stat()
            digest.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


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


def _write_run(run: Path, view: Path, number: int, cache: Cache) -> dict[str, Any]:
    """Writes the scripts of one run to a folder in `view/` and returns the data for the page itself.

    `root` is the path from the page to the run's folder.
    """
    folder = f"against-{number}" if number else "data"
    decode = decoder_of(run)
    index = write_episodes(run, view, folder, cache, decode)
    tasks, fleet = task_table(run), device_table(run, index)
    replay = write_replay(run, view, folder, cache, decode)
    for name, content in (("index", index), ("tasks", tasks), ("fleet", fleet), ("replay", replay)):
        write_script(view, f"{folder}/{name}", content)
    return {
        "number": number,
        "name": run.resolve().name,
        "folder": folder,
        "about": about_run(run),
        "root": quote(os.path.relpath(run.resolve(), view.resolve())) + "/" if number else "../",
        "metrics": columns(read_metrics(run / "metrics.jsonl")),
        "apps": app_columns(run),
        "trajectories": len(index["rows"]),
        "sources": len(index["sources"]),
        "tasks": Counter(task["state"] for task in tasks),
        "devices": len(fleet["devices"]),
        "outcomes": Counter(row[3] for row in index["rows"]),
        "replay": {"iteration": replay["iteration"], "size": len(replay["rows"])} if replay else None,
    }


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
