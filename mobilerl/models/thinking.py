"""The thinking switch of chat templates: whether a prompt opens a thought, or says that there is none (Qwen3.5)."""

from __future__ import annotations

import re

SWITCH = "enable_thinking"
_SET = re.compile(rf"\A\{{% set {SWITCH} = (?:true|false) %\}}\n")


def with_thinking(template: str, thinking: bool) -> str:
    """A chat template with its switch set, so that all who use it, and a checkpoint that is saved with it, agree.

    Raises ValueError for a template without one.
    """
    own = _SET.sub("", template)
    if SWITCH not in own:
        raise ValueError(f"its chat template has no thinking switch ({SWITCH})")
    return f"{{% set {SWITCH} = {str(thinking).lower()} %}}\n{own}"
