"""What drivers, workers and servers import before they do anything, except for Ray and what needs it.

Ray reads variables of a worker when its library is loaded. vLLM does without it, unless it is to start Ray actors.
"""

from __future__ import annotations

import importlib
import sys

import setproctitle

MODULES = (
    "torchvision",
    "peft",
    "deepspeed",
    "tensordict",
    "hydra",
    "datasets",
    "vllm.v1.engine.core",
    "vllm.entrypoints.openai.api_server",
    "mobilerl.cli",
    "mobilerl.engines.local",
    "mobilerl.suites.evaluation",
    "mobilerl.training.online",
)

sys.modules["ray"] = None  # type: ignore[assignment]  # importing it fails
for name in MODULES:
    importlib.import_module(name)
del sys.modules["ray"]
# Locates the memory of the title, which it could not do in a fork that has replaced the variables.
setproctitle.getproctitle()
