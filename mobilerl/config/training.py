"""A run: its tasks, collection, optimiser steps, evaluation, tracking, and the warm-up before it."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import model_validator

from mobilerl.config.types import Count, Positive, Rate, Section, Share


class TasksSection(Section):
    """Training tasks: `per_template` instances of every training template."""

    per_template: Positive = 20
    """Instances of every template, each with parameters of its own."""
    templates: tuple[str, ...] = ()
    """Only these templates; empty for all of the training split."""


class CollectSection(Section):
    """How episodes are collected: groups of episodes of one task, on the devices of [phone]."""

    tasks_per_iteration: Positive = 32
    """Tasks, and so groups of episodes, of one iteration."""
    group_size: Positive = 8
    """Episodes of a task that are played for one iteration."""
    temperature: Rate = 1.0
    """Of sampling; the trainer takes its log-probabilities at the same."""
    max_staleness: Count = 0
    """Versions a trajectory may be behind; 0 collects and learns in turns. With `workers` one iteration is collected
    while the one before it is learned from."""
    workers: Count = 0
    """Processes that collect, each on one CPU core with its share of the phones; 0: this process does it."""
    max_retries: Count = 3
    """Times an episode is played again after a device failed, before it is given up."""
    min_group: Share = 0.75
    """Share of a group's episodes that must have been played for the group to be used."""
    task_losses: Count = 3
    """Groups of a task lost in a row after which the task is set aside for the rest of the run; 0: never."""


class OfflineSection(Section):
    """Learning from stored trajectories before the first iteration."""

    trajectories: str = ""
    """Run directory that holds them; empty: none."""
    updates: Count = 200
    """Optimiser steps on them."""


class TrainSection(Section):
    """Length of a run, its mini-batches and its files."""

    iterations: Positive = 100
    """Iterations of the run: collect, learn, publish."""
    max_minutes: Rate | None = None
    """Stop after this much time, whatever `iterations` says."""
    max_env_steps: Positive | None = None
    """Stop after this many steps on devices, whatever `iterations` says: what algorithms are compared by."""
    mini_batch: Positive = 256
    """Rows of one optimiser step."""
    updates: Count = 0
    """Optimiser steps of an iteration, on rows drawn from the replay alone; 0: on every fresh row, beside replayed."""
    passes: Positive = 1
    """Times the rows of an iteration are gone through."""
    seed: int = 0
    """Of tasks, sampling and mini-batches."""
    checkpoint_every: Positive = 10
    """Iterations from one checkpoint to the next."""
    keep_checkpoints: Positive = 2
    """Newest checkpoints that are kept."""
    trajectories_every: Count = 10
    """Write the trajectories of every n-th iteration; 0 for none."""
    trajectories_kept: Positive = 64
    """Most trajectories that are written of an iteration."""


class EvalSection(Section):
    """How `mobilerl eval sim` measures a policy, where its own flags do not say."""

    instances: Positive = 6
    """Held-out instances per template."""
    trials: Positive = 1
    """Episodes per instance."""
    pass_k_instances: Count = 2
    """Held-out instances per template that are also sampled `pass_k` times at temperature 1; 0 for none."""
    pass_k: Positive = 8
    """Samples per instance of `mobilerl eval sim --pass-k`."""
    seed: int = 0
    """Of the episodes and of sampling."""


class TrackingSection(Section):
    """Where metrics are shown besides metrics.jsonl."""

    wandb: Literal["off", "offline", "online"] = "off"
    """Mirror metrics.jsonl to Weights & Biases; `offline` keeps it in the run directory."""
    tensorboard: bool = False
    """Mirror metrics.jsonl to TensorBoard event files."""
    project: str = "mobilerl"
    """Name of the project in wandb."""
    name: str = ""
    """Of the run in wandb; empty: the run directory's."""


