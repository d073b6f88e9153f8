"""`mobilerl eval`: evaluates a policy or a scripted agent on a suite of tasks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl.cli import evaluate_androidlab, evaluate_androidworld
from mobilerl.cli.evaluate_common import add_suite, command_of, evaluation_recipe, finish, resumable
from mobilerl.config import ConfigError, GeneratedSuiteSection, InstructionsSuiteSection, Recipe, load_recipe, validate
from mobilerl.envs.instructions.tasks import read
from mobilerl.envs.phone.generated.tasks import HELD_OUT, SPLITS, train_tasks
from mobilerl.envs.phone.tasks import suite
from mobilerl.eval.policies import MOBILERL_SETTINGS, REAL_PHONE_AGENTS, is_server
from mobilerl.eval.report import UNSEEN, percent
from mobilerl.suites.evaluation import Plan, evaluate
from mobilerl.suites.generated.evaluation import GeneratedPlan
from mobilerl.suites.instructions.evaluation import InstructionsPlan
from mobilerl.suites.phone.evaluation import AGENTS, SimPlan
from mobilerl.system.terminal import make_console, make_table

INSTANCES, PASS_K_INSTANCES = 6, 2
"""Default number of held-out instances per template, if each is played once and if it is sampled K times."""
MOST_NAMED = 5
"""Maximum number of lost tasks that are named with their reasons."""
SLOW = "--agent.deadline_s=3600"
"""Deadline for large models, which think for seconds at every step without a device hanging."""


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("eval", allow_abbrev=False, help="success rate on a suite of tasks")
    suites = parser.add_subparsers(dest="suite", required=True, metavar="SUITE")
    sim = add_suite(suites, common, "sim", AGENTS, "--phone.popup_rate 0", help="the tasks of the embedded phone")
    splits = ("train", "test", "all")
    said = "test (default): held-out instances; train: training ones"
    sim.add_argument("--split", choices=splits, default="test", help=said)
    sim.set_defaults(run=run, plan=SimPlan)
    made = add_suite(suites, common, "generated", AGENTS, "--phone.popup_rate 0", help="apps made from a seed")
    said = "test (default) for results; dev for choosing settings; train: training instances"
    made.add_argument("--split", choices=SPLITS, default="test", help=said)
    said = "what is held out: only this (default: all four); can be repeated"
    made.add_argument("--part", action="append", dest="parts", choices=HELD_OUT, help=said)
    made.set_defaults(run=run, plan=GeneratedPlan)
    own = add_suite(suites, common, "instructions", REAL_PHONE_AGENTS, "--judge.reward true", help="tasks of a file")
    own.add_argument("file", type=Path, metavar="FILE", help="*.toml or *.jsonl: docs/instructions.md")
    said = "adb devices to run on (--fleet.type docker for containers); without either, embedded phones"
    own.add_argument("--serial", nargs="+", default=[], metavar="SERIAL", help=said)
    said = "only the tasks of this split of the file (default all)"
    own.add_argument("--split", choices=splits, default="all", help=said)
    own.add_argument("--free-reward", action="store_true", help="also tasks whose check succeeds at the beginning")
    own.set_defaults(run=run_instructions, plan=InstructionsPlan)
    for parser in (sim, made, own):
        _add_amounts(parser)
    evaluate_androidworld.add(suites, common)
    evaluate_androidlab.add(suites, common)


def _add_amounts(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--template", action="append", default=[], metavar="NAME", help="only this one; can be repeated")
    option("--trials", type=int, metavar="N", help="episodes per instance (default 1)")
    with_seeds = "instances" in parser.get_default("plan").model_fields
    if with_seeds:
        option("--instances", type=int, metavar="N", help=f"instances per template (default {INSTANCES})")
    option("--temperature", type=float, metavar="T", help="0 (default) is greedy")
    said = f", of {PASS_K_INSTANCES} instances unless --instances says more" if with_seeds else ""
    option("--pass-k", type=int, metavar="K", help=f"K episodes per instance at temperature 1{said}")
    option("--replace", action="store_true", help="replace results of other settings or another model in --out")
    option("--keep", action="store_true", help="keep every episode with its screens, for the viewer")


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    if args.list:
        load_recipe(args.config, settings, command=command_of(args))
        _list(args.plan)
        return 0
    # A server has no settings; without a recipe use MobileRL's, which large models can follow.
    return _evaluate(
        args, evaluation_recipe(args, settings, (*MOBILERL_SETTINGS, SLOW) if is_server(args.model) else ())
    )


def run_instructions(args: argparse.Namespace, settings: Sequence[str]) -> int:
    if args.list:
        table = make_table("task", "split", "steps", "instruction", whole="task")
        for task in read(args.file).task:
            table.add_row(task.id, task.split, str(task.max_steps), task.instruction)
        make_console().print(table)
        return 0
    if args.serial:
        settings = [*settings, "--fleet.type=adb", f"--fleet.serials={json.dumps(args.serial)}"]
    recipe = evaluation_recipe(args, settings, (*MOBILERL_SETTINGS, SLOW))
    suite = InstructionsSuiteSection(file=str(args.file), free_reward=args.free_reward)
    return _evaluate(args, recipe.model_copy(update={"suite": suite}))


def _evaluate(args: argparse.Namespace, recipe: Recipe) -> int:
    plan = _plan(args)
    with resumable(args):
        results = evaluate(recipe, plan, args.agent, args.model, args.out, args.model_name, args.replace, args.keep)
    finish(results, _summary(results), args.out)
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    if args.pass_k is not None and args.pass_k < 1:
        raise ConfigError(f"--pass-k is {args.pass_k}; it must be at least 1")
    amounts = {"trials": 1, "instances": INSTANCES, "temperature": 0.0}
    if args.pass_k is not None:
        amounts = {"trials": args.pass_k, "instances": PASS_K_INSTANCES, "temperature": 1.0}
    amounts = {name: amount for name, amount in amounts.items() if name in args.plan.model_fields}
    amounts |= {name: getattr(args, name) for name in amounts if getattr(args, name) is not None}
    parts = {"parts": args.parts} if getattr(args, "parts", None) else {}
    fields = {"split": args.split, "templates": args.template, **amounts, **parts}
    return validate(args.plan, fields, "command line", flags=fields)


def _summary(results: Mapping[str, Any]) -> list[str]:
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


def _list(plan: type[Plan]) -> None:
    if plan is GeneratedPlan:
        table = make_table("template", "app", "steps", "for example", whole="template")
        for task in train_tasks(1, apps=GeneratedSuiteSection().apps):
            table.add_row(task.template, task.app, str(task.max_steps // 2 - 1), task.instruction)
        make_console().print(table)
        return
    table = make_table("template", "app", "split", "demo", "steps", "for example", whole="template")
    for template in suite.templates():
        steps = str(template.steps) if template.feasible else f"{template.steps} (infeasible)"
        example = suite.make_task(template.__name__, suite.HELD_OUT_SEEDS).instruction
        table.add_row(template.__name__, template.app, template.split, "yes" if template.demo else "no", steps, example)
    make_console().print(table)
