"""Settings of the model: prompts and responses, the engine that trains it, and the hardware it runs on."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import model_validator

from mobilerl.config.marks import RESUMABLE, OnlyWith, UsedBy
from mobilerl.config.types import Count, Positive, Rate, Section, Share

FormatName = Literal[
    "mobilerl",
    "mobilerl-9b",
    "qwen2.5-vl",
    "qwen3-vl",
    "ui-tars",
    "ui-tars-1.5",
    "autoglm",
    "glm-v",
    "glm-4.5v",
    "gui-owl",
    "gui-owl-1.5",
    "mai-ui",
    "ui-venus",
    "ui-venus-1.5",
]
"""Formats of prompts, coordinates and responses: mobilerl's own and those of published models (docs/models.md)."""

OURS = OnlyWith({"agent.format": ("mobilerl", None)})
LEARNS_HERE = OnlyWith({"engine.type": ("local", "vllm")})
VLLM = OnlyWith({"engine.type": ("vllm",)})


class AgentSection(Section):
    """Prompts and responses of the model. Saved with every checkpoint, so that evaluation uses the training
    settings."""

    format: FormatName | None = None
    """Prompt and response format: `mobilerl`, or that of a published model (docs/models.md). null selects the model's
    own if its name is known and none of the settings specific to `mobilerl` is set (`grounding`, `layout`,
    `screen_style`, `history_thoughts`, `random_marks`), else `mobilerl`."""
    grounding: Annotated[Literal["box", "point", "mark"], OURS] = "box"
    """How an action refers to an element: by its `box` or a `point` in thousandths of the screen, or by the number of
    its `mark` (MobileRL: box)."""
    layout: Annotated[Literal["chat", "compact"], OURS] = "chat"
    """Prompt layout: `chat` has earlier turns as messages (MobileRL), `compact` is one message, for small models."""
    screen_style: Annotated[Literal["mobilerl", "marks", "none"], OURS] = "mobilerl"
    """Screen text: compressed as in MobileRL (`mobilerl`), as numbered elements (`marks`), or `none`."""
    screenshots: Count = 1
    """Number of newest screenshots in the prompt, the current one included (MobileRL: 2)."""
    history_thoughts: Annotated[bool, OURS] = False
    """Keep the thoughts of earlier responses in the prompt (MobileRL: true)."""
    history_steps: Count | None = None
    """Number of earlier turns in the prompt as text; null for all."""
    system_prompt: str | None = None
    """System prompt; null for the default of the grounding."""
    random_marks: Annotated[bool, OURS] = False
    """Number the marks of a screen in random order, so that a model cannot count lines instead of reading them."""
    max_new_tokens: Positive = 512
    """Maximum length of a response, in tokens (MobileRL: 4096)."""
    max_invalid: Positive = 3
    """Number of consecutive invalid actions that end an episode."""
    deadline_s: Annotated[Rate, RESUMABLE] = 1800.0
    """Time limit of an episode, in seconds, after which the device counts as failed; it includes waiting for updates
    where sampling and training share a GPU."""

    @model_validator(mode="after")
    def _marks_need_marks(self) -> AgentSection:
        if self.grounding == "mark" and self.screen_style != "marks":
            raise ValueError('agent.grounding = "mark" needs agent.screen_style = "marks"')
        return self


class TinySection(Section):
    """Size of the tiny model that SFT makes where `model` is empty."""

    hidden: Positive = 128
    """Hidden size of the language model; a multiple of 8 times `heads`."""
    layers: Positive = 4
    """Number of its layers."""
    heads: Positive = 4
    """Number of its attention heads."""
    vision_hidden: Positive = 32
    """Hidden size of the vision tower; a multiple of 8."""
    vision_layers: Positive = 1
    """Number of its layers."""
    max_pixels: Positive = 8 * 28 * 28
    """Maximum number of pixels of a screenshot, of which 28 x 28 become one token."""

    @model_validator(mode="after")
    def _heads_divide(self) -> TinySection:
        if self.hidden % (8 * self.heads):
            raise ValueError(f"tiny.hidden must be a multiple of 8 x tiny.heads = {8 * self.heads}")
        if self.vision_hidden % 8:
            raise ValueError("tiny.vision_hidden must be a multiple of 8")
        return self


