"""What happens during a training besides it: log entries, skipped steps, and checkpoints to resume from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from mobilerl.engines.finite import FirstNonFinite
from mobilerl.system.atomic_files import sync_folder, write_atomic
from mobilerl.training.skipping import StepCounter

KEPT = "finished stages are kept"
COMPLETE = "complete.json"
"""File that is written into a checkpoint last: the numbers of steps that were taken and skipped."""


class LogCallback(TrainerCallback):
    """Passes rank 0's log entries to `on_log(step, max_steps, loss, learning_rate, skipped)`.

    `loss` is a mean over the steps since the last entry, and `skipped` the number of steps so far that it leaves out.
    """

    def __init__(self, on_log: Callable[[int, int, float, float, int], None]) -> None:
        self._on_log = on_log

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        if state.is_world_process_zero and logs and "loss" in logs:
            loss, rate, skipped = (logs[name] for name in ("loss", "learning_rate", "skipped_steps"))
            self._on_log(state.global_step, state.max_steps, float(loss), float(rate), int(skipped))


class SkipCallback(TrainerCallback):
    """Skips steps whose gradient is not finite. Raises NotFinite when there are too many in a row."""

    def __init__(self, counter: StepCounter, watch: FirstNonFinite) -> None:
        self._counter, self._watch = counter, watch

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        if args.deepspeed:
            return  # it has taken its step already, see `SftTrainer.compute_loss`
        gradients = FirstNonFinite()
        gradients.gradients(model.named_parameters())  # on several ranks they are those of all
        if not gradients.name:
            self._watch.forget()
            self._counter.take()
            return
        self._counter.skip(self._watch.name or gradients.name)
        self._watch.forget()
        model.zero_grad()  # AdamW leaves parameters without a gradient alone
        self._counter.check(KEPT)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._counter.check(KEPT, ended=True)


class CheckpointCallback(TrainerCallback):
    """Saves the Trainer's state every `every` steps except the last, and keeps the newest checkpoint."""

    def __init__(self, every: int, counter: StepCounter) -> None:
        self._every, self._counter = every, counter

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        control.should_save = state.global_step % self._every == 0 and state.global_step < state.max_steps

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        from accelerate import PartialState

        PartialState().wait_for_everyone()  # every rank writes files of its own
        if not state.is_world_process_zero:
            return
        folder = checkpoint_at(Path(args.output_dir or ""), state.global_step)
        sync_folder(folder)
        steps = {"taken": self._counter.taken, "skipped": self._counter.skipped}
        write_atomic(folder / COMPLETE, json.dumps(steps).encode())
        for other in folder.parent.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
            if other != folder:
                shutil.rmtree(other)


def checkpoint_at(out: Path, step: int) -> Path:
    """The folder of the Trainer's checkpoint after `step` steps; `out` is the Trainer's own folder."""
    return out / f"{PREFIX_CHECKPOINT_DIR}-{step}"


def saved_steps(out: Path) -> int:
    """The number of steps after which the newest complete checkpoint was saved; 0 if there is none."""
    complete = out.glob(f"{PREFIX_CHECKPOINT_DIR}-*/{COMPLETE}")
    return max((int(path.parent.name.rpartition("-")[2]) for path in complete), default=0)


def restore_counter(counter: StepCounter, checkpoint: Path) -> None:
    """Sets the numbers of steps to those of a checkpoint."""
    steps = json.loads((checkpoint / COMPLETE).read_bytes())
    counter.taken, counter.skipped = steps["taken"], steps["skipped"]
