"""vLLM as the sampler of the local engine. Its engine process lives for the whole run and receives new weights."""

from __future__ import annotations

import atexit
import itertools
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch
from PIL.Image import Image
from torch import Tensor

from mobilerl.config import ConfigError, VllmSection
from mobilerl.inference.requests import CLOSED, RESUME, RequestLoop
from mobilerl.inference.vllm_adapter import ADAPTER_NAME, write_adapter
from mobilerl.inference.vllm_arguments import VllmSettings
from mobilerl.inference.vllm_process import answer, applied_adapter, prepare_end, start
from mobilerl.inference.vllm_weights import adapter_folder, make_buckets
from mobilerl.models.checkpoint_folder import one_line
from mobilerl.models.codec import Codec
from mobilerl.records import Completion
from mobilerl.records.engine import EngineError, Request

T = TypeVar("T")
MIN_TEMPERATURE = 0.01
"""Lowest temperature besides 0 that vLLM supports; it raises lower ones to this value."""


class VllmSampler:
    """Samples with vLLM, which batches the running requests. Thread-safe; has no weights until the first `refresh`."""

    def __init__(self, folder: Path, codec: Codec, settings: VllmSettings) -> None:
        """Starts vLLM with the architecture of the checkpoint `folder`. Raises EngineError if it does not start."""
        self.codec, self.settings = codec, settings
        self._version, self._refreshes, self._asleep = -1, 0, False
        self._adapter: Any = None
        """vLLM's name for the adapter that requests are sampled with."""
        self._numbers = itertools.count()
        self._refreshing = threading.Lock()
        self._engine, self._ended = start(folder, codec, settings), False
        self._requests = RequestLoop(self._sample, codec, settings.vllm.timeout_s)
        atexit.register(self.close)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Samples all requests, blocking until they are done."""
        return [future.result() for future in [self.submit(r) for r in requests]]

    def submit(self, request: Request) -> Future[Completion]:
        """Starts sampling. A rejected request raises ConfigError, or ValueError or EngineError through the future."""
        if 0 < request.sampling.temperature < MIN_TEMPERATURE:
            raise ConfigError(f"vLLM has no temperature between 0 and {MIN_TEMPERATURE}: use 0, or a higher one")
        check_prompt_length(request, self.settings.vllm)
        image = self.codec.image_token_id
        placeholders = 0 if image is None else collapse(request.prompt_ids, image).count(image)
        if placeholders != len(request.images):
            raise ValueError(f"the prompt has {placeholders} image placeholders but {len(request.images)} images")
        return self._requests.submit(request)

    async def _sample(self, request: Request, images: Sequence[Image]) -> Completion:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError

        # Cached prefixes belong to the weights that computed them; the salt separates them.
        prompt: dict[str, Any] = {
            "prompt_token_ids": collapse(request.prompt_ids, self.codec.image_token_id),
            "cache_salt": str(self._refreshes),
        }
        if images:
            prompt["multi_modal_data"] = {"image": list(images)}
        params = SamplingParams(
            temperature=request.sampling.temperature,
            max_tokens=request.sampling.max_new_tokens,
            stop_token_ids=sorted(self.codec.end_ids),
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        version = self._version
        try:
            number = str(next(self._numbers))
            async for output in self._engine.generate(prompt, params, number, lora_request=self._adapter):
                last = output
        except EngineDeadError:
            self._requests.fail(EngineError(f"vLLM died (its messages are above); {RESUME}"))
            self._requests.check()
        except Exception as error:  # vLLM raises many types
            raise ValueError(f"vLLM cannot sample a response to this prompt: {one_line(error)}") from error
        check_same_prompt(len(last.prompt_token_ids), request)
        ids = tuple(last.outputs[0].token_ids)
        logprobs = tuple(at[token].logprob for token, at in zip(ids, last.outputs[0].logprobs, strict=True))
        return Completion(request.prompt_ids, ids, logprobs, version, self.codec.decode(ids))

    def sleep(self) -> None:
        """Waits for running requests and frees the GPU memory of weights and cache; others wait for `refresh`."""
        with self._refreshing:
            if self._asleep:
                return
            self._requests.pause()
            # Level 2 drops the weights, since new ones will come. Level 1 copies them to main memory, since only a new
            # adapter will come, and with them vLLM's tables of adapters.
            level = 1 if self.settings.adapter else 2
            try:
                self._call(self._engine.sleep(level=level))
            except Exception as error:  # vLLM raises many types
                raise self._failure(f"vLLM did not free its memory ({one_line(error)})") from error
            self._asleep = True

    def _call(self, call: Coroutine[Any, Any, T]) -> T:
        return self._requests.run(answer(self._engine, call, self.settings.vllm.timeout_s))

    def _failure(self, what: str) -> EngineError:
        """Shuts vLLM down, since it cannot be used any more, and returns the error to raise."""
        failure = EngineError(f"{what}; {RESUME}")
        self._requests.fail(failure)
        self._end()
        return failure

    def adapter_refusal(self, adapter: Mapping[str, Tensor]) -> str:
        """Why vLLM cannot apply an adapter, given by its `adapter_tensors`; empty if it can."""
        with adapter_folder(_bytes(adapter)) as folder:
            path = Path(folder, ADAPTER_NAME)
            write_adapter(adapter, path)
            call = self._engine.collective_rpc("mobilerl_load_adapter", self.settings.vllm.timeout_s, args=(str(path),))
            try:
                return next(filter(None, self._call(call)), "")
            except Exception as error:  # vLLM raises many types
                raise self._failure(f"vLLM did not load the adapter ({one_line(error)})") from error

    def refresh(
        self, weights: Iterable[tuple[str, Tensor]], version: int, adapter: Mapping[str, Tensor] | None = None
    ) -> None:
        """Replaces vLLM's weights by `weights`, with their Hugging Face names.

        With an `adapter` (its `adapter_tensors`), later requests are sampled with it on top of these weights or, if
        there are none, of those that vLLM has; without, on the weights alone.

        Running requests finish first, with the old weights; later ones use the new weights. After an EngineError vLLM
        cannot be used any more, because it may have a mix of old and new weights.
        """
        with self._refreshing, adapter_folder(_bytes(adapter or {})) as folder:
            path = ""
            if adapter is not None:
                write_adapter(adapter, Path(folder, ADAPTER_NAME))
                path = str(Path(folder, ADAPTER_NAME))
            self._requests.pause()
            try:
                self._call(self._load(weights, path, version))
            except Exception as error:
                what = f"vLLM did not accept the weights of version {version} ({one_line(error)})"
                raise self._failure(what) from error
            self._adapter = applied_adapter(path) if path else None
            self._version, self._asleep = version, False
            self._refreshes += 1
            self._requests.resume()

    async def _load(self, weights: Iterable[tuple[str, Tensor]], adapter: str, version: int) -> None:
        engine, vllm = self._engine, self.settings.vllm
        if self._asleep:
            await engine.wake_up(["weights"])
        await engine.reset_encoder_cache()
        for bucket in make_buckets(weights):
            arguments = (bucket.handles(vllm.tensor_parallel), bucket.names, bucket.shapes)
            await engine.collective_rpc("mobilerl_load_bucket", vllm.timeout_s, args=arguments)
        if torch.cuda.is_available():
            torch.cuda.ipc_collect()  # frees the buckets, which vLLM no longer holds
        await engine.collective_rpc("mobilerl_finish", vllm.timeout_s, args=(adapter, version))
        loaded = set(await engine.collective_rpc("mobilerl_version", vllm.timeout_s))
        if loaded != {version}:
            raise ValueError(f"its workers report version {sorted(loaded)}")
        if self._asleep:
            await engine.wake_up(["kv_cache"])

    def close(self) -> None:
        """Shuts vLLM down. It may be called more than once."""
        atexit.unregister(self.close)
        self._requests.fail(CLOSED)
        self._end()
        self._requests.close()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        with suppress(Exception):  # vLLM may be dead, or hang
            self._requests.run(prepare_end(self._engine))
        self._engine.shutdown()


def _bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


def check_prompt_length(request: Request, vllm: VllmSection) -> None:
    """Raises ConfigError for a prompt that is too long for vLLM."""
    if len(request.prompt_ids) > vllm.max_prompt:
        raise ConfigError(
            f"a prompt has {len(request.prompt_ids)} tokens, more than vllm.max_prompt = {vllm.max_prompt}: raise it, "
            "or lower engine.max_pixels, agent.screenshots or agent.history_steps"
        )


def check_same_prompt(length: int, request: Request) -> None:
    """Raises EngineError unless vLLM, which expands placeholders itself, read as many tokens as the trainer will."""
    if length != len(request.prompt_ids):
        raise EngineError(
            f"vLLM read a prompt of {length} tokens where the trainer has {len(request.prompt_ids)}: its image "
            "processor makes other patches"
        )


def collapse(ids: Sequence[int], image_token_id: int | None) -> list[int]:
    """Reduces a prompt to one placeholder per image, which vLLM expands itself. Images are never adjacent."""
    return [t for i, t in enumerate(ids) if t != image_token_id or i == 0 or ids[i - 1] != image_token_id]