class SourceSection(Section):
    """A source of recorded demonstrations; docs/data.md describes the formats."""

    format: Literal["androidcontrol", "aitw", "mobile3m", "trajectories"]
    """Format of the recordings."""
    path: str
    """Folder or file of the recordings."""
    weight: Rate = 1.0
    """Share of the samples, relative to the other sources."""
    splits: str = ""
    """The data set's split file; empty: `splits.json` beside the data if there is one, else a hash of the episode."""
    low_level: bool = True
    """Whether instructions for single steps, where the source has them, are samples too."""


class SftSection(Section):
    """Two-stage warm-up. Stage 1 is reasoning-free; stage 2 learns to think before it acts."""

    demos_per_template: Positive = 40
    """Demonstrated instances of every training template."""
    recitals: Positive = 6000
    """Screens to be recited in another order, the first lessons."""
    lessons: Count = 12000
    """Reading lessons for a model that starts from nothing (0: none); a pretrained checkpoint is not given any."""
    lesson_batch: Positive = 16
    """Samples of one optimiser step of the reading lessons."""
    sources: tuple[SourceSection, ...] = ()
    """Recorded demonstrations that stage 1 learns from besides the phone's own."""
    source_steps: Positive = 10000
    """Most samples that are drawn from the sources, all together."""
    single_steps: Count = 1
    """Single-step instructions per demonstrated step (stage 1)."""
    stage1_epochs: Rate = 1.0
    """Times stage 1 goes through its samples."""
    stage2_rounds: Positive = 2
    """Rounds of proposing, keeping what the expert would do, and training."""
    stage2_epochs: Rate = 2.0
    """Times each round of stage 2 goes through its samples."""
    candidates: Positive = 1
    """Candidates per expert step that a proposer is asked for."""
    proposer_url: str = ""
    """OpenAI-compatible endpoint of the first proposer; empty for the built-in thought writer."""
    proposer_model: str = ""
    """Name under which `proposer_url` serves the model."""
    batch_size: Positive = 32
    """Samples of one optimiser step, whatever the number of processes."""
    learning_rate: Rate = 1e-3
    """Of both stages, after the warm-up; it falls to 0 at the end."""
    warmup: Share = 0.05
    """Share of the steps over which the learning rate rises from 0."""
    seed: int = 0
    """Of demonstrations, lessons and the order of samples."""
    micro_batch: Count = 0
    """Samples that a process goes through at once; 0: its whole share of a batch."""
    packing: Count = 0
    """Tokens of a row in which samples stand one after the other; 0: every sample has a row, filled up with padding."""
    attention: Literal["sdpa", "flash_attention_2"] = "sdpa"
    """Attention of the forward and backward passes; flash_attention_2 needs a GPU and the package flash-attn."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them."""
    processes: Count = 0
    """Processes that train on this machine, each on a GPU of its own if there are any; 0: this process does it."""
    deepspeed: str = ""
    """zero2, zero3, zero2-offload, zero3-offload, or a DeepSpeed file (*.json); empty: every process keeps all."""
    nodes: Positive = 1
    """Machines that train together, each started with its own `node_rank`."""
    node_rank: Count = 0
    """Number of this machine, from 0."""
    rendezvous: str = ""
    """HOST:PORT of node 0 where there are several nodes; the port after it is used as well."""

    @model_validator(mode="after")
    def _nodes_fit_together(self) -> SftSection:
        if self.deepspeed and not self.processes:
            raise ValueError("sft.deepspeed needs processes to train in: set sft.processes to the GPUs of this machine")
        if self.node_rank >= self.nodes:
            raise ValueError(f"sft.node_rank counts from 0, so that with sft.nodes = {self.nodes} it is less than that")
        if self.nodes > 1 and not self.processes:
            raise ValueError("sft.nodes above 1 needs sft.processes, the GPUs of each node")
        if self.nodes > 1 and not re.fullmatch(r".+:\d{1,5}", self.rendezvous):
            raise ValueError("sft.nodes above 1 needs sft.rendezvous = HOST:PORT, an address of node 0")
        return self
