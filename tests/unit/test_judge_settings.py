import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from mobilerl.config import ConfigError, JudgeSection, validate
from mobilerl.judge.cache import ReplyCache, reply_key
from mobilerl.judge.client import ChatClient
from mobilerl.judge.judge import Judge
from mobilerl.model_servers import api_key, retry_after

URL = {"url": "http://127.0.0.1:1/v1", "model": "m"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"reward": True}, "judge.reward needs a judge: set judge.url and judge.model"),
        ({"url": "127.0.0.1:8000", "model": "m"}, "it must look like http://HOST:PORT/v1"),
        ({"url": "http://127.0.0.1:8000/v1"}, "judge.url needs judge.model"),
        ({**URL, "votes": 3}, "judge.votes above 1 need judge.temperature above 0"),
        ({**URL, "votes": 2, "temperature": 0.7}, "can end in a tie: use an odd number"),
        ({**URL, "reqests_per_minute": 3}, "did you mean 'requests_per_minute'?"),
        ({**URL, "timeout_s": 0}, "timeout_s: Input should be greater than 0"),
    ],
)
def test_settings_that_cannot_work_are_one_line_with_the_cure(given, says):
    with pytest.raises(ConfigError) as error:
        validate(JudgeSection, given, "recipe.toml")
    assert says in str(error.value) and "\n" not in str(error.value)


def test_two_votes_are_fine_when_both_must_agree():
    assert JudgeSection(**URL, votes=2, temperature=None, rule="unanimous").votes == 2


def test_without_an_address_there_is_no_judge():
    with pytest.raises(ConfigError, match="set judge.url and judge.model"):
        Judge(JudgeSection())


def test_processes_share_the_limits():
    share = JudgeSection(**URL, requests_per_minute=60.0, concurrency=8).shared_by(3)
    assert (share.requests_per_minute, share.concurrency) == (20.0, 2)
    assert JudgeSection(**URL, concurrency=2).shared_by(3).concurrency == 1
    assert JudgeSection(**URL).shared_by(3).requests_per_minute is None


def test_settings_and_scorer_load_without_the_client_library():
    code = "import sys, mobilerl.config.judge, mobilerl.judge.scorer; print({'openai', 'torch'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_the_protocol_holds_what_affects_a_verdict_and_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    base = Judge(JudgeSection(**URL)).protocol()
    for change in ({"temperature": 0.5}, {"examples": "none"}, {"actions": 0}, {"model": "n"}, {"max_tokens": 9}):
        assert Judge(JudgeSection(**(URL | change))).protocol() != base
    assert Judge(JudgeSection(**URL, concurrency=3, timeout_s=1)).protocol() == base
    assert "secret" not in str(base)


# --- waiting as told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["sk-se\ncret", "sk-se\x07cret", "sk-sécret"])
def test_a_key_that_no_header_can_carry_is_not_repeated(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY holds characters that no API key has") as fault:
        ChatClient(JudgeSection(url="http://127.0.0.1:9/v1", model="m"))
    assert "cret" not in str(fault.value)


def test_what_a_file_of_keys_leaves_around_one_is_taken_off(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-secret\r\n")
    assert api_key("SOME_KEY") == "sk-secret"
    monkeypatch.setenv("SOME_KEY", " ")
    assert api_key("SOME_KEY") == "none"


def test_retry_after_in_both_forms():
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after": "-3"}) == 0.0
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 0 < retry_after({"retry-after": soon}) <= 30
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert retry_after({}) is retry_after({"retry-after": "soon"}) is None
    never = {"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}
    assert retry_after(never) is None


# --- the cache ---------------------------------------------------------------------------------------------------

KEY = reply_key("m", [{"role": "user", "content": "x"}], {"temperature": 0.0}, 0)


def test_a_key_depends_on_all_that_was_asked():
    asked = ("m", [{"role": "user", "content": "x"}], {"temperature": 0.0}, 0)
    others = [
        ("n", *asked[1:]),
        (asked[0], [{"role": "user", "content": "y"}], *asked[2:]),
        (*asked[:2], {"temperature": 0.1}, 0),
        (*asked[:3], 1),
    ]
    keys = {reply_key(*a) for a in (asked, *others)}
    assert len(keys) == 5 and KEY in keys


def test_what_was_put_comes_back_in_another_process_too(tmp_path):
    ReplyCache(tmp_path).put(KEY, 'Status: "success"\n\u202e🙂', "m")
    assert ReplyCache(tmp_path).get(KEY) == 'Status: "success"\n\u202e🙂'
    assert ReplyCache(tmp_path).get("0" * 64) is None
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.suffix != ".json"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"failure", b"success"),
        lambda data: b"\xff\xfe" + data,
        lambda data: b"[1, 2]",
        lambda data: data.replace(b'"schema": 1', b'"schema": 2'),
        lambda data: data.replace(b'"text"', b'"txet"'),
        lambda data: data.replace(b"failure", b"\\ud83d"),
    ],
)
def test_a_damaged_entry_is_missing_and_can_be_written_again(tmp_path, damage):
    cache = ReplyCache(tmp_path)
    cache.put(KEY, "Status: failure", "m")
    path = next(tmp_path.rglob("*.json"))
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(KEY) is None
    cache.put(KEY, "Status: failure", "m")
    assert cache.get(KEY) == "Status: failure"


def test_an_entry_under_another_name_is_damage(tmp_path):
    cache = ReplyCache(tmp_path)
    cache.put(KEY, "Status: success", "m")
    other = reply_key("m", ["another"], {}, 0)
    moved = tmp_path / other[:2] / f"{other}.json"
    moved.parent.mkdir(exist_ok=True)
    next(tmp_path.rglob(f"{KEY}.json")).rename(moved)
    assert cache.get(other) is None


def test_a_folder_that_cannot_be_written_to_is_found_at_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="judge.cache: .*cannot be written to.*choose another folder"):
        ReplyCache(tmp_path / "file" / "cache").check()
    ReplyCache(tmp_path / "new").check()
    assert list((tmp_path / "new").iterdir()) == []
