"""A real Docker engine with TLS, with the certificates and the settings of docs/devices.md."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from ports import free_port

from mobilerl.cli import main
from mobilerl.config import ConfigError, load_recipe
from mobilerl.envs.base import InfraError
from mobilerl.envs.docker_avd.engine import connect
from mobilerl.suites.fleet import check_devices, engines

PAGE = Path(__file__).parents[2] / "docs/devices.md"
FILES = ("ca.pem", "cert.pem", "key.pem")


def on_page() -> str:
    """The section, for this machine."""
    section = PAGE.read_text().partition("## Engines on other hosts")[2].partition("\n## ")[0]
    return section.replace("10.0.0.2", "127.0.0.1")


def certificates(folder: Path) -> Path:
    """Runs the five commands of the page."""
    folder.mkdir(parents=True)
    commands = re.findall(r"^    (openssl .*)", on_page(), re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        subprocess.run(["bash", "-c", command], cwd=folder, check=True, capture_output=True, timeout=120)
    return folder


@dataclass
class TlsEngine:
    host: str
    certs: Path


@contextmanager
def bridge(name: str) -> Iterator[None]:
    """For a second engine; with `--bridge=none` it would remove the bridge of the first."""
    subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "link", "delete", name], check=True)


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[TlsEngine]:
    if not all(map(shutil.which, ("dockerd", "openssl", "ip"))) or os.getuid() != 0:
        pytest.skip("no dockerd, openssl or ip here (apt-get install -y docker.io openssl iproute2), or not root")
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    certs = certificates(folder / "certs")
    [command] = re.findall(r"^    (dockerd .*)", on_page(), re.MULTILINE)
    words = shlex.split(command.replace("2376", str(port)).replace("/var/run/docker.sock", f"{folder}/socket"))
    apart = f"--data-root {folder}/data --exec-root {folder}/exec --pidfile {folder}/pid --iptables=false"
    apart += f" --bridge=mobilerl{port}"
    with bridge(f"mobilerl{port}"), open(folder / "log", "wb") as log:
        daemon = subprocess.Popen([*words, *apart.split()], cwd=certs, stdout=log, stderr=log)
        until = time.monotonic() + 120
        while "API listen on 127.0.0.1" not in (folder / "log").read_text():
            if daemon.poll() is not None or time.monotonic() > until:
                daemon.kill()
                pytest.skip(f"dockerd does not start here: {(folder / 'log').read_text()[-300:]}")
            time.sleep(0.2)
        yield TlsEngine(f"tcp://127.0.0.1:{port}", certs)
        daemon.terminate()
        daemon.wait(60)


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    # As on many companies' machines; requests would prefer it to the engine's own authority.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/ssl/certs/ca-certificates.crt")


def test_the_recipe_of_the_page_reaches_its_engine(engine, tmp_path, monkeypatch, capsys):
    recipe = re.search(r"^    \[fleet\]\n(?:    .*\n)+", on_page(), re.MULTILINE)[0]
    (tmp_path / "fleet.toml").write_text("\n".join(line[4:] for line in recipe.splitlines()))
    assert tomllib.loads((tmp_path / "fleet.toml").read_text())["fleet"]["tls"] == "certs"
    monkeypatch.chdir(engine.certs.parent)
    flags = ["--config", str(tmp_path / "fleet.toml"), "--fleet.hosts", f'["{engine.host}"]']
    check_devices(load_recipe(tmp_path / "fleet.toml", flags[2:]))
    assert main(["fleet", "status", *flags]) == 0
    main(["doctor", *flags])
    assert re.search(rf"ok +Docker at {engine.host} +engine", capsys.readouterr().out)


def test_the_environment_and_contexts_say_where_certificates_are(engine, monkeypatch, tmp_path):
    files = ",".join(f"{name}={engine.certs}/{name}.pem" for name in ("ca", "cert", "key"))
    create = ["docker", "context", "create", "lab", "--docker", f"host={engine.host},{files}"]
    subprocess.run(create, check=True, capture_output=True, timeout=60)
    connect("lab").close()
    monkeypatch.setenv("DOCKER_CONTEXT", "lab")
    connect("").close()
    monkeypatch.delenv("DOCKER_CONTEXT")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(engine.certs))
    connect(engine.host).close()
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    connect("").close()


def folder_of(path: Path, **files: Path) -> str:
    path.mkdir()
    for name, source in files.items():
        shutil.copy(source, path / f"{name}.pem")
    return str(path)


def test_engines_with_certificates_of_their_own(engine, tmp_path):
    """The folder of a host goes before the files for all the others."""
    other = certificates(tmp_path / "other")
    tls = folder_of(tmp_path / "certs", **{name[:-4]: other / name for name in FILES})
    shutil.copytree(engine.certs, tmp_path / "certs/127.0.0.1")
    recipe = load_recipe(None, ["--fleet.type=docker", f'--fleet.hosts=["{engine.host}"]', f"--fleet.tls={tls}"])
    with engines(recipe) as [found]:
        assert found.address == "127.0.0.1"


def test_a_refused_handshake_says_tls_and_what_to_set(engine, tmp_path):
    other, own = certificates(tmp_path / "other"), engine.certs
    wrong_ca = folder_of(tmp_path / "a", ca=other / "ca.pem", cert=own / "cert.pem", key=own / "key.pem")
    no_client = folder_of(tmp_path / "b", ca=own / "ca.pem")
    wrong_client = folder_of(tmp_path / "c", ca=own / "ca.pem", cert=other / "cert.pem", key=other / "key.pem")
    other_name = engine.host.replace("127.0.0.1", "localhost")
    for host, tls, says in (
        (engine.host, "", "it speaks TLS: set fleet.tls .*DOCKER_TLS_VERIFY"),
        (engine.host, wrong_ca, f"TLS certificate was not signed by {wrong_ca}/ca.pem: .*fleet.tls"),
        (engine.host, no_client, f"TLS asks for a client certificate: put cert.pem and key.pem into {no_client}"),
        (engine.host, wrong_client, f"TLS refuses {wrong_client}/cert.pem"),
        (other_name, str(own), "TLS certificate is for another name: make one with localhost as subjectAltName"),
    ):
        with pytest.raises(InfraError, match=says):
            connect(host, tls)


class _Plain(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """The tests' output is no log."""


def test_tls_to_an_engine_without_it(engine):
    server = HTTPServer(("127.0.0.1", 0), _Plain)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.raises(InfraError, match="it speaks no TLS: .*leave out fleet.tls"):
        connect(f"tcp://127.0.0.1:{server.server_port}", str(engine.certs))
    server.shutdown()


@pytest.mark.parametrize(
    ("host", "files", "says"),
    [
        ("tcp://h:2376", ("ca.pem", "cert.pem"), "has no key.pem"),
        ("tcp://h:2376", (), "has no ca.pem"),
        ("ssh://h", FILES, "fleet.tls is for engines at tcp://"),
        ("nosuch", FILES, "no Docker context 'nosuch'"),
    ],
)
def test_certificates_and_contexts_are_checked_before_the_run(tmp_path, host, files, says):
    for name in files:
        (tmp_path / name).touch()
    flags = ["--fleet.type=docker", f'--fleet.hosts=["{host}"]', f"--fleet.tls={tmp_path}"]
    with pytest.raises(ConfigError, match=says):
        check_devices(load_recipe(None, flags))
