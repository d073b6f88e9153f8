"""The worker on every GPU: verl's worker with our model, log-probabilities and objectives.

verl builds the process group, shards the weights (FSDP2), holds the optimizer, saves and loads shards and sends weights
to the vLLM servers. Log-probabilities are computed by the same function as in the local engine.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule
from verl.single_controller.base.decorator import Dispatch, register
from verl.utils.device import get_device_id
from verl.utils.fsdp_utils import get_init_weight_context_manager
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.config.optimizer import build_optimizer
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import FSDPEngine
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from mobilerl.engines.finite import FirstNonFinite, spoil
from mobilerl.engines.reference import FirstAdapter
from mobilerl.engines.scoring import Metrics, make_micro_batch, response_values, sample_logprobs, with_prepared_images
from mobilerl.engines.verl.config import FROZEN
from mobilerl.models.adapters import add_adapter
from mobilerl.models.codec import Codec
from mobilerl.models.loading import add_lora, freeze_vision, model_class, prepare_model, save_model
from mobilerl.records import TrainingSample
from mobilerl.records.engine import Objective

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

MODEL_TYPE = "mobilerl_policy"
"""Name of `PolicyEngine` in verl's registry."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """Settings with which a worker computes log-probabilities."""

    model: str
    """Checkpoint folder with tokenizer and image processor, visible to every node."""
    temperature: float
    max_pixels: int | None
    thinking: bool | None


@dataclass(frozen=True, slots=True)
class Work:
    """Samples of one process for an optimizer step (with `weights`) or for log-probabilities."""

    rows: list[TrainingSample]
    parts: list[list[int]]
    counted: int
    """Number of parts that count; the rest are computed but ignored."""
    weights: torch.Tensor | None = None
    """(R, L) rows of `sample_weights`, for an optimizer step."""
    version: int = 0
    """Version of the weights being trained."""


