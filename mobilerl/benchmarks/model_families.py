"""Tiny random checkpoints of the model families, in the format in which they are published.

They have the real classes and image processors, special tokens, placeholder layout and end tokens of the families, but
few weights and a small byte-level tokenizer of our own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    Glm4vConfig,
    Glm4vForConditionalGeneration,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HIDDEN, HEADS, VISION = 64, 2, 16
VISION_CONFIG = {
    "depth": 2,
    "hidden_size": VISION,
    "intermediate_size": 2 * VISION,
    "num_heads": 2,
    "out_hidden_size": HIDDEN,
}
QWEN_SPECIAL = """<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|box_start|> <|vision_start|>
    <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>""".split()
GLM_SPECIAL = """<|endoftext|> [MASK] [gMASK] [sMASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|>
    <|begin_of_image|> <|end_of_image|> <|begin_of_video|> <|end_of_video|> <|image|> <|video|>""".split()
_PARTS = (
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}IMAGE{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}"
)
_QWEN_PARTS = _PARTS.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
QWEN3_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n" + _QWEN_PARTS + "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN2_TEMPLATE = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    + QWEN3_TEMPLATE
)
QWEN3_5_TEMPLATE = (
    "{% if messages[1:] | selectattr('role', 'equalto', 'system') | list %}"
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
    + QWEN3_TEMPLATE.removesuffix("{% endif %}")
    + "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}{% endif %}"
)
"""Like the published one, it opens a thought unless told not to, and refuses other places of a system message."""
GLM_TEMPLATE = (
    "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{% if m.role == 'user' %}"
    + _PARTS.replace("IMAGE", "<|begin_of_image|><|image|><|end_of_image|>")
    + "{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
"""Like GLM's published template, it handles parts only in user messages and prints the content of others as is."""
_QWEN_PREPROCESSOR = {"temporal_patch_size": 2, "merge_size": 2}


@dataclass(frozen=True)
class Family:
    """Published data of a model family besides its weights."""

    name: str
    special: list[str]
    template: str
    eos: str
    pad: str
    ends: tuple[str, ...]
    image: str
    preprocessor: dict[str, Any]
    generation: dict[str, Any]
    build: Callable[[PreTrainedTokenizerFast], PreTrainedModel]
    tokenizer_class: str
    user_opens: str
    assistant_opens: str

    @property
    def factor(self) -> int:
        """Side of the square that becomes one token, in pixels."""
        return self.preprocessor["patch_size"] * self.preprocessor["merge_size"]


def tokenizer_of(family: Family, corpus: Iterable[str], size: int = 700) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in family.special])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=family.eos, pad_token=family.pad, clean_up_tokenization_spaces=False
    )
    fast.add_tokens([AddedToken(t, normalized=False) for t in ("<think>", "</think>")])
    fast.chat_template = family.template
    return fast


def create(family: Family, path: Path, corpus: Iterable[str], seed: int = 0) -> None:
    """Writes a checkpoint folder."""
    tokenizer = tokenizer_of(family, corpus)
    torch.manual_seed(seed)
    model = family.build(tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5.0)  # with Hugging Face's scale, all tokens of a narrow model would be equally likely
    ids = tokenizer.convert_tokens_to_ids
    model.generation_config = GenerationConfig(
        eos_token_id=[ids(t) for t in family.ends], pad_token_id=ids(family.pad), **family.generation
    )
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    config = json.loads((path / "tokenizer_config.json").read_text())
    (path / "tokenizer_config.json").write_text(json.dumps({**config, "tokenizer_class": family.tokenizer_class}))
    (path / "preprocessor_config.json").write_text(json.dumps(family.preprocessor))


def png(width: int, height: int, shade: int = 0) -> bytes:
    """A PNG of colored blocks."""
    blocks = np.random.default_rng(shade).integers(0, 256, (12, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


def _text(tokenizer: PreTrainedTokenizerFast, **more: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 1,
        "max_position_embeddings": 8192,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        **more,
    }


def _qwen_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    names = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    return {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}


def _qwen2_5(tokenizer: PreTrainedTokenizerFast) -> torch.nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 4, 4]}
    config = Qwen2_5_VLConfig(
        text_config=_text(tokenizer, rope_parameters=rope),
        vision_config={**VISION_CONFIG, "intermediate_size": 2 * VISION - 4, "fullatt_block_indexes": [1]},
        tie_word_embeddings=False,
        **_qwen_ids(tokenizer),
    )
    return Qwen2_5_VLForConditionalGeneration(config)


