"""GPUs and their driver, as nvidia-smi tells of them, and whether torch is built for them. Does not import torch."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mobilerl.doctor.check import Check, broken, missing, ok, warning

ASKED = "name,driver_version,memory.total,memory.free,compute_cap"
TIMEOUT_S = 5.0
DRIVERS = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
"""The oldest driver that runs programs of a CUDA release, by the release's first number: NVIDIA's own table."""
BF16_SINCE = 8.0
"""Compute capability from which bfloat16 is computed by the hardware."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """Memory in MiB."""

    name: str
    driver: str
    total_mb: float
    free_mb: float
    capability: float


def read(text: str) -> list[Gpu]:
    """nvidia-smi's CSV of `ASKED`, one line a GPU. ValueError when it is something else."""
    found = []
    for line in text.strip().splitlines():
        name, driver, total, free, capability = (part.strip() for part in line.rsplit(",", 4))
        found.append(Gpu(name, driver, _number(total), _number(free), _number(capability)))
    return found


def _number(text: str) -> float:
    """`[N/A]`, which GPUs that share the machine's memory say, is 0."""
    return 0.0 if text.startswith("[") else float(text)


def ask(program: str = "nvidia-smi", timeout: float = TIMEOUT_S) -> list[Gpu] | str:
    """The GPUs, or why there are none."""
    path = shutil.which(program)
    if path is None:
        return f"no {program} here"
    command = [path, f"--query-gpu={ASKED}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
        if done.returncode:
            return f"{program}: {' '.join((done.stdout + done.stderr).split())[:200]}"
        return read(done.stdout)
    except subprocess.TimeoutExpired:
        return f"{program} does not answer in {timeout:g} s"
    except (OSError, ValueError) as error:
        return f"{program} cannot be understood: {error}"


def cuda_of_torch() -> str | None:
    """The CUDA release torch is built for, as in "13.0"; None for a CPU build, "" when there is no torch."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    # Read and not imported: importing it takes seconds.
    version = Path(spec.origin).with_name("version.py")
    for node in ast.parse(version.read_text()).body if version.is_file() else ():
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == "cuda" and isinstance(node.value, ast.Constant):
            return node.value.value
    return None


def checks(needed: int, large_model: bool, found: list[Gpu] | str, cuda: str | None) -> Iterator[Check]:
    """`needed`: how many GPUs the recipe uses on this machine; `found`: of `ask`; `cuda`: of `cuda_of_torch`."""
    if isinstance(found, str) or not found:
        said = found or "nvidia-smi lists none"
        seen = Path("/proc/driver/nvidia").exists() or not str(said).startswith("no ")
        cure = "nvidia-smi must list the GPUs: install or restart the driver (apt-get install -y nvidia-driver; reboot)"
        if needed:
            yield missing("GPU", True, f"{said}; the recipe uses {needed}", f"{cure}, or --engine.type local")
        elif large_model:
            yield warning("GPU", f"{said}; so large a model learns very slowly on a CPU", cure)
        elif seen:
            yield warning("GPU", str(said), cure)
        else:
            yield missing("GPU", False, f"{said}; small models learn on the CPU", cure)
        return
    names = ", ".join(f"{gpu.name} ({gpu.free_mb:,.0f} of {gpu.total_mb:,.0f} MiB free)" for gpu in found)
    if len(found) < needed:
        cure = f"--cluster.gpus_per_node {len(found)}"
        yield missing("GPU", True, f"{len(found)} GPUs, the recipe uses {needed}: {names}", cure)
    else:
        yield ok("GPU", names)
    yield _driver(found[0].driver, bool(needed), cuda)
    if any(0 < gpu.capability < BF16_SINCE for gpu in found):
        weakest = min(gpu.capability for gpu in found)
        detail = f"compute capability {weakest:g}; bfloat16 needs {BF16_SINCE:g} and is slow or missing below"
        yield warning("GPU precision", detail, "--cluster.dtype float32, --vllm.dtype float16")


def _driver(driver: str, needed: bool, cuda: str | None) -> Check:
    name = "GPU driver"
    if cuda is None:
        cure = "pip uninstall -y torch && pip install torch==2.13.0"
        return broken(name, needed, f"{driver}, but torch is built without CUDA and uses no GPU", cure)
    if not cuda:
        return ok(name, f"{driver}; there is no torch to compare it with")
    release = int(cuda.partition(".")[0])
    oldest = DRIVERS.get(release, ())
    if _numbers(driver) < oldest:
        wanted = ".".join(map(str, oldest))
        cure = f"apt-get install -y nvidia-driver (at least {oldest[0]}), or a torch built for an older CUDA"
        return broken(name, needed, f"{driver} is too old for torch's CUDA {cuda}, which needs {wanted}", cure)
    return ok(name, f"{driver}, torch is built for CUDA {cuda}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
