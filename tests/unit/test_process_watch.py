"""The soak's measure of growth: it finds leaks, and does not take noise or a filling cache for one."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

from benchmarks.process_watch import Sample, Watch, slope, slopes

HOUR = [5.0 * i for i in range(720)]


def noisy(per_hour: float, noise: float = 8.0, level: float = 500.0, seed: int = 0) -> list[float]:
    """Values that wander, as memory does: neighbours are alike."""
    rng, drift, values = random.Random(seed), 0.0, []
    for t in HOUR:
        drift = 0.9 * drift + rng.gauss(0, noise)
        values.append(level + per_hour * t / 3600 + drift)
    return values


def test_a_straight_line_is_found_exactly():
    found = slope(HOUR, [100 + 40 * t / 3600 for t in HOUR], "rss_mb")
    assert found.per_hour == pytest.approx(40) and found.low == pytest.approx(40) == found.high
    assert found.level == pytest.approx(120, abs=40 / 12) and found.verdict == "grows"


@pytest.mark.parametrize(("per_hour", "verdict"), [(0.0, "flat"), (-300.0, "flat"), (100.0, "grows"), (400.0, "grows")])
def test_noise_is_no_growth_and_hides_none(per_hour, verdict):
    found = [slope(HOUR, noisy(per_hour, 2.0, seed=seed), "rss_mb").verdict for seed in range(20)]
    assert found.count(verdict) >= 18


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    held = [f.low <= 25.0 <= f.high for f in (slope(HOUR, noisy(25.0, seed=s), "rss_mb") for s in range(200))]
    assert 0.85 < sum(held) / len(held) < 0.99


def test_what_comes_and_goes_is_no_growth_and_hides_none():
    """Peaks of an optimiser step, in a share of the samples that rises from a tenth to more than a half."""
    rng = random.Random(0)
    for per_hour, verdict in [(0.0, "flat"), (60.0, "grows")]:
        peaks = [150.0 if rng.random() < 0.1 + 0.5 * t / 3600 else 0.0 for t in HOUR]
        values = [v + p for v, p in zip(noisy(per_hour, 1.0), peaks, strict=True)]
        assert slope(HOUR, values, "rss_mb").verdict == verdict


def test_one_handle_a_minute_is_a_leak_and_one_in_all_is_none():
    assert slope(HOUR, [30.0 + t // 60 for t in HOUR], "handles").verdict == "grows"
    assert slope(HOUR, [30.0 + (t > 1800) for t in HOUR], "handles").verdict == "flat"


def test_what_fills_at_first_is_left_out():
    samples = [Sample(t, min(t, 600.0), 9, 4) for t in HOUR]
    assert slopes(samples, 0.0)["rss_mb"].verdict != "flat"
    assert {m: s.verdict for m, s in slopes(samples, 1200.0).items()} == dict.fromkeys(
        ("rss_mb", "handles", "threads"), "flat"
    )
    assert slopes(samples[:20], 0.0)["rss_mb"] is None


LEAK = """
import subprocess, sys, threading, time
child = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
child.stdout.readline()  # it has started, and ends with this process
print("ready", flush=True)
kept, files = [], []
while True:
    kept.append(bytearray(b"x" * 500_000))
    files.append(open("/dev/null"))
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    time.sleep(0.05)
"""


def leaked(watch: Watch) -> bool:
    """Whether it had its turn while it was watched."""
    samples = watch.samples["leak"]
    return samples[-1].threads - samples[len(samples) // 2].threads > 12


def test_a_process_that_leaks_is_seen_with_its_children():
    process = subprocess.Popen([sys.executable, "-c", LEAK], stdout=subprocess.PIPE)
    process.stdout.readline()
    with Watch({"leak": process.pid}, every_s=0.05) as watch:
        until = time.monotonic() + 120
        while any(len(watch.samples.get(name, ())) < 36 for name in ("leak", "leak/1")) or not leaked(watch):
            assert time.monotonic() < until
            time.sleep(0.05)
    process.kill()
    process.wait()
    process.stdout.close()
    assert watch.samples.keys() == {"leak", "leak/1"}
    trends = slopes(watch.samples["leak"], 0.0)
    assert {t.verdict for t in trends.values()} == {"grows"}
    # On a busy machine its few samples may say too little of memory to call it flat.
    assert "grows" not in {t.verdict for t in slopes(watch.samples["leak/1"], 0.0).values()}
