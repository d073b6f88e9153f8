"""`mobilerl eval androidworld`: evaluates a policy or a scripted agent on AndroidWorld's servers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mobilerl.cli.evaluate_common import add_suite, evaluation_recipe, finish, resumable, say
from mobilerl.config import ConfigError, Recipe, validate
from mobilerl.envs.androidworld.tasks import EVAL_SEED, FACTS
from mobilerl.eval.policies import MOBILERL_SETTINGS, REAL_PHONE_AGENTS, real_phone_policy
from mobilerl.system.terminal import header

if TYPE_CHECKING:
    from mobilerl.suites.androidworld.servers import Servers

NO_SERVER_LEFT = 1
"""Exit code if all servers died before the end."""


def add(suites: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = add_suite(
        suites,
        common,
        "androidworld",
        REAL_PHONE_AGENTS,
        "--agent.screenshots 1; see docs/benchmarks.md",
        help="AndroidWorld's 116 tasks, on its own servers",
    )
    option = parser.add_argument
    option(
        "--server",
        action="append",
        default=[],
        metavar="URL[,ADB_SERIAL]",
        help="a server and its phone, as in http://127.0.0.1:5000,emulator-5554 (SERIAL@HOST:PORT for another adb "
        "server); once for each server",
    )
    option("--fleet", type=int, metavar="N", help="start N containers of fleet.image instead of --server")
    option("--temperature", type=float, default=0.0, metavar="T", help="0 (default) is greedy")
    option("--template", action="append", default=[], metavar="NAME", help="only this one; can be repeated")
    option("--seed", type=int, default=EVAL_SEED, metavar="N", help=f"seed of the instances (default {EVAL_SEED})")
    option("--instances", type=int, default=1, metavar="N", help="per task (default 1)")
    option("--runs", type=int, default=1, metavar="N", help="of the whole suite (default 1); published are means of 3")
    option("--step-cap", type=int, metavar="N", help="upper limit on every step budget")
    option("--retries", type=int, default=3, metavar="N", help="of an episode that failed (default 3)")
    option("--boot-wait", type=float, default=900.0, metavar="S", help="seconds to wait for a server (default 900)")
    option("--androidworld-commit", metavar="SHA", help="what the servers run, for the protocol")
    option("--keep", action="store_true", help="keep every episode with its screens, for the viewer")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    if args.list:
        for name, facts in FACTS.items():
            say(f"{name}  {', '.join(facts.apps)}  {facts.budget} steps")
        return 0
    from mobilerl.suites.androidworld.evaluation import Plan, evaluate
    from mobilerl.suites.androidworld.results import summary

    if args.fleet is not None:
        settings = ["--fleet.type=docker", *settings]
    recipe = evaluation_recipe(args, settings, MOBILERL_SETTINGS)
    servers = _servers(args, recipe)
    same = {name: getattr(args, name) for name in ("seed", "instances", "runs", "step_cap", "retries", "keep")}
    other = {
        "templates": args.template,
        "max_invalid": recipe.agent.max_invalid,
        "boot_wait_s": args.boot_wait,
        "commit": args.androidworld_commit,
    }
    plan = validate(Plan, same | other, "command line")
    policy = real_phone_policy(recipe, args.agent, args.model, args.model_name, args.temperature, plan.seed)
    header(
        {"model": args.model or args.agent, "suite": "androidworld", "devices": ", ".join(args.server), "out": args.out}
    )
    with resumable(args):
        results = evaluate(servers, plan, policy, args.out, say)
    finish(results, summary(results), args.out)
    dead = {gone["server"] for gone in results["dead_servers"]}
    if not results["errors"] or not servers.names or not dead.issuperset(servers.names):
        return 0
    say(f"every server has died; once they run again, the same command runs the {results['errors']} missing episodes")
    return NO_SERVER_LEFT


def _servers(args: argparse.Namespace, recipe: Recipe) -> Servers:
    """Running servers if any are given, else as many containers as `--fleet` or the recipe says."""
    from mobilerl.envs.androidworld.startup import parse_addresses
    from mobilerl.suites.androidworld.servers import RunningServers, StartedContainers
    from mobilerl.suites.fleet import fleet_type

    if args.server and args.fleet is not None:
        raise ConfigError("--server names running servers, and --fleet starts its own: leave one of them out")
    if args.fleet is None and (args.server or not fleet_type(recipe.fleet).starts_containers):
        return RunningServers(parse_addresses(args.server), args.out)
    count = recipe.phone.count if args.fleet is None else args.fleet
    return StartedContainers(recipe, count, args.boot_wait, args.out)
