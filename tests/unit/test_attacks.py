"""Attacks by hostile texts, screens and files. SECURITY.md describes them as a whole."""

from __future__ import annotations

import base64
import gc
import inspect
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from png_parts import chunk, png_head
from safetensors.torch import save_file

from mobilerl.cli import make_parser
from mobilerl.config import ConfigError, EngineSection, FleetSection
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.registry import make_engine
from mobilerl.envs.adb import _line
from mobilerl.envs.base import InfraError, Launch, ShellResult, Type
from mobilerl.envs.device import PNG_SIGNATURE, Device
from mobilerl.envs.phone.adbd import ServedPhone
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.console import Console
from mobilerl.envs.phone.phone import Phone
from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from mobilerl.policy.screen import parse_screen
from mobilerl.records.screens import ScreenFolder
from mobilerl.sft.sources.convert import checked_png
from mobilerl.sft.sources.report import Reject
from mobilerl.viewer.steps import touched_element

HOSTILE = (
    *("$(touch owned)", "`touch owned`", "; touch owned", "' ; touch owned ; '", '" ; touch owned ; "', "> owned"),
    *("a\ntouch owned", "|touch owned", "&& touch owned", "$IFS", "*", "~", "-rf", "--", "\\", "!!", "%s", "\t"),
    *("a\\'; touch owned #", "é\u202e\U0001f4a3", "${HOME}"),
)

# --- typed text and a real shell ---------------------------------------------------------------------------------


class ShellPhone:
    """A phone with a real shell in an empty folder; `am`, `monkey` and `input` record their arguments."""

    serial = "shell"

    def __init__(self, folder: Path) -> None:
        self.work, self.words = folder / "work", folder / "words"
        self.work.mkdir()
        tools = folder / "bin"
        tools.mkdir()
        for name in ("am", "monkey", "input"):
            program = f"#!{sys.executable}\nimport json, sys\n"
            program += f"open({str(self.words)!r}, 'a').write(json.dumps([{name!r}, *sys.argv[1:]]) + '\\n')\n"
            (tools / name).write_text(program + "print('Events injected: 1')\n")
            (tools / name).chmod(0o755)
        self.environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": "/nowhere"}

    def shell(self, cmd: object, timeout: float = 10.0) -> ShellResult:
        done = subprocess.run(
            ["/bin/sh", "-c", _line(cmd)],
            cwd=self.work,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=timeout,
        )
        return ShellResult(done.stdout, done.stderr, done.returncode)

    def said(self) -> list[list[str]]:
        return [json.loads(line) for line in self.words.read_text().splitlines()]


def test_typed_text_runs_nothing_in_a_real_shell(tmp_path):
    phone = ShellPhone(tmp_path)
    device = Device(phone)
    for text in HOSTILE:
        assert device.act(Type(text)) == ""
    sent = [words[-1] for words in phone.said() if "ADB_INPUT_B64" in words]
    assert [base64.b64decode(word).decode() for word in sent] == list(HOSTILE)
    assert list(phone.work.iterdir()) == []


def test_only_package_names_are_launched(tmp_path):
    phone = ShellPhone(tmp_path)
    for name in (*HOSTILE, "com.a/../b", "com.a b", "com.a;reboot", "com.evil\nreboot"):
        assert "no app called" in Device(phone).act(Launch(name)), name
    assert not phone.words.exists()


# --- images ----------------------------------------------------------------------------------------------------


def showing(png: bytes) -> Device:
    """A device whose screenshot is `png`."""
    return Device(SimpleNamespace(serial="showing", exec_out=lambda *_, **__: png))


