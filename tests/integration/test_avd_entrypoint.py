"""The emulator container's entry point, with programs that stand in for emulator, adb and socat; and over real adb."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import adbutils
import pytest
from avd_stand_ins import KEY, PACKAGE, Container
from docker_engine import ROOT
from ports import free_port

BAD_SETTINGS, BOOT_FAILED, CHILD_FAILED = 2, 3, 4
ODD = "a b; touch pwned $(touch pwned) '\" &"


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path / "container")
    yield made
    made.close()


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_it_boots_and_becomes_ready_with_a_stand_in_emulator(container):
    with container.held_boot():
        container.start("-camera-back", "none", MEMORY_MB="3000", CORES="3")
        container.wait_until(lambda: sum(w[-1] == "init.svc.bootanim" for w in container.calls("adb")) > 1)
        assert not container.ready.exists() and container.module("avd.health").returncode == 1
    container.wait_ready()
    assert container.calls("emulator") == [[
        "-avd", "Pixel_6_API_33", "-snapshot", "default_boot", "-no-snapshot-save", "-no-window", "-no-audio",
        "-no-boot-anim", "-accel", "on", "-gpu", "swiftshader_indirect", "-memory", "3000", "-cores", "3",
        "-ports", "5554,5555", "-camera-back", "none",
    ]]  # fmt: skip
    order = [(c["program"], c["words"]) for c in container.all_calls()]
    assert order[0] == ("adb", ["start-server"])
    put = [words[4:] for words in container.calls("adb") if words[2:5] == ["shell", "settings", "put"]]
    assert ["put", "system", "pointer_location", "0"] in put
    assert {w[2] for w in put if w[3] == "0"} >= {f"{a}_scale" for a in ("window_animation", "transition_animation")}
    animation = [i for i, (_, words) in enumerate(order) if words[-1] == "init.svc.bootanim"]
    first_put = next(i for i, (_, words) in enumerate(order) if "put" in words)
    assert animation[-1] < first_put, "it does not wait for the boot animation"
    assert container.listening(2) == [
        f"TCP-LISTEN:{p},bind=127.0.0.2,fork,reuseaddr,nodelay TCP:127.0.0.1:{p},nodelay" for p in (5554, 5555)
    ]
    assert container.module("avd.health").returncode == 0 and "ready after" in container.log()


def test_a_container_whose_phone_adb_no_longer_sees_is_unhealthy_with_a_stand_in_emulator(container):
    container.start()
    container.wait_ready()
    assert container.module("avd.health").returncode == 0
    container.program("adb", "raise SystemExit('error: device offline')")
    unhealthy = container.module("avd.health")
    assert unhealthy.returncode == 1 and "adb does not see it" in unhealthy.stdout


def test_without_a_snapshot_it_boots_cold_and_without_tasks_with_a_stand_in_emulator(tmp_path):
    container = Container(tmp_path / "container", snapshot=False)
    try:
        container.start(TASK_SERVER=__file__)
        container.wait_ready()
        words = container.calls("emulator")[0]
        assert "-snapshot" not in words and "-no-snapshot-load" in words and "-grpc" in words
        assert "no snapshot default_boot here" in container.log()
        assert not any("5000" in words[0] for words in container.calls("socat"))
    finally:
        container.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"KVM_DEVICE": "/nowhere/kvm"}, "there is no /nowhere/kvm: start the container with --device /dev/kvm"),
        ({"KVM_DEVICE": "/"}, "/ does not open"),
        ({"ADBKEY": "QAAAA public"}, "not the text of a private key: pass -e ADBKEY="),
        ({"ADBKEY": KEY.replace("\n", " ")}, "with its line breaks"),
        ({"ADBKEY": KEY.replace("Zm9y", "xxxx")}, "no RSA key that adb can read"),
        ({"ADBKEY_FILE": "/nowhere/key"}, "ADBKEY_FILE: there is no file /nowhere/key; mount it"),
        ({"TOKEN": "two words"}, "TOKEN has blanks"),
        ({"MEMORY_MB": "2G"}, "MEMORY_MB is '2G': give a whole number from 512 to 65536"),
        ({"CORES": "0"}, "CORES is '0'"),
        ({"AVD_NAME": "../etc"}, "AVD_NAME is '../etc'"),
        ({"AVD_NAME": "Pixel_9"}, "there is no AVD 'Pixel_9' here, but: Pixel_6_API_33"),
        ({"SNAPSHOT": ODD}, "SNAPSHOT is "),
        ({"FORWARD_ADDRESS": "127.0.0.1,fork"}, "FORWARD_ADDRESS is '127.0.0.1,fork'"),
        ({"TASK_SERVER": "/nowhere/server.py"}, "TASK_SERVER: there is no file /nowhere/server.py"),
        ({"BOOT_TIMEOUT": "-1"}, "BOOT_TIMEOUT is '-1'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_bad_settings_are_one_line_and_no_emulator_with_a_stand_in_emulator(container, given, said):
    container.start(**given)
    assert container.ended() == BAD_SETTINGS
    assert said in container.log() and container.log().startswith("avd: ") and container.log().count("\n") == 1
    assert not container.calls("emulator") and not container.ready.exists()


def test_a_missing_right_and_a_low_memory_limit_are_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PACKAGE))
    settings, failure = importlib.import_module("avd.settings"), importlib.import_module("avd").Failure

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    wanted = settings.read({"MEMORY_MB": "2048"})
    limit = tmp_path / "memory.max"
    for text in ("max\n", f"{4 << 30}\n"):
        limit.write_text(text)
        settings.check_memory(wanted, [tmp_path / "none", limit])
    limit.write_text(f"{512 << 20}\n")
    with pytest.raises(failure, match="may use 512 MB of memory, the emulator needs about 3072: .*fleet.memory_mb"):
        settings.check_memory(wanted, [tmp_path / "none", limit])
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(failure, match="may not open it: .*--group-add"):
        settings.check_kvm(Path("/dev/kvm"))


@pytest.mark.parametrize("mounted", [False, True])
def test_key_and_token_are_for_their_owner_alone_with_a_stand_in_emulator(container, mounted):
    container.home.joinpath(".android").mkdir()
    loose = container.home / ".android/adbkey"
    loose.write_text("what the image had")
    loose.chmod(0o644)
    if mounted:
        (container.folder / "a key").write_text(KEY.replace("\n", "\r\n"))
    container.start(TOKEN="s3cret", **({"ADBKEY_FILE": "a key"} if mounted else {"ADBKEY": KEY}))
    container.wait_ready()
    token = container.home / ".emulator_console_auth_token"
    assert token.read_text() == "s3cret" and mode(token) == 0o600
    assert loose.read_text() == KEY and mode(loose) == 0o600
    assert (loose.parent / "adbkey.pub").read_text() == "QAAAAstandin someone@somewhere\n"
    assert (container.state / "pushed").read_text() == "QAAAAstandin someone@somewhere\n", "the phone does not know it"
    commands = [words[3] for words in container.calls("adb") if words[2:3] == ["shell"]]
    assert any(">> /data/misc/adb/adb_keys" in command for command in commands)
    assert "s3cret" not in container.log() and "Zm9y" not in container.log()
    assert not any("s3cret" in word for call in container.all_calls() for word in call["words"])


def test_a_phone_that_does_not_boot_ends_the_container_with_a_stand_in_emulator(container):
    container.plan(boots=0)
    began = time.monotonic()
    container.start(BOOT_TIMEOUT="1")
    assert container.ended() == BOOT_FAILED and time.monotonic() - began > 1
    assert "did not boot within 1 s (sys.boot_completed is ''" in container.log() and "BOOT_TIMEOUT" in container.log()
    assert not container.ready.exists() and not container.alive() and not container.calls("socat")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("booted", [True, False])
def test_a_signal_ends_the_emulator_in_order_with_a_stand_in_emulator(container, number, booted):
    container.plan(boots=0.2 if booted else 0)
    container.start(patient=True)
    if booted:
        container.wait_ready()
    else:
        container.wait_until(lambda: any("getprop" in words for words in container.calls("adb")))
    assert container.stop(number) == 0 and f"{number.name}: stopping" in container.log()
    assert ["-s", "emulator-5554", "emu", "kill"] in container.calls("adb") and not container.alive()


def test_an_emulator_that_hears_nothing_is_killed_with_a_stand_in_emulator(container, monkeypatch):
    monkeypatch.syspath_prepend(str(PACKAGE))
    processes = importlib.import_module("avd.processes")
    assert processes.ASKED_S + processes.ENDING_S + processes.TERMINATED_S + processes.KILLED_S < 5
    container.plan(deaf=True)
    container.start()
    container.wait_ready()
    container.plan(deaf=True, hangs=["emu"])
    assert container.stop() == 0
    assert "emulator" not in container.alive() and "socat" not in container.alive()


@pytest.mark.parametrize(("dies_with", "code"), [(7, 7), (-signal.SIGKILL, 137), (0, 0)])
@pytest.mark.parametrize("after", [0.1, 1.5])
def test_the_container_ends_with_its_emulator_with_a_stand_in_emulator(container, dies_with, code, after):
    container.plan(boots=0.2 if after > 1 else 0, dies_after=after, dies_with=dies_with)
    container.start()
    assert container.ended() == code and f"the emulator has ended with exit code {code}" in container.log()
    assert not container.alive()


@pytest.mark.parametrize(("dies_after", "code", "said"), [(1.0, 7, "the emulator has ended with exit code 7"),
                                                          (None, CHILD_FAILED, "error: device not found")])  # fmt: skip
def test_a_phone_that_goes_away_after_its_boot_is_told_by_its_cause_with_a_stand_in_emulator(
    container, dies_after, code, said
):
    container.plan(boots=0.2, dies_after=dies_after, dies_with=7, fails=["settings"])
    container.start()
    assert container.ended() == code and said in container.log() and not container.ready.exists()
    assert not container.alive()


def test_the_container_ends_with_its_ports_with_a_stand_in_emulator(container):
    container.start()
    container.wait_ready()
    (container.state / "socat-5554-ends").touch()
    assert container.ended() == CHILD_FAILED and "socat for port 5554 has ended" in container.log()
    assert not container.alive()


def test_odd_characters_are_data_with_a_stand_in_emulator(tmp_path):
    container = Container(tmp_path / ODD)
    try:
        token = "$(touch${IFS}pwned);'\""
        container.start("-http-proxy", ODD, "-prop", "qemu.x=`touch pwned`", ADBKEY=KEY, TOKEN=token)
        container.wait_ready()
        assert container.calls("emulator")[0][-4:] == ["-http-proxy", ODD, "-prop", "qemu.x=`touch pwned`"]
        assert (container.home / ".emulator_console_auth_token").read_text() == token
        assert mode(container.home / ".android/adbkey") == 0o600
        assert container.stop() == 0
        assert not list(tmp_path.rglob("pwned")) and not Path("pwned").exists()
    finally:
        container.close()


def test_a_container_that_was_killed_starts_again_with_a_stand_in_emulator(container):
    container.start()
    container.wait_ready()
    container.listening(2)
    container.kill()
    (container.avd / "hardware-qemu.ini.lock").write_text("1")
    (container.avd / "multiinstance.lock").mkdir()
    (container.state / "properties.json").unlink()
    with container.held_boot():
        container.start()
        container.wait_until(lambda: len(container.calls("emulator")) > 1)
        assert not container.ready.exists() and not list(container.avd.glob("*.lock"))
    container.wait_ready()


SERVER = """
    import http.server, json, os, sys
    from pathlib import Path
    state = Path(os.environ["STAND_IN"])
    (state / "server-words").write_text(json.dumps(sys.argv[1:]))
    answers = [503, 503, int((state / "answer").read_text())]
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(answers.pop(0) if len(answers) > 1 else answers[0])
            self.end_headers()
            self.wfile.write(b'{"detail": "AndroidWorld could not start: no app"}')
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


