"""Evaluation on the embedded phone's tasks (`sim`), from a recipe to results.json.

The split `test` has held-out instances, whose parameters and seeds are never trained on: of the training templates,
which give the headline `success_rate`, and of templates never trained on, reported beside it as `unseen_templates`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from envs.base import Task
from envs.phone.tasks import suite
from mobilerl import __version__
from mobilerl.config import ConfigError, Recipe
from mobilerl.config.types import Positive, Section, Weight
from mobilerl.eval.agents import SCRIPTED, scripted_actor
from mobilerl.eval.policies import (
    POLICY,
    SEED,
    EvalPolicy,
    agent_protocol,
    check_model,
    checkpoint_protocol,
    find_model,
    is_server,
    model_policy,
)
from mobilerl.eval.report import RESULTS, UNSEEN, EpisodeResult, build_results, read_results, write_results
from mobilerl.eval.run import collect_groups
from mobilerl.records import Group, Trajectory
from mobilerl.rollout.episode import episode_settings
from mobilerl.suites.phone.training import make_phones
from mobilerl.trajectory_files import save_trajectories

AGENTS = (POLICY, *SCRIPTED)
EPISODES = "trajectories"
STEP_BUDGET = "2 x steps of the expert + 2"


class Plan(Section):
    """What is run; a suite's own says of which tasks."""

    suite: ClassVar[str]
    trials: Positive = 1
    """Episodes of every instance."""
    instances: Positive = 1
    """Instances of every template."""
    temperature: Weight = 0.0
    """Sampling temperature; 0 is greedy."""
    templates: tuple[str, ...] = ()
    """Only these; empty for all."""

    def tasks(self, recipe: Recipe) -> list[Task]:
        """Raises ConfigError when there are none."""
        raise NotImplementedError

    def guard(self, recipe: Recipe) -> dict[str, Any]:
        """The part of the protocol about the suite. Raises ValueError when its splits leak."""
        raise NotImplementedError

    def part(self, task: Task) -> str:
        """The part of the suite that a task belongs to."""
        raise NotImplementedError

    def results(self, episodes: Sequence[EpisodeResult], protocol: dict[str, Any]) -> dict[str, Any]:
        """results.json's content."""
        raise NotImplementedError

    def protocol(self, recipe: Recipe) -> dict[str, Any]:
        """The part of the protocol that does not depend on the agent. Raises ValueError when the splits leak."""
        return {
            "instances_per_template": self.instances,
            "trials": self.trials,
            "templates": list(self.templates) or "all",
            **self.guard(recipe),
            "step_budget": STEP_BUDGET,
            "screen": f"{recipe.phone.width}x{recipe.phone.height}",
            "popup_rate": recipe.phone.popup_rate,
            "deadline_s": recipe.agent.deadline_s,
        }


class SimPlan(Plan):
    """Tasks of the embedded phone's own apps."""

    suite = "sim"
    split: Literal["train", "test", "all"] = "test"
    """`train`: training instances; `test`: held-out ones of every template; `all`: both."""

    def tasks(self, recipe: Recipe) -> list[Task]:
        for name in self.templates:
            if name not in suite.TEMPLATES:
                raise ConfigError(f"no task template is called {name!r}; `mobilerl eval sim --list` shows them all")
        tasks = suite.train_tasks(self.instances) if self.split in ("train", "all") else []
        tasks += suite.test_tasks(self.instances) if self.split in ("test", "all") else []
        chosen = [task for task in tasks if not self.templates or task.template in self.templates]
        if not chosen:
            raise ConfigError(
                f"--split {self.split} has no tasks of {', '.join(self.templates)}; --split all has every template"
            )
        return chosen

    def guard(self, recipe: Recipe) -> dict[str, Any]:
        trained = suite.train_tasks(max(recipe.tasks.per_template, recipe.sft.demos_per_template))
        tested = suite.test_tasks(self.instances)
        suite.check_no_leak(trained, tested)
        shared = f"{len(tested)} held-out instances share no parameters or seeds with {len(trained)} training ones"
        return {
            "split": self.split,
            "suite_templates": len(suite.TEMPLATES),
            "held_out_seeds_from": suite.HELD_OUT_SEEDS,
            "leak_guard": f"passed: {shared}",
        }

    def part(self, task: Task) -> str:
        return suite.template(task.template).split

    def results(self, episodes: Sequence[EpisodeResult], protocol: dict[str, Any]) -> dict[str, Any]:
        unseen = [e for e in episodes if e.split == "test"]
        seen = [e for e in episodes if e.split != "test"]
        results = build_results(self.suite, protocol, seen or unseen)
        if seen and unseen:
            beside = build_results(self.suite, protocol, unseen)
            results["per_task"] |= beside["per_task"]
            results[UNSEEN] = summary(beside)
        return results


