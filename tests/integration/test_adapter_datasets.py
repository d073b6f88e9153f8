"""A run's trajectories as a Hugging Face dataset and back: streamed, and through a Parquet file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

datasets = pytest.importorskip("datasets", reason="no datasets: pip install 'mobilerl[local]'")

from mobilerl.adapters.hf_dataset import FEATURES, load_run, rows, to_trajectories  # noqa: E402
from mobilerl.envs.base import Back, Observation, Tap, Wait  # noqa: E402
from mobilerl.envs.phone.env import PhoneEnv  # noqa: E402
from mobilerl.envs.phone.tasks.suite import make_task  # noqa: E402
from mobilerl.records import Completion, Status, Step, Trajectory  # noqa: E402
from mobilerl.records.files import save_trajectories  # noqa: E402


def played(name: str, steps: int, screenshots: bool = True) -> Trajectory:
    """An episode with two images in a prompt, unusual floats and text that is not ASCII."""

    async def screens() -> list[Observation]:
        env = PhoneEnv(screenshots=screenshots)
        seen = [await env.reset(task)]
        for _ in range(steps - 1):
            seen.append((await env.step(Tap(500, 80 + 100 * len(seen)))).observation)
        return seen

    task = make_task("SettingsTurnOn", 5)
    seen = asyncio.run(screens())
    taken = tuple(
        Step(
            observation=o,
            completion=Completion((1, 2, i), (7, i), (-0.1 - i / 3, -1e-17), 4, f"<answer>„{i}“"),
            images=tuple(o.screenshot for o in seen[max(0, i - 1) : i + 1] if screenshots),
            thought="so ☃",
            action=Back() if i else Wait(0.5),
            timings={"act": 0.1},
            note="",
        )
        for i, o in enumerate(seen)
    )
    return Trajectory(name, task, taken, 1 / 3, Status.FINISHED, "sim-0", "", 1.5)


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, list[Trajectory]]:
    trajectories = [played("a", 3), played("c", 2, screenshots=False), played("d", 2)]
    save_trajectories(tmp_path, 1, trajectories[:2])
    save_trajectories(tmp_path, 2, trajectories[2:])
    return tmp_path, trajectories


def test_a_stream_gives_back_the_trajectories(run) -> None:
    folder, trajectories = run
    stream = load_run(folder)
    assert stream.num_shards == 2
    assert list(to_trajectories(stream)) == trajectories
    first = next(iter(stream))
    assert first["screenshot"].size == (360, 720) and first["instruction"] == trajectories[0].task.instruction
    assert [row["step"] for row in stream] == [0, 1, 2, 0, 1, 0, 1]


def test_a_parquet_file_holds_everything_including_screens(run, tmp_path_factory) -> None:
    folder, trajectories = run
    cache = str(tmp_path_factory.mktemp("cache"))
    files = sorted(str(f) for f in folder.glob("trajectories/*.jsonl"))
    whole = datasets.Dataset.from_generator(rows, features=FEATURES, gen_kwargs={"files": files}, cache_dir=cache)
    file = tmp_path_factory.mktemp("out") / "run.parquet"
    whole.to_parquet(str(file))
    for screen in (folder / "screens").iterdir():
        screen.unlink()
    read = datasets.Dataset.from_parquet(str(file), cache_dir=cache)
    assert read.features == FEATURES
    assert list(to_trajectories(read)) == trajectories


def test_missing_files_are_named(run, tmp_path_factory) -> None:
    with pytest.raises(ValueError, match="holds no trajectories"):
        load_run(tmp_path_factory.mktemp("empty"))
    folder, _ = run
    next((folder / "screens").iterdir()).unlink()
    with pytest.raises(ValueError, match="screen .* is missing"):
        list(load_run(folder))
