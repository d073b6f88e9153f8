"""Spells apart what a tokenizer or the reply grammar would take for more than text, and takes out what cannot be sent.

There are two rules, for a message as a whole holds tags and marks that belong there: an earlier reply its `<answer>`,
a screen its `name<7>`. Text of others, from an app or from an agent that is judged, is cleaned of these as well before
it becomes part of a message.
"""

from __future__ import annotations

import json
import re

_TOKEN_OR_TAG = re.compile(r"<(?=\||/?\w+>)")


def without_tokens_and_tags(text: str) -> str:
    """Text of others: a label reading "<|image_pad|>" would otherwise become a token, and "<7>" a mark."""
    return _TOKEN_OR_TAG.sub("< ", text)


def without_tokens(text: str) -> str:
    """A whole message, whose tags stay. A false image token makes a processor miscount the images."""
    return encodable(text).replace("<|", "< |").replace("<image>", "< image>")


def harmless(text: str) -> str:
    """Text of others that nobody has cleaned yet."""
    return without_tokens_and_tags(encodable(text))


def quoted(text: str) -> str:
    """Text of others on one line and in quotes, so that it cannot pass for a part of the prompt around it."""
    return json.dumps(harmless(text), ensure_ascii=False)


def encodable(text: str) -> str:
    """With "?" for every lone surrogate: JSON can name half an emoji, UTF-8 cannot carry it.

    A server may cut an emoji in two. Kept, its half would make each later request, file or tokenizer raise.
    """
    return text.encode("utf-8", "replace").decode()
