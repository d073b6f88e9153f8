"""From rewards to advantages to a loss; replay and curriculum."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mobilerl.config.types import Count, Positive, Rate, Section, Share, Weight


class CreditSection(Section):
    """From rewards to advantages."""

    type: Literal["group_relative", "success", "values"] = "group_relative"
    """`group_relative`: GRPO's. `success`: 1 for successes; the rest is left out (Filtered BC). `values`: of value
    functions, which judge the whole replay anew in each iteration (`algorithm.critic`)."""
    spa: bool = True
    """Shortest-path adjustment of the reward."""
    spa_alpha: Share = 1.0
    """Strength of the shortest-path adjustment: R = 1 - alpha (T - T_min) / T (MobileRL, shortest-path adjustment;
    alpha is not published)."""
    normalize_std: bool = True
    """Divide advantages by the group's standard deviation (GRPO)."""
    drop_constant_groups: bool = True
    """Leave out groups whose rewards are all equal, and collect others in their place."""
    max_refills: Count = 1
    """Extra rounds of collection per iteration to replace dropped groups."""


class LossSection(Section):
    """From advantages to a loss."""

    type: Literal["clipped", "imitation", "aride"] = "clipped"
    """`imitation`: maximum likelihood of the rows, weighted by their advantage (DigiRL eq. 4.1, 4.2). `aride`:
    off-policy, with importance ratios of whole actions (DistRL eq. 1)."""
    clip_low: Share = 0.2
    """Width of the clip below a ratio of 1 (GRPO, DAPO: 0.2)."""
    clip_high: Annotated[float, Field(ge=0.0)] = 0.28
    """Width of the clip above a ratio of 1; wider than `clip_low` is clip-higher (DAPO: 0.28)."""
    kl_coef: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the k3 divergence from the policy training began with (`clipped`)."""
    is_cap: Rate | None = 2.0
    """Largest importance weight between rollout and trainer; null switches the correction off."""
    ratio_cap: Rate | None = 1.0
    """Largest importance ratio of an action (`aride`); null leaves it as it is."""
    entropy_coef: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the bonus for unlikely actions (`aride`)."""
    recompute_old: bool = False
    """Clip against log-probabilities recomputed by the trainer instead of those of the rollout."""
    agg: Literal["token-mean", "row-mean", "trajectory-mean"] = "trajectory-mean"
    """What weighs the same in a mini-batch: tokens, rows (model calls), or trajectories."""


class ReplaySection(Section):
    """Trajectories that are kept to be learned from again."""

    type: Literal["adapr", "circular", "prioritized", "none"] = "adapr"
    """`adapr`: the best successes (MobileRL). `circular`: the newest trajectories, successes and failures.
    `prioritized`: the same, drawn from by priority (DPER of DistRL)."""
    capacity: Positive = 512
    """Trajectories."""
    kappa: Positive = 32
    """Best successes of an iteration that enter."""
    gamma: Share = 0.25
    """Largest replayed share of a mini-batch; 1 only with `train.updates`, which draws from the replay alone."""
    max_age: Positive | None = 20
    """Iterations a trajectory is kept at most (`adapr`); null: until it is pushed out."""
    order: Literal["top", "uniform"] = "top"
    """Which trajectories are drawn: `top` prefers high advantages (MobileRL), `uniform` none (`adapr`)."""
    alpha: Annotated[float, Field(ge=0.0)] = 0.5
    """How much priorities matter (`prioritized`): 0 draws uniformly, 1 in proportion to them."""
    priority_weights: tuple[Weight, Weight, Weight] = (1.0, 0.5, 0.5)
    """Of mean |delta|, mean ratio and mean entropy in a trajectory's priority (`prioritized`)."""


class CurriculumSection(Section):
    """Which tasks are sampled."""

    type: Literal["fcf", "uniform", "instruction_value"] = "fcf"
    """`fcf`: failure curriculum filtering (MobileRL). `instruction_value`: tasks that are solved about half of the time
    come more often (after DigiRL's instruction filter)."""
    by: Literal["task", "template"] = "template"
    """What is judged, cooled down and removed: single tasks, or templates with all their instances."""
    epoch_groups: Positive | None = None
    """Groups that make an epoch; null for as many as there are training tasks."""
    patience: Positive = 2
    """Epochs in a row without a success before a task cools down (MobileRL: 2)."""
    cooldown: Count = 3
    """Epochs a task is sampled with weight exp(-failed epochs) before it is removed (MobileRL: 3)."""
    revisit_every: Positive | None = None
    """Epochs between probes of a removed task; null: it is removed for good (MobileRL)."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Share of the tasks that are preferred; the others have weight 0.2 (`instruction_value`)."""


