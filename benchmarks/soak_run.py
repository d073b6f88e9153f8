"""A whole training run for an hour, on phones that fail: memory, handles and threads of all its processes stay flat.

    python -m benchmarks.soak_run --minutes 60                  faults in 2 % of the commands, one process that collects
    python -m benchmarks.soak_run --minutes 60 --workers 2      two processes that collect

Serves embedded phones with faults on, starts an adb server and `mobilerl train` of its own on them, samples every
process below these every few seconds, and prints how each measure grew with a 95 % interval. The first third is left
out of that: replay, pixel cache and allocators fill. The exit code is 0 when the run ended well and nothing grew.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.process_watch import MEASURES, Watch, slopes
from mobilerl.train.checkpoint import latest
from mobilerl.train.tracking import read_metrics

ROOT = Path(__file__).parents[1]
KINDS = "offline,hang,slow,black,truncated_xml,reboot"
"""All but a crash, after which a phone stays away."""
TASKS = ("MusicPause", "TodoDue")
SKIPPED = 1 / 3
SHORTEST_S = 1800.0
"""Of a run that is judged: caches and allocators fill for ten minutes, which looks like a leak in what is shorter."""
COMMAND_S = 3.0
"""Longest time of a command: what a hang costs."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak_run", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="length of the run (default 60)")
    parser.add_argument("--count", type=int, default=8, help="phones (default 8)")
    parser.add_argument("--faults", type=float, default=0.02, help="share of the commands that fail (default 0.02)")
    parser.add_argument("--workers", type=int, default=0, help="processes that collect (default 0: the run itself)")
    parser.add_argument("--every", type=float, default=5.0, metavar="S", help="between two samples (default 5)")
    parser.add_argument("--model", type=Path, help="a checkpoint folder (default: a tiny one, made in about a minute)")
    parser.add_argument("--run-dir", type=Path, help="keep the run there (default: it is deleted)")
    parser.add_argument("--json", action="store_true", help="figures as one JSON object")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what it started is ended as well
    with tempfile.TemporaryDirectory(prefix="mobilerl-soak-") as folder:
        found = soak(args, Path(folder))
    print(json.dumps(found, indent=2) if args.json else as_text(found))
    return 0 if found["verdict"] == "flat" else 1


def soak(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    model = args.model or tiny_model(folder)
    run_dir = args.run_dir or folder / "run"
    with phones(args, folder) as (server, serials), adb_server(folder) as (adb, port):
        roots = {"phones": server.pid, "adb": adb.pid}
        command = train_command(args, model, run_dir, serials, port)
        with open(folder / "train.log", "wb") as log:
            train = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                with Watch({"train": train.pid, **roots}, args.every) as watch:
                    code = train.wait(timeout=60 * args.minutes + 900)
            finally:
                train.kill()
        said = (folder / "train.log").read_text(errors="replace")[-2000:]
    return figures(args, run_dir, code, said, watch)


def train_command(args: argparse.Namespace, model: Path, run_dir: Path, serials: Sequence[str], port: int) -> list[str]:
    flags = {
        "model": model, "phone.count": args.count, "phone.popup_rate": 0.5, "tasks.templates": json.dumps(TASKS),
        "tasks.per_template": 20, "fleet.type": "adb", "fleet.serials": json.dumps(serials),
        "fleet.adb_server": f"127.0.0.1:{port}", "fleet.spares": 0, "fleet.command_s": COMMAND_S,
        "fleet.quarantine_s": 1, "fleet.check_every_s": 5, "fleet.max_failures": 50, "agent.deadline_s": 120,
        "collect.tasks_per_iteration": 4, "collect.group_size": 4, "collect.max_retries": 20,
        "collect.workers": args.workers, "collect.max_staleness": 0 if args.workers else 1, "engine.threads": 1,
        "engine.learning_rate": 1e-4, "algorithm.replay.capacity": 32, "algorithm.curriculum.revisit_every": 1,
        "train.iterations": 1_000_000, "train.max_minutes": args.minutes, "train.mini_batch": 32,
        "train.checkpoint_every": 5, "train.trajectories_every": 5,
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "mobilerl", "train", "--run-dir", str(run_dir), *words]


# --- what the run needs --------------------------------------------------------------------------------------------


def tiny_model(folder: Path) -> Path:
    """One that solves some of the tasks, in a process of its own: this one is to stay small."""
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, 'tests/e2e');"
        "from small_policies import *; from envs.phone.tasks import suite; from mobilerl.config import AgentSection;"
        f"tasks = [suite.make_task(n, s) for n in {TASKS!r} for s in range(4)];"
        "warm_up(Path(sys.argv[1]), AgentSection(screenshots=1, max_new_tokens=16), demonstrate(tasks) * 4, 12)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return folder / "policy"


