"""Programs that stand in for emulator, adb and socat, and the emulator container's real entry point over them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from docker_engine import ROOT

PACKAGE = ROOT / "docker/avd"
PATIENT = """
import runpy
from avd import processes

processes.ASKED_S = processes.ENDING_S = 30.0
runpy.run_module("avd", run_name="__main__")
"""
"""The entry point, with time for an emulator that ends as it is asked to: a busy machine is slow to let it."""
KEY = "-----BEGIN PRIVATE KEY-----\nZm9yIHRlc3Rz\n-----END PRIVATE KEY-----\n"
"""The adb that stands in takes it; the real one would not."""

PROGRAM = r'''
import json, os, select, signal, socket, sys, threading, time
from pathlib import Path

state, name, words = Path(os.environ["STAND_IN"]), Path(sys.argv[0]).name, sys.argv[1:]
plan = json.loads((state / "plan.json").read_text())
with open(state / "calls.jsonl", "a") as log:
    log.write(json.dumps({"program": name, "words": words, "pid": os.getpid()}) + "\n")


def put(**properties):
    (state / "new").write_text(json.dumps(properties))
    (state / "new").rename(state / "properties.json")


def emulator():
    began = time.monotonic()
    while True:
        passed = time.monotonic() - began
        if plan["dies_after"] is not None and passed > plan["dies_after"]:
            if plan["dies_with"] < 0:
                os.kill(os.getpid(), -plan["dies_with"])
            sys.exit(plan["dies_with"])
        if plan["boots"]:
            stopped = passed > plan["boots"] and not (state / "boot-held").exists()
            put(**{"sys.boot_completed": "1", "init.svc.bootanim": "stopped" if stopped else "running"})
        if (state / "kill").exists():
            sys.exit(0)
        time.sleep(0.02)


def adb():
    if words[0] == "pubkey":
        if "Zm9yIHRlc3Rz" not in Path(words[1]).read_text():
            sys.exit("adb: failed to read private key")
        print("QAAAAstandin someone@somewhere")
    elif words[2:4] == ["shell", "getprop"]:
        properties = state / "properties.json"
        if not properties.exists():
            sys.exit("error: device not found")
        print(json.loads(properties.read_text()).get(words[4], ""))
    elif words[2:] == ["get-state"]:
        print("device" if (state / "properties.json").exists() else "offline")
    elif words[2:] == ["emu", "kill"]:
        (state / "kill").touch()
    elif words[2:4] == ["push", words[3] if len(words) > 3 else ""]:
        (state / "pushed").write_text(Path(words[3]).read_text())
    elif words[2:3] == ["install"]:
        print("Performing Streamed Install\n" + ("Failure [NO_MATCHING_ABIS]" if "bad" in words[-1] else "Success"))
    elif words[2:5] == ["emu", "avd", "snapshot"] and plan["snapshots"]:
        print("KO: disk full" if plan["snapshots"] == "KO" else "--  default_boot  75M 2023-10-15 00:00:01\nOK")


def socat():
    """Hands on for good when asked to, as the real one would with these words."""
    listen, target = words[0].split(","), words[1].split(",")[0]
    if not plan["forwards"]:
        time.sleep(3600)
    server = socket.create_server((listen[1].removeprefix("bind="), int(listen[0].split(":")[1])))
    while True:
        threading.Thread(target=join, args=(server.accept()[0], int(target.split(":")[2])), daemon=True).start()


def join(near, port):
    far = socket.create_connection(("127.0.0.1", port))
    sides = {near: far, far: near}
    while True:
        for side in select.select(list(sides), [], [])[0]:
            data = side.recv(1 << 16)
            if not data:
                near.close(), far.close()
                return
            sides[side].sendall(data)


{"emulator": emulator, "adb": adb, "socat": socat}[name]()
'''


class Container:
    """A folder with all that a container would have, and the entry point run in it as a process of this machine."""

    def __init__(self, folder: Path, snapshot: bool = True) -> None:
        self.folder, self.state, self.home = folder, folder / "state", folder / "home"
        self.ready, self.avd = self.state / "ready", folder / "avds" / "Pixel_6_API_33.avd"
        for made in (self.state, self.home, self.avd, folder / "bin"):
            made.mkdir(parents=True)
        if snapshot:
            (self.avd / "snapshots" / "default_boot").mkdir(parents=True)
        (folder / "kvm").touch()
        self.plan()
        for name in ("emulator", "adb", "socat"):
            file = folder / "bin" / name
            file.write_text(f"#!{sys.executable}\n{PROGRAM}")
            file.chmod(0o755)
        self.process: subprocess.Popen[bytes] | None = None

    def plan(self, **plan: object) -> None:
        """`boots`: seconds until the phone has booted, 0 for never."""
        known = {"boots": 0.3, "dies_after": None, "dies_with": 0, "forwards": False, "snapshots": "OK"}
        assert plan.keys() <= known.keys()
        (self.state / "new plan").write_text(json.dumps(known | plan))
        (self.state / "new plan").replace(self.state / "plan.json")  # while a program that starts may read it

    @contextlib.contextmanager
    def held_boot(self) -> Iterator[None]:
        """The boot animation of a container that is started herein runs until the block ends, however slow we are."""
        (self.state / "boot-held").touch()
        yield
        (self.state / "boot-held").unlink()

    def environment(self, **wanted: str) -> dict[str, str]:
        given = {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.home),
            "STAND_IN": str(self.state),
            "PYTHONPATH": str(PACKAGE),
            "ANDROID_AVD_HOME": str(self.avd.parent),
            "READY_FILE": str(self.ready),
            "KVM_DEVICE": str(self.folder / "kvm"),
            "FORWARD_ADDRESS": "127.0.0.2",
        }
        return given | wanted

    def start(self, *options: str, patient: bool = False, **wanted: str) -> None:
        entry = ["-c", PATIENT] if patient else ["-m", "avd"]
        with open(self.folder / "log", "ab") as log:
            command, env = [sys.executable, *entry, *options], self.environment(**wanted)
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=self.folder)

    def module(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        command, env = [sys.executable, "-m", name, *words], self.environment()
        return subprocess.run(command, env=env, text=True, capture_output=True, timeout=300, cwd=self.folder)

    def wait_until(self, true: Callable[[], object]) -> None:
        until = time.monotonic() + 60
        while not true():
            assert self.process.poll() is None and time.monotonic() < until, self.log()
            time.sleep(0.02)

    def wait_ready(self) -> None:
        self.wait_until(self.ready.exists)

    def ended(self, seconds: float = 60.0) -> int:
        return self.process.wait(seconds)

    def stop(self) -> int:
        """The exit code. It has the 5 s that are promised, and as long again for a machine that is busy."""
        self.process.terminate()
        return self.ended(10.0)

    def kill(self) -> None:
        """As a container is killed: what it ran dies with its first process."""
        self.process.kill()
        self.ended()
        self.kill_stand_ins()

    def kill_stand_ins(self) -> None:
        while alive := [call["pid"] for call in self.all_calls() if self.runs(call["pid"])]:
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def listening(self, count: int) -> list[str]:
        """What `count` socats were told, by port."""
        until = time.monotonic() + 60
        while len(found := self.calls("socat")) < count and time.monotonic() < until:
            time.sleep(0.02)
        return sorted(" ".join(words) for words in found)

    def calls(self, program: str) -> list[list[str]]:
        return [call["words"] for call in self.all_calls() if call["program"] == program]

    def all_calls(self) -> list[dict]:
        file = self.state / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def runs(self, pid: int) -> bool:
        """Whether one of this container's stand-ins still runs as this process."""
        try:
            return str(self.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False

    def alive(self) -> list[str]:
        """Stand-ins that still run."""
        return [call["program"] for call in self.all_calls() if self.runs(call["pid"])]

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
        self.kill_stand_ins()