@pytest.mark.parametrize("answer", [200, 500])
def test_the_task_server_is_started_and_waited_for_with_a_stand_in_emulator(container, answer):
    port, server = free_port(), container.folder / "task server.py"
    server.write_text(textwrap.dedent(SERVER))
    (container.state / "answer").write_text(str(answer))
    container.start(TASK_SERVER=str(server), TASK_PORT=str(port), GRPC_PORT="8600")
    if answer == 500:
        assert container.ended() == BOOT_FAILED and "could not start: no app" in container.log()
        assert not container.calls("socat") and not container.alive()
        return
    container.wait_ready()
    words = (container.state / "server-words").read_text()
    adb = container.folder / "bin/adb"
    assert f'"--host", "127.0.0.1", "--port", "{port}", "--adb", "{adb}", "--console-port", "5554"' in words
    assert '"--grpc-port", "8600", "--apps-installed"' in words
    assert container.calls("emulator")[0][-2:] == ["-grpc", "8600"]
    assert {line.split(",")[0] for line in container.listening(3)} == {f"TCP-LISTEN:{p}" for p in (5554, 5555, port)}


def test_the_real_task_server_takes_the_words_it_is_given(tmp_path, monkeypatch):
    """docker/androidworld/server.py, as the image runs it; there is no AndroidWorld here, and it says so."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    settings, tasks = importlib.import_module("avd.settings"), importlib.import_module("avd.tasks")
    failure, port = importlib.import_module("avd").Failure, free_port()
    wanted = settings.read({"TASK_SERVER": str(ROOT / "docker/androidworld/server.py"), "TASK_PORT": str(port)})
    processes = importlib.import_module("avd.processes").Processes()
    try:
        processes.start("the server", tasks.command(wanted))
        with pytest.raises(failure, match="not ready .500.: .*could not start: ModuleNotFoundError.*android_world"):
            tasks.wait_until_ready(wanted, processes.watch)
    finally:
        processes.stop(importlib.import_module("avd.adb").Adb("emulator-1"))


# --- real adb, and an embedded phone in the emulator's place ---------------------------------------------------------

EMULATOR = f"""
import os, socket, sys
console = int(sys.argv[sys.argv.index("-ports") + 1].split(",")[0])
word = f"host:emulator:{{console + 1}}"
pid = os.fork()
if pid == 0:  # as an emulator does, it makes itself known to adb's server once it listens
    import time
    until = time.monotonic() + 30
    while socket.socket().connect_ex(("127.0.0.1", console + 1)) and time.monotonic() < until:
        time.sleep(0.05)
    with socket.create_connection(("127.0.0.1", int(os.environ["ANDROID_ADB_SERVER_PORT"]))) as server:
        server.sendall(f"{{len(word):04x}}{{word}}".encode())
    os._exit(0)
