"""Evaluation of a policy or script on a suite with the devices of this process, which writes results.json.

Episodes are kept in `<out>/episodes.jsonl` until the evaluation is complete, so that the same command resumes a stopped
one and retries episodes that were lost to device failures.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import Path
from typing import Any

from mobilerl import __version__
from mobilerl.config import ConfigError, Recipe
from mobilerl.envs.base import Devices, MobileEnv, Task
from mobilerl.eval.journal import Journal, Key, Past, read_journal
from mobilerl.eval.policies import (
    SEED,
    EvalPolicy,
    agent_protocol,
    checkpoint_protocol,
    is_server,
    model_policy,
    resolved_model,
)
from mobilerl.eval.report import RESULTS, EpisodeResult, write_results
from mobilerl.eval.run import run_tasks
from mobilerl.judge.scorer import Scorer
from mobilerl.records import Group
from mobilerl.records.files import append_trajectory, load_trajectories
from mobilerl.rollout.episode import episode_settings
from mobilerl.suites.plan import Plan
from mobilerl.system.terminal import header, say

EPISODES = "trajectories"
LOST = "the device failed every time"


def evaluate(
    recipe: Recipe,
    plan: Plan,
    agent: str,
    model: str | Path | None,
    out: Path,
    model_name: str | None = None,
    replace: bool = False,
    keep: bool = False,
) -> dict[str, Any]:
    """Runs the plan, writes `out/results.json` and returns its content.

    `model` is a checkpoint folder, a run directory, or the address of a server that has the model `model_name`; only
    the agent "policy" needs one. Results of a finished evaluation in `out` are returned if they have the same protocol;
    others are replaced only with `replace`. With `keep`, episodes are saved to `out/trajectories` and `out/screens`,
    where the viewer finds them. With a judge (`recipe.judge.url`) that does not give the reward, they are saved as
    well, and the results include how far it agrees with the tasks' own checks. Raises ConfigError for settings that
    cannot be used, and ValueError if test tasks are trained on.
    """
    model = resolved_model(agent, model, model_name)
    if plan.shuffle_screens and (model is None or is_server(model) or not recipe.agent.screenshots):
        raise ConfigError("--shuffle-screens needs a --model that is a checkpoint and sees screenshots")
    make_policy = partial(
        model_policy,
        recipe,
        temperature=plan.temperature,
        max_wait_s=plan.max_wait_s,
        shuffle_screens=plan.shuffle_screens,
    )
    policy = make_policy(model, model_name) if is_server(model) else None
    who = policy.protocol if policy else checkpoint_protocol(Path(model)) if model is not None else {}
    tasks = plan.tasks(recipe)
    phones = min(recipe.fleet.count, len(tasks) * plan.trials)
    protocol = {"mobilerl": __version__, "agent": agent, "seed": SEED} | plan.protocol(recipe)
    if who:
        protocol |= {**who, **agent_protocol(recipe, plan.temperature, leave_out={"deadline_s"}), "phones": phones}
    if plan.shuffle_screens:
        protocol["screenshots"] = "shuffled"
    if recipe.judge.url:
        from mobilerl.judge.judge import Judge, check_judge

        check_judge(recipe.judge)  # before anything runs
        protocol |= Judge(recipe.judge).protocol()
    scorer = plan.scorer(recipe)
    audited = bool(recipe.judge.url) and not recipe.judge.reward
    keep = keep or audited
    past = read_journal(out)
    if replace and past.results is not None and (past.results["protocol"] != protocol or is_server(model)):
        past = replace_fields(past, results=None)  # a server does not tell whether its weights have changed
    past.check(protocol, "or add --replace")
    if past.results is not None and _is_complete(past.results, out, keep):
        hint = "; add --replace if the server has other weights now" if is_server(model) else ""
        say(f"{out / RESULTS} is finished, with the same settings and model{hint}; these are its results")
        return past.results
    out.mkdir(parents=True, exist_ok=True)  # first, so that an unwritable folder fails before anything runs
    header(
        {
            "model": model or agent,
            "suite": f"{plan.suite}, {len(tasks)} tasks x {plan.trials}",
            "devices": plan.describe_devices(recipe, phones),
            "out": out,
        }
    )
    run = _Run(plan, tasks, protocol, past, keep, plan.unrunnable(recipe, tasks))
    if run.missing:
        screenshots = (model is not None and recipe.agent.screenshots > 0) or bool(recipe.judge.url) or keep
        devices = plan.devices(recipe, phones, screenshots, out)
        if model is None:
            used = policy = EvalPolicy(plan.scripted(agent, SEED, devices), {})
        else:
            used = policy or make_policy(model, None)  # loads the model only if it is needed
        run(devices, used, recipe, scorer)
    results = run.results()
    if policy and (extras := policy.extras()):
        results |= extras
        write_results(out / RESULTS, results)
    if audited:
        from mobilerl.eval.judge_audit import audit

        try:
            results["judge"] = audit(recipe.judge, load_trajectories(out / EPISODES / "iter-000000.jsonl"))
        except ConfigError as error:
            raise ConfigError(f"{error}; the results without the judge are in {out / RESULTS}") from None
        write_results(out / RESULTS, results)
    return results


def _is_complete(results: dict[str, Any], out: Path, keep: bool) -> bool:
    """Whether the results have the episodes to keep and the judge's audit."""
    audited = "judge" in results or not any(name.startswith("judge.") for name in results["protocol"])
    return audited and (not keep or (out / EPISODES).is_dir())


