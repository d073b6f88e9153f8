"""Proxies and certificates from the environment: servers on this machine are asked directly, and wrong variables named.

HTTP libraries read the variables themselves, send requests for this machine to a proxy as well, and fail with errors
that name neither the variable nor its value.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from mobilerl.config import ConfigError
from mobilerl.system.redaction import HIDDEN

SCHEMES = ("http", "https", "socks5", "socks5h")
"""Kinds of proxies that httpx can use."""
LOOPBACK = ("localhost", "127.0.0.1", "127.0.0.0/8", "::1")
"""Entries of NO_PROXY; some libraries only know single addresses."""
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables with the certificates that httpx trusts; it reads the second only without the first."""


def is_loopback(url: str) -> bool:
    """Whether the server of a URL runs on this machine, as far as its address shows."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def bypass_proxies_for_loopback() -> None:
    """Makes all libraries of this process and its children ask servers on this machine directly."""
    name = "no_proxy" if "no_proxy" in os.environ else "NO_PROXY"
    entries = [entry.strip(" []") for entry in os.environ.get(name, "").split(",")]  # httpx fails on [::1]
    if any(entries) or any(_proxy_variables()):
        value = ",".join(dict.fromkeys([*filter(None, entries), *LOOPBACK]))
        os.environ |= {"NO_PROXY": value, "no_proxy": value}


def client_options(url: str) -> dict[str, Any]:
    """Options of httpx for a client of the server at `url`. Raises ConfigError as `check_variables` does."""
    if not is_loopback(url):
        check_variables()
        return {}
    return {"trust_env": False} | ({"verify": _certificates()} if url.startswith("https:") else {})


def check_variables() -> None:
    """Raises ConfigError for a proxy or a file of certificates in the environment that httpx cannot use."""
    for name, value in _proxy_variables():
        if problem := _problem(value):
            raise ConfigError(f"{name}={_hide_password(value)}: {problem}; correct it, or unset it")
    _certificates()


def way_to(url: str) -> str:
    """The proxy to a server, for messages: ` through the proxy http_proxy=...`; "" without one."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    proxies = getproxies()
    used = proxies.get(parts.scheme) or proxies.get("all")
    named = [f"{name}={_hide_password(value)}" for name, value in _proxy_variables() if value == used]
    return f" through the proxy {named[0]}" if named else ""


def _proxy_variables() -> Iterator[tuple[str, str]]:
    """The variables that set a proxy, with their values. Lower case has precedence, also if empty."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        used = name if name in os.environ else name.upper()
        if value := os.environ.get(used):
            yield used, value


def _problem(value: str) -> str:
    """Why httpx cannot use a proxy; "" if it can."""
    try:
        url = urlsplit(value if "://" in value else f"http://{value}")
        host, _ = url.hostname, url.port
    except ValueError:  # its message may have a part of the password
        return "the proxy's HOST:PORT cannot be read (in a password, write / : @ # and % as %2F %3A %40 %23 and %25)"
    if url.scheme not in SCHEMES:
        return f"a proxy is given as {'://, '.join(SCHEMES[:-1])}:// or {SCHEMES[-1]}://HOST:PORT"
    if not host:
        return "the proxy has no host"
    if url.scheme.startswith("socks") and find_spec("socksio") is None:
        return "a SOCKS proxy needs the package socksio (pip install socksio)"
    return ""


def _hide_password(value: str) -> str:
    """A proxy without user and password, which may contain any character if it is malformed."""
    return re.sub(r"^(\w*://)?.*@", rf"\1{HIDDEN}@", value, flags=re.DOTALL)


def _certificates() -> ssl.SSLContext | bool:
    """The certificates that the environment names; True if it names none."""
    name = next((name for name in CERTIFICATES if os.environ.get(name)), None)
    if name is None:
        return True
    value = os.environ[name]
    try:
        if name == "SSL_CERT_FILE":
            return ssl.create_default_context(cafile=value)
        if not any(Path(folder).is_dir() for folder in value.split(os.pathsep)):
            raise NotADirectoryError("no such folder")
        return ssl.create_default_context(capath=value)
    except OSError as error:  # also for a file that has no certificates
        reason = error.strerror or str(error)
        raise ConfigError(f"{name}={value}: no certificates can be read ({reason}); correct it, or unset it") from None
