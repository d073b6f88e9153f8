"""Training on many GPUs: ranks that torch's launcher starts here, and on other nodes that follow this one.

The warm-up stays one process. For a training it writes a job into a folder of the run directory, waits for the ranks
and takes the checkpoint over. With several nodes the run directory must be on a disk that all of them share; node 0
does everything, and the others wait for its jobs: a key-value store of torch on node 0 tells them of each.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch.distributed import DistError, TCPStore

from mobilerl.config import ConfigError, SftSection
from sft.rank import LOG, OUT, SAMPLES, Job
from sft.sample_files import write_samples
from sft.samples import Sample

log = logging.getLogger(__name__)
POLL_S = 0.2
STOP_S = 30.0
"""Seconds the launcher gets to stop its ranks before it is killed; then they notice and end."""
END = b"end"
CONNECT, WAIT = timedelta(minutes=30), timedelta(days=7)
"""How long a node tries to reach node 0, and waits for its next job."""
BYE = timedelta(minutes=1)


def fit(job: Job, samples: Sequence[Sample], folder: Path, cluster: Cluster,
        on_log: Callable[[dict[str, Any]], None]) -> Path:  # fmt: skip
    """Trains in the cluster's processes; returns the folder of the checkpoint.

    `on_log` gets rank 0's reports: step, max_steps, loss, learning_rate. Raises ChildProcessError, with what the failed
    rank last said, when one fails; then, and on any other exception, all of them are stopped.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_samples(samples, folder / SAMPLES)
    job.write(folder)
    gc.collect()
    if torch.cuda.is_initialized():  # what proposed in this process may have left its memory to torch
        torch.cuda.empty_cache()
    cluster.announce(folder)
    lines = _new_lines(folder / LOG)
    with _launched(cluster.settings, folder) as launcher:
        while launcher.poll() is None:
            time.sleep(POLL_S)
            for line in next(lines):
                on_log(json.loads(line))
        for line in next(lines):
            on_log(json.loads(line))
        _check_success(launcher, folder, cluster.settings.node_rank)
    return folder / OUT


def _new_lines(path: Path) -> Iterator[list[str]]:
    """What was added to a file since last asked, in whole lines."""
    read, rest = 0, b""
    while True:
        if path.is_file():
            with path.open("rb") as file:
                file.seek(read)
                rest += file.read()
                read = file.tell()
        *lines, rest = rest.split(b"\n")
        yield [line.decode() for line in lines]


# --- the launcher ------------------------------------------------------------------------------------------------


def command(settings: SftSection, folder: Path) -> list[str]:
    """torch's launcher for this node's ranks."""
    where = ["--standalone"]
    if settings.nodes > 1:
        host, port = _address(settings)
        where = ["--nnodes", str(settings.nodes), "--node-rank", str(settings.node_rank), "--master-addr", host,
                 "--master-port", str(port + 1)]  # fmt: skip
    return [
        sys.executable, "-m", "torch.distributed.run", *where, "--nproc-per-node", str(settings.processes),
        "--max-restarts", "0", "--log-dir", str(_logs(folder, settings.node_rank)), "--redirects", "3",
        "-m", "sft.rank", str(folder), str(os.getpid()),
    ]  # fmt: skip


def _logs(folder: Path, node_rank: int) -> Path:
    return folder / f"node-{node_rank}"