class CriticSection(Section):
    """Value functions on frozen features of the first policy's vision tower and text embedding."""

    type: Literal["none", "digirl", "distrl"] = "none"
    """`digirl`: values of steps and of instructions (DigiRL eq. 4.5, 4.6). `distrl`: of states and trajectories
    (DistRL)."""
    learning_rate: Rate = 3e-3
    """Of the value functions (DigiRL: 3e-3)."""
    grad_clip: Rate = 0.01
    """Largest norm of a gradient (DigiRL, DistRL)."""
    updates: Positive = 20
    """Steps of each value function per iteration."""
    offline_updates: Positive = 400
    """Steps of each value function on stored trajectories."""


class DigirlSection(Section):
    """What the policy imitates (`algorithm.critic.type = "digirl"`)."""

    lam: Share = 0.5
    """lambda of the step advantage (eq. 4.3): on successes 1 gives the Monte-Carlo part alone, 0 the one-step part."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    """Share of the trajectories that pass the instruction filter, successes only; 1 for every success."""
    filter: Literal["hard", "soft"] = "hard"
    """`hard`: rows of advantage above 1/H count 1, others 0 (eq. 4.2). `soft`: every row counts exp(A / beta), without
    the instruction filter (eq. 4.1)."""
    beta: Rate = 0.2
    """Temperature of the soft weights, in units of advantage."""


class DistrlSection(Section):
    """Advantages of A-RIDE (`algorithm.critic.type = "distrl"`)."""

    gamma: Share = 0.9
    """Discount per step."""
    retrace: bool = True
    """Correct the targets of the state value for the age of the data; false: the label 1[G > 0]."""
    lam: Share = 0.95
    """lambda of Retrace."""
    reward: Literal["mc", "td"] = "mc"
    """What the one-step advantage counts as the reward of a step: the return to the end (the paper), or its own."""
    trajectory_top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.8
    """Share of the trajectories, those of the highest trajectory value, that are learned from."""
    per_repeat: Weight = 0.1
    """Penalty of the first immediate repeat of an action; each further one adds as much."""
    repeat_cap: Weight = 0.4
    """Largest penalty of repeats (DistRL; its size is not published)."""
    per_invalid: Weight = 1.0
    """Penalty of an action that could not be carried out."""


class AlgorithmSection(Section):
    """From trajectories to updates."""

    credit: CreditSection = CreditSection()
    loss: LossSection = LossSection()
    replay: ReplaySection = ReplaySection()
    curriculum: CurriculumSection = CurriculumSection()
    critic: CriticSection = CriticSection()
    digirl: DigirlSection = DigirlSection()
    distrl: DistrlSection = DistrlSection()

    @model_validator(mode="after")
    def _pieces_fit_together(self) -> AlgorithmSection:
        critic, replay = self.critic.type, self.replay.type
        if (critic != "none") != (self.credit.type == "values"):
            raise ValueError('algorithm.credit.type = "values" and algorithm.critic.type belong together: set both')
        if critic != "none" and replay not in ("circular", "prioritized"):
            raise ValueError(f'algorithm.critic.type = "{critic}" judges what a replay of type "circular" or '
                             '"prioritized" holds: set algorithm.replay.type')  # fmt: skip
        if replay == "prioritized" and critic != "distrl":
            raise ValueError('algorithm.replay.type = "prioritized" draws by what algorithm.critic.type = "distrl" '
                             "measures: set it")  # fmt: skip
        wanted = {"digirl": "imitation", "distrl": "aride"}.get(critic)
        if wanted and self.loss.type != wanted:
            raise ValueError(f'algorithm.critic.type = "{critic}" needs algorithm.loss.type = "{wanted}"')
        if self.loss.type == "imitation" and self.credit.type == "group_relative":
            raise ValueError('algorithm.loss.type = "imitation" weighs rows, and group-relative advantages can be '
                             'negative: set algorithm.credit.type to "success" or "values"')  # fmt: skip
        if self.loss.kl_coef and self.loss.type != "clipped":
            raise ValueError(f'algorithm.loss.kl_coef has no part in algorithm.loss.type = "{self.loss.type}": set it '
                             "to 0")  # fmt: skip
        if self.loss.recompute_old and self.loss.type != "clipped":
            raise ValueError(f'algorithm.loss.recompute_old has no part in algorithm.loss.type = "{self.loss.type}": '
                             "set it to false")  # fmt: skip
        if not any(self.replay.priority_weights):
            raise ValueError("algorithm.replay.priority_weights must not all be 0")
        return self