class EngineSection(Section):
    """The engine, which holds the weights, trains them, and samples from them."""

    type: Annotated[Literal["local", "vllm", "verl"], UsedBy(("train", "sft", "pages"))] = "local"
    """Engine: `local` is one process on a CPU or one GPU, `vllm` is that process and vLLM, which samples and receives
    the weights after every update, `verl` uses Ray, FSDP and vLLM on the GPUs of [cluster]. SFT only samples with it,
    where the policy proposes reasoning: with vLLM if it is `vllm`, else in its own process."""
    micro_batch_tokens: Annotated[Positive | Literal["auto"], RESUMABLE] = 4096
    """Maximum number of tokens in a micro-batch, counted as if its samples were padded to the longest. "auto" takes
    what fits into a GPU's memory, by what the first micro-batch needs; not with engine.type = "verl"."""
    max_pixels: Positive | None = 500_000
    """Maximum number of pixels of a screenshot; null for the checkpoint's own limit."""
    thinking: bool | None = None
    """Thinking switch of the chat template (`enable_thinking` of Qwen3.5 and Qwen3): whether a prompt opens a thought.
    null leaves it as it is. A checkpoint keeps the one it was trained with."""
    gradient_checkpointing: Annotated[bool, RESUMABLE] = True
    """Recompute activations in the backward pass, for much less memory but slower updates."""
    compile: Annotated[bool, LEARNS_HERE, RESUMABLE] = False
    """Compile the layers of the language model with torch.compile for updates, in a minute at the first one."""
    lora_rank: Count = 64
    """Rank of LoRA adapters on the language model's linear layers; 0 trains all weights."""
    freeze_vision: bool = False
    """Keep the vision tower as it is, with its projection into the language model, in SFT and in RL; with `lora_rank`
    above 0 it always is."""
    threads: Annotated[Count, LEARNS_HERE, RESUMABLE] = 0
    """Number of CPU threads; 0 for all cores."""

    @model_validator(mode="after")
    def _verl_needs_a_number(self) -> EngineSection:
        if self.type == "verl" and self.micro_batch_tokens == "auto":
            raise ValueError('engine.micro_batch_tokens = "auto" needs engine.type = "local" or "vllm": give a number')
        return self


class VllmSection(Section):
    """vLLM, if it does the sampling: engine.type = "vllm" or "verl"."""

    tensor_parallel: Annotated[Positive, RESUMABLE] = 1
    """Number of GPUs that each copy of the model is sharded over."""
    gpu_memory: Annotated[Share, RESUMABLE] = 0.5
    """Fraction of GPU memory for vLLM's weights and KV cache; training gets the rest if both share a GPU."""
    sleep: Annotated[bool | None, VLLM, RESUMABLE] = None
    """Free vLLM's GPU memory during updates, for engine.type = "vllm"; verl always does. null for unless episodes go on
    during updates (`rollout.max_staleness`)."""
    max_prompt: Positive = 8192
    """Maximum prompt length in tokens, including image tokens; a longer prompt is an error."""
    max_sequences: Annotated[Positive, RESUMABLE] = 16
    """Maximum number of sequences that each copy of the model generates at once."""
    timeout_s: ClassVar[float] = 1800.0
    """Time limit of a start, a weight update or a request, in seconds, after which the run ends; not a setting."""
    overrides: Annotated[tuple[str, ...], VLLM, RESUMABLE] = ()
    """Further engine arguments of vLLM as name=value; they take precedence over all others."""

    def sleeps(self, max_staleness: int) -> bool:
        """Whether vLLM sleeps during updates, with that `rollout.max_staleness`."""
        return max_staleness == 0 if self.sleep is None else self.sleep


class ClusterSection(Section):
    """The Ray cluster of engine.type = "verl" (docs/cluster.md): RAY_ADDRESS, or one started on this machine."""

    nodes: Positive = 1
    """Number of training nodes."""
    gpus_per_node: Positive = 8
    """Number of GPUs per node. They train and, without `rollout_nodes`, also sample."""
    rollout_nodes: Count = 0
    """Number of additional nodes that only sample; with 0, all GPUs alternate between training and sampling."""
    overrides: tuple[str, ...] = ()
    """Further settings of verl as name=value; they take precedence over all others."""