@contextmanager
def _launched(settings: SftSection, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    logs = _logs(folder, settings.node_rank)
    logs.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if not torch.cuda.is_available():
        environment["DS_ACCELERATOR"] = "cpu"
    with (logs / "launcher.log").open("wb") as said:
        # A session of its own: Ctrl-C is for this process, which then stops the others in order.
        launcher = subprocess.Popen(command(settings, folder), env=environment, stdin=subprocess.DEVNULL, stdout=said,
                                    stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            yield launcher
        finally:
            _stop(launcher)


def _stop(launcher: subprocess.Popen[bytes]) -> None:
    launcher.terminate()
    try:
        launcher.wait(STOP_S)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


def _check_success(launcher: subprocess.Popen[bytes], folder: Path, node_rank: int) -> None:
    if launcher.returncode == 0:
        return
    logs = _logs(folder, node_rank)
    rank, said = _first_failure(logs)
    raise ChildProcessError(f"training failed in rank {rank}: {' '.join(said.split())[:600]} (logs: {logs})")


def _first_failure(logs: Path) -> tuple[str, str]:
    """The rank that failed first, and what it said: the others fail because it is gone."""
    errors = [(path, json.loads(path.read_text())["message"]) for path in logs.rglob("error.json")]
    if errors:
        path, message = min(errors, key=lambda e: float(e[1]["extraInfo"]["timestamp"]))
        return path.parent.name, message["message"]
    report = (logs / "launcher.log").read_text(errors="replace")
    # Ended without a word, by a signal: the launcher knows which.
    root = report.rpartition("Root Cause")[2]
    rank, code = re.search(r"local_rank: (\d+)", root), re.search(r"exitcode\s*: (-?\d+)", root)
    if rank and code:
        last = [path.read_text(errors="replace") for path in logs.rglob(f"{rank[1]}/stderr.log")]
        return rank[1], f"exit code {code[1]}; {_tail(''.join(last))}"
    return "?", _tail(report)


def _tail(text: str, lines: int = 3) -> str:
    return " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip()) or "no output"


# --- several nodes -----------------------------------------------------------------------------------------------


def _address(settings: SftSection) -> tuple[str, int]:
    host, _, port = settings.rendezvous.rpartition(":")
    return host, int(port)


class Cluster:
    """Tells the other nodes of node 0's jobs. With one node there is nobody to tell."""

    def __init__(self, settings: SftSection) -> None:
        self.settings, self.jobs = settings, 0
        self.store = None
        if settings.nodes > 1:
            host, port = _address(settings)
            try:
                self.store = TCPStore(host, port, is_master=True, wait_for_workers=False)
            except DistError as error:
                raise ConfigError(f"sft.rendezvous: cannot serve {settings.rendezvous} ({error})") from None

    def announce(self, folder: Path) -> None:
        self._say(str(folder.resolve()).encode())

    def _say(self, what: bytes) -> None:
        if self.store is not None:
            self.store.set(f"job-{self.jobs}", what)
            self.jobs += 1

    def close(self) -> None:
        """Lets the others go home. The store ends with this process, so it waits until they have heard, a minute: one
        that comes later, or is gone, is missed by nobody."""
        if self.store is not None:
            self._say(END)
            others = range(1, self.settings.nodes)
            try:
                self.store.wait([f"bye-{n}" for n in others], BYE)
            except DistError:
                away = [n for n in others if not self.store.check([f"bye-{n}"])]
                log.warning("all is trained; of node %s nothing was heard", ", ".join(map(str, away)))


def follow(settings: SftSection) -> None:
    """What every node but the first does: trains along with node 0 until that is done.

    Raises ConfigError when node 0 cannot be reached or is gone, ChildProcessError when a rank of this node fails.
    """
    host, port = _address(settings)
    number = 0
    try:
        store = TCPStore(host, port, is_master=False, timeout=CONNECT)
        store.set_timeout(WAIT)
        while (job := store.get(f"job-{number}")) != END:
            folder = Path(job.decode())
            if not folder.is_dir():
                raise ConfigError(f"node 0 trains in {folder}, which is not here: --run-dir must be on a shared disk")
            with _launched(settings, folder) as launcher:
                launcher.wait()
                _check_success(launcher, folder, settings.node_rank)
            number += 1
        store.set(f"bye-{settings.node_rank}", b"")
    except DistError as error:
        raise ConfigError(f"node 0 at {settings.rendezvous} cannot be reached or is gone ({error})") from None
