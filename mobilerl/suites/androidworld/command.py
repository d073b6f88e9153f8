"""`mobilerl eval androidworld`: AndroidWorld's tasks on its own servers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mobilerl.config import AndroidWorldSuiteSection, ConfigError, Recipe, validate
from mobilerl.envs.androidworld.tasks import EVAL_SEED, FACTS
from mobilerl.eval.policies import real_phone_policy
from mobilerl.policy.context import make_context
from mobilerl.suites.command import MOBILERL, MOST_EQUAL, ROUNDS, EvalCommand, Results, add_protocol
from mobilerl.system.terminal import header, say

if TYPE_CHECKING:
    from mobilerl.suites.androidworld.servers import Servers

NO_SERVER_LEFT = 1
"""Exit code if all servers died before the end."""


class AndroidWorldCommand(EvalCommand):
    """AndroidWorld's tasks."""

    help = "AndroidWorld's 116 tasks, on its own servers"
    example = "--agent.screenshots 1; see docs/benchmarks.md"
    required = "--server URL"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
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
        said = "of the whole suite (default 1); published are means of 3"
        option("--runs", type=int, default=1, metavar="N", help=said)
        add_protocol(parser)
        option("--step-cap", type=int, metavar="N", help="upper limit on every step budget")
        option("--retries", type=int, default=3, metavar="N", help="of an episode that failed (default 3)")
        option("--boot-wait", type=float, default=900.0, metavar="S", help="seconds to wait for a server (default 900)")
        option("--androidworld-commit", metavar="SHA", help="what the servers run, for the protocol")
        option("--keep", action="store_true", help="keep every episode with its screens, for the viewer")

    def settings(self, args: argparse.Namespace, given: Sequence[str]) -> Sequence[str]:
        return given if args.fleet is None else ["--fleet.type=docker", *given]

    def list_tasks(self, args: argparse.Namespace, given: Sequence[str]) -> None:
        for name, facts in FACTS.items():
            say(f"{name}  {', '.join(facts.apps)}  {facts.budget} steps")

    def prepare(self, args: argparse.Namespace, recipe: Recipe) -> Callable[[], Results]:
        from mobilerl.suites.androidworld.evaluation import Plan, evaluate

        servers = _servers(args, recipe)
        same = {name: getattr(args, name) for name in ("seed", "instances", "runs", "step_cap", "retries", "keep")}
        other = {
            "templates": args.template,
            "max_invalid": recipe.agent.max_invalid,
            "most_equal": make_context(recipe.agent).most_equal,
            "boot_wait_s": args.boot_wait,
            "commit": args.androidworld_commit,
        }
        if args.protocol == MOBILERL:
            other |= {"protocol_of": MOBILERL, "max_invalid": 1, "most_equal": MOST_EQUAL}
            same["step_cap"] = ROUNDS if args.step_cap is None else args.step_cap
        plan = validate(Plan, same | other, "command line")
        policy = real_phone_policy(recipe, args.agent, args.model, args.model_name, args.temperature, plan.seed)
        devices = ", ".join(args.server)
        header({"model": args.model or args.agent, "suite": self.name, "devices": devices, "out": args.out})
        return partial(evaluate, servers, plan, policy, args.out, say)

    def summary(self, results: Mapping[str, Any]) -> Sequence[str]:
        from mobilerl.suites.androidworld.results import summary

        return summary(results)

    def exit_code(self, args: argparse.Namespace, results: Mapping[str, Any]) -> int:
        from mobilerl.envs.androidworld.startup import parse_addresses

        dead = {gone["server"] for gone in results["dead_servers"]}
        names = [address.device_id for address in parse_addresses(args.server)] if args.server else []
        if not results["errors"] or not names or not dead.issuperset(names):
            return 0
        again = f"the same command runs the {results['errors']} missing episodes"
        say(f"every server has died; once they run again, {again}")
        return NO_SERVER_LEFT

    def words(self, recipe: Recipe) -> list[str]:
        assert isinstance(recipe.suite, AndroidWorldSuiteSection)
        return [self.name, *(word for server in recipe.suite.servers for word in ("--server", server))]


def _servers(args: argparse.Namespace, recipe: Recipe) -> Servers:
    """Running servers if any are given, else as many containers as `--fleet` or the recipe says."""
    from mobilerl.envs.androidworld.startup import parse_addresses
    from mobilerl.suites.androidworld.servers import RunningServers, StartedContainers
    from mobilerl.suites.fleet import fleet_type

    if args.server and args.fleet is not None:
        raise ConfigError("--server names running servers, and --fleet starts its own: leave one of them out")
    if args.fleet is None and (args.server or not fleet_type(recipe.fleet).starts_containers):
        return RunningServers(parse_addresses(args.server), args.out)
    count = recipe.fleet.count if args.fleet is None else args.fleet
    return StartedContainers(recipe, count, args.boot_wait, args.out)
