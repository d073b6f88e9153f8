"""Settings of a run: tasks, collection, training, evaluation, tracking, and SFT."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from mobilerl.config.types import Count, Positive, Rate, Section, Url


class TasksSection(Section):
    """Training tasks: `per_template` instances of every training template."""

    per_template: Positive = 20
    """Instances of every template, each with parameters of its own."""
    templates: tuple[str, ...] = ()
    """Only these templates; empty for all of the training split."""


class CollectSection(Section):
    """Collection of episodes, in groups of one task."""

    tasks_per_iteration: Positive = 32
    """Tasks per iteration; each gives a group of `algorithm.group_size` episodes."""
    temperature: Rate = 1.0
    """Sampling temperature; the trainer computes log-probabilities at the same one."""
    max_staleness: Count = 0
    """Maximum policy versions a trajectory may lag behind; 0 alternates collection and learning. With `workers`, one
    iteration is collected while the previous one is learned from."""
    workers: Count = 0
    """Worker processes that collect, each on one CPU core with its share of the phones; 0 collects in the trainer."""
    max_retries: Count = 3
    """Retries of an episode after a device failed."""
    scorer: Annotated[str, Field(pattern=r"^$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] = ""
    """`module:name` of your own code that gives the rewards in place of the tasks' checks: a function of the trajectory
    and the last observation, or a class as `mobilerl.judge.scorer.Scorer` (docs/guides/reward.md)."""


class TrainSection(Section):
    """Length of a run, its mini-batches and its files."""

    iterations: Positive = 100
    """Maximum iterations: collect, learn, publish."""
    max_minutes: Rate | None = None
    """Time limit in minutes; null for none."""
    max_env_steps: Positive | None = None
    """Budget of environment steps; null for none."""
    mini_batch: Positive = 256
    """Mini-batch size: samples per optimiser step."""
    seed: int = 0
    """Random seed of tasks, sampling and mini-batches."""
    checkpoint_every: Positive = 10
    """Checkpoint interval in iterations."""
    keep_checkpoints: Positive = 2
    """Number of newest checkpoints to keep."""
    trajectories_every: Count = 10
    """Interval in iterations at which trajectories are written; 0 for never."""


class EvalSection(Section):
    """Evaluation while training, on held-out tasks, one greedy episode each and the same ones every time."""

    every: Count = 0
    """Interval in iterations, the start and the end included; 0 for never."""
    instances: Positive = 2
    """Instances of every template (of every held-out part, for generated tasks)."""


class TrackingSection(Section):
    """Where metrics are shown besides metrics.jsonl, and a few of the recorded episodes as pictures."""

    wandb: Literal["off", "offline", "online"] = "off"
    """Mirror metrics.jsonl to Weights & Biases; `offline` keeps it in the run directory. The environment variables
    WANDB_PROJECT and WANDB_NAME override the project `mobilerl` and the run directory's name."""
    tensorboard: bool = False
    """Mirror metrics.jsonl to TensorBoard event files."""
    trackio: bool = False
    """Mirror metrics.jsonl to Trackio's local database, which `trackio show --project mobilerl` displays."""


class SourceSection(Section):
    """A source of recorded demonstrations (docs/data.md)."""

    format: Literal["androidcontrol", "aitw", "mobile3m", "trajectories"]
    """Data format."""
    path: str
    """Folder or file of the recordings."""
    weight: Rate = 1.0
    """Sampling weight relative to the other sources."""


class SftSection(Section):
    """Two-stage supervised fine-tuning: stage 1 without reasoning, stage 2 with reasoning before each action."""

    demos_per_template: Positive = 40
    """Demonstrated instances per training template."""
    reading_samples: Count = 12000
    """Samples of reading pre-training, after 0.4 times as many of copying; 0: none. A given checkpoint skips both. In
    the stages of a tiny model a tenth of the samples are of this kind."""
    goal_samples: Count = 0
    """Samples of goals without screens after them, of generated apps and for a tiny model only; 0: none."""
    sources: tuple[SourceSection, ...] = ()
    """Recorded demonstrations for stage 1, in addition to the phone's own."""
    stage1_epochs: Rate = 1.0
    """Epochs of stage 1."""
    stage2_rounds: Positive = 2
    """Rounds of stage 2: propose reasoning, keep what leads to the expert's action, train."""
    stage2_epochs: Rate = 2.0
    """Epochs of each round of stage 2."""
    candidates: Positive = 1
    """Proposals per expert step."""
    proposer_url: Url = ""
    """OpenAI-compatible endpoint of the first round's proposer; empty: built-in templates."""
    proposer_model: str = ""
    """Name of the model at `proposer_url`."""
    batch_size: Positive = 32
    """Samples (DPO: pairs) per optimiser step, over all processes."""
    learning_rate: Rate = 1e-3
    """Peak learning rate of both stages; it decays to 0 at the end."""
    micro_batch_size: Count = 0
    """Samples per forward pass of a process; 0: its whole share of a batch."""
    processes: Count = 0
    """Processes on this node, one per GPU (torchrun's --nproc-per-node), that train and make demonstrations. 0: the
    main process does both."""
    deepspeed: str = ""
    """zero2, zero3, zero2-offload, zero3-offload, or a DeepSpeed configuration (*.json); empty: plain DDP."""
    nodes: Positive = 1
    """Number of nodes (torchrun's --nnodes); the command is started on each with its `node_rank`."""
    node_rank: Count = 0
    """Rank of this node (torchrun's --node-rank), from 0."""
    rendezvous: str = ""
    """HOST:PORT of node 0 if there are several nodes; the next port is used as well."""

    @model_validator(mode="after")
    def _check_nodes(self) -> SftSection:
        if self.deepspeed and not self.processes:
            raise ValueError("sft.deepspeed needs sft.processes: set it to the number of GPUs of this node")
        if self.node_rank >= self.nodes:
            raise ValueError(f"sft.node_rank must be below sft.nodes = {self.nodes}; it counts from 0")
        if self.nodes > 1 and not self.processes:
            raise ValueError("sft.nodes above 1 needs sft.processes, the number of GPUs of each node")
        if self.nodes > 1 and not re.fullmatch(r".+:\d{1,5}", self.rendezvous):
            raise ValueError("sft.nodes above 1 needs sft.rendezvous = HOST:PORT, an address of node 0")
        return self