class _Run:
    """One start of an evaluation, which continues where an earlier one stopped."""

    def __init__(
        self,
        plan: Plan,
        tasks: Sequence[Task],
        protocol: dict[str, Any],
        past: Past,
        keep: bool,
        unrunnable: Mapping[str, str],
    ) -> None:
        self.plan, self.tasks, self.protocol, self._past, self.keep = plan, tasks, protocol, past, keep
        self.out = past.path.parent
        self._done: dict[Key, EpisodeResult] = {key: EpisodeResult(**e) for key, e in self._past.episodes.items()}
        self._lost = dict(unrunnable)
        missing = [task for task in tasks if any((task.id, n) not in self._done for n in range(plan.trials))]
        self.missing = [task for task in missing if task.id not in unrunnable]

    def __call__(
        self, devices: Devices | Sequence[MobileEnv], policy: EvalPolicy, recipe: Recipe, scorer: Scorer | None
    ) -> None:
        with Journal(self._past) as journal:
            if self._done:
                say(f"resuming: {len(self.tasks) - len(self.missing)} of {len(self.tasks)} tasks are done")
            elif self.keep:  # remove those of an earlier evaluation
                shutil.rmtree(self.out / EPISODES, ignore_errors=True)
                (self.out / RESULTS).unlink(missing_ok=True)

            def record_group(group: Group) -> None:
                journal.begin(self.plan.suite, self.protocol, len(self.tasks) * self.plan.trials)
                for trial, trajectory in enumerate(group.trajectories):
                    if self.keep:
                        append_trajectory(self.out, trajectory)
                    result = EpisodeResult.of(group.task, self.plan.part(group.task), trial, trajectory)
                    journal.end(asdict(result))
                    self._done[group.task.id, trial] = result

            settings, trials = episode_settings(recipe.agent), self.plan.trials
            left = {task.id for task in self.missing}
            run = partial(run_tasks, devices, policy, self.tasks, "eval", settings, record_group, trials)
            lost = asyncio.run(run(scorer=scorer, done=lambda task: task.id not in left))
            self._lost |= {group.task.id: group.reason for group in lost}

    def results(self) -> dict[str, Any]:
        """Writes results.json and returns its content. Lost episodes count as infrastructure errors."""
        episodes = [
            self._done.get((task.id, trial))
            or EpisodeResult.of(task, self.plan.part(task), trial, None, self._lost.get(task.id, LOST))
            for task in self.tasks
            for trial in range(self.plan.trials)
        ]
        results = self.plan.results(episodes, self.protocol)
        if not self.keep:  # remove those of an earlier evaluation
            shutil.rmtree(self.out / EPISODES, ignore_errors=True)
        write_results(self.out / RESULTS, results)
        if not any(episode.is_error for episode in episodes):
            self._past.path.unlink(missing_ok=True)  # results.json says that it is finished
        return results
