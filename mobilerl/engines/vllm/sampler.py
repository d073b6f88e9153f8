"""The sampler: requests of the local engine's kind, answered by a vLLM process that is kept for the whole run."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from torch import Tensor

from mobilerl.config import ConfigError
from mobilerl.engines.base import EngineError, Request
from mobilerl.engines.codec import Codec
from mobilerl.engines.vllm.installed import check_installed
from mobilerl.engines.vllm.process import CURE, VllmProcess
from mobilerl.engines.vllm.prompts import collapse
from mobilerl.engines.vllm.settings import VllmSettings, engine_arguments, environment
from mobilerl.engines.vllm.weights import write_shards
from mobilerl.records import Completion

COLDEST = 0.01
"""vLLM takes a lower temperature, other than 0, for this one."""


class VllmSampler:
    """Any thread may ask. Calls that are in flight at the same time are sampled together, as vLLM sees fit.

    It has no weights until the first `refresh`.
    """

    def __init__(self, folder: Path, codec: Codec, settings: VllmSettings) -> None:
        """Starts vLLM on the model of the checkpoint in `folder`; ConfigError or EngineError where that fails."""
        check_installed()
        self.codec, self.settings = codec, settings
        self._folder = Path(tempfile.mkdtemp(prefix="mobilerl-vllm-"))
        self._refreshing = threading.Lock()
        start = {
            "engine": engine_arguments(folder, codec, settings),
            "image_token_id": codec.image_token_id,
            "stop_ids": sorted(codec.end_ids),
        }
        self._process = VllmProcess(start, environment(settings), self._folder, settings.timeout_s)
        atexit.register(self.close)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Samples every request; blocks until all are done. ValueError for one that vLLM cannot take."""
        return [future.result() for future in [self.submit(r) for r in requests]]

    def submit(self, request: Request) -> Future[Completion]:
        """Does not block. The future ends in any case: with an EngineError after `timeout_s` at the latest."""
        sampling = request.sampling
        if 0 < sampling.temperature < COLDEST:
            raise ConfigError(f"vLLM samples at no temperature between 0 and {COLDEST}; use 0, or a higher one")
        if len(request.prompt_ids) > self.settings.max_prompt:
            raise ConfigError(f"a prompt has {len(request.prompt_ids)} tokens, more than vllm.max_prompt = "
                              f"{self.settings.max_prompt}; raise it, or show less of a screen")  # fmt: skip
        places = collapse(request.prompt_ids, self.codec.image_token_id).count(self.codec.image_token_id)
        if places != len(request.images):
            raise ValueError(f"the prompt has {places} image placeholders but {len(request.images)} images were given")
        pictures = [self.codec.picture(png) for png in request.images]
        message = {
            "prompt_ids": request.prompt_ids, "temperature": sampling.temperature,
            "max_tokens": sampling.max_new_tokens, "sizes": [p.size for p in pictures],
        }  # fmt: skip
        done: Future[Completion] = Future()
        done.set_running_or_notify_cancel()
        answer = self._process.ask("generate", message, [p.tobytes() for p in pictures])
        answer.add_done_callback(lambda said: self._finish(request, said, done))
        return done

    def _finish(self, request: Request, said: Future[dict[str, Any]], done: Future[Completion]) -> None:
        try:
            answer = said.result()
            ids = tuple(answer["token_ids"])
            text = self.codec.decode(ids)
            done.set_result(Completion(request.prompt_ids, ids, tuple(answer["logprobs"]), answer["version"], text))
        except Exception as error:  # handed on, never swallowed: whoever asked raises it
            done.set_exception(error)

    def refresh(self, weights: Iterable[tuple[str, Tensor]] | Path, version: int) -> None:
        """Swaps vLLM's weights for those given, by their Hugging Face names, or those of a safetensors file.

        Blocks until requests made after it are sure to be sampled with them. Requests in flight are sampled with the
        weights they began with. After an EngineError the process is gone: half of its weights may have been new.
        """
        with self._refreshing, tempfile.TemporaryDirectory(dir=self._folder) as folder:
            paths = [str(weights)] if isinstance(weights, Path) else write_shards(weights, Path(folder))
            try:
                self._process.ask("refresh", {"paths": paths, "version": version}).result()
            except ValueError as error:
                reason = (
                    f"vLLM did not take the weights of version {version} ({error}; log: {self._process.log}); {CURE}"
                )
                self._process.fail(reason)
                raise EngineError(reason) from None

    def close(self) -> None:
        """Ends vLLM. May be called more than once. The log of one that failed is kept."""
        atexit.unregister(self.close)
        if self._process.close():
            shutil.rmtree(self._folder, ignore_errors=True)
