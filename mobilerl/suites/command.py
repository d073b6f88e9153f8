"""What a suite contributes to `mobilerl eval NAME`: its options, list of tasks, run and summary."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mobilerl.config import ConfigError, Recipe, load_recipe, validate
from mobilerl.config.named import load_named
from mobilerl.config.suite import OWN, SuiteBase, suite_name, suite_sections
from mobilerl.eval.policies import MOBILERL_SETTINGS, REAL_PHONE_AGENTS
from mobilerl.eval.report import UNSEEN, percent
from mobilerl.suites.base import settings_command
from mobilerl.suites.evaluation import evaluate
from mobilerl.suites.plan import Plan, SuitePlan
from mobilerl.system.terminal import make_console

Results = dict[str, Any]
INSTANCES, PASS_K_INSTANCES = 6, 2
"""Default number of held-out instances per template, if each is played once and if it is sampled K times."""
MOST_NAMED = 5
"""Maximum number of lost tasks that are named with their reasons."""
SLOW = "--agent.deadline_s=3600"
"""Deadline for large models, which think for seconds at every step without a device hanging."""


MOBILERL = "mobilerl"
"""The value of --protocol for MobileRL's evaluation."""
ROUNDS, MOST_EQUAL = 50, 5
"""The most steps of an episode there, and the equal actions in a row after which the agent finishes."""


def add_protocol(parser: argparse.ArgumentParser) -> None:
    """Adds --protocol, over which explicit options take precedence."""
    said = "as MobileRL: 50 steps from the home screen, ended by an unreadable response or five equal actions in a row"
    parser.add_argument("--protocol", choices=(MOBILERL,), help=said)


class EvalCommand:
    """Base class of evaluations. `args` are the parsed options, which include those of every suite."""

    help = "tasks of an installed package"
    description: str | None = None
    agents: Sequence[str] = REAL_PHONE_AGENTS
    example = "--judge.reward true"
    """A setting to mention in the help."""
    required = ""
    """Options that the command cannot do without, to show how it is called."""

    def __init__(self, name: str) -> None:
        self.name = name

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Adds the suite's own options."""

    def settings(self, args: argparse.Namespace, given: Sequence[str]) -> Sequence[str]:
        """The settings of the command line with those that options stand for. Raises ConfigError for wrong options."""
        return given

    def defaults(self, args: argparse.Namespace) -> Sequence[str]:
        """Settings of a model that has none of its own, if there is no recipe."""
        return MOBILERL_SETTINGS

    def list_tasks(self, args: argparse.Namespace, given: Sequence[str]) -> None:
        """Prints the tasks."""
        raise NotImplementedError

    def prepare(self, args: argparse.Namespace, recipe: Recipe) -> Callable[[], Results]:
        """The evaluation, which writes results.json and returns its content. Raises ConfigError before it begins."""
        raise NotImplementedError

    def summary(self, results: Mapping[str, Any]) -> Sequence[str]:
        """What to print below the success rate."""
        return ()

    def exit_code(self, args: argparse.Namespace, results: Mapping[str, Any]) -> int:
        """Exit code of the command."""
        return 0

    def words(self, recipe: Recipe) -> list[str]:
        """What follows `mobilerl eval` to evaluate on the suite of a run's recipe."""
        return [self.name]


