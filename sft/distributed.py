"""Training in several processes, which torchrun starts on this node and on those that follow it.

`mobilerl sft` itself is one process. For each training it prepares the folder of a job (`mobilerl.sft.jobs`), runs
torchrun, and collects the checkpoint. With several nodes the run directory must be on a shared disk: node 0 does
everything else, and announces its jobs to the other nodes through a key-value store of torch.

`python -m mobilerl.sft.distributed FOLDER PID` is one rank.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import torch
from torch.distributed import DistError, TCPStore
from torch.distributed.elastic.multiprocessing.errors import record

from mobilerl.config import ConfigError, SftSection
from mobilerl.models.codec import Codec
from mobilerl.models.loading import save_model
from mobilerl.sft.callbacks import LogCallback
from mobilerl.sft.jobs import SAMPLES, TRAINER, read_job
from mobilerl.sft.sample_files import SampleFile
from mobilerl.sft.trainer import SftTrainer, train

log = logging.getLogger(__name__)
LOG, OUT = "log.jsonl", "out"
"""Files in the folder of a job of several ranks: rank 0's log entries, and the trained checkpoint."""
POLL_S = 0.2
STOP_S = 30.0
"""Time in seconds for torchrun to stop its ranks before it is killed; the ranks notice that and exit."""
END = "end"
CONNECT, WAIT, LEAVE = timedelta(minutes=30), timedelta(days=7), timedelta(minutes=1)
"""Timeouts: a node connecting to node 0, a node waiting for its next job, node 0 waiting for the others at the end."""


def fit(folder: Path, cluster: Cluster, on_log: Callable[[int, int, float, float, int], None]) -> Path:
    """Trains the job in `folder` in the cluster's processes, and returns the folder of the checkpoint.

    `on_log` receives rank 0's log entries, as in `LogCallback`. Raises ChildProcessError with the
    error of the first rank that failed; all ranks are stopped on any exception.
    """
    shutil.rmtree(folder / OUT, ignore_errors=True)
    (folder / LOG).write_bytes(b"")
    gc.collect()
    if torch.cuda.is_initialized():  # a proposer in this process may have left cached GPU memory
        torch.cuda.empty_cache()
    cluster.announce(folder)
    with (folder / LOG).open() as entries, _torchrun(cluster.settings, folder) as launcher:
        running = True
        while running:
            running = launcher.poll() is None
            for line in entries:
                on_log(*json.loads(line))
            time.sleep(POLL_S if running else 0.0)
        _check_success(launcher, folder, cluster.settings.node_rank)
    return folder / OUT


# --- torchrun ----------------------------------------------------------------------------------------------------