def bomb(side: int) -> bytes:
    """A few kB that unpack to a black square of side x side."""
    rows = zlib.compress(bytes(min((side // 8 + 1) * side, 25_000_000)), 9)
    return PNG_SIGNATURE + png_head(side, side) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [6000, 13_000])
def test_an_image_bomb_is_a_device_fault_and_takes_no_memory(side):
    png = bomb(side)
    grown = peak_growth_kb()
    with pytest.raises(InfraError, match="cannot be read"):
        showing(png)._screenshot()
    if side > 8000:  # data sets have images of up to 64 million pixels
        with pytest.raises(Reject):
            checked_png(png, side, side)
    assert grown() < 20_000


def peak_growth_kb() -> Callable[[], int]:
    """A function that gives the growth of the process's peak memory since now, in kB."""
    gc.collect()  # memory freed later would hide the growth
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_kb()
    return lambda: peak_kb() - before


def peak_kb() -> int:
    return int(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))


# --- UI dumps ----------------------------------------------------------------------------------------------------

LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
BILLION = f'<?xml version="1.0"?><!DOCTYPE h [<!ENTITY l0 "ha">{LAUGHS}]><hierarchy><node text="&l9;"/></hierarchy>'
OUTSIDE = '<!DOCTYPE h [<!ENTITY a SYSTEM "file:///etc/passwd">]><hierarchy><node text="&a;"/></hierarchy>'
DEEP = "<hierarchy>" + "<node>" * 100_000 + "</node>" * 100_000 + "</hierarchy>"
CROWDED = (
    '<hierarchy><node bounds="[0,0][90,90]" clickable="true">'
    + "".join(f'<node bounds="[0,0][9,9]" text="{i}"/>' for i in range(50_000))
    + "</node></hierarchy>"
)
LONG = f'<hierarchy><node text="{"x" * 5_000_000}" bounds="[0,0][90,90]"/></hierarchy>'


@pytest.mark.parametrize(
    "xml", [BILLION, OUTSIDE, DEEP, CROWDED, LONG], ids=["billions", "external", "deep", "crowded", "long"]
)
def test_an_xml_bomb_harms_no_reader(xml):
    grown, began = peak_growth_kb(), time.process_time()
    screen = parse_screen(xml, 100, 100)
    assert ("<!DOCTYPE" in xml) == bool(screen.error)
    assert all(len(e.text) < 1100 for e in screen.elements)
    touched_element(screen, {"kind": "tap", "x": 1, "y": 1})
    assert time.process_time() - began < 10 and grown() < 300_000


# --- stored trajectories -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "0" * 64 + "\n", "\0" * 64])
def test_a_screens_name_never_leads_out_of_its_folder(tmp_path, name):
    (tmp_path / "secret.png").write_bytes(b"secret")
    with pytest.raises(ValueError, match="not the name of a screen"):
        ScreenFolder(tmp_path / "run" / "screens").get(name)


# --- models and checkpoints --------------------------------------------------------------------------------------


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    tiny.create(folder, ["open the settings"], hidden=16, layers=1, heads=2, vision_hidden=16)
    return folder


@pytest.fixture
def copy(model, tmp_path) -> Path:
    shutil.copytree(model, tmp_path / "model")
    return tmp_path / "model"


def test_pickled_weights_are_not_read(copy, tmp_path):
    for name in ("pytorch_model.bin", "adapter_model.bin", "training_args.bin", "optimizer.pt"):
        (copy / name).write_bytes(pickle.dumps(Evil(tmp_path / "owned")))
    LocalEngine(copy, LocalSettings())
    (copy / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="no \\*.safetensors weights"):
        make_engine(copy, EngineSection(), 1.0)
    with pytest.raises(Exception, match=r"(?i)weights|pickle|unpickl|load"):
        load_model(copy)  # without the check, torch still loads weights only
    assert not (tmp_path / "owned").exists()


def test_code_that_comes_with_a_model_is_not_run(copy, tmp_path):
    """`auto_map` names classes in the folder's own Python files, which only trust_remote_code would import."""
    (copy / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'owned')!r})\nclass E: pass\n")
    for file, names in (
        ("config.json", ("AutoConfig", "AutoModelForImageTextToText")),
        ("tokenizer_config.json", ("AutoTokenizer",)),
        ("preprocessor_config.json", ("AutoImageProcessor",)),
    ):
        settings = json.loads((copy / file).read_text())
        auto = {name: ["evil.E", "evil.E"] if name == "AutoTokenizer" else "evil.E" for name in names}
        (copy / file).write_text(json.dumps(settings | {"auto_map": auto}))
    LocalEngine(copy, LocalSettings())
    assert not (tmp_path / "owned").exists()


def test_an_adapter_cannot_name_a_module_to_import(model, tmp_path, monkeypatch):
    (tmp_path / "evil_library.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'owned')!r})\nclass E: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    mapping = {"base_model_class": "E", "parent_library": "evil_library"}
    lora = {"peft_type": "LORA", "base_model_name_or_path": str(model), "r": 1, "target_modules": ["q_proj"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps(lora | {"auto_mapping": mapping}))
    save_file({"base_model.model.lora_B": torch.ones(1)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="are not those of its model"):
        load_model(tmp_path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "template",
    [
        "{{ cycler.__init__.__globals__.os.mkdir('owned') }}",
        "{% for i in range(10 ** 9) %}x{% endfor %}",
        "{{ messages.__class__.__base__ }}",
    ],
)
def test_a_chat_template_cannot_run_code(copy, template, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (copy / "chat_template.jinja").write_text(template)
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": template}))
    with pytest.raises(Exception) as fault:  # noqa: B017, PT011
        Codec.load(copy)
    assert not isinstance(fault.value, MemoryError | RecursionError) and not (tmp_path / "owned").exists()


# --- who may connect ---------------------------------------------------------------------------------------------


def test_servers_listen_on_127_0_0_1_by_default():
    assert make_parser().parse_args(["phone", "serve"]).host == "127.0.0.1"
    assert ServedPhone(Phone(APPS), 0).host == "127.0.0.1" and FleetSection().publish == "127.0.0.1"
    assert inspect.signature(Console).parameters["host"].default == "127.0.0.1"


def test_no_source_asks_for_foreign_code_pickles_or_a_shell():
    root = Path(__file__).parents[2]
    for path in [p for folder in ("mobilerl", "envs", "sft", "docker") for p in (root / folder).rglob("*.py")]:
        text = path.read_text()
        assert "trust_remote_code=True" not in text and "shell=True" not in text, path
        assert text.count("torch.load(") == text.count("weights_only=True"), path
        readers = ["pickle.load", "pickle.loads", "Pickler.loads", "yaml.load", "marshal.loads"]
        if path.name == "vllm_weights.py":  # references to memory, from a trainer to processes that it started
            readers.remove("Pickler.loads")
        assert not any(f"{name}(" in text for name in readers), path
