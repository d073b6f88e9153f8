"""vLLM as the sampler of the local engine. Its engine process lives for the whole run and receives new weights."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig

from mobilerl.config import ConfigError, VllmSection
from mobilerl.inference.requests import CLOSED, RESUME, RequestLoop
from mobilerl.models.adapter_folder import is_adapter
from mobilerl.models.checkpoint_folder import one_line
from mobilerl.models.codec import Codec
from mobilerl.models.hub import base_folder
from mobilerl.models.loading import compute_dtype
from mobilerl.records import Completion
from mobilerl.records.engine import EngineError, Request
from mobilerl.system.child_processes import interrupts_held

MIN_TEMPERATURE = 0.01
"""Lowest temperature besides 0 that vLLM supports; it raises lower ones to this value."""
ROUNDED_UP = 64
"""Tokens in a row and a column of an image that is small enough to be rounded up."""
MEMORY = Path("/dev/shm")
SHARD_BYTES = 1 << 30
"""Size of the weight shards that are copied to main memory at a time."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """`max_new_tokens` is per request; `threads` are CPU threads of a worker without a GPU (0 for vLLM's default)."""

    vllm: VllmSection
    max_new_tokens: int = 64
    max_images: int = 1
    seed: int = 0
    threads: int = 0


class VllmSampler:
    """Samples with vLLM, which batches the running requests. Thread-safe; has no weights until the first `refresh`."""

    def __init__(self, folder: Path, codec: Codec, settings: VllmSettings) -> None:
        """Starts vLLM with the architecture of the checkpoint `folder`. Raises EngineError if it does not start."""
        self.codec, self.settings = codec, settings
        self._version, self._refreshes, self._asleep = -1, 0, False
        self._numbers = itertools.count()
        self._refreshing = threading.Lock()
        self._engine = _start(folder, codec, settings)
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
        placeholders = collapse(request.prompt_ids, image).count(image)
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
            async for output in self._engine.generate(prompt, params, str(next(self._numbers))):
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
            try:
                self._requests.run(self._engine.sleep(level=2))  # level 2 drops the weights, since new ones will come
            except Exception as error:  # vLLM raises many types
                raise self._failure(f"vLLM did not free its memory ({one_line(error)})") from error
            self._asleep = True

    def _failure(self, what: str) -> EngineError:
        """Shuts vLLM down, since it cannot be used any more, and returns the error to raise."""
        failure = EngineError(f"{what}; {RESUME}")
        self._requests.fail(failure)
        self._engine.shutdown()
        return failure

    def refresh(self, weights: Iterable[tuple[str, Tensor]], version: int, size: int = 0) -> None:
        """Replaces vLLM's weights by `weights`, about `size` bytes with their Hugging Face names.

        Running requests finish first, with the old weights; later ones use the new weights. After an EngineError vLLM
        cannot be used any more, because it may have a mix of old and new weights.
        """
        with self._refreshing, weights_folder(size) as folder:
            paths = write_shards(weights, Path(folder))
            self._requests.pause()
            try:
                self._requests.run(self._load(paths, version))
            except Exception as error:
                what = f"vLLM did not accept the weights of version {version} ({one_line(error)})"
                raise self._failure(what) from error
            self._version, self._asleep = version, False
            self._refreshes += 1
            self._requests.resume()

    async def _load(self, paths: Sequence[str], version: int) -> None:
        timeout = self.settings.vllm.timeout_s
        if self._asleep:
            await self._engine.wake_up(["weights"])
        await self._engine.reset_encoder_cache()
        await self._engine.collective_rpc("mobilerl_load_weights", timeout, args=(paths, version))
        loaded = set(await self._engine.collective_rpc("mobilerl_version", timeout))
        if loaded != {version}:
            raise ValueError(f"its workers report version {sorted(loaded)}")
        if self._asleep:
            await self._engine.wake_up(["kv_cache"])

    def close(self) -> None:
        """Shuts vLLM down. It may be called more than once."""
        atexit.unregister(self.close)
        self._requests.fail(CLOSED)
        self._engine.shutdown()
        self._requests.close()


def _start(folder: Path, codec: Codec, settings: VllmSettings) -> Any:
    _set_environment(settings)
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    try:
        with interrupts_held():  # only the trainer handles Ctrl-C
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**engine_arguments(folder, codec, settings)))
    except Exception as error:  # vLLM raises many types
        fix = 'adapt vllm.* to this machine, or set engine.inference = "local"'
        raise EngineError(f"vLLM does not start ({one_line(error)}); {fix}") from error


