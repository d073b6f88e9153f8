"""Fuzz targets for recipes, saved runs, trajectories, checkpoint state and the viewer's paths."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from damage import damaged_json, damaged_json_text, damaged_text
from fuzzing import Target

from mobilerl.config import ConfigError, load_recipe, read_saved
from mobilerl.config.recipe import Recipe
from mobilerl.envs.base import Observation, Tap, Task
from mobilerl.records import Completion, Status, Step, Trajectory
from mobilerl.records.files import read_records, trajectory_from_dict, trajectory_to_dict
from mobilerl.records.screens import MemoryScreens
from mobilerl.training.checkpoint import CheckpointError, read_state
from mobilerl.viewer.serve import file_for

ROOT = Path(__file__).parents[2]
FOLDER = Path(tempfile.mkdtemp(prefix="mobilerl-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, True)


def _file(name: str, text: str) -> Path:
    path = FOLDER / name
    path.write_bytes(text.encode(errors="surrogatepass"))  # hostile files need not be UTF-8
    return path


def _read(name: str, read: Callable[[Path], object], wanted: type, error: type[Exception]) -> Callable[[str], None]:
    """A check that a file is either read or refused in lines that name its place."""

    def check(text: str) -> None:
        try:
            found = read(_file(name, text))
        except error as refused:
            lines = str(refused).splitlines()
            assert lines and all(str(FOLDER) in line for line in lines), refused
        else:
            assert isinstance(found, wanted)

    return check


# --- recipes -----------------------------------------------------------------------------------------------------

shutil.copytree(ROOT / "recipes/base", FOLDER / "base")  # which the recipes extend
RECIPES = [p.read_text() for p in sorted((ROOT / "recipes").glob("*.toml")) if "compare" not in p.name]
TOML_PIECES = (
    *("[", "]", "[[", "=", "[engine]", "type = ", "count = -1", "1e999", "nan", "inf", '"""', "{}", "2020-01-01"),
    *("[" * 5000, "a." * 3000),
)


SAVED = json.loads(Recipe().model_dump_json())

# --- trajectories ------------------------------------------------------------------------------------------------

SCREENS = MemoryScreens()


def _trajectory() -> dict:
    png = b"\x89PNG"
    seen = Observation(png, 360, 720, "<hierarchy/>", "Maps", 0)
    step = Step(seen, Completion((1, 2), (3,), (-0.5,), 1, "text"), (png,), "thought", Tap(1, 2), {"act": 0.5}, "note")
    task = Task("id", "T", "do it", {"a": 1}, 0, 5, "sim")
    return trajectory_to_dict(Trajectory("t-0", task, (step,), 1.0, Status.FINISHED, "d0"), SCREENS)


TRAJECTORY = _trajectory()


def _record(record: object) -> None:
    try:
        trajectory_from_dict(record, SCREENS)  # type: ignore[arg-type]
    except ValueError as error:
        assert str(error)


# --- checkpoints -------------------------------------------------------------------------------------------------

STATE = {
    **{"schema": 1, "iteration": 2, "files": {"config.json": 2, "../x": 4}, "replay": None, "elapsed_s": 1.0},
    **{"env_steps": 3, "sampler": {}, "rng": [3, [1, 2], None]},
}
(FOLDER / "config.json").write_text("{}")

# --- the viewer's paths ------------------------------------------------------------------------------------------

SCREEN = "screens/" + "a" * 64 + ".png"
PATHS = ("/", "/index.html", "/data/index.js", f"/against-1/{SCREEN}", f"/eval/sim/after/{SCREEN}", f"/{SCREEN}")


def _viewer_path(path: str) -> None:
    found = file_for(path, FOLDER / "run", [FOLDER / "other"])
    if found is None:
        return
    parts = found.relative_to(FOLDER).parts
    assert ".." not in parts and parts[0] in ("run", "other"), f"{path!r} leads to {found}"
    assert found.suffix in (".html", ".js", ".png") and "\0" not in str(found)


TARGETS = [
    Target("recipe", damaged_text(RECIPES, TOML_PIECES), _read("recipe.toml", load_recipe, Recipe, ConfigError)),
    Target("saved recipe", damaged_json_text([SAVED]), _read("saved.json", read_saved, Recipe, ConfigError)),
    Target("trajectory", damaged_json([TRAJECTORY]), _record),
    Target(
        "trajectory file",
        damaged_json_text([TRAJECTORY]),
        _read("iter-000001.jsonl", lambda path: list(read_records(path)), list, ValueError),
    ),
    Target(
        "checkpoint state",
        damaged_json_text([STATE]),
        _read("state.json", lambda path: read_state(path.parent), dict, CheckpointError),
    ),
    Target("viewer path", damaged_text(PATHS, ["/", "..", "/../", "%2e%2e", "\\", "eval/", "2/"]), _viewer_path),
]