def evaluate(
    recipe: Recipe,
    plan: Plan,
    agent: str,
    model: str | Path | None,
    out: Path,
    model_name: str | None = None,
    reuse: bool = False,
    keep: bool = False,
) -> dict[str, Any]:
    """Runs the plan and writes `out/results.json`; returns its content.

    `model` is a checkpoint folder, a run directory, or the address of a model server that has `model_name`; only the
    agent "policy" has one. With `reuse`, results of the very same protocol in `out` are returned instead. With `keep`
    the episodes go to `out/trajectories` and `out/screens`, where the viewer of a run finds them. With a judge
    (`recipe.judge.url`) the results say how far it agrees with the tasks' own checks. Raises ConfigError for settings
    that cannot be used, ValueError when tasks to be tested on are trained on.
    """
    if reuse and is_server(model):
        raise ConfigError("--reuse cannot tell whether a server still has the same weights; leave it out")
    check_model(agent, model, model_name)
    if model is not None and not is_server(model):
        model = find_model(model)  # once: the run may save a newer checkpoint at any time
    policy = model_policy(recipe, model, model_name, plan.temperature) if is_server(model) else None
    who = policy.protocol if policy else checkpoint_protocol(Path(model)) if model is not None else {}
    tasks = plan.tasks(recipe)
    phones = min(recipe.phone.count, len(tasks) * plan.trials)
    protocol = {"mobilerl": __version__, "agent": agent, "seed": SEED} | plan.protocol(recipe)
    if who:
        protocol |= {**who, **agent_protocol(recipe, plan.temperature, leave_out={"deadline_s"}), "phones": phones}
    if recipe.judge.url:
        from mobilerl.judge.audit import audit
        from mobilerl.judge.judge import Judge, check_judge

        check_judge(recipe.judge)  # before anything runs
        protocol |= Judge(recipe.judge).protocol()
    if reuse and (before := _results_with(protocol, out, keep)) is not None:
        return before
    out.mkdir(parents=True, exist_ok=True)  # first: a folder that cannot be written to costs nothing yet
    screenshots = (model is not None and recipe.agent.screenshots > 0) or bool(recipe.judge.url) or keep
    envs = make_phones(recipe.phone, phones, screenshots)
    if model is None:
        policy = EvalPolicy(scripted_actor(agent, SEED, envs), {})
    elif policy is None:  # a checkpoint is loaded only when it is needed
        policy = model_policy(recipe, model, None, plan.temperature)
    groups = collect_groups(envs, policy, tasks, plan.trials, episode_settings(recipe.agent))
    results = results_of(groups, tasks, plan, protocol) | policy.extras()
    trajectories = [t for g in groups for t in g.trajectories]
    _store(out, results, trajectories if keep else None)
    if recipe.judge.url:
        try:
            results["judge"] = audit(recipe.judge, trajectories)
        except ConfigError as error:
            raise ConfigError(f"{error}; the results without the judge are in {out / RESULTS}") from None
        write_results(out / RESULTS, results)
    return results


def _results_with(protocol: dict[str, Any], out: Path, keep: bool) -> dict[str, Any] | None:
    """The results in `out`, if they are complete: with the episodes to be kept and the judge's audit."""
    results = read_results(out / RESULTS) if (out / RESULTS).is_file() else None
    if results is None or results["protocol"] != protocol or keep and not (out / EPISODES).is_dir():
        return None
    return results if "judge" in results or not any(name.startswith("judge.") for name in protocol) else None


def _store(out: Path, results: Mapping[str, Any], trajectories: Sequence[Trajectory] | None) -> None:
    """Writes results and episodes (None: not kept), and removes those of an earlier evaluation."""
    (out / RESULTS).unlink(missing_ok=True)
    shutil.rmtree(out / EPISODES, ignore_errors=True)
    if trajectories is not None:
        save_trajectories(out, 0, trajectories)
    write_results(out / RESULTS, results)


def results_of(groups: Sequence[Group], tasks: Sequence[Task], plan: Plan, protocol: dict[str, Any]) -> dict[str, Any]:
    """results.json's content. Episodes that never came back count as infrastructure errors."""
    found = {group.task.id: group for group in groups}
    return plan.results([e for task in tasks for e in _episodes(task, found.get(task.id), plan)], protocol)


def _episodes(task: Task, group: Group | None, plan: Plan) -> list[EpisodeResult]:
    done = group.trajectories if group else ()
    why = "the device failed every time"
    return [
        EpisodeResult.of(task, plan.part(task), trial, done[trial] if trial < len(done) else None, why)
        for trial in range(plan.trials)
    ]


def summary(results: Mapping[str, Any]) -> dict[str, Any]:
    """What results.json says of a part that stands beside its headline."""
    return {k: results[k] for k in ("success_rate", "ci95", "trials", "successes", "errors", "instances")}
