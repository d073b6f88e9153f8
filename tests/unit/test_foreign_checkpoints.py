"""Checkpoints as other tools and older versions leave them: each is the same model, or is refused with its cause."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mobilerl.benchmarks.model_families import FAMILIES, create
from mobilerl.config import AgentSection, ConfigError, EngineSection
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.registry import make_engine
from mobilerl.models.adapter_folder import ADAPTER_FILE, ADAPTER_WEIGHTS, BASE, adapter_base
from mobilerl.models.checkpoint_folder import STATE_FILE, check_checkpoint, read_agent, save_agent
from mobilerl.models.codec import Codec
from mobilerl.models.hub import find_model
from mobilerl.models.loading import add_lora, load_model, load_without_data, save_model
from mobilerl.policy.formats.choice import published_name, recognize_format

pytestmark = pytest.mark.usefixtures("one_thread")
FAMILY = FAMILIES["Qwen2.5-VL"]
TEXT = "tap hello"


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "Qwen2.5-VL-base"
    create(FAMILY, folder, ["Tap the settings button and type hello"])
    return folder


@pytest.fixture(scope="module")
def adapter(base) -> Path:
    """An adapter as PEFT and most trainers write it: settings and weights, and nothing else."""
    model = add_lora(load_model(base), 4)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.3)
    folder = base.parent / "adapter"
    save_model(model, Codec.load(base), folder)
    for file in folder.iterdir():
        if file.name not in (ADAPTER_FILE, ADAPTER_WEIGHTS):
            file.unlink()
    return folder


@pytest.fixture
def copy(adapter, tmp_path) -> Path:
    return shutil.copytree(adapter, tmp_path / "copy")


def logits(folder: Path) -> torch.Tensor:
    """(V,) logits after a prompt, through the folder's own tokenizer and chat template."""
    made = make_engine(find_model(folder), EngineSection(), 1.0)
    ids = torch.tensor([made.codec.encode([{"role": "user", "content": TEXT}], [])])
    with torch.no_grad():
        return made.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, -1]


@pytest.fixture(scope="module")
def wanted(adapter) -> torch.Tensor:
    return logits(adapter)


