"""The engine for many GPUs: verl's workers train, and verl's vLLM servers sample."""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import ray
from PIL.Image import Image
from verl.checkpoint_engine import CheckpointEngineManager
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.device import get_device_name
from verl.workers.rollout.llm_server import LLMServerManager

from mobilerl.algorithms.losses.aggregation import Aggregation
from mobilerl.engines.scoring import add_metrics, sample_weights, warmup_rate
from mobilerl.engines.verl.cluster import CPUS_PER_GPU, Cluster
from mobilerl.engines.verl.config import VerlSettings, verl_config
from mobilerl.engines.verl.sharding import shards
from mobilerl.engines.verl.worker import PolicyWorker, Scoring, Work
from mobilerl.inference.requests import RESUME, RequestLoop
from mobilerl.inference.vllm import check_prompt_length, check_same_prompt, collapse
from mobilerl.models.adapter_folder import is_adapter
from mobilerl.models.codec import Codec
from mobilerl.records import Completion, TrainingSample
from mobilerl.records.engine import EngineError, Objective, Request, SkippedStep
from mobilerl.system.terminal import announced

SHARDS_FOLDER = "shards"
STATE_FILE = "verl.json"
BANNED_BIAS = -100.0
"""Logit bias of placeholders, the minimum that vLLM allows. verl itself masks ids beyond the last token."""
UPDATE_S = 1800.0
"""Time limit of an update or a checkpoint, in seconds."""
T = TypeVar("T")


class State(Enum):
    UNSENT = "unsent"
    """The servers do not have the current weights."""
    SERVING = "serving"
    TRAINING = "training"
    """The workers use the GPUs; requests wait for `publish`."""