class PlanCommand(EvalCommand):
    """Evaluation of a `Plan`; by default of every suite that holds tasks out from training."""

    plan: type[Plan] = SuitePlan
    instances = INSTANCES
    """Default number of instances per template, unless each is sampled several times."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        option, with_seeds = parser.add_argument, "instances" in self.plan.model_fields
        option("--template", action="append", default=[], metavar="NAME", help="only this one; can be repeated")
        option("--trials", type=int, metavar="N", help="episodes per instance (default 1)")
        if with_seeds:
            option("--instances", type=int, metavar="N", help=f"instances per template (default {self.instances})")
        option("--temperature", type=float, metavar="T", help="0 (default) is greedy")
        fewer = min(self.instances, PASS_K_INSTANCES)
        said = f", of {fewer} instances unless --instances says more" if with_seeds and fewer > 1 else ""
        option("--pass-k", type=int, metavar="K", help=f"K episodes per instance at temperature 1{said}")
        option("--shuffle-screens", action="store_true", help="control: give prompts the screens of other episodes")
        option("--replace", action="store_true", help="replace results of other settings or another model in --out")
        option("--keep", action="store_true", help="keep every episode with its screens, for the viewer")

    def settings(self, args: argparse.Namespace, given: Sequence[str]) -> Sequence[str]:
        return [f"--suite.type={self.name}", *given]

    def defaults(self, args: argparse.Namespace) -> Sequence[str]:
        return (*MOBILERL_SETTINGS, SLOW)

    def list_tasks(self, args: argparse.Namespace, given: Sequence[str]) -> None:
        recipe = load_recipe(args.config, self.settings(args, given), command=settings_command(self.name))
        tasks, console = self.plan(suite=self.name).tasks(recipe), make_console()
        longest = max(len(task.id) for task in tasks)
        for task in tasks:
            line = f"{task.id:{longest}}  {task.max_steps:3} steps  {task.instruction}"
            console.print(line, markup=False, soft_wrap=True)

    def prepare(self, args: argparse.Namespace, recipe: Recipe) -> Callable[[], Results]:
        run = partial(evaluate, recipe, self.make_plan(args), args.agent, args.model, args.out)
        return partial(run, args.model_name, args.replace, args.keep)

    def make_plan(self, args: argparse.Namespace) -> Plan:
        """The episodes that the options ask for."""
        if args.pass_k is not None and args.pass_k < 1:
            raise ConfigError(f"--pass-k is {args.pass_k}; it must be at least 1")
        amounts = {"trials": 1, "instances": self.instances, "temperature": 0.0}
        if args.pass_k is not None:
            fewer = min(self.instances, PASS_K_INSTANCES)
            amounts = {"trials": args.pass_k, "instances": fewer, "temperature": 1.0}
        amounts = {name: amount for name, amount in amounts.items() if name in self.plan.model_fields}
        amounts |= {name: getattr(args, name) for name in amounts if getattr(args, name) is not None}
        fields = {
            "suite": self.name,
            "templates": args.template,
            "shuffle_screens": args.shuffle_screens,
            **amounts,
            **self.fields(args),
        }
        return validate(self.plan, fields, "command line", flags=fields)

    def fields(self, args: argparse.Namespace) -> dict[str, Any]:
        """Fields of the plan that the suite's own options set."""
        return {}

    def summary(self, results: Mapping[str, Any]) -> Sequence[str]:
        beside = {f"held-out {name}": part for name, part in results.get("parts", {}).items()}
        if unseen := results.get(UNSEEN):
            beside["templates never trained on"] = unseen
        lost = {episode["task_id"]: episode["error"] for episode in results["instances"] if episode["error"]}
        said = [f"{task} was lost ({error})" for task, error in list(lost.items())[:MOST_NAMED]]
        if lost:
            more = f"{len(lost) - MOST_NAMED} more were lost; " if len(lost) > MOST_NAMED else ""
            said.append(f"{more}the same command tries lost episodes again")
        return said + [
            f"{name}: {percent(part['success_rate'])}  95% interval {percent(part['ci95'][0])} to "
            f"{percent(part['ci95'][1])}  ({part['successes']}/{part['trials']} trials)"
            for name, part in beside.items()
        ]

    def words(self, recipe: Recipe) -> list[str]:
        changed = recipe.suite.model_dump(mode="json", exclude_defaults=True, exclude={"type"})
        shown = {name: value if isinstance(value, str) else json.dumps(value) for name, value in changed.items()}
        return [self.name, *(f"--suite.{name}={value}" for name, value in shown.items())]


def eval_commands() -> dict[str, EvalCommand]:
    """What `mobilerl eval NAME` runs, by name: our own suites and those of installed packages."""
    own = {suite_name(section): eval_command(section) for section in OWN.values()}
    return own | {suite_name(section): eval_command(section) for section in suite_sections().values()}


def eval_command(section: type[SuiteBase]) -> EvalCommand:
    """What `mobilerl eval` runs for a suite."""
    return load_named(section.evaluation, f"{section.__name__}.evaluation")(suite_name(section))
