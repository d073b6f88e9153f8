"""Ray with logical GPUs on this machine. Imports nothing heavy: tests use it too."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


def environment(temp: Path) -> dict[str, str]:
    """Variables that the driver must be started with. `temp`: a folder of its own with a short name (sockets)."""
    return {
        "MOBILERL_VERL_CPU": "1",
        "TMPDIR": str(temp),
        "RAY_TMPDIR": str(temp),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's own 15 starves the workers beside other tests
        "RAY_ADDRESS": "",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # without "clusters", a node's address is 127.0.0.1
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # a server computes in its engine process, not in one more
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
        "TORCH_COMPILE_DISABLE": "1",  # vLLM would compile some small functions with gcc, for longer than it uses them
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "GLOO_SOCKET_IFNAME": "lo",
    }


def forked(environment: dict[str, str]) -> dict[str, str]:
    """`environment` for processes whose Ray workers are forks of one that has imported what they need."""
    from prepared import interpreter  # of the tests, not of a driver

    return {**environment, "MOBILERL_VERL_CPU_PYTHON": str(interpreter(["mobilerl_verl_cpu.imports"], environment))}


def run(command: Sequence[str], log: Path, limit_s: float) -> int:
    """Runs a driver, as arguments of Python, in its `environment`, its output in `log`; returns its exit status.

    Nothing it started is left: a vLLM worker that dies during a weight update leaves the others waiting for ever.
    Raises TimeoutError after `limit_s`.
    """
    # Not below a test's own folder: the names of Ray's sockets must stay under 108 characters.
    from prepared import release

    temp = Path(tempfile.mkdtemp(prefix="mr"))
    env = forked(os.environ | environment(temp))
    try:
        with open(log, "wb") as out:
            words = [env["MOBILERL_VERL_CPU_PYTHON"], *command]
            process = subprocess.Popen(words, stdout=out, stderr=out, env=env)
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"not done after {limit_s:.0f} s, see {log}") from None
    finally:
        _kill_all(temp)
        release(Path(env["MOBILERL_VERL_CPU_PYTHON"]))
        shutil.rmtree(temp, ignore_errors=True)


def _kill_all(temp: Path) -> None:
    """Every process that has the temporary directory `temp`, and all below it: a changed title hides the variables."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TMPDIR") == str(temp):
                found |= {process, *process.children(recursive=True)}
    for process in found:
        with suppress(psutil.Error):
            process.kill()


@contextmanager
def ray_cluster(gpus: int) -> Iterator[None]:
    """A Ray cluster of this process's own, with `gpus` in name only and as few CPUs as will do. Stopped at the end."""
    import ray
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    ray.init(
        address="local",
        num_cpus=gpus + 1,
        num_gpus=gpus,
        include_dashboard=False,
        object_store_memory=200 * 1024**2,
        _temp_dir=os.environ["RAY_TMPDIR"],
        runtime_env=get_ppo_ray_runtime_env(),
    )
    try:
        yield
    finally:
        ray.shutdown()