def _set_environment(settings: VllmSettings) -> None:
    """Sets environment variables for vLLM. The user's own take precedence where vLLM works with other values."""
    os.environ |= {
        "MOBILERL_TRAINER_PID": str(os.getpid()),
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # this process has threads: a fork may hang
        # On a CPU, 1 would start another process, which computes for the engine's.
        "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(torch.cuda.is_available())),
        "VLLM_USE_V2_MODEL_RUNNER": "0",  # the newer one lacks custom logits processors
        "VLLM_ENGINE_READY_TIMEOUT_S": str(int(settings.vllm.timeout_s)),
    }
    defaults = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    if not torch.cuda.is_available():
        # Trainer and sampler take turns on the same cores, so neither may reserve any.
        defaults |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
    if settings.threads:
        defaults["OMP_NUM_THREADS"] = str(settings.threads)
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def engine_arguments(folder: Path, codec: Codec, settings: VllmSettings) -> dict[str, Any]:
    """Keyword arguments of vLLM's `AsyncEngineArgs`."""
    vllm = settings.vllm
    if is_adapter(folder):
        folder = base_folder(folder)
    positions = AutoConfig.from_pretrained(folder).get_text_config().max_position_embeddings
    return {
        "model": str(folder),
        "load_format": "dummy",  # the trainer sends the weights
        "generation_config": "vllm",  # ignore top-p and penalties of the checkpoint
        "logprobs_mode": "processed_logprobs",  # at the temperature, over the allowed tokens
        "worker_extension_cls": "mobilerl.inference.vllm_worker.WeightLoader",
        "logits_processors": ["mobilerl.inference.vllm_worker:BannedTokens"],
        "additional_config": {"mobilerl_banned_ids": list(codec.banned_ids)},
        "mm_processor_kwargs": {"size": image_limits(codec)},
        "limit_mm_per_prompt": {"image": settings.max_images, "video": 0},
        "skip_mm_profiling": not torch.cuda.is_available(),
        "max_model_len": min(vllm.max_prompt + settings.max_new_tokens, positions),
        "max_num_seqs": vllm.max_sequences,
        "tensor_parallel_size": vllm.tensor_parallel,
        "gpu_memory_utilization": vllm.gpu_memory,
        "enable_sleep_mode": vllm.sleep,
        "dtype": str(compute_dtype()).removeprefix("torch."),
        "enforce_eager": not torch.cuda.is_available(),
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "seed": settings.seed,
    }


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


def image_limits(codec: Codec) -> dict[str, int]:
    """Limits with which vLLM's image processor leaves images unchanged, since `Images.scaled` already scaled them.

    An image scaled down to the upper limit may be below the lower one, and small images are rounded up by a row and a
    column of patches.
    """
    processor = codec.image_processor
    frames = processor.temporal_patch_size  # GLM counts a still image's pixels once per frame
    longest = codec.max_pixels * frames if codec.max_pixels else processor.size["longest_edge"]
    return {"shortest_edge": 1, "longest_edge": longest + ROUNDED_UP * frames * codec.merge * processor.patch_size**2}


def collapse(ids: Sequence[int], image_token_id: int) -> list[int]:
    """Reduces a prompt to one placeholder per image, which vLLM expands itself. Images are never adjacent."""
    return [t for i, t in enumerate(ids) if t != image_token_id or i == 0 or ids[i - 1] != image_token_id]


def weights_folder(size: int) -> tempfile.TemporaryDirectory[str]:
    """Temporary folder to pass `size` bytes to another process, in shared memory if there is room."""
    room = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1.2 * size
    return tempfile.TemporaryDirectory(prefix="mobilerl-weights-", dir=MEMORY if room else None)


def write_shards(weights: Iterable[tuple[str, Tensor]], folder: Path, shard_bytes: int = SHARD_BYTES) -> list[str]:
    """Writes safetensors files of about `shard_bytes`; returns their paths."""
    paths: list[str] = []
    shard: dict[str, Tensor] = {}

    def write() -> None:
        paths.append(str(folder / f"{len(paths):05d}.safetensors"))
        save_file(shard, paths[-1])
        shard.clear()

    for name, tensor in weights:
        shard[name] = tensor.detach().to("cpu").contiguous()
        if sum(t.nbytes for t in shard.values()) >= shard_bytes:
            write()
    if shard:
        write()
    return paths


@torch.no_grad()
def checkpoint_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yields all weights of a model, tied ones once. A LoRA adapter is merged without changing its base."""
    if not hasattr(model, "peft_config"):
        yield from model.named_parameters()
        return
    base = model.get_base_model()
    adapted = {name: module for name, module in base.named_modules() if hasattr(module, "get_delta_weight")}
    for name, weight in base.named_parameters():
        owner, _, kind = name.rpartition(".base_layer.")
        if owner in adapted:
            if kind == "weight":
                for adapter in adapted[owner].active_adapters:
                    weight = weight + adapted[owner].get_delta_weight(adapter).to(weight.dtype)
            yield f"{owner}.{kind}", weight
        elif not any(name.startswith(f"{path}.") for path in adapted):
            yield name, weight
