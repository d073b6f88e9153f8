"""`mobilerl bench`: each part runs at a small size and prints its figures."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time

import pytest

from mobilerl.benchmarks import gpu
from mobilerl.cli import main
from mobilerl.cli.bench import GPU_PHASES


@pytest.mark.parametrize(
    ("words", "figure"),
    [
        ("phone --steps 20", lambda found: found["steps_per_s_xml_only"]),
        pytest.param(
            "rollout --devices 8 --seconds 0.5", lambda found: found[0]["utilization"], marks=pytest.mark.slow
        ),
        pytest.param(
            "learner --hidden 32 --layers 1 --rows 8 --rounds 1",
            lambda found: found["ratios"][0]["cpu_speed"],
            marks=pytest.mark.slow,
        ),
        pytest.param("gpu --minutes 30", lambda found: found["lines"][0]["cpus"], marks=pytest.mark.slow),
    ],
)
def test_each_part_is_measured(words, figure, capsys, monkeypatch):
    forks = multiprocessing.get_context("forkserver")  # with a GPU each phase imports by itself, which takes seconds
    forks.set_forkserver_preload([f"{gpu.__name__}.{phase}" for phase, about in gpu.PHASES.items() if not about.needs])
    monkeypatch.setattr(gpu.multiprocessing, "get_context", lambda _: forks)
    assert main(["bench", *words.split(), "--json"]) == 0
    assert figure(json.loads(capsys.readouterr().out.splitlines()[-1])) > 0


def test_a_phase_that_cannot_run_here_is_skipped_and_leaves_its_minutes_to_the_others(monkeypatch):
    seconds = []

    def lines(phase, deadline, *_):
        seconds.append(deadline)
        yield gpu.Line(phase, "done", {})

    monkeypatch.setattr(gpu, "_lines", lines)
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: None)
    found = gpu.measure(2, ["calibrate", "vllm", "collate"])
    assert [line["name"] for line in found["lines"]] == ["done", "skipped: vllm not installed", "done"]
    assert sum(seconds) == pytest.approx(120) and found["failed"] == 0


@pytest.mark.parametrize("gpu_there", [True, False])
def test_phases_wait_for_what_they_go_on_from_and_on_a_gpu_for_all(gpu_there, monkeypatch):
    running, most, order = set(), [], []

    def lines(phase, *_):
        running.add(phase)
        time.sleep(0.02)
        most.append(len(running))
        running.remove(phase)
        order.append(phase)
        yield gpu.Line(phase, "done", {})

    monkeypatch.setattr(gpu, "_lines", lines)
    monkeypatch.setattr(gpu, "_lacking", lambda _: "")
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: gpu_there)
    found = gpu.measure(1)
    assert [line["phase"] for line in found["lines"]] == list(gpu.PHASES)
    assert order.index("verl") < order.index("resume") and max(most) == (1 if gpu_there else 2)


def test_ctrl_c_ends_the_phases(monkeypatch):
    started, ended = threading.Event(), threading.Event()

    def lines(phase, seconds, folder, stop):
        if phase == "families":
            assert started.wait(20)
            raise KeyboardInterrupt
        started.set()
        assert stop.wait(20)
        ended.set()
        yield gpu.Line(phase, "ended", {})

    monkeypatch.setattr(gpu, "_lines", lines)
    with pytest.raises(KeyboardInterrupt):
        gpu.measure(1, ["families", "calibrate"])
    assert ended.is_set()


def test_the_command_line_names_the_phases_there_are():
    assert list(gpu.PHASES) == GPU_PHASES


def test_sizes_are_positive_numbers(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "phone", "--steps", "0"])
    assert "is not above 0" in capsys.readouterr().err
