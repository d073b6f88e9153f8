"""A tiny vision-language model: the Qwen2.5-VL classes at about a million parameters, trained from scratch.

Its tokenizer has whole words, so that prompts are short and copying a word takes one token. Forms of a word, such as
`priority` and `Priority`, start with related embeddings, so that learning transfers between them. Text round-trips
exactly if it is in the vocabulary or can be spelled with printable ASCII characters.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import (
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
)

from mobilerl.models.codec import Codec
from mobilerl.models.induction import init_induction_heads

SPECIAL = [
    f"<|{name}|>" for name in "pad end unk vision_start vision_end image_pad video_pad system user assistant".split()
]
GRAMMAR = (
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "</think><answer>",
    ")</answer>",
    '")</answer>',
    'do(action="Tap", element=',
    'do(action="Long Press", element=',
    'do(action="Type", text="',
    'do(action="Launch", app="',
    'do(action="Swipe", direction="',
    '", dist="',
    'do(action="Back")',
    'do(action="Home")',
    'do(action="Enter")',
    'do(action="Wait")',
    'finish(message="',
    '")',
)
"""Parts of the response format that are single tokens."""
MARKS = 40
ROPE_THETA = 1e6
VISION_BRANCH = 0.3
"""Factor on the initial outputs of the vision tower's attention and MLPs."""
WORD_MARK = "▁"
SPACE = "␣"
"""A space that is not between two words."""
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{% if message['role'] == 'assistant' %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def words_of(text: str) -> list[str]:
    """Words of a text as the tokenizer splits them."""
    return re.findall(r"\w+", text)


def build_word_tokenizer(corpus: Iterable[str]) -> PreTrainedTokenizerFast:
    """Builds a whole-word tokenizer for the words of `corpus`, each also in lower case and capitalized.

    Other words are spelled, and numbers are split into pairs of digits. A space between two words is implicit; other
    spaces are tokens of their own.
    """
    found = {w for text in corpus for w in words_of(text) if not re.search(r"\d", w)}
    words = sorted(form for w in found for form in {w, w.lower(), w.capitalize()})
    numbers = [*(f"{i}" for i in range(10)), *(f"{i:02d}" for i in range(100))]
    letters = [*string.ascii_letters, "_"]
    symbols = [*string.punctuation, "\n", SPACE]
    starts = [WORD_MARK + piece for piece in [*numbers, *words, *letters, *symbols]]
    tokens = [*SPECIAL, *starts, *("##" + piece for piece in [*numbers, *letters])]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}

    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="<|unk|>", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Replace(Regex(r"(?<!\w) | (?!\w)"), SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"(?<=\w) (?=\w)"), "removed"),
            pre_tokenizers.Split(Regex(r"\w+|[^\w\s]|\s"), "isolated"),
            pre_tokenizers.Metaspace(prepend_scheme="always", split=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("##", ""),
            decoders.Fuse(),
            decoders.Replace(Regex(rf"(?<=\w){WORD_MARK}(?=\w)"), " "),
            decoders.Replace(WORD_MARK, ""),
            decoders.Replace(SPACE, " "),
        ]
    )
    return _fast(tokenizer)


def is_tiny(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the tokenizer was made by `build_word_tokenizer`."""
    return set(GRAMMAR) <= tokenizer.get_added_vocab().keys()


def _fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Adds the special tokens, the tokens of responses and marks, and the chat template."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        unk_token="<|unk|>",
        additional_special_tokens=SPECIAL[3:],
        clean_up_tokenization_spaces=False,
    )
    fast.add_tokens([AddedToken(t, normalized=False) for t in (*GRAMMAR, *(f"<{i}>" for i in range(1, MARKS + 1)))])
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(
    tokenizer: PreTrainedTokenizerFast, hidden: int, layers: int, heads: int, vision_hidden: int, vision_layers: int = 1
) -> Qwen2_5_VLForConditionalGeneration:
    """Random weights scaled by 1 / sqrt(hidden), since narrow models train slowly with Hugging Face's default of 0.02.

    The first two layers start with induction heads (see `mobilerl.models.induction`).

    The head size `hidden / heads` must be a multiple of 8 (for three rotary sections).
    """
    pairs = hidden // heads // 2
    sections = [pairs - 2 * (pairs // 4 + pairs // 8), pairs // 4 + pairs // 8, pairs // 4 + pairs // 8]
    ids = tokenizer.convert_tokens_to_ids
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "initializer_range": hidden**-0.5,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_THETA, "mrope_section": sections},
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "depth": vision_layers,
            "hidden_size": vision_hidden,
            "intermediate_size": 2 * vision_hidden,
            "num_heads": 2,
            "out_hidden_size": hidden,
            "fullatt_block_indexes": list(range(vision_layers)),
        },
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    model = Qwen2_5_VLForConditionalGeneration(config)
    _relate_forms(model, tokenizer)
    init_induction_heads(model)
    _scale_vision(model)
    return model


@torch.no_grad()
def _scale_vision(model: Qwen2_5_VLForConditionalGeneration) -> None:
    """Draws the vision tower's weights anew at a scale of 1 / sqrt(inputs).

    With Hugging Face's default its tokens would hardly differ from each other, and be small beside those of words.
    """
    tower = model.model.visual
    for weight in tower.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=weight[0].numel() ** -0.5)
    tower.merger.mlp[2].weight.mul_(2 * model.config.text_config.hidden_size**-0.5)
    for block in tower.blocks:
        block.attn.proj.weight.mul_(VISION_BRANCH)
        block.mlp.down_proj.weight.mul_(VISION_BRANCH)


@torch.no_grad()
def _relate_forms(model: Qwen2_5_VLForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> None:
    """Initializes plurals, and then capitalized words, as the mean of the plain word and a vector shared by all such
    forms, so that learning transfers between the forms of a word."""
    vocab, weight = tokenizer.get_vocab(), model.get_input_embeddings().weight
    small = {t: i for t, i in vocab.items() if t.startswith(WORD_MARK) and t.lower() == t}
    plurals = [
        (i, small[t[:-n]]) for t, i in small.items() for n in (1, 2) if t.endswith("es"[-n:]) and t[:-n] in small
    ]
    capitals = [(i, vocab[t.lower()]) for t, i in vocab.items() if t.lower() != t and t.lower() in vocab]
    for pairs in (plurals, capitals):
        forms, plain = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
        shared = torch.randn(weight.shape[1]) * weight.std()
        weight[forms] = (weight[plain] + shared) / math.sqrt(2)


def create(
    path: Path,
    corpus: Iterable[str],
    hidden: int = 128,
    layers: int = 4,
    heads: int = 4,
    vision_hidden: int = 32,
    vision_layers: int = 1,
    max_pixels: int = 8 * 28 * 28,
) -> None:
    """Writes an untrained checkpoint folder that Hugging Face can load."""
    tokenizer = build_word_tokenizer(corpus)
    model = build_model(tokenizer, hidden, layers, heads, vision_hidden, vision_layers)
    # Passed as `size`, since with min_pixels and max_pixels the class would change its defaults for the whole process.
    processor = Qwen2VLImageProcessorPil(size={"shortest_edge": 4 * 28 * 28, "longest_edge": max_pixels})
    model.save_pretrained(path)
    Codec(tokenizer, processor, model.config).save(path)
