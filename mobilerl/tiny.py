"""A tiny vision-language model: the real Qwen2.5-VL classes at about a million parameters, trained from scratch.

Its tokenizer has either whole words, so that prompts are short and copying a word takes one token, or subwords with a
marker for capitals, so that `Priority` on a screen and `priority` in a goal are the same tokens, and words that it
never saw can be read and copied. Text round-trips exactly: of whole words, if it is in the vocabulary or can be spelled
with printable ASCII characters.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
)

from mobilerl.induction import init_induction_heads
from mobilerl.models.codec import Codec

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
"""Parts of the reply format that are one token each."""
MARKS = 40
ROPE_THETA = 1e6
WORD_MARK = "▁"
SPACE = "␣"
"""A space that is not between two words."""
CAPITAL, INNER_CAPITAL = "↑", "⇑"
"""Before the small letter that stands for a capital, at the start of a word and within one."""
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
    """The words of a text, as the tokenizer sees them."""
    return re.findall(r"\w+", text)


def build_word_tokenizer(corpus: Iterable[str]) -> PreTrainedTokenizerFast:
    """A whole-word tokenizer for the words of `corpus`; other words are spelled, numbers split into pairs of digits.

    A space between two words is implied, every other space is a token of its own.
    """
    words = sorted({w for text in corpus for w in words_of(text) if not re.search(r"\d", w)})
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


def build_subword_tokenizer(corpus: Iterable[str], size: int = 800) -> PreTrainedTokenizerFast:
    """A byte-pair tokenizer of `size` tokens and 256 bytes for the words of `corpus`, in lower case.

    A capital is a marker and the small letter. A space between two words is implied, every other space is a token of
    its own, and so are the bytes of characters beyond ASCII.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(r"(?<!\w) | (?!\w)"), SPACE),
            *(normalizers.Replace(Regex(rf"(?<=\w){c}"), INNER_CAPITAL + c.lower()) for c in string.ascii_uppercase),
            *(normalizers.Replace(c, CAPITAL + c.lower()) for c in string.ascii_uppercase),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(rf"(?<=\w) (?=[\w{CAPITAL}])"), "removed"),
            pre_tokenizers.Split(Regex(r"\w+|[^\w\s]|\s"), "isolated"),
            pre_tokenizers.Metaspace(prepend_scheme="always", split=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace(f"{WORD_MARK}{INNER_CAPITAL}{WORD_MARK}", INNER_CAPITAL),
            decoders.Replace(f"{CAPITAL}{WORD_MARK}", CAPITAL),
            decoders.Replace(Regex(rf"(?<=\w){WORD_MARK}(?=[\w{CAPITAL}])"), " "),
            decoders.Replace(WORD_MARK, ""),
            *(decoders.Replace(INNER_CAPITAL + c.lower(), c) for c in string.ascii_uppercase),
            *(decoders.Replace(CAPITAL + c.lower(), c) for c in string.ascii_uppercase),
            decoders.Replace(SPACE, " "),
        ]
    )
    starts = [WORD_MARK + c for c in (*string.punctuation, "\n", SPACE, CAPITAL, INNER_CAPITAL)]
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        initial_alphabet=sorted({*string.ascii_lowercase, *string.digits, "_", WORD_MARK, *"".join(starts)}),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*sorted(corpus), *(" ".join(starts) for _ in range(3))], trainer)
    learned = json.loads(tokenizer.to_str())["model"]
    names = [*learned["vocab"], *(f"<0x{b:02X}>" for b in range(256))]
    vocab = {name: i for i, name in enumerate(names)}
    tokenizer.model = models.BPE(vocab, [tuple(pair) for pair in learned["merges"]], byte_fallback=True)
    return _fast(tokenizer)


def _fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """With the special tokens, those of replies and marks, and the chat template."""
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
    tokenizer: PreTrainedTokenizerFast, hidden: int, layers: int, heads: int, vision_hidden: int
) -> Qwen2_5_VLForConditionalGeneration:
    """Random weights scaled by 1 / sqrt(hidden): Hugging Face's 0.02 suits wide models, and trains narrow ones slowly.

    The first two layers start with induction heads: see `mobilerl.induction`.

    Head size `hidden / heads` must be a multiple of 8 (three rotary sections).
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
            "depth": 1,
            "hidden_size": vision_hidden,
            "intermediate_size": 2 * vision_hidden,
            "num_heads": 2,
            "out_hidden_size": hidden,
            "fullatt_block_indexes": [0],
        },
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    model = Qwen2_5_VLForConditionalGeneration(config)
    init_induction_heads(model)
    return model


def create(
    path: Path,
    corpus: Iterable[str],
    hidden: int = 128,
    layers: int = 4,
    heads: int = 4,
    vision_hidden: int = 32,
    max_pixels: int = 8 * 28 * 28,
    subwords: bool = False,
) -> None:
    """Writes an untrained checkpoint folder that Hugging Face can load."""
    tokenizer = build_subword_tokenizer(corpus) if subwords else build_word_tokenizer(corpus)
    model = build_model(tokenizer, hidden, layers, heads, vision_hidden)
    # Given as `size`: with min_pixels and max_pixels the class would change its own defaults for the whole process.
    processor = Qwen2VLImageProcessorPil(size={"shortest_edge": 4 * 28 * 28, "longest_edge": max_pixels})
    model.save_pretrained(path)
    Codec(tokenizer, processor, model.config).save(path)
