"""Checks of the machine: Python, KVM, GPUs, phones and fonts."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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
CPU_INFO = Path("/proc/cpuinfo")
CREATE_VM = 0xAE01
"""Number of KVM's ioctl."""
NVIDIA_SMI_S = 5.0
TIMEOUT_S = 3
"""Timeout of each request to an adb server, in seconds."""


def python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    text = ".".join(map(str, version))
    if (3, 11) <= version[:2] <= (3, 13):
        return Check("Python", "ok", text)
    fix = "apt-get install -y python3.11 python3.11-venv && python3.11 -m venv .venv"
    return broken("Python", True, f"{text}; 3.11, 3.12 or 3.13 is needed", fix)


def kvm(needed: bool, device: Path = KVM, cpu_info: Path = CPU_INFO) -> Check:
    """Makes an empty virtual machine, as the emulator does; its descriptors are closed again."""
    try:
        with open(device, "rb+", buffering=0) as opened:
            os.close(fcntl.ioctl(opened, CREATE_VM, 0))
    except FileNotFoundError:
        flags, detail = cpu_flags(cpu_info.read_text()), f"no {device}, which Android emulators need"
        if flags & {"vmx", "svm"}:
            return missing("KVM", needed, detail, "modprobe kvm_intel || modprobe kvm_amd")
        if "hypervisor" in flags:
            fix = "enable nested virtualization on this virtual machine's host, or use bare metal"
            return missing("KVM", needed, f"{detail}, and no vmx or svm in this virtual machine's CPU", fix)
        fix = "enable virtualization (VT-x, AMD-V) in the firmware"
        return missing("KVM", needed, f"{detail}, and no vmx or svm in the CPU", fix)
    except PermissionError:
        return broken("KVM", needed, f"no permission to use {device}", "usermod -aG kvm $USER, then log in again")
    except OSError as error:
        detail = f"{device} makes no virtual machine: {error.strerror}"
        return broken("KVM", needed, detail, "enable virtualization in the firmware, and stop other hypervisors")
    return Check("KVM", "ok", f"{device} makes virtual machines")


def cpu_flags(cpu_info: str) -> set[str]:
    """The features of the first CPU in a text like /proc/cpuinfo."""
    lines = (line.partition(":") for line in cpu_info.splitlines())
    return next((set(flags.split()) for name, _, flags in lines if name.strip() in ("flags", "Features")), set())


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
