"""The engine of many GPUs: verl's workers learn, verl's vLLM servers sample, our loop drives both."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import ray
from verl.checkpoint_engine import CheckpointEngineManager
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.device import get_device_name
from verl.workers.rollout.llm_server import LLMServerManager

from mobilerl.config import Recipe
from mobilerl.engines.base import EngineError, Objective, Request
from mobilerl.engines.codec import Codec
from mobilerl.engines.loading import ADAPTER_FILE
from mobilerl.engines.scoring import BatchTensors, add_metrics, warmed_up
from mobilerl.engines.verl.cluster import Cluster
from mobilerl.engines.verl.config import verl_config
from mobilerl.engines.verl.serving import CURE, Servers, one_line
from mobilerl.engines.verl.sharding import shards
from mobilerl.engines.verl.worker import PolicyWorker, Scoring, Work
from mobilerl.records import Batch, Completion, Row

SHARDS_FOLDER = "shards"
STATE_FILE = "verl.json"
T = TypeVar("T")


class State(Enum):
    UNSENT = "unsent"
    """The servers do not have the weights: none were sent yet, or others were loaded."""
    SERVING = "serving"
    LEARNING = "learning"
    """Requests wait for `publish`."""


class VerlEngine:
    """Weights sharded over the GPUs of a Ray cluster; `generate` and `submit` go to vLLM servers on them.

    Where learning and sampling share the GPUs, requests wait while the weights move: from the first `update` or
    `logprobs` of an iteration until `publish`. Episodes go on acting meanwhile as far as they can without a new reply.
    """

    def __init__(self, model: Path, recipe: Recipe, reference: bool) -> None:
        self.recipe = recipe
        self.version = 0
        self.steps = 0
        self.servers: Servers | None = None
        self._state = State.UNSENT
        self._moving = threading.Lock()
        """Held while weights or memory pass between workers and servers."""
        self.codec = Codec.load(model, recipe.engine.max_pixels)
        self.cluster = Cluster.join(recipe.cluster)
        try:
            self._start(model, reference)
        except BaseException:
            self.cluster.leave()
            raise

    def _start(self, model: Path, reference: bool) -> None:
        recipe, timeout = self.recipe, self.recipe.vllm.timeout_s
        config = verl_config(model, self.codec, recipe, reference, get_device_name())
        shared = recipe.cluster.rollout_nodes == 0
        # Of an adapter the workers keep the first weights themselves.
        copy = reference and not (recipe.engine.lora_rank or (model / ADAPTER_FILE).is_file())
        role = "actor_rollout_ref" if copy else "actor_rollout" if shared else "actor"
        scoring = Scoring(str(model.resolve()), recipe.collect.temperature, recipe.engine.max_pixels)
        pool = RayResourcePool([recipe.cluster.gpus_per_node] * recipe.cluster.nodes, use_gpu=True)
        worker = RayClassWithInitArgs(
            ray.remote(PolicyWorker), config=config.actor_rollout_ref, role=role, scoring=scoring
        )
        self.workers = self._within(
            "starting the workers", partial(RayWorkerGroup, pool, worker, device_name=config.trainer.device)
        )
        self._wait(self.workers.execute_all_async("init_model"), timeout, "loading the model")
        manager = self._within(
            "starting the vLLM servers",
            partial(LLMServerManager.create, config, worker_group=self.workers if shared else None),
        )
        transfer = omega_conf_to_dataclass(config.actor_rollout_ref.rollout.checkpoint_engine)
        self.transfer = CheckpointEngineManager(transfer, self.workers, manager.get_replicas())
        self._shared = shared
        self._hands_over = config.actor_rollout_ref.rollout.free_cache_engine
        self.servers = Servers(manager.get_client(), self.codec, timeout)
        if self._hands_over:
            self._within("freeing the vLLM servers' memory", self.transfer.sleep_replicas)

    # --- sampling --------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> Future[Completion]:
        """Starts sampling one request; the first one sends the weights. Servers batch what is running by themselves."""
        limit = self.recipe.vllm.max_prompt
        if len(request.prompt_ids) > limit:
            raise EngineError(
                f"a prompt has {len(request.prompt_ids)} tokens, more than vllm.max_prompt = {limit}: raise that, or "
                "lower engine.max_pixels, agent.screenshots or agent.history_steps"
            )
        if self._state is State.UNSENT:
            with self._moving:
                if self._state is State.UNSENT:  # else another thread's first request was faster
                    self._send_weights()
        return self.servers.submit(request)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [answer.result() for answer in [self.submit(r) for r in requests]]

    # --- learning --------------------------------------------------------------------------------------------

    def logprobs(self, rows: Sequence[Row], reference: bool = False) -> list[tuple[float, ...]]:
        self._take_gpus()
        result: list[tuple[float, ...]] = [()] * len(rows)
        split = shards(rows, self.workers.world_size, self.recipe.engine.micro_tokens)
        work = [Work([rows[i] for i in s.index], s.parts, s.counted) for s in split]
        done = self._wait(
            self.workers.score(work, [reference] * len(work)), self.recipe.cluster.timeout_s, "scoring rows"
        )
        for shard, values in zip(split, done, strict=True):
            for i, logprobs in zip(shard.index, values, strict=True):
                result[i] = logprobs
        return result

    def update(self, batch: Batch, objective: Objective, agg: str) -> dict[str, float]:
        self._take_gpus()
        engine = self.recipe.engine
        tensors = BatchTensors.of(batch, agg)
        split = shards(batch.rows, self.workers.world_size, engine.micro_tokens)
        work = [Work([batch.rows[i] for i in s.index], s.parts, s.counted, tensors.take(s.index)) for s in split]
        rate = warmed_up(engine.learning_rate, self.steps + 1, engine.warmup_steps)
        done = self._wait(
            self.workers.learn(work, [objective] * len(work), [rate] * len(work)),
            self.recipe.cluster.timeout_s, "an optimiser step",
        )  # fmt: skip
        self.steps += 1
        metrics: dict[str, float] = {}
        norm = done[0].pop("grad_norm")
        for part in done:
            part.pop("grad_norm", None)
            add_metrics(metrics, part)
        return {**metrics, "grad_norm": norm}

    def publish(self) -> int:
        self._take_gpus()  # they may not have been needed: there was nothing to learn from
        with self._moving:
            self.version += 1
            self._send_weights()
            return self.version

    # --- who has the GPUs --------------------------------------------------------------------------------------

    def _take_gpus(self) -> None:
        """Before the weights are used: sampling ends where it shares the GPUs, and gives its memory back."""
        with self._moving:
            if not self._shared or self._state is State.LEARNING:
                return
            awake, self._state = self._state is State.SERVING, State.LEARNING
            self._within("ending the model calls that run", self.servers.pause)
            if self._hands_over and awake:
                self._within("freeing the vLLM servers' memory", self.transfer.sleep_replicas)

    def _send_weights(self) -> None:
        """Gives the servers the weights, which they report with every reply as their version, and lets requests in.

        `_moving` must be held.
        """
        self._within("ending the model calls that run", self.servers.pause)
        if self._shared:
            refs = self.workers.update_weights(global_steps=self.version, mode="naive")
            self._wait(refs, self.recipe.vllm.timeout_s, "refreshing the vLLM servers' weights")
        else:
            send = partial(self.transfer.update_weights, self.version)
            self._within("refreshing the vLLM servers' weights", send)
        self._state = State.SERVING
        self.servers.resume()

    def _within(self, what: str, call: Callable[[], T]) -> T:
        """The result of a call that has no time limit of its own."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(call())
            except BaseException as error:  # handed on to the caller
                done.set_exception(error)

        threading.Thread(target=run, name=what, daemon=True).start()
        try:
            return done.result(self.recipe.vllm.timeout_s)
        except TimeoutError as error:
            raise self._failed(f"{what} took longer than vllm.timeout_s = {self.recipe.vllm.timeout_s:g} s") from error
        except ray.exceptions.RayError as error:
            raise self._failed(f"{what} failed ({one_line(error)})") from error

    def _wait(self, refs: Any, timeout_s: float, what: str) -> Any:
        """The results of Ray calls, within a time: a dead process must end the run, not hang it."""
        try:
            return ray.get(refs, timeout=timeout_s)
        except ray.exceptions.GetTimeoutError as error:
            raise self._failed(f"{what} took longer than {timeout_s:g} s") from error
        except ray.exceptions.RayError as error:
            raise self._failed(f"{what} failed ({one_line(error)})") from error

    def _failed(self, what: str) -> EngineError:
        error = EngineError(f"{what}; {CURE}")
        if self.servers is not None:
            self.servers.fail(error)
        return error

    # --- persistence -----------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """A Hugging Face model folder, and beside it every process's shard: `path` must be on storage all nodes see."""
        timeout = self.recipe.cluster.timeout_s
        self._wait(self.workers.save_model(str(path.resolve())), timeout, "saving the model")
        shard = str((path / SHARDS_FOLDER).resolve())
        self._wait(self.workers.execute_all_async("save_checkpoint", shard), timeout, "saving the optimiser's state")
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
            raise ValueError(f"{STATE_FILE} was written by {processes} GPUs but this run has {self.workers.world_size}")
        self._take_gpus()
        shard = str((path / SHARDS_FOLDER).resolve())
        refs = self.workers.execute_all_async("load_checkpoint", shard)
        try:
            self._wait(refs, self.recipe.cluster.timeout_s, "loading the optimiser's state")
        except EngineError as error:
            if isinstance(cause := error.__cause__, ray.exceptions.RayTaskError):
                raise ValueError(f"{SHARDS_FOLDER} cannot be loaded ({one_line(cause)})") from error
            raise  # a worker or a node is gone: nothing is wrong with the folder
        self.version, self.steps, self._state = version, steps, State.UNSENT

    def close(self) -> None:
        """Waits for weights that are on their way; requests that wait or run end with an EngineError."""
        with self._moving:
            self.servers.close()
            self.cluster.leave()