@contextmanager
def _torchrun(settings: SftSection, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs torchrun for this node's ranks, and stops it at the end."""
    where = ["--standalone"]
    if settings.nodes > 1:
        host, port = _address(settings)
        where = ["--nnodes", str(settings.nodes), "--node-rank", str(settings.node_rank)]
        where += ["--master-addr", host, "--master-port", str(port + 1)]
    logs = _logs(folder, settings.node_rank)
    logs.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", *where, "--nproc-per-node", str(settings.processes)]
    command += ["--max-restarts", "0", "--log-dir", str(logs), "--redirects", "3"]
    command += ["-m", "mobilerl.sft.distributed", str(folder), str(os.getpid())]
    environment = dict(os.environ)
    if not torch.cuda.is_available():
        environment["DS_ACCELERATOR"] = "cpu"
    with (logs / "launcher.log").open("wb") as output:
        # In its own session, Ctrl-C reaches only this process, which then stops the others.
        launcher = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield launcher
        finally:
            launcher.terminate()
            try:
                launcher.wait(STOP_S)
            except subprocess.TimeoutExpired:
                launcher.kill()
                launcher.wait()


def _logs(folder: Path, node_rank: int) -> Path:
    return folder / f"node-{node_rank}"


def _check_success(launcher: subprocess.Popen[bytes], folder: Path, node_rank: int) -> None:
    """Raises ChildProcessError with the error of the rank that failed first, according to torchrun's report."""
    if launcher.returncode == 0:
        return
    logs = _logs(folder, node_rank)
    report = (logs / "launcher.log").read_text(errors="replace").rpartition("Root Cause")[2]
    report = report.partition("\n====")[0]  # libraries print more when the launcher ends
    rank, code = re.search(r"rank\s*: (\d+)", report), re.search(r"exitcode\s*: (-?\d+)", report)
    lines = [line.strip() for line in report.splitlines() if line.strip(" =-")]
    failed = f"rank {rank[1]}, exit code {code[1]}" if rank and code else "torchrun"
    raise ChildProcessError(f"training failed in {failed}: {lines[-1][:600] if lines else 'no output'} (logs: {logs})")


# --- several nodes -----------------------------------------------------------------------------------------------


def _address(settings: SftSection) -> tuple[str, int]:
    host, _, port = settings.rendezvous.rpartition(":")
    return host, int(port)


class Cluster:
    """Announces node 0's jobs to the other nodes, if there are any."""

    def __init__(self, settings: SftSection) -> None:
        self.settings, self.jobs = settings, 0
        self.store = None
        if settings.nodes > 1:
            try:
                self.store = TCPStore(*_address(settings), is_master=True, wait_for_workers=False)
            except DistError as error:
                raise ConfigError(f"sft.rendezvous: cannot serve {settings.rendezvous} ({error})") from None

    def announce(self, folder: Path | None) -> None:
        """Announces the folder of a job; None means that there are no more jobs."""
        if self.store is not None:
            self.store.set(f"job-{self.jobs}", END if folder is None else str(folder.resolve()))
            self.jobs += 1

    def close(self) -> None:
        """Lets the other nodes exit, and waits until they have read that, since the store ends with this process."""
        if self.store is not None:
            self.announce(None)
            others = range(1, self.settings.nodes)
            try:
                self.store.wait([f"left-{n}" for n in others], LEAVE)
            except DistError:
                missing = [str(n) for n in others if not self.store.check([f"left-{n}"])]
                log.warning("training is complete, but node %s did not respond", ", ".join(missing))


def follow(settings: SftSection) -> None:
    """Runs on every node except the first: joins node 0's training jobs until there are no more.

    Raises ConfigError if node 0 cannot be reached, and ChildProcessError if a rank of this node fails.
    """
    number = 0
    try:
        store = TCPStore(*_address(settings), is_master=False, timeout=CONNECT)
        store.set_timeout(WAIT)
        while (job := store.get(f"job-{number}")) != END.encode():
            folder = Path(job.decode())
            if not folder.is_dir():
                raise ConfigError(f"node 0 trains in {folder}, which is not here: --run-dir must be on a shared disk")
            with _torchrun(settings, folder) as launcher:
                launcher.wait()
                _check_success(launcher, folder, settings.node_rank)
            number += 1
        store.set(f"left-{settings.node_rank}", "")
    except DistError as error:
        raise ConfigError(f"node 0 at {settings.rendezvous} cannot be reached ({error})") from None


# --- one rank ----------------------------------------------------------------------------------------------------


def _exit_with(pids: Sequence[int]) -> None:
    """Exits as soon as one of `pids` has ended, since nobody would collect the result."""
    watched = select.poll()
    for pid in pids:
        try:
            watched.register(os.pidfd_open(pid), select.POLLIN)
        except ProcessLookupError:
            os._exit(1)

    def wait() -> None:
        watched.poll()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _gathered_weights(trainer: SftTrainer) -> dict[str, torch.Tensor] | None:
    """The trained weights, gathered from all ranks on rank 0; None on the others. Every rank must call this."""
    zero3 = trainer.is_deepspeed_enabled and trainer.accelerator.state.deepspeed_plugin.zero_stage == 3
    if not (zero3 and hasattr(trainer.model, "peft_config")):
        state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        return state if trainer.is_world_process_zero() else None
    import deepspeed

    trained = {name: p for name, p in trainer.model.named_parameters() if p.requires_grad}
    with deepspeed.zero.GatheredParameters(list(trained.values())):
        if not trainer.is_world_process_zero():
            return None
        return {name: p.detach().cpu().clone() for name, p in trained.items()}


@record
def main(folder: Path, waiting_pid: int) -> NoReturn:
    _exit_with([waiting_pid, os.getppid()])
    job = read_job(folder)
    if job.deepspeed and not torch.cuda.is_available():
        # On CPUs DeepSpeed would first compile a shared-memory kernel; gloo's own reduction suffices.
        from deepspeed.ops import __compatible_ops__ as usable

        usable["deepspeed_shm_comm"] = False

    def write_log(*entry: float) -> None:
        with (folder / LOG).open("a") as file:
            file.write(json.dumps(entry) + "\n")

    codec = Codec.load(Path(job.base), job.max_pixels, job.thinking)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    trainer = train(job, codec, SampleFile(folder / SAMPLES), folder / TRAINER, [LogCallback(write_log)], rank, ranks)
    state = _gathered_weights(trainer)
    if state is not None:
        save_model(trainer.model, codec, folder / OUT, state)
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without destructors: DDP's joins gloo's thread while it holds the GIL, for which that thread may be waiting.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
