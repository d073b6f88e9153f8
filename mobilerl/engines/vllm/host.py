"""The vLLM process: an engine of vLLM's own, and the end of the channel it is asked through.

It is a process of its own and not a part of the run's because vLLM changes the process that it lives in (environment,
threads, library hooks), because one that hangs can then be killed, and because it must end with a run that was killed:
GPU memory that nobody holds would keep the next one from starting.

Run by `VllmSampler` with the channel's file descriptor as its argument.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from mobilerl.engines.vllm.channel import Channel
from mobilerl.engines.vllm.prompts import collapse

SHUTDOWN_S = 10.0
"""For vLLM to end by itself when the run has."""


def main(fd: int) -> None:
    channel = Channel(fd)
    start, _ = channel.receive()
    asyncio.run(_serve(channel, start))


async def _serve(channel: Channel, start: dict[str, Any]) -> None:
    loop, inbox = asyncio.get_running_loop(), asyncio.Queue[tuple[dict[str, Any], list[bytes]] | None]()

    def listen() -> None:
        """Goes on while vLLM starts, so that a run that ends meanwhile is noticed."""
        with suppress(EOFError, OSError):
            while True:
                message = channel.receive()
                loop.call_soon_threadsafe(inbox.put_nowait, message)
        shutil.rmtree(start["folder"], ignore_errors=True)
        loop.call_soon_threadsafe(inbox.put_nowait, None)
        time.sleep(SHUTDOWN_S)
        _end_all()

    threading.Thread(target=listen, daemon=True).start()

    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    engine = await asyncio.to_thread(AsyncLLM.from_engine_args, AsyncEngineArgs(**start["engine"]))
    desk = Desk(engine, start["image_token_id"], start["stop_ids"])
    channel.send({"ready": True})
    tasks: set[asyncio.Task[None]] = set()
    while (received := await inbox.get()) is not None:
        task = asyncio.create_task(_answer(channel, desk, *received))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    engine.shutdown()  # gives shared memory back
    # Its workers may be slow to end. Python's helper that gives back what they leave is in this group too: it takes no
    # SIGTERM, and does its work when all others are gone.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    os._exit(0)


def _end_all() -> None:
    """This process and vLLM's workers, which are of its process group."""
    os.killpg(0, signal.SIGKILL)


async def _answer(channel: Channel, desk: Desk, message: dict[str, Any], blobs: list[bytes]) -> None:
    from vllm.v1.engine.exceptions import EngineDeadError

    try:
        if message["op"] == "refresh":
            said = await desk.refresh(message["paths"], message["version"])
        else:
            said = await desk.generate(message, blobs)
    except EngineDeadError:
        _end_all()  # the log says why; the run notices
    except Exception as error:  # handed on, never swallowed: who asked raises it
        said = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    with suppress(OSError):  # the run is gone: `listen` ends this process
        channel.send({"id": message["id"], **said})


class Desk:
    """Lets requests through to the engine, except while weights are swapped: then none is inside."""

    def __init__(self, engine: Any, image_token_id: int, stop_ids: list[int]) -> None:
        self._engine, self._image, self._stop = engine, image_token_id, stop_ids
        self._version = -1
        self._swaps = 0
        self._inside = 0
        self._changed = asyncio.Condition()
        self._swapping = False

    async def generate(self, message: dict[str, Any], pictures: list[bytes]) -> dict[str, Any]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._swapping)
            self._inside += 1
        try:
            return await self._sample(message, pictures)
        finally:
            async with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    async def _sample(self, message: dict[str, Any], pictures: list[bytes]) -> dict[str, Any]:
        from PIL import Image
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        # Cached attention states are of the weights they were made with: the salt keeps them apart.
        prompt = {"prompt_token_ids": collapse(message["prompt_ids"], self._image), "cache_salt": str(self._swaps)}
        if pictures:
            sizes = map(tuple, message["sizes"])
            prompt["multi_modal_data"] = {
                "image": [Image.frombytes("RGB", size, raw) for size, raw in zip(sizes, pictures, strict=True)]
            }
        params = SamplingParams(
            temperature=message["temperature"], max_tokens=message["max_tokens"], stop_token_ids=self._stop,
            ignore_eos=True, logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip
        async for output in self._engine.generate(prompt, params, message["id"]):
            last = output
        if list(last.prompt_token_ids) != message["prompt_ids"]:
            raise ValueError(
                f"vLLM read a prompt of {len(last.prompt_token_ids)} tokens where the learner has "
                f"{len(message['prompt_ids'])}: its image processor cuts pictures in another way"
            )
        said = last.outputs[0]
        chosen = [at[token].logprob for token, at in zip(said.token_ids, said.logprobs, strict=True)]
        return {"token_ids": list(said.token_ids), "logprobs": chosen, "version": self._version}

    async def refresh(self, paths: list[str], version: int) -> dict[str, Any]:
        """Requests inside end first, others wait. After a failure nothing is let through: the weights may be torn."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._swapping)
            self._swapping = True
            await self._changed.wait_for(lambda: self._inside == 0)
        await self._engine.reset_encoder_cache()
        await self._engine.collective_rpc("mobilerl_load_weights", args=(paths, version))
        reported = set(await self._engine.collective_rpc("mobilerl_version"))
        if reported != {version}:
            raise ValueError(f"vLLM's workers report weights of version {sorted(reported)}, not {version}")
        self._swaps += 1
        self._version = version
        async with self._changed:
            self._swapping = False
            self._changed.notify_all()
        return {"version": version}


if __name__ == "__main__":
    main(int(sys.argv[1]))
