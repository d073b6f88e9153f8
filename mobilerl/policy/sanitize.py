"""Escapes text that a tokenizer or the response grammar would mistake for special tokens, tags or marks.

A whole message keeps its own tags and marks (an earlier response's `<answer>`, a screen's `name<7>`). In untrusted
text, from an app or from an agent being judged, these are escaped as well before it becomes part of a message.
"""

from __future__ import annotations

import json
import re

_TOKEN_OR_TAG = re.compile(r"<(?=\||/?\w+>)")


def escape_markup(text: str) -> str:
    """Escapes untrusted text: a label "<|image_pad|>" would otherwise become a token, and "<7>" a mark."""
    return _TOKEN_OR_TAG.sub("< ", text)


def escape_tokens(text: str) -> str:
    """Escapes special tokens in a whole message: an extra image token would make processors miscount the images."""
    return encodable(text).replace("<|", "< |").replace("<image>", "< image>")


def sanitize_text(text: str) -> str:
    """Makes untrusted text encodable and escapes tokens, tags and marks."""
    return escape_markup(encodable(text))


def quote_untrusted(text: str) -> str:
    """Puts untrusted text on one line and in quotes, so that it cannot imitate the prompt around it."""
    return json.dumps(sanitize_text(text), ensure_ascii=False)


def encodable(text: str) -> str:
    """Replaces lone surrogates by "?", since JSON can contain half an emoji but UTF-8 and tokenizers cannot."""
    return text.encode("utf-8", "replace").decode()
