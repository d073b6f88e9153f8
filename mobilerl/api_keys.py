"""The keys of model servers, which are read from the environment and written nowhere."""

from __future__ import annotations

import os

from mobilerl.config import ConfigError


def api_key(variable: str = "OPENAI_API_KEY") -> str:
    """The key in an environment variable; "none" where it has none, as a server without keys takes any.

    ConfigError for what no header can carry: the HTTP library would repeat it, and with it the key, in its message.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{variable} holds characters that no API key has, such as a line break: set it again")
    return key or "none"
