"""`mobilerl eval`: a policy or a scripted agent on a suite of tasks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from envs.phone.tasks import suite
from mobilerl.config import AgentSection, ConfigError, Recipe, load_recipe
from mobilerl.eval.report import compare, percent, print_results, read_results
from mobilerl.eval.run import AGENTS, RESULTS, evaluate, find_model
from mobilerl.eval.sim import UNSEEN
from mobilerl.setup import read_agent


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("eval", allow_abbrev=False, help="success rate on a suite of tasks")
    suites = parser.add_subparsers(dest="suite", required=True, metavar="SUITE")
    sim = suites.add_parser(
        "sim", parents=[common], allow_abbrev=False, help="the tasks of the embedded phone",
        epilog="settings of the recipe can be given as well: --phone.popup_rate 0",
    )  # fmt: skip
    sim.add_argument("--agent", choices=AGENTS, default="policy")
    sim.add_argument("--model", type=Path, metavar="DIR", help="checkpoint folder, or a run directory for its newest")
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
    sim.add_argument("--compare", type=Path, metavar="RESULTS", help="an earlier results.json to compare with")
    sim.add_argument("--config", type=Path, metavar="RECIPE.toml")
    sim.add_argument("--list", action="store_true", help="list the task templates and stop")
    sim.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    console = Console()
    if args.list:
        recipe = load_recipe(args.config, settings)
        _list(console)
        return 0
    if args.out is None:
        raise ConfigError("--out DIR is missing: it says where results.json goes")
    if args.compare:
        read_results(args.compare)  # a wrong path is better found before the episodes than after
    recipe = _recipe(args, settings, console)
    trials, instances, temperature = _amounts(args, recipe)
    with console.status("playing"):
        results = evaluate(
            recipe, args.agent, args.model, args.split, trials, instances, temperature, args.out,
            templates=args.template, reuse=args.reuse,
        )  # fmt: skip
    print_results(results, console)
    if unseen := results.get(UNSEEN):
        low, high = unseen["ci95"]
        console.print(
            f"templates never trained on: {percent(unseen['success_rate'])}  95% interval {percent(low)} to "
            f"{percent(high)}  ({unseen['successes']}/{unseen['trials']} trials)"
        )
    console.print(f"written to {args.out / RESULTS}", markup=False, highlight=False, soft_wrap=True)
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


def _recipe(args: argparse.Namespace, settings: Sequence[str], console: Console) -> Recipe:
    """The recipe, with the agent settings the checkpoint was trained with. The command line wins over both."""
    saved = read_agent(find_model(args.model)) if args.model and args.agent == "policy" else None
    if saved is None:
        return load_recipe(args.config, settings)
    given = sorted({word.split("=")[0] for word in settings if word.startswith("--agent.")})
    says = f"; from the command line: {', '.join(given)}" if given else ""
    console.print(f"agent settings from the checkpoint{says}", markup=False, highlight=False, soft_wrap=True)
    return load_recipe(args.config, [*saved_flags(saved, given), *settings])


def saved_flags(agent: AgentSection, given: Sequence[str] = ()) -> list[str]:
    """A checkpoint's agent settings as command-line words, without those that are `given` there anyway."""
    values = {f"--agent.{name}": value for name, value in agent.model_dump().items()}
    return [f"{flag}={'null' if value is None else value}" for flag, value in values.items() if flag not in given]


def _list(console: Console) -> None:
    table = Table("template", "app", "split", "demonstrated", "steps", "for example")
    for template in suite.templates():
        steps = str(template.steps) if template.feasible else f"{template.steps} (infeasible)"
        example = suite.make_task(template.__name__, suite.HELD_OUT_SEEDS).instruction
        table.add_row(template.__name__, template.app, template.split, "yes" if template.demo else "no", steps, example)
    console.print(table)