def _qwen3(tokenizer: PreTrainedTokenizerFast) -> torch.nn.Module:
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [8, 4, 4], "mrope_interleaved": True}
    config = Qwen3VLConfig(
        text_config=_text(tokenizer, rope_parameters=rope, head_dim=HIDDEN // HEADS),
        vision_config={**VISION_CONFIG, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64},
        tie_word_embeddings=False,
        **_qwen_ids(tokenizer),
    )
    return Qwen3VLForConditionalGeneration(config)


def _qwen3_5(tokenizer: PreTrainedTokenizerFast) -> torch.nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e7, "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    config = Qwen3_5Config(
        text_config=_text(
            tokenizer,
            rope_parameters={**rope, "partial_rotary_factor": 0.25},
            head_dim=HIDDEN // HEADS,
            layer_types=["linear_attention", "full_attention"],
            linear_num_key_heads=1,
            linear_num_value_heads=2,
            linear_key_head_dim=128,  # as published; vLLM's kernels for CPUs refuse smaller ones
            linear_value_head_dim=128,
            mamba_ssm_dtype="float32",  # for vLLM
        ),
        vision_config={**VISION_CONFIG, "num_position_embeddings": 64},
        tie_word_embeddings=False,
        **_qwen_ids(tokenizer),
    )
    model = Qwen3_5ForConditionalGeneration(config)
    for name, weight in model.named_parameters():
        if name.endswith("A_log"):  # states that last, as those of trained weights, and not for a token or two
            torch.nn.init.uniform_(weight, -6.0, -2.0)
    return model


def _glm(tokenizer: PreTrainedTokenizerFast) -> torch.nn.Module:
    ids = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2], "partial_rotary_factor": 0.5}
    config = Glm4vConfig(
        text_config=_text(tokenizer, rope_parameters=rope),
        vision_config=VISION_CONFIG,
        image_token_id=ids("<|image|>"),
        video_token_id=ids("<|video|>"),
        image_start_token_id=ids("<|begin_of_image|>"),
        image_end_token_id=ids("<|end_of_image|>"),
        video_start_token_id=ids("<|begin_of_video|>"),
        video_end_token_id=ids("<|end_of_video|>"),
    )
    return Glm4vForConditionalGeneration(config)


_QWEN: dict[str, Any] = {
    "special": QWEN_SPECIAL,
    "eos": "<|im_end|>",
    "pad": "<|endoftext|>",
    "ends": ("<|im_end|>", "<|endoftext|>"),
    "image": "<|image_pad|>",
    "tokenizer_class": "Qwen2Tokenizer",
    "user_opens": "<|im_start|>user\n",
    "assistant_opens": "<|im_start|>assistant\n",
}
FAMILIES = {
    "Qwen2.5-VL": Family(
        name="Qwen2.5-VL",
        template=QWEN2_TEMPLATE,
        build=_qwen2_5,
        preprocessor={
            "image_processor_type": "Qwen2VLImageProcessor",
            "patch_size": 14,
            "min_pixels": 3136,
            "max_pixels": 12845056,
            **_QWEN_PREPROCESSOR,
        },
        generation={"do_sample": True, "repetition_penalty": 1.05, "temperature": 1e-6},
        **_QWEN,
    ),
    "Qwen3-VL": Family(
        name="Qwen3-VL",
        template=QWEN3_TEMPLATE,
        build=_qwen3,
        preprocessor={
            "image_processor_type": "Qwen2VLImageProcessorFast",
            "patch_size": 16,
            "size": {"shortest_edge": 65536, "longest_edge": 16777216},
            **_QWEN_PREPROCESSOR,
        },
        generation={"do_sample": True, "top_k": 20, "top_p": 0.8, "temperature": 0.7},
        **_QWEN,
    ),
    "Qwen3.5": Family(
        name="Qwen3.5",
        template=QWEN3_5_TEMPLATE,
        build=_qwen3_5,
        preprocessor={
            "image_processor_type": "Qwen2VLImageProcessorFast",
            "patch_size": 16,
            "size": {"shortest_edge": 65536, "longest_edge": 16777216},
            **_QWEN_PREPROCESSOR,
        },
        generation={"do_sample": True, "top_k": 20, "top_p": 0.95, "temperature": 1.0},
        **{**_QWEN, "assistant_opens": "<|im_start|>assistant\n<think>\n"},
    ),
    "GLM-4.1V": Family(
        name="GLM-4.1V",
        special=GLM_SPECIAL,
        template=GLM_TEMPLATE,
        build=_glm,
        eos="<|endoftext|>",
        pad="<|endoftext|>",
        ends=("<|endoftext|>", "<|user|>", "<|observation|>"),
        image="<|image|>",
        preprocessor={
            "image_processor_type": "Glm4vImageProcessor",
            "patch_size": 14,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "size": {"shortest_edge": 12544, "longest_edge": 9633792},
        },
        generation={"do_sample": True, "top_k": 2, "top_p": 0.6, "temperature": 0.8},
        tokenizer_class="PreTrainedTokenizerFast",
        user_opens="<|user|>\n",
        assistant_opens="<|assistant|>\n",
    ),
}