def edit(file: Path, **values: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def refused(folder: Path) -> str:
    with pytest.raises(ConfigError) as error:
        make_engine(find_model(folder), EngineSection(), 1.0)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- the base model of an adapter ----------------------------------------------------------------------------------


def test_what_an_adapter_lacks_comes_from_its_base(base, adapter, wanted):
    assert not torch.allclose(wanted, logits(base), atol=0.1), "the adapter changes something"
    codec, own = Codec.load(adapter), Codec.load(base)
    message = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": TEXT}]}]
    assert codec.tokenizer.apply_chat_template(message, tokenize=False) == own.tokenizer.apply_chat_template(
        message, tokenize=False
    )
    assert (codec.end_ids, codec.max_pixels, codec.banned_ids) == (own.end_ids, own.max_pixels, own.banned_ids)
    load_without_data(adapter)


@pytest.mark.parametrize("name", ["../Qwen2.5-VL-base", "../../Qwen2.5-VL-base/"])
def test_a_relative_base_is_beside_the_adapter(base, adapter, tmp_path, wanted, name, monkeypatch):
    shutil.copytree(base, tmp_path / "Qwen2.5-VL-base")
    folder = tmp_path / ("out/lora" if name.startswith("../..") else "lora")
    shutil.copytree(adapter, folder)
    edit(folder / ADAPTER_FILE, **{BASE: name})
    monkeypatch.chdir(tmp_path.parent)
    assert torch.equal(logits(folder), wanted)
    engine = make_engine(folder, EngineSection(), 1.0)
    engine.save(tmp_path / "elsewhere" / "deep" / "saved")
    assert torch.equal(logits(tmp_path / "elsewhere" / "deep" / "saved"), wanted), "its checkpoints find the base too"


@pytest.mark.parametrize("name", [None, "", "/mnt/lab/Qwen2.5-VL-7B", "./gone", 7])
def test_a_base_that_is_unknown_or_moved_is_named_with_field_and_file(copy, name):
    edit(copy / ADAPTER_FILE, **{BASE: name})
    said = refused(copy)
    assert str(copy / ADAPTER_FILE) in said and BASE in said and "set it to the folder or Hub id" in said
    assert (name if name and isinstance(name, str) else "names no base model") in said


def test_a_base_in_a_cache_that_is_gone_is_looked_up_on_the_hub(copy):
    edit(copy / ADAPTER_FILE, **{BASE: "/gone/hub/models--Qwen--Qwen2.5-VL-7B-Instruct/snapshots/abc"})
    assert adapter_base(copy) == "Qwen/Qwen2.5-VL-7B-Instruct"
    said = refused(copy)  # the tests run offline
    assert f"{copy / ADAPTER_FILE}: {BASE}, the base model: Qwen/Qwen2.5-VL-7B-Instruct:" in said and "Hub" in said


def test_an_adapter_of_an_adapter_and_a_damaged_base_are_refused(adapter, base, copy, tmp_path):
    edit(copy / ADAPTER_FILE, **{BASE: str(adapter)})
    assert "is an adapter and no base model" in refused(copy)
    shutil.copytree(base, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").unlink()
    edit(copy / ADAPTER_FILE, **{BASE: "../broken"})
    said = refused(copy)
    assert str(copy / ADAPTER_FILE) in said and f"{tmp_path / 'broken'} has no *.safetensors" in said


def test_an_adapters_own_chat_template_wins(copy):
    (copy / "chat_template.jinja").write_text(FAMILY.template + "mine")
    said = Codec.load(copy).tokenizer.apply_chat_template([{"role": "user", "content": TEXT}], tokenize=False)
    assert said.endswith("mine")


def test_an_adapter_of_another_tool_is_used_as_its_base_was_trained(base, copy, tmp_path):
    assert recognize_format(published_name(copy)) == "qwen2.5-vl"
    ours = shutil.copytree(base, tmp_path / "ours")
    save_agent(AgentSection(history_thoughts=True), ours)
    edit(copy / ADAPTER_FILE, **{BASE: str(ours)})
    assert read_agent(copy) == AgentSection(history_thoughts=True)


# --- names of tensors from before transformers 4.52 ----------------------------------------------------------------


def old_name(name: str) -> str:
    return name.replace("model.language_model.", "model.").replace("model.visual.", "visual.")


def rename(file: Path, new: Callable[[str], str]) -> None:
    save_file({new(name): tensor for name, tensor in load_file(file).items()}, file, metadata={"format": "pt"})


def new_name(name: str) -> str:
    return old_name(name).replace("model.", "model.language_model.").replace("visual.", "model.visual.")


@pytest.mark.parametrize("names", [old_name, new_name])
def test_full_weights_of_any_version_are_the_same_model(base, tmp_path, names):
    folder = shutil.copytree(base, tmp_path / "copy")
    rename(folder / "model.safetensors", names)
    assert torch.equal(logits(folder), logits(base))


OLD_TARGETS = (
    r"^(?!visual).*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)",
    r"model\.layers\.\d+\.(self_attn|mlp)\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)",
    ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
)


@pytest.mark.parametrize("targets", OLD_TARGETS)
@pytest.mark.parametrize("suffix", ["", ".default"])
def test_an_adapter_with_old_names_is_the_same_adapter(copy, wanted, targets, suffix, tmp_path):
    rename(copy / ADAPTER_WEIGHTS, lambda n: old_name(n).replace(".weight", f"{suffix}.weight"))
    edit(copy / ADAPTER_FILE, target_modules=targets, exclude_modules="^visual.*")
    assert torch.equal(logits(copy), wanted)
    make_engine(copy, EngineSection(), 1.0).save(tmp_path / "saved")
    assert torch.equal(logits(tmp_path / "saved"), wanted)


def test_old_names_in_patterns_of_ranks_and_scales_are_translated(adapter, copy, tmp_path):
    now = "model.language_model.layers.0.self_attn.q_proj"
    edit(copy / ADAPTER_FILE, alpha_pattern={now: 100})
    scaled = logits(copy)
    rename(copy / ADAPTER_WEIGHTS, old_name)
    edit(copy / ADAPTER_FILE, alpha_pattern={old_name(now): 100})
    assert torch.equal(logits(copy), scaled) and not torch.equal(scaled, logits(adapter))


def test_an_adapter_of_another_model_names_its_tensors(copy):
    rename(copy / ADAPTER_WEIGHTS, lambda n: n.replace("layers.0", "layers.7"))
    assert "are not those of its model: it lacks base_model.model.model.language_model.layers.0" in refused(copy)
    with pytest.raises(ValueError, match=r"has unknown base_model.model.model.language_model.layers\.7"):
        load_without_data(copy)


# --- adapters that change nothing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0, 0.0, None, "16"])
def test_an_alpha_that_scales_nothing_is_refused(copy, base, alpha):
    edit(copy / ADAPTER_FILE, lora_alpha=alpha)
    said = refused(copy)
    assert f"{copy / ADAPTER_FILE}: lora_alpha is" in said and str(base) in said and "set it to" in said
    (copy / STATE_FILE).write_text("{}")
    assert "lora_alpha is" in refused(copy), "also in a checkpoint"


def test_an_adapter_whose_lora_b_is_all_zero_is_refused_unless_a_run_has_just_begun(copy, base):
    save_file({n: t * ("lora_A" in n) for n, t in load_file(copy / ADAPTER_WEIGHTS).items()}, copy / ADAPTER_WEIGHTS)
    said = refused(copy)
    assert str(copy / ADAPTER_WEIGHTS) in said and "every lora_B is zero" in said and str(base) in said
    (copy / STATE_FILE).write_text("{}")
    assert torch.equal(logits(copy), logits(base))


def test_a_new_adapter_resumes_even_if_its_base_has_moved(base, tmp_path):
    start = shutil.copytree(base, tmp_path / "start")
    engine = LocalEngine(start, LocalSettings(lora_rank=4))
    engine.save(tmp_path / "saved")
    start.rename(tmp_path / "moved")
    again = LocalEngine(tmp_path / "moved", LocalSettings(lora_rank=4))
    again.load(tmp_path / "saved")
    saved, loaded = (dict(e.model.named_parameters()) for e in (engine, again))
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)


# --- chat templates and weights ------------------------------------------------------------------------------------


def test_a_chat_template_in_the_processors_file_is_read(base, tmp_path):
    folder = shutil.copytree(base, tmp_path / "copy")
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        Codec.load(folder)
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": FAMILY.template}))
    assert torch.equal(logits(folder), logits(base))


QUANTIZED = {
    "awq": {"quantization_config": {"quant_method": "awq", "bits": 4}},
    "gptq": {"quantization_config": {"quant_method": "gptq", "bits": 4}},
    "bitsandbytes": {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
    "fp8": {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
    "compressed-tensors": {"text_config": {"quantization_config": {"quant_method": "compressed-tensors"}}},
    "compression_config": {"compression_config": {"format": "pack-quantized"}},
    "quantization": {"quantization": {"group_size": 64, "bits": 4}},
}


@pytest.mark.parametrize("kind", QUANTIZED)
def test_quantized_weights_are_refused_before_anything_is_loaded(base, copy, tmp_path, kind):
    folder = shutil.copytree(base, tmp_path / "quantized")
    config = json.loads((folder / "config.json").read_text())
    edit(folder / "config.json", **{k: {**config.get(k, {}), **v} for k, v in QUANTIZED[kind].items()})
    with pytest.raises(ConfigError, match=rf"config\.json: \w+ says that the weights are quantized \({kind}\)"):
        check_checkpoint(folder)
    edit(copy / ADAPTER_FILE, **{BASE: "../quantized"})  # as of QLoRA
    with pytest.raises(ConfigError, match=rf"{ADAPTER_FILE}: {BASE}, the base model: .*quantized"):
        check_checkpoint(copy)


def test_other_signs_of_quantization(base, tmp_path):
    folder = shutil.copytree(base, tmp_path / "copy")
    edit(folder / "config.json", quantization_config=None)
    check_checkpoint(folder)
    (folder / "model.gguf").touch()
    check_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"model\.gguf: the weights are quantized"):
        check_checkpoint(folder)
    (folder / "quantize_config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"quantize_config\.json: the weights are quantized"):
        check_checkpoint(folder)


def test_pickled_weights_are_named(copy):
    (copy / ADAPTER_WEIGHTS).rename(copy / "adapter_model.bin")
    with pytest.raises(ConfigError, match=r"adapter_model\.bin is pickled.*save_pretrained"):
        check_checkpoint(copy)
