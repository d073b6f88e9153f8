"""Checks of the machine: Python, KVM, GPUs, container engines and phones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from mobilerl.config import FleetSection, Recipe
from mobilerl.doctor.check import Check, broken, missing
from mobilerl.envs.base import InfraError
from mobilerl.envs.phone import fonts as phone_fonts
from mobilerl.models.checkpoint_folder import one_line
from mobilerl.models.memory import fit
from mobilerl.suites.fleet import fleet_type

MB = 2**20
KVM = Path("/dev/kvm")
NVIDIA_SMI_S = 5.0
TIMEOUT_S = 3
"""Timeout of each request to a container engine or adb server, in seconds."""
DOCKER_SOCKET = Path("/var/run/docker.sock")


def python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    text = ".".join(map(str, version))
    if (3, 11) <= version[:2] <= (3, 13):
        return Check("Python", "ok", text)
    fix = "apt-get install -y python3.11 python3.11-venv && python3.11 -m venv .venv"
    return broken("Python", True, f"{text}; 3.11, 3.12 or 3.13 is needed", fix)


def kvm(needed: bool, device: Path = KVM) -> Check:
    if not device.exists():
        fix = "modprobe kvm_intel || modprobe kvm_amd; in a virtual machine, enable nested virtualization on its host"
        return missing("KVM", needed, f"no {device}, which Android emulators need", fix)
    if not os.access(device, os.R_OK | os.W_OK):
        return broken("KVM", needed, f"no permission to use {device}", "usermod -aG kvm $USER, then log in again")
    return Check("KVM", "ok", str(device))


def gpus(needed: int, setting: str = "cluster.gpus_per_node", timeout_s: float = NVIDIA_SMI_S) -> Check:
    """Checks the GPUs that nvidia-smi lists. `needed`, set by `setting`, is the number that the recipe uses here."""
    driver = "apt-get install -y nvidia-driver, then reboot; nvidia-smi must list the GPUs"
    command = ["nvidia-smi", "--query-gpu=name,memory.free,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        instead = "use --engine.type local"
        return missing("GPU", needed > 0, "nvidia-smi not found", f"{driver}, or {instead}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return broken("GPU", needed > 0, f"nvidia-smi does not answer: {error}", driver)
    lines = [line.rsplit(", ", 3) for line in done.stdout.strip().splitlines()]
    if done.returncode or not lines or any(len(line) != 4 for line in lines):
        return broken("GPU", needed > 0, f"nvidia-smi: {' '.join((done.stdout + done.stderr).split())[:200]}", driver)
    names = ", ".join(f"{name} ({free} of {total} free)" for name, free, total, _ in lines)
    names += f", driver {lines[0][3]}"
    if len(lines) < needed:
        detail = f"{len(lines)} GPUs, the recipe uses {needed}: {names}"
        return missing("GPU", True, detail, f"--{setting} {len(lines)}")
    return Check("GPU", "ok", names)


def gpu_bytes(timeout_s: float = NVIDIA_SMI_S) -> float | None:
    """Memory of the first GPU that nvidia-smi lists; None without one."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
        return float(done.stdout.split()[0]) * MB
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return None


def gpu_memory(recipe: Recipe) -> Check | None:
    """Checks whether the first GPU has enough memory; None if that cannot be calculated."""
    card = gpu_bytes()
    found = fit(recipe, card) if card and find_spec("transformers") else None
    if found is None or found.ok:
        return Check("GPU memory", "ok", str(found)) if found else None
    fix = "--engine.lora_rank 64 --engine.gradient_checkpointing true, a lower --engine.micro_batch_tokens"
    if recipe.engine.type == "vllm":
        fix += ", --vllm.sleep true or a lower --vllm.gpu_memory"
    return broken("GPU memory", False, str(found), fix)


