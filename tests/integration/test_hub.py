"""huggingface_hub's own client against a small server that speaks the Hub's API: upload, download, and its errors."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from http_stand_in import Handler, Server
from safetensors.numpy import save_file

from mobilerl.cli import main, make_parser
from mobilerl.config import AgentSection, Recipe, save_recipe
from mobilerl.eval.policies import weights_digest
from mobilerl.eval.report import EpisodeResult, build_results, write_results
from mobilerl.models.checkpoint_folder import save_agent

NAME = "lab/phone-agent"


class Hub(Server):
    """Holds one model, whose files are uploaded whole (a real Hub wants large ones through Git LFS)."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.created: dict[str, str] = {}
        super().__init__(_Handler)

    @property
    def commit(self) -> str:
        return hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()


class _Handler(Handler):
    server: Hub

    def do_HEAD(self) -> None:
        self._file()

    def do_GET(self) -> None:
        if self.path.startswith(f"/api/models/{NAME}/tree/"):
            files = self.server.files.items()
            return self.respond([{"type": "file", "path": name, "size": len(data), "oid": ""} for name, data in files])
        if self.path.startswith(f"/api/models/{NAME}"):
            files = [{"rfilename": name} for name in self.server.files]
            return self.respond({"id": NAME, "sha": self.server.commit, "siblings": files})
        return self._file()

    def _file(self) -> None:
        data = (
            self.server.files.get(self.path.rpartition("/")[2]) if self.path.startswith(f"/{NAME}/resolve/") else None
        )
        if data is None:
            return self.respond({"error": "not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        self.send_response(200)
        etag = f'"{hashlib.sha1(data).hexdigest()}"'
        for name, value in (("ETag", etag), ("X-Repo-Commit", self.server.commit), ("Content-Length", len(data))):
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != "Bearer secret":
            return self.respond({"error": "log in"}, 401)
        if self.path == "/api/repos/create":
            self.server.created = json.loads(body)
            return self.respond({"url": f"{self.server.url}/{NAME}"})
        if "/preupload/" in self.path:
            wanted = [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in json.loads(body)["files"]
            ]
            return self.respond({"files": wanted})
        if "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            return self.respond({"commitUrl": f"{self.server.url}/{NAME}/commit/1", "commitOid": self.server.commit})
        return self.respond({"errors": [], "warnings": []})  # of the card's metadata


@pytest.fixture
def hub():
    server = Hub()
    yield server
    server.stop()


@pytest.fixture
def run_dir(tmp_path):
    """A run with a final model, and an evaluation of it."""
    run = tmp_path / "runs" / "agent"
    final = run / "final"
    (final / "inner").mkdir(parents=True)
    (final / "config.json").write_text('{"model_type": "qwen3_vl"}')
    (final / "inner" / "secret.json").write_text("{}")
    (final / "state.json").write_text("{}")
    save_file({}, final / "model.safetensors")
    save_agent(AgentSection(format="qwen3-vl"), final)
    base = tmp_path / "models--Qwen--Qwen3-VL-4B-Instruct" / "snapshots" / "abc"
    base.mkdir(parents=True)
    save_recipe(Recipe(model=str(base), agent=AgentSection(format="qwen3-vl", max_new_tokens=99)), run / "config.json")
    episodes = [EpisodeResult("t-0", "t", "Clock", True, "train", 0, 1.0, True, 3, "finished")]
    protocol = {"seed": 0, "weights_sha256": weights_digest(final), "model": str(final), "temperature": 0.0}
    (run / "eval" / "sim").mkdir(parents=True)
    write_results(run / "eval" / "sim" / "results.json", build_results("sim", protocol, episodes))
    return run


def run_python(hub, tmp_path, *words, token="secret"):
    """With the client's settings in the environment, which it reads when it is imported."""
    environment = os.environ | {
        "HF_HUB_OFFLINE": "0",
        "COLUMNS": "300",
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN": token,
    }
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, cwd=tmp_path)
    return done.returncode, done.stdout, done.stderr


def test_a_pushed_model_is_downloaded_by_its_name(hub, run_dir, tmp_path):
    code, said, wrong = run_python(
        hub, tmp_path, "-m", "mobilerl", "push", str(run_dir), "--to", NAME, "--private", "--license", "mit"
    )
    assert code == 0 and f"uploaded to {hub.url}/{NAME}" in said, wrong
    assert hub.created["visibility"] == "private" and hub.created["name"] == "phone-agent"
    assert set(hub.files) == {"README.md", "agent.json", "config.json", "model.safetensors"}
    asked = f"from mobilerl.eval.policies import find_model; print(find_model('{NAME}'))"
    code, said, wrong = run_python(hub, tmp_path, "-c", asked)
    assert code == 0, wrong
    folder = Path(said.strip())
    assert (folder / "model.safetensors").read_bytes() == (run_dir / "final" / "model.safetensors").read_bytes()
    assert "models--lab--phone-agent" in said


def test_errors_say_what_to_do(hub, run_dir, tmp_path):
    code, _, wrong = run_python(hub, tmp_path, "-m", "mobilerl", "eval", "sim", "--model", "lab/other", "--out", "x")
    assert code == 2 and "no model of that name" in wrong and "hf auth login" in wrong and "sft.sh" not in wrong
    code, _, wrong = run_python(hub, tmp_path, "-m", "mobilerl", "push", str(run_dir), "--to", NAME, token="wrong")
    assert code == 2 and "cannot be uploaded" in wrong and "hf auth login" in wrong
    hub.stop()
    code, _, wrong = run_python(
        hub, tmp_path, "-m", "mobilerl", "train", "--config", "adagrpo", "--model", NAME, "--run-dir", "x"
    )
    assert code == 2 and f"hf download {NAME} --local-dir DIR" in wrong and "sft.sh" not in wrong
    assert wrong.count("\n") == 1


def test_doctor_asks_the_hub_for_the_model(hub, run_dir, tmp_path):
    hub.files = {p.name: p.read_bytes() for p in (run_dir / "final").glob("*.*") if p.is_file()}

    def doctor(name: str) -> str:
        _, said, _ = run_python(hub, tmp_path, "-m", "mobilerl", "doctor", "--model", name)
        return next(" ".join(line.split()) for line in said.splitlines() if line.split()[1:2] == ["model"])

    assert doctor(NAME).startswith(f"ok model {NAME}, on the Hub, 0 MB to download")
    assert doctor("lab/other").startswith("failed model lab/other: there is no such folder here and no model of that")
    code, _, wrong = run_python(hub, tmp_path, "-c", f"from mobilerl.models.hub import download; download('{NAME}')")
    assert code == 0, wrong
    assert doctor(NAME) == f"ok model {NAME}, in the Hub's cache"
    [weights] = tmp_path.glob("hf/hub/models--*/snapshots/*/model.safetensors")
    (weights.parent / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-2.safetensors"}}')
    assert doctor(NAME).startswith(f"ok model {NAME}, on the Hub")  # the download was interrupted
    (weights.parent / "model.safetensors.index.json").unlink()
    hub.stop()
    assert doctor(NAME) == f"ok model {NAME}, in the Hub's cache"
    assert "the Hub cannot be reached" in doctor("lab/other")


def test_the_card_says_what_the_run_knows(run_dir, capsys):
    assert main(["push", str(run_dir), "--to", NAME, "--dry-run"]) == 0
    card = (run_dir / "final" / "README.md").read_text()
    head, _, text = card.removeprefix("---\n").partition("---\n")
    assert "base_model: Qwen/Qwen3-VL-4B-Instruct" in head and "license" not in head
    assert "| sim | sim | these | 100.0% | 20.7% to 100.0% | 1 / 1 |" in text
    assert "- temperature: 0.0" in text and "- `agent.max_new_tokens`: 99" in text
    assert "in the format `qwen3-vl`" in text
    assert str(run_dir.parent) not in card
    assert "uploaded" not in capsys.readouterr().out


PRIVATE = {
    "fleet": {"type": "adb", "serials": ["R5CT123ABC"], "name": "ward-7"},
    "judge": {"url": "http://judge.lab.internal:8000/v1", "model": "judge-1"},
    "sft": {"proposer_url": "http://10.1.2.3/v1", "sources": [{"format": "aitw", "path": "data/customers"}]},
    "rollout": {"scorer": "lab_secret.rewards:score"},
    "algorithm": {"type": "gigpo", "loss": {"kl_coef": 0.01}},
    "tracking": {"wandb": "online"},
}
SUITES = {
    "phone": ({"type": "phone"}, "eval sim"),
    "generated": ({"type": "generated", "apps": 7}, "eval generated"),
    "instructions": ({"type": "instructions", "file": "customers.toml"}, "eval instructions FILE"),
    "androidworld": ({"type": "androidworld", "servers": ["http://10.9.8.7:5000"]}, "eval androidworld --server URL"),
}


@pytest.mark.parametrize("suite", SUITES)
def test_the_card_publishes_what_describes_learning_and_the_command_of_the_suite(run_dir, suite):
    section, command = SUITES[suite]
    own = {"fleet": {}, "agent": {"deadline_s": 1800}} if suite == "androidworld" else {}
    save_recipe(Recipe(model="/home/me/start", suite=section, **(PRIVATE | own)), run_dir / "config.json")
    episodes = [EpisodeResult("t-0", "t", "Clock", True, "train", 0, 1.0, True, 3, "finished")]
    protocol = {"seed": 0, "split": "test", "model_server": "http://10.4.5.6:8000/v1", "file": "customers.toml"}
    out = run_dir / "eval" / "androidlab"
    out.mkdir()
    write_results(out / "results.json", build_results("androidlab", protocol, episodes))
    assert main(["push", str(run_dir), "--to", NAME, "--dry-run"]) == 0
    card = (run_dir / "final" / "README.md").read_text()
    private = "R5CT ward-7 internal 10. LAB_KEY customers lab_secret /home wandb serials model_server".split()
    assert [word for word in private if word in card.replace("100.0%", "")] == []
    for said in ("judge.model`: judge-1", "loss.kl_coef`: 0.01", 'sources`: {"format": "aitw", "weight": 1.0'):
        assert said in card
    assert "- seed: 0" in card and "- split: test" in card
    commands = [line.split()[1:] for line in card.splitlines() if line.startswith("    mobilerl eval ")]
    assert " ".join(commands[0]).startswith(f"{command} --model {NAME}") and [c[1] for c in commands].count("sim") == 1
    for words in commands:
        assert make_parser().parse_args(words).model == NAME


def test_an_adapter_is_published_with_a_base_model_that_others_have(hub, run_dir, tmp_path):
    final, base = run_dir / "final", tmp_path / "sft"
    (final / "config.json").unlink()
    base.mkdir()
    (base / "config.json").write_text("{}")
    save_file({}, base / "model.safetensors")
    (final / "model.safetensors").rename(final / "adapter_model.safetensors")
    (final / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base), "r": 4}))
    words = ["-m", "mobilerl", "push", str(run_dir), "--to", NAME]
    code, _, wrong = run_python(hub, tmp_path, *words)
    assert code == 2 and f"its base model {base} is a folder of this machine" in wrong and not hub.files
    code, _, wrong = run_python(hub, tmp_path, *words, "--base", "lab/sft-agent")
    assert code == 0, wrong
    uploaded = json.loads(hub.files["adapter_config.json"])
    assert uploaded == {"base_model_name_or_path": "lab/sft-agent", "r": 4}
    assert b"base_model: lab/sft-agent\nlibrary_name: peft" in hub.files["README.md"]
    assert not [name for name, data in hub.files.items() if str(tmp_path).encode() in data]


def test_a_quantized_model_is_refused_before_its_weights_are_downloaded(hub, tmp_path):
    hub.files |= {"config.json": b'{"quantization_config": {"quant_method": "awq"}}', "model.safetensors": b"large"}
    code, _, wrong = run_python(hub, tmp_path, "-m", "mobilerl", "eval", "sim", "--model", NAME, "--out", "x")
    assert code == 2 and "the weights are quantized (awq)" in wrong and wrong.count("\n") <= 3  # wrapped
    assert not list((tmp_path / "hf").rglob("*.safetensors"))


def test_a_name_that_is_none_is_refused(run_dir, capsys):
    assert main(["push", str(run_dir), "--to", "phone agent"]) == 2
    assert "ORG/NAME" in capsys.readouterr().err
