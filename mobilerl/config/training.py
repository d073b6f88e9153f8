"""Settings of a run: tasks, collection, training, evaluation, tracking, and SFT."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from mobilerl.config.marks import ANY, RESUMABLE, NotWith, OnlyWith, UsedBy
from mobilerl.config.types import Count, Positive, Rate, Section, Share, Url

TRAIN = UsedBy(("train",))


class TasksSection(Section):
    """Training tasks: `per_template` instances of every training template."""

    per_template: Annotated[Positive, NotWith("suite.type", ("androidlab", "instructions"))] = 20
    """Number of instances per template, each with its own parameters."""
    templates: tuple[str, ...] = ()
    """Templates to train on, and to demonstrate in SFT; empty for all of the training split."""
    generated_share: Annotated[float, Field(ge=0.0, lt=1.0), OnlyWith({"suite.type": ("phone",)})] = 0.0
    """Share of the phone's training tasks and demonstrations that are in generated apps instead, so that what was
    learned there is not forgotten; with `templates`, which are the phone's, there are none."""

    @property
    def mixed_share(self) -> float:
        """`generated_share`, or 0 with `templates`."""
        return 0.0 if self.templates else self.generated_share


class RolloutSection(Section):
    """Collection of episodes in groups of the same task."""

    tasks_per_iteration: Positive = 16
    """Number of tasks per iteration, each with a group of `algorithm.group_size` episodes."""
    temperature: Rate = 1.0
    """Sampling temperature; the trainer computes log-probabilities at the same temperature."""
    max_staleness: Count = 0
    """Maximum number of policy versions that a trajectory may lag behind; 0 alternates collection and learning. With
    `workers`, one iteration is collected while the previous one is learned from."""
    workers: Annotated[Count, TRAIN, OnlyWith({"engine.type": ("local",)}), RESUMABLE] = 0
    """Number of rollout workers, each on one CPU core with its share of the phones; 0 collects in the trainer."""
    scorer: Annotated[str, Field(pattern=r"^$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] = ""
    """`module:name` of your own code that computes rewards instead of the tasks' checks: a function of the trajectory
    and the last observation, or a class like `mobilerl.judge.scorer.Scorer` (docs/rewards.md)."""


class TrainSection(Section):
    """Length of a run, checkpoints and trajectories."""

    iterations: Annotated[Positive, TRAIN, RESUMABLE] = 100
    """Maximum number of iterations."""
    max_minutes: Annotated[Rate | None, TRAIN, RESUMABLE] = None
    """Time limit in minutes; null for no limit."""
    max_env_steps: Annotated[Positive | None, TRAIN, RESUMABLE] = None
    """Maximum number of environment steps; null for no limit."""
    max_k3: Annotated[Rate | Literal["auto"] | None, TRAIN, RESUMABLE] = "auto"
    """Largest k3 (estimate of the KL divergence per token) between sampler and learner in the first mini-batch of an
    iteration; above it the run ends, since they compute different policies. `auto` is 0.02 in bfloat16 and 1e-4 in
    float32; null for no limit."""
    seed: int = 0
    """Random seed of tasks, sampling and mini-batches."""
    checkpoint_every: Annotated[Positive, RESUMABLE] = 10
    """Checkpoint interval in iterations."""
    keep_checkpoints: Annotated[Positive, RESUMABLE] = 2
    """Number of newest checkpoints to keep."""
    keep_batches: Annotated[Count, TRAIN, RESUMABLE] = 0
    """Number of newest iterations whose mini-batches are kept, for `mobilerl replay`."""
    trajectories_every: Annotated[Count, RESUMABLE] = 10
    """Interval in iterations at which trajectories are written; 0 for never."""


class EvalSection(Section):
    """Evaluation during training on held-out tasks, with one greedy episode each, always the same tasks."""

    every: Count = 0
    """Interval in iterations; also evaluates at the start and the end. 0 for never."""
    instances: Annotated[Positive, OnlyWith({"eval.every": ANY})] = 2
    """Number of instances per template (for generated tasks, in every held-out part)."""


class TrackingSection(Section):
    """Mirrors of metrics.jsonl, which also show a few of the saved episodes as images."""

    wandb: Literal["off", "offline", "online"] = "off"
    """Mirror metrics.jsonl to Weights & Biases; `offline` logs to the run directory. The environment variables
    WANDB_PROJECT and WANDB_NAME override the project `mobilerl` and the name of the run directory, and WANDB_MODE
    (`offline` or `disabled`) this setting. If the server cannot be reached, the run logs offline. W&B's alerts say that
    the run ended, failed, or skipped optimizer steps."""
    tensorboard: bool = False
    """Mirror metrics.jsonl to TensorBoard event files."""
    prometheus_file: Annotated[str, Field(pattern=r"^$|\.prom$")] = ""
    """File, NAME.prom, for the newest metrics and the state of the run in Prometheus' text format, in the folder of
    node_exporter's textfile collector; empty for none (docs/cluster.md has alert rules)."""


class SourceSection(Section):
    """A source of recorded demonstrations (docs/data.md)."""

    format: Literal["androidcontrol", "aitw", "mobile3m", "trajectories", "jsonl"]
    """Data format; `jsonl` is that of one's own recordings."""
    path: str
    """Folder or file with the recordings."""
    weight: Rate = 1.0
    """Sampling weight relative to the other sources."""
    limit: Positive | None = None
    """Maximum number of steps in an epoch of stage 1; null for all."""
    stage2_limit: Count | None = None
    """Maximum number of steps to propose reasoning for in a round of stage 2; null for those of stage 1."""


class SftSection(Section):
    """Two-stage supervised fine-tuning: stage 1 without reasoning, stage 2 with reasoning before each action."""

    demos_per_template: Count = 40
    """Number of demonstrated instances per training template; 0 to learn from `sources` alone. Suites without experts,
    such as AndroidWorld, have none."""
    popup_rate: Annotated[Share, OnlyWith({"suite.type": ("phone", "generated")})] = 0.0
    """Probability that a pop-up interrupts a demonstration; recorded demonstrations have none."""
    reading_samples: Count = 12000
    """Number of samples of reading pre-training, which follows 0.4 times as many samples of copying; 0 for none. Both
    are skipped if a checkpoint is given. In the stages of a tiny model, a tenth of the samples are of this kind."""
    goal_samples: Annotated[Count, OnlyWith({"suite.type": ("generated", "phone")})] = 0
    """Number of goal samples, which have no screens, for a tiny model; 0 for none."""
    seeing_samples: Annotated[Count, OnlyWith({"agent.screenshots": ANY})] = 0
    """Number of demonstrated screenshots that the vision tower of a tiny model from scratch learns from in seeing
    pre-training; three times as many are described. 0 for none."""
    sources: tuple[SourceSection, ...] = ()
    """Recorded demonstrations, in addition to those of the suite's experts."""
    stage1_epochs: Rate = 1.0
    """Epochs of stage 1."""
    stage2_rounds: Positive = 2
    """Rounds of stage 2: propose reasoning, keep what leads to the expert's action, and train on it."""
    stage2_epochs: Rate = 2.0
    """Epochs of each round of stage 2."""
    candidates: Positive = 8
    """Number of proposals per expert's or recorded step and round, from a model; of templates there is one."""
    proposer_concurrency: Annotated[Positive, RESUMABLE] = 64
    """Maximum number of proposals that are asked for at once."""
    proposer_url: Annotated[Url, RESUMABLE] = ""
    """OpenAI-compatible endpoint of the first round's proposer; empty for built-in templates."""
    proposer_model: Annotated[str, OnlyWith({"sft.proposer_url": ANY})] = ""
    """Name of the model at `proposer_url`."""
    batch_size: Positive = 32
    """Samples per optimizer step, over all processes."""
    learning_rate: Rate = 1e-3
    """Peak learning rate of both stages; it decays to 0 at the end."""
    checkpoint_every: Annotated[Count, RESUMABLE] = 200
    """Interval in optimizer steps, rounded up to a multiple of 5, at which an unfinished stage is saved to be resumed;
    the last one is kept. 0 for never."""
    micro_batch_size: Annotated[Count, RESUMABLE] = 0
    """Samples per forward pass of a process; 0 for its whole share of a batch."""
    processes: Annotated[Count, RESUMABLE] = 0
    """Number of processes on this node, one per GPU (torchrun's --nproc-per-node), that train and make demonstrations;
    with 0 the main process does both. Many demonstrations are made by as many processes as there are cores."""
    deepspeed: str = ""
    """zero2, zero3, zero2-offload, zero3-offload, or a DeepSpeed configuration (*.json); empty for plain DDP."""
    nodes: Annotated[Positive, RESUMABLE] = 1
    """Number of nodes (torchrun's --nnodes); the command is started on each with its `node_rank`."""
    node_rank: Annotated[Count, RESUMABLE] = 0
    """Rank of this node (torchrun's --node-rank), from 0."""
    rendezvous: Annotated[str, RESUMABLE] = ""
    """HOST:PORT of node 0 if there are several nodes; the next port is used too."""

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
