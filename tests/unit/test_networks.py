"""Proxies and certificates in the environment: servers on this machine are asked directly, bad variables are named."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import httpx
import openai
import pytest
from http_stand_in import ChatServer, Handler, Server

from mobilerl.config import ConfigError, JudgeSection
from mobilerl.inference.server import connect
from mobilerl.judge.judge import check_judge
from mobilerl.models.hub import download, look_up
from mobilerl.system.networks import bypass_proxies_for_loopback, check_variables, is_loopback

DEAD = "http://127.0.0.1:9"
FAR = "http://models.invalid/v1"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.setenv(name, "")  # so that the test's own changes are undone
        monkeypatch.delenv(name)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.001)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer(lambda request: "Status: failure")
    yield server
    server.stop()


class _Gateway(Handler):
    """A proxy that answers by itself: 502, or what a model server says."""

    def do_GET(self) -> None:
        self.respond({"object": "list", "data": [{"id": "vlm"}]}, self.server.status)

    def do_POST(self) -> None:
        self.body()
        self.respond("Bad Gateway", self.server.status)


@pytest.fixture
def gateway() -> Iterator[Server]:
    server = Server(_Gateway)
    server.status = 502
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http_proxy", DEAD),
        ("HTTP_PROXY", "://bad"),
        ("ALL_PROXY", "socks://127.0.0.1:9/"),
        ("all_proxy", "socks5://127.0.0.1:9"),
        ("HTTPS_PROXY", "http://proxy:port"),
        ("SSL_CERT_FILE", "/nonexistent/ca.pem"),
        ("NO_PROXY", "[::1]"),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_model_server_and_a_judge_on_this_machine_are_asked_directly(name, value, host, server, monkeypatch):
    monkeypatch.setenv(name, value)
    url = server.url.replace("127.0.0.1", host)
    connect(url, "vlm")
    check_judge(JudgeSection(url=url, model="vlm"))
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.8.9.1:80/v1", True),
        ("http://[::1]:80/v1", True),
        ("http://LOCALHOST:80/v1", True),
        ("http://me:secret@localhost.:80", True),
        ("http://0.0.0.0:8000/v1", True),
        ("http://localhost.example.org", False),
        ("http://127.0.0.1.example.org", False),
        ("http://10.0.0.1", False),
    ],
)
def test_addresses_of_this_machine(url, here):
    assert is_loopback(url) is here


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("HTTP_PROXY", "://bad", "HTTP_PROXY=://bad: a proxy is given as http://"),
        ("all_proxy", "socks://me:s3@cr/et@proxy:1080/", r"all_proxy=socks://\*\*\*@proxy:1080/: a proxy is given"),
        ("https_proxy", "http://me:hunter2@proxy:port", r"https_proxy=http://\*\*\*@proxy:port: the proxy's HOST:PORT"),
        ("HTTPS_PROXY", "http://proxy:99999", "HTTPS_PROXY=http://proxy:99999: the proxy's HOST:PORT"),
        ("http_proxy", "http://me:hunter2/x@proxy:1", r"http_proxy=http://\*\*\*@proxy:1: .* %2F"),
        ("http_proxy", "me:hunter2@:3128", r"http_proxy=\*\*\*@:3128: the proxy has no host"),
        ("SSL_CERT_FILE", "/nonexistent/ca.pem", "SSL_CERT_FILE=/nonexistent/ca.pem: .*No such file"),
        ("SSL_CERT_FILE", __file__, f"SSL_CERT_FILE={__file__}: no certificates can be read"),
        ("SSL_CERT_DIR", "/nonexistent", "SSL_CERT_DIR=/nonexistent: .*no such folder"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named_without_its_password(name, value, says, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=says) as caught:
        connect(FAR, "vlm")
    with pytest.raises(ConfigError, match=says):
        check_judge(JudgeSection(url=FAR, model="vlm"))
    assert "hunter2" not in str(caught.value) and "cr/et" not in str(caught.value)
    assert "unset it" in str(caught.value)


def test_the_hub_is_not_asked_through_a_bad_proxy(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://me:hunter2@proxy:port")
    for ask in (download, look_up):
        with pytest.raises(ConfigError, match=r"HTTPS_PROXY=http://\*\*\*@proxy:port"):
            ask("lab/model")


def test_socks_needs_a_package(monkeypatch):
    monkeypatch.setattr("mobilerl.system.networks.find_spec", lambda name: None)
    monkeypatch.setenv("ALL_PROXY", "socks5h://proxy:1080")
    with pytest.raises(ConfigError, match="ALL_PROXY=socks5h://proxy:1080: .*pip install socksio"):
        check_variables()


def test_certificates_of_the_environment_are_used_for_https_on_this_machine(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent/ca.pem")
    with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
        connect("https://127.0.0.1:9/v1", "vlm")


def test_other_servers_are_asked_through_the_proxy_which_is_named_when_it_fails(gateway, monkeypatch):
    monkeypatch.setenv("http_proxy", gateway.url.replace("://", "://me:hunter2@"))
    with pytest.raises(ConfigError, match=r"502 through the proxy http_proxy=http://\*\*\*@127.0.0.1:\d+") as caught:
        connect(FAR, "vlm")
    assert "hunter2" not in str(caught.value)
    gateway.stop()
    with pytest.raises(ConfigError, match=r"cannot be reached through the proxy http_proxy=.* or NO_PROXY"):
        connect(FAR, "vlm")
    monkeypatch.setenv("no_proxy", "models.invalid")
    with pytest.raises(ConfigError, match="cannot be reached \\("):
        connect(FAR, "vlm")


def test_every_library_of_the_command_asks_this_machine_directly(server, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", DEAD)
    monkeypatch.setenv("HTTP_PROXY", DEAD)
    monkeypatch.setenv("NO_PROXY", "example.org, [::1]")
    bypass_proxies_for_loopback()
    for host in ("127.0.0.1", "localhost"):
        url = f"{server.url}/models".replace("127.0.0.1", host)
        assert httpx.get(url).status_code == 200
        assert urllib.request.urlopen(url).status == 200
    assert urllib.request.proxy_bypass("example.org") and not urllib.request.proxy_bypass("example.com")
