"""The recipe of an evaluation, whose agent settings come from the checkpoint, the recipe file or the command line."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from functools import partial

from mobilerl.config import AgentSection, ConfigError, Recipe, load_recipe
from mobilerl.config.flags import parse_flags
from mobilerl.suites.base import settings_command
from mobilerl.system.terminal import say


def evaluation_recipe(args: argparse.Namespace, settings: Sequence[str], defaults: Sequence[str]) -> Recipe:
    """Loads the recipe `args.config` with the agent settings and image size of the checkpoint `args.model`.

    A model without saved settings (a server, a folder without agent.json) gets those of the recipe or, without one,
    the command-line words `defaults`; a published model gets its own format and settings. `settings`, from the command
    line, take precedence, and a recipe keeps the episode deadline that it sets. Raises ConfigError for settings that
    cannot be used.
    """
    from mobilerl.eval.policies import find_model, is_server
    from mobilerl.models.checkpoint_folder import MAX_PIXELS, PROCESSOR_FILES, image_settings, read_agent
    from mobilerl.models.hub import source

    if args.out is None:
        raise ConfigError("--out DIR is missing: it says where results.json and the episodes go")
    load = partial(load_recipe, args.config, command=settings_command(args.suite))
    flags, _ = parse_flags(settings)  # `load_recipe` below reports mistakes, together with those of the file
    given = sorted(f"--{name}.{key}" for name, section in flags.items() if isinstance(section, dict) for key in section)
    without: list[str] = [] if args.config else ["--engine.max_pixels=null"]  # the model's own limit
    saved = None
    if args.agent == "policy" and args.model and not is_server(args.model):
        args.model = str(find_model(args.model))  # only once, since the run may save a newer checkpoint at any time
        saved = read_agent(args.model)
    if saved is None:
        base = without + ([] if args.config else [word for word in defaults if word.split("=")[0] not in given])
        return _load_published(args, settings, base) or load(settings, base)
    ours = ", ".join(flag for flag in given if flag.startswith("--agent."))
    say(f"agent settings from the checkpoint{f'; from the command line: {ours}' if ours else ''}")
    own = given
    if args.config and "deadline_s" in load_recipe(args.config, ()).agent.model_fields_set:
        own = [*given, "--agent.deadline_s"]  # it depends on the devices and not on the policy
    recipe = load(settings, without + _saved_flags(saved, own))
    cap = (image_settings(source(args.model, *PROCESSOR_FILES)) or {}).get(MAX_PIXELS)
    if cap is None or ("--engine.max_pixels" in given and recipe.engine.max_pixels):
        return recipe
    return recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"max_pixels": cap})})


def _load_published(args: argparse.Namespace, settings: Sequence[str], base: Sequence[str]) -> Recipe | None:
    """The recipe for a published model in its own format, without MobileRL's settings; None for other models."""
    from mobilerl.eval.policies import MOBILERL_SETTINGS
    from mobilerl.policy.formats.choice import published_name, with_format

    if args.agent != "policy" or not args.model:
        return None
    try:
        base = [word for word in base if word not in MOBILERL_SETTINGS]
        recipe = load_recipe(args.config, settings, base, settings_command(args.suite))
    except ConfigError:  # settings of mobilerl's format that need MobileRL's other settings
        return None
    agent = with_format(recipe.agent, getattr(args, "model_name", None) or published_name(args.model))
    if agent.format in (None, "mobilerl"):
        return None
    say(f"prompts and responses in the format {agent.format}")
    return recipe.model_copy(update={"agent": agent})


def _saved_flags(agent: AgentSection, given: Collection[str]) -> list[str]:
    """A checkpoint's agent settings as command-line words, except those that are `given` there."""
    values = {f"--agent.{name}": value for name, value in agent.model_dump().items()}
    return [f"{flag}={'null' if value is None else value}" for flag, value in values.items() if flag not in given]
