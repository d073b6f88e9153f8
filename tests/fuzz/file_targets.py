"""What is read from disk: recipes, saved runs, trajectories, checkpoints' state, and the viewer's addresses."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path

from damage import damaged_json, damaged_json_text, damaged_text
from fuzzing import Target
from hypothesis import strategies as st

from envs.base import Observation, Tap, Task
from mobilerl.config import ConfigError, load_recipe, read_saved
from mobilerl.config.recipe import Recipe
from mobilerl.records import Completion, Status, Step, Trajectory
from mobilerl.screen_files import MemoryScreens
from mobilerl.train.checkpoint import CheckpointError, read_state
from mobilerl.trajectory_files import read_records, trajectory_from_dict, trajectory_to_dict
from mobilerl.viewer.serve import file_for

ROOT = Path(__file__).parents[2]
FOLDER = Path(tempfile.mkdtemp(prefix="mobilerl-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, True)


def _file(name: str, text: str) -> Path:
    path = FOLDER / name
    path.write_bytes(text.encode(errors="surrogatepass"))  # a hostile file need not be UTF-8
    return path


def _one_line(error: Exception, path: Path) -> None:
    assert str(path) in str(error) and len(str(error).splitlines()) == 1, error


# --- recipes -----------------------------------------------------------------------------------------------------

RECIPES = [p.read_text() for p in sorted((ROOT / "recipes").glob("*.toml")) if "compare" not in p.name]
TOML_PIECES = ["[", "]", "[[", "=", "[engine]", "type = ", "count = -1", "1e999", "nan", "inf", '"""', "{}",
               "2020-01-01", "[" * 5000, "a." * 3000]  # fmt: skip


def _recipe(text: str) -> None:
    path = _file("recipe.toml", text)
    try:
        recipe = load_recipe(path)
    except ConfigError as error:
        _one_line(error, path)
        return
    assert isinstance(recipe, Recipe)


def _flags(words: list[str]) -> None:
    try:
        load_recipe(None, words)
    except ConfigError:
        pass


FLAGS = ["--train.iterations", "--phone", "--model", "--engine.type", "--train", "--algorithm.replay.gamma", "--",
         "--tasks.templates"]  # fmt: skip
VALUES = ["{}", "[]", '["a"]', '{"count": 3}', "{", "-1", "nan", "true", "", "[" * 3000, "\ud800", "="]
SAVED = json.loads(Recipe().model_dump_json())


def _saved(text: str) -> None:
    path = _file("config.json", text)
    try:
        recipe = read_saved(path)
    except ConfigError as error:
        _one_line(error, path)
        return
    assert isinstance(recipe, Recipe)


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


def _records(text: str) -> None:
    path = _file("iter-000001.jsonl", text)
    try:
        for _, record in read_records(path):
            assert isinstance(record, dict)
    except ValueError as error:
        _one_line(error, path)


# --- checkpoints -------------------------------------------------------------------------------------------------

STATE = {"schema": 1, "iteration": 2, "files": {"config.json": 2, "../x": 4}, "replay": None, "elapsed_s": 1.0,
         "env_steps": 3, "sampler": {}, "rng": [3, [1, 2], None]}  # fmt: skip


def _state(text: str) -> None:
    path = _file("state.json", text)
    (FOLDER / "config.json").write_text("{}")
    try:
        state = read_state(FOLDER)
    except CheckpointError as error:
        _one_line(error, FOLDER)
        return
    assert isinstance(state, dict) and path


# --- the viewer's addresses --------------------------------------------------------------------------------------

ADDRESSES = ["/", "/index.html", "/data/index.js", "/against-run/screens/" + "a" * 64 + ".png",
             "/eval/sim/after/screens/" + "b" * 64 + ".png", "/screens/" + "c" * 64 + ".png"]  # fmt: skip


def _address(address: str) -> None:
    run, other = FOLDER / "run", FOLDER / "other"
    found = file_for(address, run, other)
    if found is None:
        return
    inside = Path(*[p for p in found.parts])
    parts = inside.parts[len(FOLDER.parts) :]
    assert ".." not in parts and parts[0] in ("run", "other"), f"{address!r} leads to {found}"
    assert found.suffix in (".html", ".js", ".png") and "\0" not in str(found)


TARGETS = [
    Target("recipe", damaged_text(RECIPES, TOML_PIECES), _recipe),
    Target("flags", st.lists(st.sampled_from([*FLAGS, *VALUES]) | damaged_text(FLAGS), max_size=5), _flags),
    Target("saved recipe", damaged_json_text([SAVED]), _saved),
    Target("trajectory", damaged_json([TRAJECTORY]), _record),
    Target("trajectory file", damaged_json_text([TRAJECTORY]), _records),
    Target("checkpoint state", damaged_json_text([STATE]), _state),
    Target("viewer address", damaged_text(ADDRESSES, ["/", "..", "/../", "%2e%2e", "\\", "eval/"]), _address),
]