@contextmanager
def phones(args: argparse.Namespace, folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    first = _free_ports(args.count)
    # The size that the tiny policies of the tests know; real ones are taken at any.
    words = ["--count", str(args.count), "--port", str(first), "--width", "180", "--height", "360"]
    faults = ["--faults", str(args.faults), "--fault-kinds", KINDS] if args.faults else []
    with open(folder / "phones.log", "wb") as log:
        server = subprocess.Popen([sys.executable, "-m", "envs.phone", *words, *faults], cwd=ROOT, text=True,
                                  stdout=subprocess.PIPE, stderr=log)  # fmt: skip
        try:
            assert server.stdout is not None
            if not server.stdout.readline():
                raise SystemExit(f"the phones cannot be served from port {first}")
            yield server, [f"127.0.0.1:{first + i}" for i in range(args.count)]
        finally:
            server.terminate()
            server.wait()


@contextmanager
def adb_server(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """One that knows no devices of this machine, and has keys of its own."""
    import adbutils

    port = _free_ports(1)
    words = [adbutils.adb_path(), "-P", str(port), "--one-device", "none", "nodaemon", "server"]
    server = subprocess.Popen(words, env={**os.environ, "HOME": str(folder)}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        until = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if time.monotonic() > until or server.poll() is not None:
                raise SystemExit("the adb server does not start")
            time.sleep(0.1)
        yield server, port
    finally:
        server.kill()
        server.wait()


def _free_ports(count: int) -> int:
    """The first of `count` consecutive ports that were free just now."""
    for first in range(21001, 60000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for i, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + i))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise SystemExit(f"no {count} consecutive ports are free")


# --- what is found -------------------------------------------------------------------------------------------------


def figures(args: argparse.Namespace, run_dir: Path, code: int, said: str, watch: Watch) -> dict[str, object]:
    rows = read_metrics(run_dir / "metrics.jsonl")
    ended = max((s[-1].seconds for s in watch.samples.values()), default=0.0)
    found, curves, verdicts = {}, {}, set()
    for name, samples in sorted(watch.samples.items()):
        if samples[-1].seconds - samples[0].seconds < 0.5 * ended:
            continue  # a helper that came and went
        trends = slopes(samples, SKIPPED * ended)
        verdicts |= {trend.verdict if trend else "too short" for trend in trends.values()}
        found[name] = {m: asdict(t) if (t := trends[m]) else None for m in MEASURES}
        curves[name] = [round(s.rss_mb) for s in samples[:: max(1, len(samples) // 24)]]
    total = {
        name: sum(r.get(f"rollout/{name}") or 0 for r in rows) for name in ("infra_errors", "retried", "lost_groups")
    }
    worked = code == 0 and len(rows) > 1 and latest(run_dir) is not None
    if ended < SHORTEST_S:
        verdicts = {"too short"}
    order = ("grows", "unclear", "too short", "flat")
    verdict = next((v for v in order if v in verdicts), "too short") if worked else "failed"
    return {
        "minutes": round(ended / 60, 1), "exit_code": code, "iterations": len(rows), "fault_rate": args.faults,
        "episodes_ended_by_faults": total["infra_errors"], "retried": total["retried"],
        "lost_groups": total["lost_groups"], "processes": found,
        "rss_mb_from_start_to_end": curves, "verdict": verdict,
        **({} if worked else {"said": said}),
    }  # fmt: skip


def as_text(found: dict[str, object]) -> str:
    head = ", ".join(f"{name} {value}" for name, value in found.items() if not isinstance(value, dict | str))
    lines = [head, f"{'process':12}{'measure':10}{'level':>10}{'per hour':>10}   95 % interval         verdict"]
    processes = found["processes"]
    assert isinstance(processes, dict)
    for name, trends in processes.items():
        for measure, t in trends.items():
            if t is None:
                lines.append(f"{name:12}{measure:10}  too few samples")
                continue
            interval = f"[{t['low']:+.2f}, {t['high']:+.2f}]"
            lines.append(f"{name:12}{measure:10}{t['level']:10.1f}{t['per_hour']:+10.2f}   {interval:22}{t['verdict']}")
    curves = found["rss_mb_from_start_to_end"]
    assert isinstance(curves, dict)
    lines += [f"{name}: {' '.join(map(str, curve))} MB, from the start to the end" for name, curve in curves.items()]
    if "said" in found:
        lines.append(str(found["said"]))
    return "\n".join([*lines, f"verdict: {found['verdict']}"])


if __name__ == "__main__":
    sys.exit(main())
