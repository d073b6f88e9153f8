"""Files that people write load as editors of Windows save them: with a byte order mark, and with CRLF."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mobilerl.benchmarks.comparison.plan import read_plan
from mobilerl.config import load_recipe, read_saved, save_recipe
from mobilerl.envs.instructions import tasks
from mobilerl.records.files import read_records
from mobilerl.sft.checks import deepspeed_file
from mobilerl.sft.sources.stream import read_splits

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["utf-8-sig", "utf-16"])
def write(request, tmp_path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_bytes(text.replace("\n", "\r\n").encode(request.param))
        return path

    return write


def test_recipes_tasks_and_data_with_a_byte_order_mark(write):
    assert load_recipe(write("r.toml", "# Ü\n[train]\nseed = 3\n")).train.seed == 3
    plan = (ROOT / "recipes" / "compare.toml").read_text()
    assert read_plan(write("compare.toml", plan)) == read_plan(ROOT / "recipes" / "compare.toml")
    toml = '[apps]\n"Über" = "a.b"\n[[task]]\ninstruction = "Öffne die Uhr"\nanswer = "x"\n'
    assert tasks.read(write("t.toml", toml)).task[0].instruction == "Öffne die Uhr"
    lines = [{"instruction": "Öffne die Uhr", "answer": "x"}] * 2
    path = write("t.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    assert [task.id for task in tasks.read(path).task] == ["1", "2"]
    assert read_splits(write("splits.json", '{"train": [1], "test": ["é"]}')) == {"1": "train", "é": "test"}
    assert deepspeed_file(str(write("d.json", '{"train_batch_size": 1}')))


def test_saved_files_that_were_edited_with_a_byte_order_mark(tmp_path):
    save_recipe(load_recipe("adagrpo"), tmp_path / "config.json")
    for path, text in ((tmp_path / "config.json", None), (tmp_path / "t.jsonl", '{"schema": 1}\n{"schema": 1}\n')):
        path.write_bytes((text or path.read_text()).encode("utf-8-sig"))
    assert read_saved(tmp_path / "config.json") == load_recipe("adagrpo")
    assert len(list(read_records(tmp_path / "t.jsonl"))) == 2


def test_a_clone_has_lf_whatever_git_is_set_to(tmp_path):
    """As Git for Windows sets it, also for a folder that WSL and containers use."""
    for name in (".gitattributes", "recipes/common.sh", "docs/images/phone-light.png"):
        path = tmp_path / "a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name).read_bytes())
    (tmp_path / "a" / "crlf.sh").write_bytes(b"echo\r\n")
    git = ["git", "-c", "core.autocrlf=true", "-c", "user.name=x", "-c", "user.email=x@localhost", "-C", tmp_path / "a"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    clone = ["git", "clone", "-q", "-c", "core.autocrlf=true", tmp_path / "a", tmp_path / "b"]
    subprocess.run(clone, check=True)
    for path in ("recipes/common.sh", "docs/images/phone-light.png"):
        assert (tmp_path / "b" / path).read_bytes() == (ROOT / path).read_bytes()
    assert (tmp_path / "b" / "crlf.sh").read_bytes() == b"echo\n"