class VerlEngine:
    """Shards the weights over the GPUs of a Ray cluster and samples from vLLM servers.

    If training and sampling share the GPUs, requests wait from the first `update` or `logprobs` of an iteration until
    `publish`.
    """

    def __init__(self, model: Path, settings: VerlSettings, reference: bool) -> None:
        self.settings = settings
        self.version = 0
        self.steps = 0
        self._numbers = itertools.count()
        self.requests: RequestLoop | None = None
        self._state = State.UNSENT
        self._compared = False
        """Whether vLLM was found to read a prompt with images as the trainer does."""
        self._transferring = threading.Lock()
        """Held while weights or memory move between workers and servers."""
        self.codec = Codec.load(model, settings.engine.max_pixels, settings.engine.thinking)
        with announced("joining the Ray cluster"):
            self.cluster = Cluster.join(settings.cluster)
        try:
            self._start(model, reference)
        except BaseException:
            self.cluster.leave()
            raise

    def _start(self, model: Path, reference: bool) -> None:
        settings, timeout = self.settings, self.settings.vllm.timeout_s
        config = verl_config(model, self.codec, settings, reference, get_device_name())
        shared = settings.cluster.rollout_nodes == 0
        # With LoRA the workers keep the initial adapter themselves.
        copy = reference and not (settings.engine.lora_rank or is_adapter(model))
        role = "actor_rollout_ref" if copy else "actor_rollout" if shared else "actor"
        section = settings.engine
        scoring = Scoring(str(model.resolve()), settings.temperature, section.max_pixels, section.thinking)
        # By default verl would reserve ten CPUs per GPU, but each GPU has one process.
        gpus = [settings.cluster.gpus_per_node] * settings.cluster.nodes
        pool = RayResourcePool(gpus, use_gpu=True, max_colocate_count=CPUS_PER_GPU)
        worker = RayClassWithInitArgs(
            ray.remote(PolicyWorker), config=config.actor_rollout_ref, role=role, scoring=scoring
        )
        with announced(f"loading the model on {sum(gpus)} GPUs"):
            self.workers = self._within(
                "starting the workers", partial(RayWorkerGroup, pool, worker, device_name=config.trainer.device)
            )
            self._wait(self.workers.execute_all_async("init_model"), timeout, "loading the model")
        with announced("starting the vLLM servers, which compile and capture CUDA graphs"):
            manager = self._within(
                "starting the vLLM servers",
                partial(LLMServerManager.create, config, worker_group=self.workers if shared else None),
            )
        transfer = omega_conf_to_dataclass(config.actor_rollout_ref.rollout.checkpoint_engine)
        self.transfer = CheckpointEngineManager(transfer, self.workers, manager.get_replicas())
        self._shared = shared
        self._hands_over = config.actor_rollout_ref.rollout.free_cache_engine
        self._client = manager.get_client()
        self.requests = RequestLoop(self._sample, self.codec, timeout)
        if self._hands_over:
            self._within("freeing the vLLM servers' memory", self.transfer.sleep_replicas)

    @property
    def _loop(self) -> RequestLoop:
        assert self.requests is not None  # since the start
        return self.requests

    def submit(self, request: Request) -> Future[Completion]:
        """Starts sampling one request. The first request sends the weights to the servers."""
        check_prompt_length(request, self.settings.vllm)
        if self._state is State.UNSENT:
            with self._transferring:
                if self._state is State.UNSENT:  # another thread may have been faster
                    self._send_weights()
        return self._loop.submit(request)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [answer.result() for answer in [self.submit(r) for r in requests]]

    async def _sample(self, request: Request, images: Sequence[Image]) -> Completion:
        sampling = {
            "temperature": request.sampling.temperature,
            "max_tokens": request.sampling.max_new_tokens,
            "logprobs": True,
            "logit_bias": dict.fromkeys(self.codec.placeholder_ids, BANNED_BIAS),
            "stop_token_ids": list(self.codec.end_ids),
        }
        compare = bool(images) and not self._compared
        if compare:
            sampling["prompt_logprobs"] = 0  # without these verl's server does not return the prompt that it read
        try:
            out = await self._client.generate(
                f"request{next(self._numbers)}",
                prompt_ids=collapse(request.prompt_ids, self.codec.image_token_id),
                image_data=list(images) or None,
                sampling_params=sampling,
            )
        except ray.exceptions.RayError as error:
            raise EngineError(f"a vLLM server failed ({one_line(error)}); {RESUME}") from error
        if compare:
            check_same_prompt(len(out.extra_fields["prompt_ids"]), request)
            self._compared = True
        ids, version = tuple(out.token_ids), out.extra_fields["global_steps"]
        return Completion(request.prompt_ids, ids, tuple(out.log_probs), version, self.codec.decode(ids))

    def logprobs(self, rows: Sequence[TrainingSample], reference: bool = False) -> list[tuple[float, ...]]:
        self._take_gpus()
        result: list[tuple[float, ...]] = [()] * len(rows)
        split = shards(rows, self.workers.world_size, self.settings.micro_batch_tokens)
        work = [Work([rows[i] for i in s.index], s.parts, s.counted) for s in split]
        done = self._wait(self.workers.score(work, [reference] * len(work)), UPDATE_S, "scoring rows")
        for shard, values in zip(split, done, strict=True):
            for i, logprobs in zip(shard.index, values, strict=True):
                result[i] = logprobs
        return result

    def update(
        self, samples: Sequence[TrainingSample], objective: Objective, aggregation: Aggregation
    ) -> dict[str, float]:
        self._take_gpus()
        optimizer = self.settings.optimizer
        weights = sample_weights(samples, aggregation)
        split = shards(samples, self.workers.world_size, self.settings.micro_batch_tokens)
        work = [Work([samples[i] for i in s.index], s.parts, s.counted, weights[s.index], self.version) for s in split]
        rate = warmup_rate(optimizer.learning_rate, self.steps + 1, optimizer.warmup_steps)
        done = self._wait(
            self.workers.learn(work, [objective] * len(work), [rate] * len(work)), UPDATE_S, "an optimizer step"
        )
        norm = done[0][0]["grad_norm"]
        if not math.isfinite(norm):
            raise SkippedStep(next((name for _, name in done if name), "the norm of the gradient"))
        self.steps += 1
        metrics: dict[str, float] = {}
        for part, _ in done:
            part.pop("grad_norm")
            add_metrics(metrics, part)
        return {**metrics, "grad_norm": norm, "learning_rate": rate}

    def publish(self) -> int:
        self._take_gpus()  # there may have been no update
        with self._transferring:
            self.version += 1
            self._send_weights()
            return self.version

    def _take_gpus(self) -> None:
        """Ends sampling and frees its memory if it shares the GPUs. Call it before the workers use the weights."""
        with self._transferring:
            if not self._shared or self._state is State.TRAINING:
                return
            awake, self._state = self._state is State.SERVING, State.TRAINING
            self._within("ending the running model calls", self._loop.pause)
            if self._hands_over and awake:
                self._within("freeing the vLLM servers' memory", self.transfer.sleep_replicas)

    def _send_weights(self) -> None:
        """Sends the weights to the servers and resumes requests. `_transferring` must be held."""
        self._within("ending the running model calls", self._loop.pause)
        if self._shared:
            refs = self.workers.update_weights(global_steps=self.version, mode="naive")
            self._wait(refs, self.settings.vllm.timeout_s, "refreshing the vLLM servers' weights")
        else:
            send = partial(self.transfer.update_weights, self.version)
            self._within("refreshing the vLLM servers' weights", send)
        self._state = State.SERVING
        self._loop.resume()

    def _within(self, what: str, call: Callable[[], T]) -> T:
        """Returns the result of a call that has no timeout of its own. Raises EngineError after `timeout_s`."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(call())
            except BaseException as error:  # raised by the caller
                done.set_exception(error)

        threading.Thread(target=run, name=what, daemon=True).start()
        try:
            return done.result(self.settings.vllm.timeout_s)
        except TimeoutError as error:
            raise self._make_error(f"{what} took longer than {self.settings.vllm.timeout_s:g} s") from error
        except ray.exceptions.RayError as error:
            raise self._make_error(f"{what} failed ({one_line(error)})") from error

    def _wait(self, refs: Any, timeout_s: float, what: str) -> Any:
        """Returns the results of Ray calls. Raises EngineError on a timeout, so that a dead process ends the run."""
        try:
            return ray.get(refs, timeout=timeout_s)
        except ray.exceptions.GetTimeoutError as error:
            raise self._make_error(f"{what} took longer than {timeout_s:g} s") from error
        except ray.exceptions.RayError as error:
            raise self._make_error(f"{what} failed ({one_line(error)})") from error

    def _make_error(self, what: str) -> EngineError:
        error = EngineError(f"{what}; {RESUME}")
        if self.requests is not None:
            self.requests.fail(error)
        return error

    def save(self, path: Path) -> None:
        """Saves a Hugging Face model folder and the shards of all processes. `path` must be visible to all nodes."""
        timeout = UPDATE_S
        self._wait(self.workers.save_model(str(path.resolve())), timeout, "saving the model")
        shard = str((path / SHARDS_FOLDER).resolve())
        self._wait(self.workers.execute_all_async("save_checkpoint", shard), timeout, "saving the optimizer's state")
        state = {"version": self.version, "steps": self.steps, "processes": self.workers.world_size}
        (path / STATE_FILE).write_text(json.dumps(state) + "\n")

    def load(self, path: Path) -> None:
        try:
            state = json.loads((path / STATE_FILE).read_text())
            version, steps, processes = (int(state[name]) for name in ("version", "steps", "processes"))
        except KeyError as error:
            raise ValueError(f"{STATE_FILE} lacks {error}") from error
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{STATE_FILE} cannot be read ({error})") from error
        if processes != self.workers.world_size:
            raise EngineError(  # the folder is fine
                f"{path / STATE_FILE} was written by {processes} GPUs but this run has {self.workers.world_size}: "
                "resume with as many (cluster.nodes x cluster.gpus_per_node), or start a new run from these weights, "
                f"with --model {path} and another --run-dir"
            )
        self._take_gpus()
        shard = str((path / SHARDS_FOLDER).resolve())
        refs = self.workers.execute_all_async("load_checkpoint", shard)
        try:
            self._wait(refs, UPDATE_S, "loading the optimizer's state")
        except EngineError as error:
            if isinstance(cause := error.__cause__, ray.exceptions.RayTaskError):
                raise ValueError(f"{SHARDS_FOLDER} cannot be loaded ({one_line(cause)})") from error
            raise  # a worker or a node failed: the folder is fine
        self.version, self.steps, self._state = version, steps, State.UNSENT

    def close(self) -> None:
        """Closes the engine after a running weight transfer; waiting and running requests raise EngineError."""
        with self._transferring:
            self._loop.close()
            self.cluster.leave()


def one_line(error: BaseException) -> str:
    """Last line of a Ray error, which is the exception itself, after the remote traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__
