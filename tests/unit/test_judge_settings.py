import pytest

from mobilerl.config import ConfigError, JudgeSection, validate
from mobilerl.inference.client import ChatClient
from mobilerl.judge.cache import ResponseCache, response_key
from mobilerl.judge.judge import Judge

URL = {"url": "http://127.0.0.1:1/v1", "model": "m"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"reward": True}, "set judge.url"),
        ({"url": "127.0.0.1:8000", "model": "m"}, "http://HOST:PORT/v1"),
        ({"url": "http://127.0.0.1:8000/v1"}, "judge.url needs judge.model"),
    ],
)
def test_settings_that_cannot_work_are_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        validate(JudgeSection, given, "recipe.toml")


@pytest.mark.parametrize(("processes", "each"), [(3, 2), (20, 1)])
def test_processes_share_the_limit(processes, each):
    assert JudgeSection(**URL, concurrency=8).shared_by(processes).concurrency == each


def test_the_protocol_holds_what_affects_a_verdict_and_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    base = Judge(JudgeSection(**URL)).protocol()
    changes = {"temperature": 0.5, "examples": "none", "actions": 0, "model": "n"}
    changes |= {"screenshots": 9, "max_pixels": 9, "every_step": True}
    for change in ({name: value} for name, value in changes.items()):
        assert Judge(JudgeSection(**(URL | change))).protocol() != base
    assert Judge(JudgeSection(**URL, concurrency=3)).protocol() == base
    assert "secret" not in str(base)


@pytest.mark.parametrize("key", ["sk-se\ncret", "sk-sécret"])
def test_a_key_that_no_header_can_carry_is_not_repeated(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as fault:
        ChatClient("http://127.0.0.1:9/v1", "m")
    assert "cret" not in str(fault.value)


KEY = response_key("m", [{"role": "user", "content": "x"}], {"temperature": 0.0})


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"failure", b"success"),
        lambda data: b"[1, 2]",
        lambda data: data.replace(b"failure", b"\\ud83d"),
    ],
)
def test_a_damaged_cache_entry_counts_as_missing(tmp_path, damage):
    cache = ResponseCache(tmp_path)
    cache.put(KEY, "Status: failure", "m")
    path = next(tmp_path.rglob("*.json"))
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(KEY) is None
    cache.put(KEY, "Status: failure", "m")
    assert cache.get(KEY) == "Status: failure"


def test_a_cache_folder_that_cannot_be_written_to_is_found_at_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="judge.cache"):
        ResponseCache(tmp_path / "file" / "cache").check()
