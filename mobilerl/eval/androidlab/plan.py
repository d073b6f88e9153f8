"""What an AndroidLab evaluation plays, and the protocol that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envs.androidlab.checkout import TASKS, Checkout
from envs.androidlab.env import REPEATS, REPEATS_AFTER, LabSettings
from envs.androidlab.judge import Judges
from envs.androidlab.phone import DATE, LOCATION
from envs.androidlab.tasks import LabTask, Skipped
from mobilerl import __version__
from mobilerl.eval.androidlab.answers import AnswerJudge
from mobilerl.eval.androidlab.devices import OpenedPhone
from mobilerl.eval.policies import Player

STEP_S, SETUP_S, JUDGING_S = 60.0, 240.0, 600.0
"""What an episode's deadline allows for: every step beside its pause, the set-up, and the judge."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played and how. `retries`: of an episode whose device failed, on another device if there is one."""

    tasks: tuple[LabTask, ...]
    mode: str
    """`xml`: the model reads the screen's text; `screenshot`: it sees pictures as well."""
    rounds: int = 25
    settings: LabSettings = LabSettings()
    snapshot: str = ""
    retries: int = 3
    max_invalid: int = 3
    skipped: tuple[Skipped, ...] = ()
    """Tasks that were asked for and cannot be used."""

    @property
    def deadline_s(self) -> float:
        return SETUP_S + self.settings.launch_wait_s + self.rounds * (self.settings.interval_s + STEP_S) + JUDGING_S


def protocol_of(checkout: Checkout, plan: Plan, player: Player, phones: Sequence[OpenedPhone], judges: Judges,
                answers: AnswerJudge | None) -> dict[str, Any]:  # fmt: skip
    """Everything that affects the score, in plain JSON values."""
    located = all(opened.located for opened in phones)
    return {
        "mobilerl": __version__,
        "androidlab_commit": checkout.commit,
        "tasks": [task.id for task in plan.tasks],
        "tasks_of_benchmark": f"{len(plan.tasks)} of {TASKS}",
        "mode": plan.mode,
        "rounds": plan.rounds,
        "equal_actions": f"{REPEATS} in a row end an episode of more than {REPEATS_AFTER} steps",
        "interval_s": plan.settings.interval_s,
        "start": "in_app" if plan.settings.launch else "home",
        "launch_wait_s": plan.settings.launch_wait_s if plan.settings.launch else 0.0,
        "clean_state": f"snapshot {plan.snapshot}" if plan.snapshot else "none: tasks see what earlier ones left",
        "date": f"{DATE} 12:00; the device's own for map.me",
        "location": LOCATION if located else "the device's own",
        "screen": sorted({opened.screen for opened in phones}),
        "type_action": "replaces the text, no Enter",
        "judge_trees": "of the checkout" if judges.own_trees else "mobilerl's version 1",
        "deadline_s": plan.deadline_s,
        "max_invalid": plan.max_invalid,
        "retries": plan.retries,
        **(answers.protocol() if answers else {"judge.model": None}),
        **player.protocol,
    }