@EngineRegistry.register(model_type=MODEL_TYPE, backend=["fsdp2"], device=["cuda", "npu"])
class PolicyEngine(FSDPEngine):
    """verl's FSDP engine with the unmodified Hugging Face model."""

    def _build_module(self) -> torch.nn.Module:
        config = self.model_config.hf_config
        # Tied weights cannot be initialized on the meta device.
        init = get_init_weight_context_manager(use_meta_tensor=not config.tie_word_embeddings, mesh=self.device_mesh)
        with init(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = model_class(config).from_pretrained(
                self.model_config.local_path, dtype=torch.float32, config=config
            )
        prepare_model(module)
        if self.frozen_vision:
            freeze_vision(module)
        shard_with_owner(module)
        if self.model_config.enable_gradient_checkpointing:
            module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return module

    @property
    def frozen_vision(self) -> bool:
        return bool(self.model_config.override_config[FROZEN])

    def _build_optimizer(self, module: torch.nn.Module) -> torch.optim.Optimizer:
        """Leaves a frozen vision tower out; weights that an adapter freezes keep their places in saved states."""
        kept = [p for p in module.parameters() if p.requires_grad or not self.frozen_vision]
        return build_optimizer(kept, self.optimizer_config)

    def _build_fsdp_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Keeps a reference model on the GPU unless `offload_policy` is set; verl would move it to pinned memory."""
        forward_only, self.engine_config.forward_only = self.engine_config.forward_only, False
        try:
            return super()._build_fsdp_module(module)
        finally:
            self.engine_config.forward_only = forward_only

    def accumulate(self, last: bool) -> None:
        """Before a micro-batch: leaves what can be done once per optimizer step to its last one.

        That is the exchange of gradients between the nodes of HSDP and, as configured, their reduction and the release
        of the gathered weights.
        """
        config = self.engine_config
        self.module.set_requires_gradient_sync(last or not config.use_no_sync_for_gradient_accumulation)
        self.module.set_requires_all_reduce(last)
        self.module.set_reshard_after_backward(last or config.reshard_after_forward)

    def release(self) -> None:
        """Frees weights that are still gathered after a forward pass."""
        for module in self.module.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def get_per_tensor_param(self, **options: Any) -> tuple[Iterator[tuple[str, torch.Tensor]], Any]:
        """Sends the servers what they compute with: of float32 weights they would round twice as many bytes."""
        weights, adapter = super().get_per_tensor_param(**options)
        dtype = PrecisionType.to_dtype(self.engine_config.mixed_precision["param_dtype"])
        return ((name, w.to(dtype) if w.is_floating_point() else w) for name, w in weights), adapter

    def _build_lora_module(self, module: PreTrainedModel) -> PeftModel:
        module.enable_input_require_grads()
        if (adapter := self.model_config.lora_adapter_path) is not None:
            return add_adapter(module, Path(adapter))
        return add_lora(module, self.model_config.lora_rank)


def shard_with_owner(module: torch.nn.Module) -> None:
    """Moves position embeddings into plain modules, which FSDP gathers with their parent. verl shards each embedding on
    its own, to be gathered when called, but GLM's vision tower only reads its weight. Weight names do not change."""
    for name, child in list(module.named_modules()):
        owner, _, own = name.rpartition(".")
        if isinstance(child, torch.nn.Embedding) and own == "position_embedding":
            plain = torch.nn.Module()
            plain.weight = child.weight
            setattr(module.get_submodule(owner), own, plain)


class PolicyTrainingWorker(TrainingWorker):
    def __init__(self, config: Any) -> None:
        super().__init__(replace(config, model_type=MODEL_TYPE))


class PolicyWorker(ActorRolloutRefWorker):
    """Trains and, if it shares its GPU with a vLLM server, sends it the weights."""

    actor_worker_cls = PolicyTrainingWorker
    ref_worker_cls = PolicyTrainingWorker

    def __init__(self, config: Any, role: str, scoring: Scoring) -> None:
        super().__init__(config, role)
        self.scoring = scoring
        self.codec = Codec.load(scoring.model, scoring.max_pixels, scoring.thinking)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        super().init_model()
        module = self.actor.engine.module
        if hasattr(module, "peft_config"):
            self._first = FirstAdapter(module)

    @register(dispatch_mode=Dispatch.DP_COMPUTE, blocking=False)
    def learn(self, work: Work, objective: Objective, learning_rate: float) -> tuple[dict[str, float], str]:
        """Runs this process's part of an optimizer step, which verl leaves out if the norm of the gradient is not
        finite. Returns the metrics and the first quantity of this process that is not finite, or ""."""
        engine, watch = self.actor.engine, FirstNonFinite()
        with engine.train_mode():
            engine.optimizer_zero_grad()
            parts = self._backward(engine, work, watch.watching(objective))
            for group in engine.optimizer.param_groups:
                group["lr"] = learning_rate
            watch.gradients(engine.module.named_parameters())  # now, since clipping spreads NaN to all of them
            metrics = parts.total()
            if not math.isfinite(metrics.get("loss", 0.0)):
                spoil(engine.module)
            metrics["grad_norm"] = float(engine.optimizer_step())
        return metrics, watch.name

    def _backward(self, engine: PolicyEngine, work: Work, objective: Objective) -> Metrics:
        """Adds up the gradients of this process's micro-batches; returns the metrics of those that count."""
        assert work.weights is not None  # in an optimizer step
        metrics, processes, final = Metrics(), engine.get_data_parallel_size(), len(work.parts) - 1
        for number, part in enumerate(with_prepared_images(self.codec, work.rows, work.parts)):
            rows = [work.rows[i] for i in part]
            if number in (0, final):
                engine.accumulate(last=number == final)
            logp, mask = self._logp(engine, rows)
            loss, measured = objective(make_micro_batch(rows, work.weights[part], logp, mask, work.version))
            # Gradients are averaged over processes, but the loss is a sum over all of them.
            (loss * (processes if number < work.counted else 0.0)).backward()
            if number < work.counted:
                metrics.add({"loss": loss, **measured})
        return metrics

    @register(dispatch_mode=Dispatch.DP_COMPUTE, blocking=False)
    def score(self, work: Work, reference: bool) -> list[tuple[float, ...]]:
        """Log-probabilities of the response tokens of this process's samples."""
        frozen = reference and self.ref is not None
        engine = (self.ref if frozen else self.actor).engine
        result: list[tuple[float, ...]] = [()] * len(work.rows)
        with torch.no_grad(), engine.eval_mode(), ExitStack() as first:
            if reference and not frozen:
                first.enter_context(self._first.in_place(engine.module))
            for part in with_prepared_images(self.codec, work.rows, work.parts):
                rows = [work.rows[i] for i in part]
                logp, _ = self._logp(engine, rows)
                for i, values in zip(part, response_values(rows, logp), strict=True):
                    result[i] = values
            engine.release()
        return result

    def _logp(self, engine: PolicyEngine, rows: list[TrainingSample]) -> tuple[torch.Tensor, torch.Tensor]:
        return sample_logprobs(engine.module, self.codec, rows, self.scoring.temperature, get_device_id())

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    def save_model(self, folder: str) -> None:
        """Writes a Hugging Face model folder on the first process; all processes help to gather the weights."""
        module = self.actor.engine.module
        state = get_model_state_dict(module, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        if dist.get_rank() == 0:
            # Gathered weights include tied ones twice.
            tied = getattr(module, "all_tied_weights_keys", None) or {}
            save_model(
                module,
                self.codec,
                Path(folder),
                {name: cast("torch.Tensor", t) for name, t in state.items() if name not in tied},
            )
        dist.barrier()
