"""The recipe of an evaluation: a model is shown the screen as it was when it was trained."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from mobilerl.config import AgentSection, Recipe, load_recipe
from mobilerl.config.reading import read_flags


def evaluation_recipe(args: argparse.Namespace, settings: Sequence[str], otherwise: Sequence[str],
                      say: Callable[[str], None]) -> Recipe:  # fmt: skip
    """The recipe `args.config`, with the agent settings and picture size of the checkpoint `args.model`.

    For a model that brings none (a server, a folder without agent.json) and no model at all, they are the recipe's, and
    without a recipe `otherwise`, words of a command line. `settings`, what the command line says, wins over all.
    """
    from mobilerl.engines.image_settings import MAX_PIXELS, image_settings
    from mobilerl.eval.policies import find_model, is_server
    from mobilerl.setup import read_agent

    said = read_flags(settings)
    given = sorted(f"--{name}.{key}" for name, section in said.items() if isinstance(section, dict) for key in section)
    saved = None
    if args.agent == "policy" and args.model and not is_server(args.model):
        args.model = str(find_model(args.model))  # for all that follows: a run that goes on may save a newer one
        saved = read_agent(args.model)
    if saved is None:
        base = [] if args.config else [word for word in otherwise if word.split("=")[0] not in given]
        return load_recipe(args.config, [*base, *settings])
    ours = ", ".join(flag for flag in given if flag.startswith("--agent."))
    say(f"agent settings from the checkpoint{f'; from the command line: {ours}' if ours else ''}")
    recipe = load_recipe(args.config, [*saved_flags(saved, given), *settings])
    cap = (image_settings(Path(args.model)) or {}).get(MAX_PIXELS)
    if cap is None or ("--engine.max_pixels" in given and recipe.engine.max_pixels):
        return recipe
    return recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"max_pixels": cap})})


def saved_flags(agent: AgentSection, given: Collection[str] = ()) -> list[str]:
    """A checkpoint's agent settings as command-line words, without those that are `given` there anyway."""
    values = {f"--agent.{name}": value for name, value in agent.model_dump().items()}
    return [f"{flag}={'null' if value is None else value}" for flag, value in values.items() if flag not in given]
