"""`InstructionEnv`: runs instructions from a file on any device that takes adb commands."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace

from mobilerl.envs.base import (
    Action,
    Finish,
    FreeReward,
    Health,
    InfraError,
    Invalid,
    Launch,
    NoScore,
    Observation,
    ShellResult,
    StepResult,
    Task,
    TaskFault,
    Transport,
)
from mobilerl.envs.blocking import OneAtATime
from mobilerl.envs.instructions.packages import list_installed, nearest
from mobilerl.envs.live_device import LiveDevice, Settle

COMMAND_S = 60.0
"""Maximum duration of a command from the file, in seconds."""
HARMLESS = re.compile(r"\W*warning\b|.*\bbroken pipe\W*$", re.IGNORECASE)
"""Lines on stderr that say nothing about a check: warnings (Android's linker, `am start`), and the message of a command
whose reader has seen enough, such as that of `dumpsys ... | grep -q` on real phones."""

BROKEN = re.compile(r"error\b|exception\b|.*\bnot found\W*$", re.IGNORECASE)
"""Lines on stderr of a `reset` or `start` that did nothing in spite of exit code 0: `am start` of an activity that does
not exist, or the first command of a pipeline. Other lines are no fault: `monkey` and `am` report there what they do."""


class InstructionEnv:
    """The commands of a task are lines for the device's shell, written by its author; no text of a model is in them.

    `apps` maps names under the icons to packages. Without `free_reward`, `reset` refuses a task whose check succeeds
    before the agent has done anything (FreeReward) or cannot run (NoScore).
    """

    def __init__(
        self,
        device_id: str,
        transport: Transport,
        apps: Mapping[str, str] | None = None,
        free_reward: bool = False,
        settle: Settle | None = None,
    ) -> None:
        self.device_id = device_id
        self._transport, self._free_reward = transport, free_reward
        self._device = LiveDevice(transport, apps, settle)
        self._call = OneAtATime()
        self._task: Task | None = None
        self._seen: Observation | None = None
        self._answer: str | None = None
        self._done = False

    async def reset(self, task: Task) -> Observation:
        self._task = None
        self._seen = await self._call(lambda: self._reset(task))
        self._task, self._answer, self._done = task, None, False
        return self._seen

    def _reset(self, task: Task) -> Observation:
        self._device.check()
        for line in task.params["reset"]:
            self._must(task, "reset", line)
        self._device.home()
        if task.app:
            self._transport.shell(("am", "force-stop", task.app), COMMAND_S)
            for line in task.params["start"]:
                self._must(task, "start", line)
            if not task.params["start"] and (problem := self._device.act(Launch(task.app))):
                hint = nearest(task.app, list_installed(self._transport))
                raise TaskFault(f"{task.id}: its app does not start on {self.device_id}: {problem}{hint}")
        self._device.prepare()
        if not self._free_reward and task.params["check"] and self._passes(task) and not task.params["answer"]:
            raise FreeReward(
                f"{task.id}: its check succeeds before the agent has done anything; let `reset` undo what it checks"
            )
        return self._observe(0)

    def _must(self, task: Task, field: str, line: str) -> None:
        result = self._transport.shell(line, COMMAND_S)
        broken = any(BROKEN.match(said) for said in result.stderr.splitlines())
        if result.exit_code != 0 or broken:
            said = _short(result.stderr or result.stdout)
            raise TaskFault(f"{task.id}: {field} command {line!r} failed with {result.exit_code}: {said}")

    def _passes(self, task: Task) -> bool:
        """Whether all checks succeed; those after the first that fails are not run. Raises NoScore if one cannot run,
        since its exit code then says nothing about what the agent did."""
        for line in task.params["check"]:
            result = self._transport.shell(line, COMMAND_S)
            if problem := _problem(result):
                raise NoScore(f"{task.id}: check {line!r} cannot run: {problem}")
            if result.exit_code != 0:
                return False
        return True

    def _observe(self, step: int) -> Observation:
        screenshot, xml = self._device.observe()
        return Observation(screenshot, *self._device.size(), xml, self._device.foreground_app(), step)

    async def step(self, action: Action) -> StepResult:
        """Takes one action. The episode ends with Finish, or when the step budget is used up."""
        task, seen = self._task, self._seen
        if task is None or seen is None or self._done:
            raise RuntimeError(f"{self.device_id}: no episode is running; call reset(task)")
        start, steps = time.perf_counter(), seen.step + 1
        if isinstance(action, Finish):
            self._answer, self._done = action.message, True
            return StepResult(replace(seen, step=steps), True, {"act": time.perf_counter() - start})
        note = "" if isinstance(action, Invalid) else await self._call(lambda: self._device.act(action))
        acted = time.perf_counter()
        self._seen = await self._call(lambda: self._observe(steps))
        self._done = steps >= task.max_steps
        timings = {"act": acted - start, "observe": time.perf_counter() - acted}
        return StepResult(self._seen, self._done, timings, note)

    async def score(self) -> float:
        """1.0 if the agent declared the task done and its checks pass, else 0.0."""
        task, answer = self._task, self._answer
        if task is None:
            raise RuntimeError(f"{self.device_id}: no episode to score; call reset(task)")
        await self._call(self._device.check_boot)
        wanted = task.params["answer"]
        if not (task.params["check"] or wanted):
            raise NoScore(f"{task.id} has neither `check` nor `answer`")
        if answer is None or (wanted and wanted.casefold() not in answer.casefold()):
            return 0.0
        return float(await self._call(lambda: self._passes(task)))

    async def close(self) -> None:
        """Does nothing: the device keeps running."""

    async def health(self) -> Health:
        try:
            await self._call(self._device.check)
        except InfraError as error:
            return Health(False, str(error))
        return Health(True)


def _problem(result: ShellResult) -> str:
    """Why the exit code of a check is no answer; "" if it is one: 0 or 1, and nothing but `HARMLESS` on stderr."""
    said = _short("\n".join(line for line in result.stderr.splitlines() if not HARMLESS.match(line)))
    if result.exit_code > 1:
        return f"exit code {result.exit_code}{f', {said}' if said else ''} (0 is yes, 1 is no)"
    return f"exit code {result.exit_code}, {said} (if that is harmless, add 2>/dev/null)" if said else ""


def _short(text: str) -> str:
    return " ".join(text.split())[:120]
