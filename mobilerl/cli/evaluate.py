"""`mobilerl eval`: evaluates a policy or a scripted agent on a suite of tasks."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mobilerl.cli.evaluation_recipe import evaluation_recipe
from mobilerl.cli.options import add_config
from mobilerl.suites.command import EvalCommand, eval_commands
from mobilerl.system.terminal import say
from mobilerl.training.interrupt import Stopped, interrupts_as_stopped, resume_command


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("eval", allow_abbrev=False, help="success rate on a suite of tasks")
    suites = parser.add_subparsers(dest="suite", required=True, metavar="SUITE")
    for evaluation in eval_commands().values():
        _add(suites, common, evaluation)


def _add(suites: argparse._SubParsersAction, common: argparse.ArgumentParser, evaluation: EvalCommand) -> None:
    parser = suites.add_parser(
        evaluation.name,
        parents=[common],
        allow_abbrev=False,
        help=evaluation.help,
        description=evaluation.description,
        epilog=f"settings of the recipe can be given as well: {evaluation.example}",
    )
    option = parser.add_argument
    option("--agent", choices=evaluation.agents, default="policy")
    option(
        "--model",
        metavar="DIR|ORG/NAME|URL",
        help="checkpoint folder, run directory (its newest), a model on the Hugging Face Hub, or http://HOST:PORT/v1",
    )
    option("--model-name", metavar="NAME", help="what a model server calls the model")
    option("--out", type=Path, metavar="DIR", help="where results.json and the episodes go")
    add_config(parser)
    option("--list", action="store_true", help="list the tasks and stop")
    evaluation.add_options(parser)
    parser.set_defaults(run=run, evaluation=evaluation, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    evaluation: EvalCommand = args.evaluation
    if args.list:
        evaluation.list_tasks(args, settings)
        return 0
    recipe = evaluation_recipe(args, evaluation.settings(args, settings), evaluation.defaults(args))
    play = evaluation.prepare(args, recipe)
    with _resumable(args):
        results = play()
    _finish(results, evaluation.summary(results), args.out)
    return evaluation.exit_code(args, results)


@contextmanager
def _resumable(args: argparse.Namespace) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, raises Stopped with the number of finished episodes and the command to resume."""
    from mobilerl.eval.journal import read_journal

    try:
        with interrupts_as_stopped():
            yield
    except Stopped as stop:
        past = read_journal(args.out)
        message = "stopped; no episode has ended yet"
        if past.episodes:
            message = f"stopped; {len(past.episodes)} of {past.total} episodes are done and kept in {past.path}"
        command = resume_command(args.command_line, resume=False)
        raise Stopped(stop.number, f"{message}; the same command goes on:\n  {command}") from None


def _finish(results: Mapping[str, Any], lines: Sequence[str], out: Path) -> None:
    """Prints results, followed by the suite's own `lines`."""
    from mobilerl.eval.policies import REFUSED
    from mobilerl.eval.report import RESULTS, print_results

    print_results(results)
    for line in lines:
        say(line)
    if refused := results.get(REFUSED):
        say(f"the model server refused {refused['count']} prompts, the first with: {refused['first']}")
    say(f"written to {out / RESULTS}")