def docker(fleet: FleetSection) -> Iterator[Check]:
    """Checks the container engines of the fleet and whether they have the image of its devices."""
    needed = fleet_type(fleet).starts_containers
    for host in fleet.hosts:
        if needed or host or os.environ.get("DOCKER_HOST") or DOCKER_SOCKET.exists():
            yield from _engine(host, fleet, needed)
        else:
            yield missing("Docker", False, "no engine is running", "apt-get install -y docker.io")


def _engine(host: str, fleet: FleetSection, needed: bool) -> Iterator[Check]:
    name, image = f"Docker at {host}" if host else "Docker", fleet.image
    try:
        from mobilerl.envs.docker_avd.engine import connect
    except ImportError:
        yield missing(name, needed, "adbutils is not installed", "pip install 'mobilerl[docker]'")
        return
    try:
        client = connect(host, fleet.tls, TIMEOUT_S)
    except InfraError as error:
        reason, _, fix = str(error).partition("; ")
        yield broken(name, needed, reason, fix or "pip install 'mobilerl[docker]'")
        return
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException

    with closing(client):
        try:
            yield Check(name, "ok", f"engine {client.version().get('Version', '?')}")
            if needed:
                client.images.get(image)
                yield Check(f"{name}, image", "ok", image)
        except ImageNotFound:
            build = "bash docker/phone/build-local.sh" if image == "mobilerl-phone" else f"docker pull {image}"
            yield missing(f"{name}, image", True, f"no image {image}", f"{build}; see docker/README.md")
        except (DockerException, RequestException) as error:
            yield broken(name, needed, f"the engine fails: {one_line(error)}", "systemctl restart docker")


def adb(fleet: FleetSection) -> Check:
    """Checks the adb server and whether it can reach the phones of the recipe."""
    needed = "adbutils" in fleet_type(fleet).packages
    try:
        from adbutils import AdbClient
        from adbutils.errors import AdbError

        from mobilerl.envs.adb import list_attached
    except ImportError:
        fix = f"pip install 'mobilerl[{fleet.type if needed else 'adb'}]'"
        return missing("adb", needed, "adbutils is not installed", fix)
    if not needed:
        return Check("adb", "not needed", "adbutils is installed")
    client = AdbClient(socket_timeout=TIMEOUT_S)
    try:
        version = client.server_version()  # starts the server of this machine if it is not running
        listed = len(list_attached(client))
    except (AdbError, OSError, ValueError, subprocess.SubprocessError) as error:
        detail = f"no adb server answers at {client.host}:{client.port}: {one_line(error)}"
        return broken("adb", True, detail, f"adb -P {client.port} devices")
    with ThreadPoolExecutor() as threads:  # a host that does not answer takes some seconds
        bad = ", ".join(filter(None, threads.map(_unreachable, fleet.serials)))
    if bad:
        fix = "adb devices; unlock the phone and allow USB debugging, or start the device at HOST:PORT"
        return broken("adb", True, bad, fix)
    return Check("adb", "ok", f"server 1.0.{version}, {listed} devices attached")


def _unreachable(serial: str) -> str:
    """Why a run could not use a device, after connecting to one of the form HOST:PORT as it does; "" if it could."""
    from mobilerl.envs.adb import AdbTransport

    try:
        AdbTransport(serial).connect()
    except InfraError as error:
        return one_line(error)
    return ""


def fonts() -> Check:
    """Checks the fonts of the embedded phone, which draws boxes for scripts without a font. English needs no fonts."""
    found = phone_fonts.stack()
    lacking = [kind for kind in phone_fonts.SYSTEM if kind not in found]
    install = f"apt-get install -y {phone_fonts.PACKAGES}"
    if not phone_fonts.shapes_text():
        lacking.append("joining of Arabic and Devanagari letters")
        install += " libfribidi0"
    if lacking:
        return missing("phone fonts", False, f"the embedded phone has no font for {'; '.join(lacking)}", install)
    return Check("phone fonts", "ok", "; ".join(f"{kind}: {Path(path).name}" for kind, path in found.items()))
