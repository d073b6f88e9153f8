"""Builds `view/index.html` of a run: curves, evaluations and every trajectory step by step.

The page needs no network and no server. Its data are JSON inside the page, except the steps of the trajectories: those
of each iteration are one `view/data/iter-000010.js`, which the page loads when one of them is opened. Screens are shown
from `screens/`. Everything a model wrote reaches the page as JSON and is put there as text, never as HTML; a content
security policy forbids any script but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from mobilerl.eval.report import difference, read_results
from mobilerl.records import Status
from mobilerl.train.tracking import read_metrics
from mobilerl.trajectory_files import read_records, write_atomic

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = ("util.js", "charts.js", "evaluations.js", "player.js", "trajectories.js", "main.js")
MAX_TRAJECTORIES = 64
_SCREEN = re.compile(r"[0-9a-f]{64}")


def build(run_dir: Path | str, max_trajectories: int = MAX_TRAJECTORIES) -> Path:
    """Writes `run_dir/view/index.html` and returns its path. Anything the run does not have yet is left out.

    Of each iteration the page holds the first `max_trajectories` trajectories. Raises ValueError when `run_dir` is not
    a folder or one of its files cannot be read.
    """
    run = Path(run_dir)
    if not run.is_dir():
        raise ValueError(f"{run}: there is no such run directory")
    evaluations = _evaluations(run)
    data = {
        "run": run.resolve().name,
        "metrics": read_metrics(run / "metrics.jsonl"),
        "evaluations": [{k: v for k, v in e.items() if k != "instances"} for e in evaluations],
        "differences": _differences(evaluations),
        **_trajectories(run, max_trajectories),
    }
    page = run / "view" / "index.html"
    write_atomic(page, _render(data).encode())
    return page


def _render(data: dict[str, Any]) -> str:
    script = "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    return environment.get_template("index.html.j2").render(
        run=data["run"],
        style=Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=digest,
        data=Markup(_json(data)),
    )


def _json(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end the element or start a comment."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII only: U+2028 and its like are escaped too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# --- evaluations -------------------------------------------------------------------------------------------------


def _evaluations(run: Path) -> list[dict[str, Any]]:
    """Every eval/**/results.json with its folder as `name`, oldest first within a suite, "before" ahead of "after"."""

    def age(path: Path) -> tuple[int, float]:
        name = path.parent.name
        return (0 if "before" in name else 2 if "after" in name else 1, path.stat().st_mtime)

    root = run / "eval"
    paths = sorted(sorted(root.glob("**/results.json")), key=age)
    found = [{"name": path.parent.relative_to(root).as_posix(), **read_results(path)} for path in paths]
    return sorted(found, key=lambda e: e["suite"])


def _differences(evaluations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Last against first evaluation of each suite, paired by instance, or the reason why they cannot be paired."""
    found = []
    for suite in sorted({e["suite"] for e in evaluations}):
        same = [e for e in evaluations if e["suite"] == suite]
        if len(same) < 2:
            continue
        row: dict[str, Any] = {"suite": suite, "before": same[0]["name"], "after": same[-1]["name"]}
        try:
            paired = difference(same[0], same[-1])
            row |= {
                "difference": paired.difference,
                "interval": [paired.bootstrap.low, paired.bootstrap.high],
                "instances": paired.instances,
            }
        except ValueError as error:
            row["reason"] = str(error)
        found.append(row)
    return found


# --- trajectories ------------------------------------------------------------------------------------------------


def _trajectories(run: Path, limit: int) -> dict[str, Any]:
    """Writes view/data/*.js and returns what the list needs: the tasks, the iterations (newest first) and one row
    [iteration, index, task, outcome, reward, steps] per trajectory, the first and third being places in those lists."""
    tasks: dict[str, dict[str, Any]] = {}
    places: dict[str, int] = {}
    iterations, rows = [], []
    for path in sorted((run / "trajectories").glob("iter-*.jsonl"), reverse=True):
        bodies: list[dict[str, Any]] = []
        total = 0
        for number, record in read_records(path):
            total += 1
            if len(bodies) >= limit:
                continue
            try:
                task, body = record["task"], _body(record)
                tasks[task["id"]] = {k: task[k] for k in ("id", "template", "instruction", "app", "max_steps")}
            except (KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: a field is missing or has the wrong form: {error}") from error
            place = places.setdefault(task["id"], len(places))
            outcome = _outcome(record)
            rows.append([len(iterations), len(bodies), place, outcome, record["reward"], len(body["steps"])])
            bodies.append(body)
        iterations.append({"name": path.stem, "number": int(path.stem.removeprefix("iter-")), "total": total})
        script = f"receiveTrajectories({_json(path.stem)},{_json(bodies)});\n"
        write_atomic(run / "view" / "data" / f"{path.stem}.js", script.encode())
    return {"tasks": list(tasks.values()), "iterations": iterations, "rows": rows}


def _outcome(record: dict[str, Any]) -> str:
    """`success`, or how an episode without success ended."""
    status = record["status"]
    return "success" if record["reward"] > 0.5 and status != Status.INFRA_ERROR else status


def _body(record: dict[str, Any]) -> dict[str, Any]:
    return {
        **{k: record[k] for k in ("id", "status", "device_id", "error", "wall_s")},
        "steps": [_step(step) for step in record["steps"]],
    }


def _step(step: dict[str, Any]) -> dict[str, Any]:
    observation, completion = step["observation"], step["completion"]
    logprobs, screen = completion["logprobs"], observation["screenshot"]
    return {
        "screen": screen if _SCREEN.fullmatch(screen) else "",
        "width": observation["width"],
        "height": observation["height"],
        "app": observation["app"],
        "thought": step["thought"],
        "reply": completion["text"],
        "action": step["action"],
        "timings": step["timings"],
        "prompt_tokens": len(completion["prompt_ids"]),
        "reply_tokens": len(completion["token_ids"]),
        "images": len(step["images"]),
        "mean_logprob": sum(logprobs) / len(logprobs) if logprobs else None,
        "version": completion["version"],
    }
