"""Start and end of vLLM's processes, and calls to them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from mobilerl.inference.requests import CLOSE_S
from mobilerl.inference.vllm_adapter import ADAPTER_ID, ADAPTER_NAME
from mobilerl.inference.vllm_arguments import VllmSettings, check_names, engine_arguments, set_environment
from mobilerl.models.checkpoint_folder import one_line
from mobilerl.models.codec import Codec
from mobilerl.records.engine import EngineError
from mobilerl.system.child_processes import JOB_SIGNALS, signals_held

T = TypeVar("T")
ALIVE_S = 1.0
"""Seconds between looks at whether vLLM is alive."""


def start(folder: Path, codec: Codec, settings: VllmSettings) -> Any:
    """vLLM's `AsyncLLM` of the checkpoint `folder`. Raises EngineError, and ConfigError for wrong `vllm.overrides`."""
    set_environment(settings)
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    check_names(settings.vllm.overrides, {field.name for field in fields(AsyncEngineArgs)})
    try:
        with signals_held(*JOB_SIGNALS):  # only the trainer handles them
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**engine_arguments(folder, codec, settings)))
    except Exception as error:  # vLLM raises many types
        fix = 'adapt vllm.* to this machine, or set engine.type = "local"'
        raise EngineError(f"vLLM does not start ({one_line(error)}); {fix}") from error


def applied_adapter(path: str) -> Any:
    """Names the adapter that vLLM has loaded. `path` is gone, so a vLLM that has lost the adapter fails."""
    from vllm.lora.request import LoRARequest

    return LoRARequest(ADAPTER_NAME, ADAPTER_ID, path)


async def answer(engine: Any, call: Coroutine[Any, Any, T], timeout_s: float) -> T:
    """Awaits vLLM's answer to a call, which would never come from a process that has ended.

    Raises EngineError, TimeoutError, or what the call raises.
    """
    task = asyncio.create_task(call)
    async with asyncio.timeout(timeout_s):
        while not (await asyncio.wait({task}, timeout=ALIVE_S))[0]:
            if engine.errored:
                task.cancel()
                raise EngineError("its process has ended")
    return task.result()


async def prepare_end(engine: Any) -> None:
    """Makes vLLM's processes obey its own shutdown, which sends them SIGTERM."""
    if reader := engine.output_handler:  # it would log the end of the engine's process as an error
        reader.cancel()
        await asyncio.wait({reader})
    async with asyncio.timeout(CLOSE_S):
        await engine.collective_rpc("mobilerl_obey_signals")
        if engine.vllm_config.parallel_config.distributed_executor_backend == "mp":
            # Only its workers obey now. The engine's process will be killed, and cannot clean up then.
            await engine.engine_core.call_utility_async("shutdown")
