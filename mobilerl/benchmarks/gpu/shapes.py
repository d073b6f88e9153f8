"""Models of published sizes with random weights, and samples like those of rollouts on a full-size phone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from mobilerl.benchmarks.gpu.report import device
from mobilerl.benchmarks.samples import rows_of
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.models.loading import prepare_model
from mobilerl.records import TrainingSample
from mobilerl.sft.demonstrations import corpus

WIDTH, HEIGHT, MAX_PIXELS = 1080, 2400, 1_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """Dimensions of a Qwen2.5-VL. `vision` is depth, width and inner width of the vision tower."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    tied: bool
    vision: tuple[int, int, int] = (32, 1280, 3420)


SHAPES = {
    "tiny": Shape(64, 2, 2, 1, 128, 0, True, (2, 32, 64)),
    "0.35B": Shape(1024, 12, 8, 2, 4096, 151936, True, (8, 640, 1708)),
    "3B": Shape(2048, 36, 16, 2, 11008, 151936, True),
    "7B": Shape(3584, 28, 28, 4, 18944, 152064, False),
}


def make_folder(shape: Shape, path: Path) -> tuple[Codec, Qwen2_5_VLConfig]:
    """Makes a checkpoint folder without weights, with the words of the embedded phone as vocabulary."""
    tokenizer = tiny.build_word_tokenizer(_corpus())
    config = _config(shape, tokenizer)
    processor = Qwen2VLImageProcessorPil(size={"shortest_edge": 4 * 28 * 28, "longest_edge": MAX_PIXELS})
    codec = Codec(tokenizer, processor, config)
    codec.save(path)
    config.save_pretrained(path)
    return codec, config


@cache
def _corpus() -> list[str]:
    """What the experts see and say, which takes seconds to collect."""
    return corpus(PhoneEnv("bench", screenshots=False))


def make_model(config: Qwen2_5_VLConfig, dtype: torch.dtype) -> Qwen2_5_VLForConditionalGeneration:
    """Makes a model with random weights, on the GPU."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device():
            model = Qwen2_5_VLForConditionalGeneration(config)
    finally:
        torch.set_default_dtype(before)
    prepare_model(model)
    return model


def full_size_rows(codec: Codec, count: int) -> list[TrainingSample]:
    """Expert samples with screens of 1080x2400, seen at one megapixel, without rollout log-probabilities."""
    size = (WIDTH, HEIGHT) if torch.cuda.is_available() else (180, 360)
    return list(islice(rows_of(PhoneEnv("bench", *size, popup_rate=0.5), codec), count))


def _config(shape: Shape, tokenizer: PreTrainedTokenizerFast) -> Qwen2_5_VLConfig:
    ids = tokenizer.convert_tokens_to_ids
    depth, width, inner = shape.vision
    pairs = shape.hidden // shape.heads // 2
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": shape.vocabulary or len(tokenizer),
            "hidden_size": shape.hidden,
            "intermediate_size": shape.inner,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "max_position_embeddings": 32768,
            "tie_word_embeddings": shape.tied,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": [pairs - 2 * (3 * pairs // 8), 3 * pairs // 8, 3 * pairs // 8],
            },
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "depth": depth,
            "hidden_size": width,
            "intermediate_size": inner,
            "num_heads": width // 80 if width > 80 else 2,
            "out_hidden_size": shape.hidden,
            "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31] if depth == 32 else [depth - 1],
        },
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        tie_word_embeddings=shape.tied,
    )
