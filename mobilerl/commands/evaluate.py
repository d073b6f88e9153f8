"""`mobilerl eval`: a policy or a scripted agent on a suite of tasks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from envs.phone.tasks import suite
from mobilerl.commands import evaluate_androidlab, evaluate_androidworld
from mobilerl.commands.evaluate_recipe import evaluation_recipe
from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.eval.policies import MOBILERL_SETTINGS, REFUSED, is_server
from mobilerl.eval.report import compare, percent, print_results, read_results
from mobilerl.eval.run import AGENTS, RESULTS, evaluate
from mobilerl.eval.sim import UNSEEN
from mobilerl.tables import make_console, make_table

SLOW = "--agent.deadline_s=3600"
"""Large models think for seconds at every step; an episode of theirs is not a device that hangs."""


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("eval", allow_abbrev=False, help="success rate on a suite of tasks")
    suites = parser.add_subparsers(dest="suite", required=True, metavar="SUITE")
    sim = suites.add_parser(
        "sim", parents=[common], allow_abbrev=False, help="the tasks of the embedded phone",
        epilog="settings of the recipe can be given as well: --phone.popup_rate 0",
    )  # fmt: skip
    sim.add_argument("--agent", choices=AGENTS, default="policy")
    sim.add_argument("--model", metavar="DIR|URL", help="checkpoint folder, a run directory for its newest, or "
                     "http://HOST:PORT/v1")  # fmt: skip
    sim.add_argument("--model-name", metavar="NAME", help="what a model server calls the model")
    sim.add_argument("--split", choices=("train", "test", "all"), default="test",
                     help="test (default): held-out instances of every template; train: training ones")  # fmt: skip
    sim.add_argument("--template", action="append", default=[], metavar="NAME", help="only this one; can be repeated")
    sim.add_argument("--trials", type=int, metavar="N", help="episodes per instance (default: eval.trials)")
    sim.add_argument("--instances", type=int, metavar="N", help="instances per template (default: eval.instances)")
    sim.add_argument("--temperature", type=float, metavar="T", help="0 (default) is greedy")
    sim.add_argument("--pass-k", action="store_true", help="sample eval.pass_k times at temperature 1, on "
                     "eval.pass_k_instances instances per template")  # fmt: skip
    sim.add_argument("--out", type=Path, metavar="DIR", help="where results.json goes")
    sim.add_argument("--reuse", action="store_true", help="keep results that are there with the very same protocol")
    sim.add_argument("--keep", action="store_true", help="keep every episode with its screens, for the viewer")
    sim.add_argument("--compare", type=Path, metavar="RESULTS", help="an earlier results.json to compare with")
    sim.add_argument("--config", type=Path, metavar="RECIPE.toml")
    sim.add_argument("--list", action="store_true", help="list the task templates and stop")
    sim.set_defaults(run=run, takes_settings=True)
    evaluate_androidworld.add(suites, common)
    evaluate_androidlab.add(suites, common)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    console = make_console()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    if args.list:
        recipe = load_recipe(args.config, settings)
        _list(console)
        return 0
    if args.out is None:
        raise ConfigError("--out DIR is missing: it says where results.json goes")
    if args.compare:
        read_results(args.compare)  # a wrong path is better found before the episodes than after
    # A server brings no settings: without a recipe they are MobileRL's, which large models can follow.
    otherwise = (*MOBILERL_SETTINGS, SLOW) if is_server(args.model) else ()
    recipe = evaluation_recipe(args, settings, otherwise, say)
    trials, instances, temperature = _amounts(args, recipe)
    with console.status("playing"):
        results = evaluate(
            recipe, args.agent, args.model, args.split, trials, instances, temperature, args.out,
            templates=args.template, reuse=args.reuse, keep=args.keep, model_name=args.model_name,
        )  # fmt: skip
    print_results(results, console)
    if unseen := results.get(UNSEEN):
        low, high = unseen["ci95"]
        console.print(
            f"templates never trained on: {percent(unseen['success_rate'])}  95% interval {percent(low)} to "
            f"{percent(high)}  ({unseen['successes']}/{unseen['trials']} trials)"
        )
    if refused := results.get(REFUSED):
        say(f"{refused['count']} prompts were refused by the model server, the first with: {refused['first']}")
    say(f"written to {args.out / RESULTS}")
    if args.compare:
        compare(args.compare, args.out / RESULTS, console)
    return 0


def _amounts(args: argparse.Namespace, recipe: Recipe) -> tuple[int, int, float]:
    """(trials, instances, temperature): what the command line says, else what the recipe says."""
    if args.pass_k:
        if recipe.eval.pass_k_instances == 0:
            raise ConfigError("--pass-k: eval.pass_k_instances is 0; set it to at least 1")
        trials, instances, temperature = recipe.eval.pass_k, recipe.eval.pass_k_instances, 1.0
    else:
        trials, instances, temperature = recipe.eval.trials, recipe.eval.instances, 0.0
    return (
        trials if args.trials is None else args.trials,
        instances if args.instances is None else args.instances,
        temperature if args.temperature is None else args.temperature,
    )


def _list(console: Console) -> None:
    table = make_table("template", "app", "split", "demonstrated", "steps", "for example", whole="template")
    for template in suite.templates():
        steps = str(template.steps) if template.feasible else f"{template.steps} (infeasible)"
        example = suite.make_task(template.__name__, suite.HELD_OUT_SEEDS).instruction
        table.add_row(template.__name__, template.app, template.split, "yes" if template.demo else "no", steps, example)
    console.print(table)
