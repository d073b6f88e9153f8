"""The model: what it reads and writes, what holds its weights, and where."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mobilerl.config.types import Count, Positive, Rate, Section, Share


class AgentSection(Section):
    """What the model reads and writes. Saved with every checkpoint, so that evaluation uses what training used."""

    grounding: Literal["box", "point", "mark"] = "mark"
    """How an action names its place: a `box` or a `point` in thousandths of the screen, or the number of a `mark`
    (MobileRL: box)."""
    layout: Literal["chat", "compact"] = "compact"
    """`chat`: earlier turns as messages (MobileRL). `compact`: one message, for small models."""
    screen_style: Literal["mobilerl", "marks", "none"] = "marks"
    """How the screen is told in words: `mobilerl` as MobileRL compresses it, `marks` as numbered elements, `none` not
    at all."""
    screenshots: Count = 1
    """Newest screenshots that are shown, the current one included (MobileRL: 2). Unit: pictures."""
    history_thoughts: bool = False
    """Whether earlier replies keep their thoughts (MobileRL: true)."""
    history_steps: Count | None = None
    """Earlier turns that are told as text; null for all of them."""
    system_prompt: str | None = None
    """In place of the default of the grounding; null for the default."""
    max_new_tokens: Positive = 32
    """Longest reply (MobileRL: 4096)."""
    max_invalid: Positive = 3
    """Unreadable actions in a row that end an episode."""
    deadline_s: Rate = 300.0
    """Seconds an episode may take before its device counts as failed."""

    @model_validator(mode="after")
    def _marks_need_marks(self) -> AgentSection:
        if self.grounding == "mark" and self.screen_style != "marks":
            raise ValueError('agent.grounding = "mark" needs agent.screen_style = "marks"')
        return self


class TinySection(Section):
    """Shape of the tiny model that is made when there is no checkpoint to start from."""

    hidden: Positive = 128
    """Width of the language model."""
    layers: Positive = 4
    """Layers of the language model."""
    heads: Positive = 4
    """Attention heads; hidden / heads must be a multiple of 8."""
    max_pixels: Positive = 6272
    """Largest screenshot the model sees; larger ones are made smaller."""


class EngineSection(Section):
    """What holds the weights."""

    type: Literal["local", "verl"] = "local"
    """`local`: one process, CPU or one GPU. `verl`: Ray, FSDP and vLLM on the GPUs of [cluster]."""
    sampler: Literal["own", "vllm"] = "own"
    """For `local`: sample with the weights that learn, or in a vLLM process that gets them after every update."""
    learning_rate: Rate = 3e-4
    """Of AdamW, after the warm-up."""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Of AdamW."""
    warmup_steps: Count = 10
    """Optimiser steps over which the learning rate rises from 0."""
    grad_clip: Rate = 1.0
    """Largest norm of a gradient; a larger one is scaled down to it."""
    micro_tokens: Positive = 16384
    """Padded tokens of a micro-batch."""
    max_pixels: Positive | None = None
    """Cap on the pixels of a screenshot; None for the checkpoint's own."""
    recompute: bool = False
    """Keep only the layers' inputs for the backward pass: far less memory, slower updates."""
    lora_rank: Count = 0
    """Rank of LoRA adapters on the language model's linear layers; 0: every weight is trained."""
    threads: Count = 0
    """CPU threads; 0 for all."""
    generate_threads: Count = 0
    """CPU threads while sampling; 0 for `threads`."""


class VllmSection(Section):
    """vLLM where it samples: under engine.type = "verl", or engine.sampler = "vllm"."""

    tensor_parallel: Positive = 1
    """GPUs one copy of the model is spread over."""
    gpu_memory: Share = 0.6
    """Share of a GPU's memory for weights and cache; what learning leaves free where both share a GPU."""
    max_prompt: Positive = 8192
    """Longest prompt, its images' tokens included; a longer one is an error. Unit: tokens."""
    max_sequences: Positive = 256
    """Model calls answered at once by one copy."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Of vLLM's weights; `auto`: what the device multiplies in, bfloat16 on a GPU and float32 on a CPU."""
    eager: bool = False
    """Leave out CUDA graphs: starts faster, runs slower."""
    timeout_s: Rate = 600.0
    """Longest start, weight refresh or model call; beyond it the run ends with its last checkpoint whole."""


class ClusterSection(Section):
    """Where engine.type = "verl" runs: docs/cluster.md."""

    address: str = ""
    """Of the Ray cluster; empty for RAY_ADDRESS's, or one that is started here."""
    nodes: Positive = 1
    """Nodes whose GPUs learn. Unit: nodes."""
    gpus_per_node: Positive = 8
    """GPUs that learn and, unless `rollout_nodes` says otherwise, also sample."""
    rollout_nodes: Count = 0
    """Nodes that only sample, beside the others; 0: every GPU learns and samples in turns."""
    attention: Literal["sdpa", "flash_attention_2"] = "sdpa"
    """Of the forward and backward passes; flash_attention_2 needs the package flash-attn."""
    offload: bool = False
    """Keep parameters and optimiser state in main memory while they are not used."""
    checkpointing: bool = True
    """Recompute activations in the backward pass instead of keeping them."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Of the forward and backward passes; weights and optimiser state are float32."""
    overrides: tuple[str, ...] = ()
    """Settings of verl that have no name here, as name=value; they win over everything."""
    timeout_s: Rate = 1800.0
    """Longest update; beyond it the run ends with its last checkpoint whole."""
