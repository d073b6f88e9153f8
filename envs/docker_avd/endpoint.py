"""Where a Docker engine is reached, and with which certificates, from what `docker` itself reads."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.tls import TLSConfig

CA, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"
"""Names of Docker's certificate files: the authority that signed the engine's certificate, and the client's own."""
_CONTEXT = re.compile(r"[A-Za-z0-9][\w.+-]*")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`url` is "" for the default socket of this machine, and `certificates` "" where there is no TLS."""

    url: str = ""
    certificates: str = ""
    verify: bool = True

    @property
    def hostname(self) -> str:
        """Host under which the engine's published ports are reached."""
        url = urlsplit(self.url)
        return url.hostname if url.scheme in ("tcp", "ssh", "http", "https") and url.hostname else "127.0.0.1"

    def client(self, timeout_s: float) -> DockerClient:
        from docker import DockerClient

        return DockerClient(base_url=self.url or None, tls=self._tls() or False, timeout=timeout_s)

    def _tls(self) -> TLSConfig | None:
        from docker import APIClient
        from docker.tls import TLSConfig

        class Own(TLSConfig):
            def configure_client(self, client: APIClient) -> None:
                super().configure_client(client)
                client.trust_env = False  # requests would prefer the authorities of REQUESTS_CA_BUNDLE to the engine's

        if not self.certificates:
            return None
        ca, *own = (os.path.join(self.certificates, name) for name in (CA, CERTIFICATE, KEY))
        return Own(tuple(own) if os.path.exists(own[0]) else None, ca, verify=self.verify)

    def fix(self, reason: str) -> str:
        """What to do about a refused TLS handshake; "" if `reason` is something else."""
        folder = self.certificates
        if "HTTP request to an HTTPS server" in reason:
            files = f"{CA}, {CERTIFICATE} and {KEY}"
            return (
                f"it speaks TLS: set fleet.tls (or DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH) to a folder with {files}"
            )
        if not folder:
            return ""
        if re.search(r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|PACKET_LENGTH_TOO_LONG", reason):
            return "it speaks no TLS: start it with --tlsverify, or leave out fleet.tls and DOCKER_TLS_VERIFY"
        if re.search(r"mismatch|doesn't match|not valid for", reason):
            return f"its TLS certificate is for another name: make one with {self.hostname} as subjectAltName"
        if "certificate has expired" in reason:
            return "its TLS certificate has expired: make a new one"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return f"its TLS certificate was not signed by {folder}/{CA}: use the {CA} of this engine (fleet.tls)"
        if not re.search(r"ALERT|disconnected|reset by peer|EOF occurred|Broken pipe", reason):
            return ""
        if not os.path.exists(os.path.join(folder, CERTIFICATE)):
            return f"its TLS asks for a client certificate: put {CERTIFICATE} and {KEY} into {folder} (fleet.tls)"
        return f"its TLS refuses {folder}/{CERTIFICATE}, which its --tlscacert did not sign (fleet.tls)"


def endpoint(host: str, tls: str = "") -> Endpoint:
    """The engine of an entry of `fleet.hosts`: an address, the name of a Docker context, or "".

    "" is what `docker` uses: DOCKER_HOST, or the current context. `tls` is a folder of certificates for engines on TCP,
    or of such folders by host name; without it DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say where they are. Raises
    ValueError for a context or certificates that do not exist.
    """
    host = host or os.environ.get("DOCKER_HOST", "")
    name = host if _CONTEXT.fullmatch(host) else "" if host else _current_context()
    if name and name != "default":
        return _context(name)
    host = "" if name else host if not host or "://" in host else f"tcp://{host}"
    if urlsplit(host).scheme not in ("tcp", "https"):
        return Endpoint(host)
    if tls:
        own = Path(tls).expanduser() / Endpoint(host).hostname
        return Endpoint(host, _check_folder(own if own.is_dir() else own.parent, "fleet.tls"))
    folder, verify = os.environ.get("DOCKER_CERT_PATH", ""), bool(os.environ.get("DOCKER_TLS_VERIFY"))
    if not (folder or verify):
        return Endpoint(host)
    return Endpoint(host, _check_folder(Path(folder) if folder else _docker_folder(), "DOCKER_CERT_PATH"), verify)


def _check_folder(folder: Path, setting: str) -> str:
    """The folder, if it has an authority and either both or none of the client's files."""
    there = {name for name in (CA, CERTIFICATE, KEY) if (folder / name).is_file()}
    if missing := ({CA} if there <= {CA} else {CA, CERTIFICATE, KEY}) - there:
        raise ValueError(
            f"{setting}: the folder {folder} has no {' and no '.join(sorted(missing))}: correct it, or create them as "
            "docs/devices.md says"
        )
    return str(folder)


def _docker_folder() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or "~/.docker").expanduser()


def _current_context() -> str:
    if name := os.environ.get("DOCKER_CONTEXT"):
        return name
    try:
        return str(json.loads((_docker_folder() / "config.json").read_text()).get("currentContext", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def _context(name: str) -> Endpoint:
    """Reads a context as `docker context create` stores it. The SDK finds none if there is no config.json."""
    folder, number = _docker_folder() / "contexts", hashlib.sha256(name.encode()).hexdigest()
    try:
        found = json.loads((folder / "meta" / number / "meta.json").read_text())["Endpoints"]["docker"]
        host, verify = str(found["Host"]), not found.get("SkipTLSVerify", False)
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"there is no Docker context {name!r}: `docker context ls` lists them") from None
    certificates = folder / "tls" / number / "docker"
    return Endpoint(host, _check_folder(certificates, f"context {name}") if certificates.is_dir() else "", verify)
