"""`mobilerl eval androidworld`: a policy or a scripted agent on AndroidWorld's servers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.androidworld.tasks import EVAL_SEED, FACTS
from mobilerl.commands.evaluate_recipe import evaluation_recipe
from mobilerl.config import ConfigError, Recipe
from mobilerl.tables import make_console

if TYPE_CHECKING:
    from mobilerl.eval.androidworld.places import Places
    from mobilerl.eval.androidworld.run import Plan


NO_SERVER_LEFT = 1
"""Exit code."""


def add(suites: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = suites.add_parser(
        "androidworld", parents=[common], allow_abbrev=False, help="AndroidWorld's 116 tasks, on its own servers",
        epilog="settings of the recipe can be given as well: --agent.screenshots 1; see docs/androidworld.md",
    )  # fmt: skip
    parser.add_argument("--server", action="append", default=[], metavar="URL[,ADB_SERIAL]",
                        help="a server and its phone, as in http://127.0.0.1:5000,emulator-5554 (SERIAL@HOST:PORT for "
                        "another adb server); once for each server")  # fmt: skip
    parser.add_argument("--fleet", type=int, metavar="N", help="start N containers of fleet.image, and remove them "
                        "afterwards; instead of --server")  # fmt: skip
    parser.add_argument("--agent", choices=("policy", "noop", "finish", "random"), default="policy")
    parser.add_argument("--model", metavar="DIR|URL", help="checkpoint folder, run directory, or http://HOST:PORT/v1")
    parser.add_argument("--model-name", metavar="NAME", help="what a model server calls the model")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 (default) is greedy")
    parser.add_argument(
        "--template", action="append", default=[], metavar="NAME", help="only this one; can be repeated"
    )
    parser.add_argument("--seed", type=int, default=EVAL_SEED, metavar="N",
                        help=f"of the instances (default {EVAL_SEED}, as published numbers have it)")  # fmt: skip
    parser.add_argument("--instances", type=int, default=1, metavar="N", help="per task (default 1)")
    parser.add_argument("--runs", "--trials", type=int, default=1, metavar="N",
                        help="times the suite is played (default 1); published numbers are means of 3")  # fmt: skip
    parser.add_argument("--step-cap", type=int, metavar="N", help="no more steps, whatever the budget says")
    parser.add_argument("--deadline", type=float, default=3600.0, metavar="S",
                        help="seconds an episode may take before it counts as failed (default 3600)")  # fmt: skip
    parser.add_argument("--retries", type=int, default=3, metavar="N", help="of an episode that failed (default 3)")
    parser.add_argument("--boot-wait", type=float, default=900.0, metavar="S",
                        help="seconds to wait for a server that is starting (default 900)")  # fmt: skip
    parser.add_argument("--androidworld-commit", metavar="SHA", help="what the servers run, for the protocol")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where episodes.jsonl and results.json go; started "
                        "again with the same settings, what is missing or failed is played")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="keep every episode with its screens, for the viewer")
    parser.add_argument("--config", type=Path, metavar="RECIPE.toml")
    parser.add_argument("--list", action="store_true", help="list the tasks and stop")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    console = make_console()
    if args.list:
        for name, facts in FACTS.items():
            console.print(f"{name}  {', '.join(facts.apps)}  {facts.budget} steps", highlight=False, soft_wrap=True)
        return 0
    from mobilerl.eval.androidworld.run import evaluate
    from mobilerl.eval.players import make_player
    from mobilerl.eval.policies import MOBILERL_SETTINGS
    from mobilerl.eval.report import print_results
    from mobilerl.eval.run import RESULTS

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    recipe = evaluation_recipe(args, settings, MOBILERL_SETTINGS, say)
    places = _places(args, recipe)
    if args.out is None:
        raise ConfigError("--out DIR is missing: it says where episodes.jsonl and results.json go")
    if args.temperature < 0:
        raise ConfigError(f"--temperature is {args.temperature:g}; it must be 0 (greedy) or more")
    plan = _plan(args, recipe)
    player = make_player(recipe, args.agent, args.model, args.model_name, args.temperature, plan.seed)
    results = evaluate(places, plan, player, args.out, say)
    print_results(results, console)
    for line in summary(results):
        say(line)
    say(f"written to {args.out / RESULTS}")
    dead = {gone["server"] for gone in results["dead_servers"]}
    if not results["errors"] or not places.names or not dead.issuperset(places.names):
        return 0
    say(f"every server has died; once they run again, the same command plays the {results['errors']} missing episodes")
    return NO_SERVER_LEFT


def _places(args: argparse.Namespace, recipe: Recipe) -> Places:
    """Servers that run already, else containers: `--fleet` of them, or as the recipe has it."""
    from envs.androidworld.address import parse_addresses
    from mobilerl.eval.androidworld.places import RunningServers, make_containers

    if args.server and args.fleet is not None:
        raise ConfigError("--server names servers that run, and --fleet starts its own: leave one of them out")
    if args.fleet is None and (args.server or recipe.fleet.type != "docker"):
        return RunningServers(parse_addresses(args.server))
    count = recipe.phone.count if args.fleet is None else args.fleet
    return make_containers(recipe, count, args.boot_wait, args.deadline, args.out)


def _plan(args: argparse.Namespace, recipe: Recipe) -> Plan:
    from mobilerl.eval.androidworld.run import Plan

    return Plan(
        seed=args.seed, instances=args.instances, runs=args.runs, templates=tuple(args.template),
        step_cap=args.step_cap, max_invalid=recipe.agent.max_invalid, deadline_s=args.deadline,
        max_retries=args.retries, boot_wait_s=args.boot_wait, commit=args.androidworld_commit,
        keep=args.keep,
    )  # fmt: skip


def summary(results: dict[str, Any]) -> list[str]:
    """What an AndroidWorld evaluation says beyond every other suite's."""
    from mobilerl.eval.policies import REFUSED
    from mobilerl.eval.report import percent

    lines = [f"AndroidWorld's own number (mean score): {percent(results['mean_score'])}, "
             f"{percent(results['mean_score_errors_as_zero'])} with errors as zero"]  # fmt: skip
    runs = results["runs"]
    if runs["ci95"]:
        low, high = runs["ci95"]
        lines.append(f"mean over {len(runs['success_rate'])} runs: {percent(runs['mean'])}  95% interval "
                     f"{percent(low)} to {percent(high)}")  # fmt: skip
    free = results["free_reward"]
    if free["task_ids"]:
        lines.append(f"{len(free['task_ids'])} instances give their reward for nothing; without them "
                     f"{percent(free['success_rate_without'])}, "
                     f"{percent(free['success_rate_without_errors_as_zero'])} with errors as zero")  # fmt: skip
    lines += _error_lines(results)
    if refused := results.get(REFUSED):
        lines.append(f"{refused['count']} prompts were refused by the model server, the first with: {refused['first']}")
    if results["reached_unsaid"]:
        lines.append(f"{results['reached_unsaid']} failed episodes had reached the goal, but the agent never said so")
    return lines


def _error_lines(results: dict[str, Any]) -> list[str]:
    """What failed, apart by who can do something about it."""
    count = results["errors_by_kind"]
    raised = sorted({i["template"] for i in results["instances"] if i["error_kind"] in ("environment", "nan")})
    lines = []
    if count["infrastructure"]:
        what = f"{count['infrastructure']} infrastructure errors (server or phone)"
        lines.append(f"{what}: the same command plays these episodes again")
    if raised:
        what = (
            f"AndroidWorld's own code raised in {count['environment'] + count['nan']} episodes of {', '.join(raised)}"
        )
        lines.append(
            f"{what}: its server's log has the traceback. A task whose app was never opened on that phone has no "
            "database to check: open the app once, or use a fresh container"
        )
    return lines