os.chdir({str(ROOT)!r})
os.environ["PYTHONPATH"] = "."
os.execv({sys.executable!r}, [{sys.executable!r}, "-m", "envs.phone", "--port", str(console + 1),
         "--console-port", str(console), "--console-token", "s3cret", "--width", "360", "--height", "720",
         "--authorized-keys", os.environ["AUTHORIZED"]])
"""


@pytest.mark.slow
def test_real_adb_boots_keys_forwards_bakes_and_ends_with_an_embedded_phone_in_the_emulators_place(container, adb):
    (container.folder / "bin/adb").unlink()
    (container.folder / "bin/adb").symlink_to(adbutils.adb_path())
    container.program("emulator", EMULATOR)
    container.plan(forwards=True)
    console, own_server = free_port(2), str(free_port())
    private, image_key = container.folder / "user key", container.folder / "image.adb_key"
    for key in (private, image_key):
        adb.adb("keygen", str(key))
    known = container.folder / "known.pub"  # what a phone from a snapshot knows, and the tests' own adb
    known.write_text(Path(f"{image_key}.pub").read_text() + "\n" + adb.key.with_suffix(".pub").read_text())
    given = {"CONSOLE_PORT": str(console), "ANDROID_ADB_SERVER_PORT": own_server, "TOKEN": "s3cret",
             "ADBKEY": private.read_text(), "ADB_VENDOR_KEYS": str(image_key), "AUTHORIZED": str(known)}  # fmt: skip
    container.start(**given)
    try:
        container.wait_ready()
        public = container.home / ".android/adbkey.pub"
        assert public.read_text().split()[0] == private.with_name("user key.pub").read_text().split()[0]

        until, there = time.monotonic() + 10, adb.transport(f"127.0.0.2:{console + 1}")
        while adb.adb("connect", there.serial).stdout.startswith(b"failed") and time.monotonic() < until:
            time.sleep(0.1)
        assert there.shell(("settings", "get", "global", "window_animation_scale")).stdout == "0\n"
        assert there.shell(("settings", "get", "system", "pointer_location")).stdout == "0\n"
        assert public.read_text() in there.shell(("cat", "/data/misc/adb/adb_keys")).stdout

        folder = container.folder / "bake"
        (folder / "keys").mkdir(parents=True)
        (folder / "keys/0.pub").write_text(public.read_text())
        baked = container.module("avd.bake", str(folder), **given)
        assert baked.returncode == 0, baked.stderr
        assert "saving the snapshot default_boot" in baked.stderr and not folder.exists()
        assert there.shell(("cat", "/data/misc/adb/adb_keys")).stdout.count(public.read_text()) == 2
        assert container.module("avd.health", **given).returncode == 0
        adb.adb("disconnect", there.serial)
        assert container.stop() == 0
        with socket.socket() as gone:
            assert gone.connect_ex(("127.0.0.1", console + 1)) != 0, "the phone is still there"
    finally:
        container.close()
        adb_kill(own_server)


def adb_kill(port: str) -> None:
    """The server that the entry point started; a container's would end with it."""
    subprocess.run([adbutils.adb_path(), "-P", port, "kill-server"], capture_output=True, timeout=20)
