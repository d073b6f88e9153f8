"""What a stage of the warm-up says while it trains."""

from __future__ import annotations

from rich.console import Console
from transformers import TrainerCallback

from mobilerl.train.tracking import Tracker


class Report(TrainerCallback):
    """Passes the Trainer's logs on to metrics.jsonl and to the screen. `offset`: iterations of the stages before."""

    def __init__(self, tracker: Tracker, stage: str, offset: int, console: Console) -> None:
        self.tracker, self.stage, self.offset, self.console = tracker, stage, offset, console

    def on_log(self, args, state, control, logs=None, **_) -> None:  # noqa: ANN001 - the Trainer's own signature
        if not logs or "loss" not in logs:
            return
        self.add(state.global_step, state.max_steps, float(logs["loss"]), float(logs["learning_rate"]))

    def add(self, step: int, max_steps: int, loss: float, learning_rate: float) -> None:
        """Records one report, as rank 0's log has it, too (`sft.rank.LogFile`)."""
        self.tracker.log({"iteration": self.offset + step, "stage": self.stage, "sft/loss": loss,
                          "sft/learning_rate": learning_rate})  # fmt: skip
        if step % 100 == 0:
            self.console.print(f"  {self.stage} step {step}/{max_steps}  loss {loss:.3f}")
