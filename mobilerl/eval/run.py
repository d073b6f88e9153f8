"""One evaluation on the suite `sim`: from a recipe to results.json, which holds everything that affects the score."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.base import Task
from envs.phone.tasks import suite
from mobilerl import __version__
from mobilerl.agent.context import prompt_hash
from mobilerl.config import ConfigError, Recipe
from mobilerl.eval.agents import SCRIPTED, scripted_actor
from mobilerl.eval.policies import Player, check_model, checkpoint_protocol, find_model, is_server, model_player
from mobilerl.eval.report import read_results, write_results
from mobilerl.eval.sim import eval_tasks, play, results_of
from mobilerl.records import Trajectory
from mobilerl.setup import make_context, make_episode_settings, make_phones
from mobilerl.trajectory_files import save_trajectories

POLICY = "policy"
AGENTS = (POLICY, *SCRIPTED)
RESULTS = "results.json"
EPISODES = "trajectories"
STEP_BUDGET = "2 x steps of the expert + 2"


def evaluate(
    recipe: Recipe, agent: str, model: str | Path | None, split: str, trials: int, instances: int, temperature: float,
    out: Path, templates: Sequence[str] = (), reuse: bool = False, keep: bool = False, model_name: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Plays every task of the split `trials` times and writes `out/results.json`; returns its content.

    `model` is a checkpoint folder, a run directory, or the address of a model server that has `model_name`; it belongs
    to the agent "policy" alone. `temperature` 0 is greedy. `templates` keeps only those. With `reuse`, results that
    are already there with the very same protocol are returned instead of played again. With `keep` the episodes go to
    `out/trajectories` and `out/screens`, where the viewer of a run finds those of its evaluations. Raises ConfigError
    for settings that cannot be used, ValueError when tasks to be tested on are trained on.

    With a judge (`recipe.judge.url`) the results say how far it agrees with the tasks' own checks.
    """
    _check(agent, model, trials, instances, temperature)
    if reuse and is_server(model):
        raise ConfigError("--reuse cannot tell whether a server has still the same weights; leave it out")
    check_model(model, model_name)
    if model is not None and not is_server(model):
        model = find_model(model)  # once: a run that goes on may save a newer one meanwhile
    seed = recipe.eval.seed
    player = model_player(recipe, model, model_name, temperature, seed) if is_server(model) else None
    who = player.protocol if player else checkpoint_protocol(Path(model)) if model is not None else {}
    tasks = choose_tasks(split, instances, templates)
    protocol = protocol_of(recipe, agent, who, split, trials, instances, temperature, templates)
    if recipe.judge.url:
        protocol |= _judge(recipe)
    if reuse and (before := _results_with(protocol, out, keep)) is not None:
        return before
    out.mkdir(parents=True, exist_ok=True)  # before playing: a folder that cannot be written to costs nothing then
    envs = make_phones(
        recipe.phone,
        count=min(recipe.phone.count, len(tasks) * trials),
        screenshots=(model is not None and recipe.agent.screenshots > 0) or bool(recipe.judge.url) or keep,
    )
    if model is None:
        player = Player(scripted_actor(agent, seed, envs), {})
    elif player is None:  # a checkpoint is loaded only when it is going to play
        player = model_player(recipe, model, None, temperature, seed)
    groups = play(envs, player.actor, tasks, trials, make_episode_settings(recipe.agent), player.connect, player.poke)
    results = results_of(groups, tasks, trials, protocol) | player.extras()
    played = [t for g in groups for t in g.trajectories]
    _store(out, results, played if keep else None)
    if recipe.judge.url:
        results["judge"] = _audit(recipe, played, out)
        write_results(out / RESULTS, results)
    return results


def _store(out: Path, results: Mapping[str, Any], played: Sequence[Trajectory] | None) -> None:
    """Results and episodes (None: not to be kept) side by side: those of an earlier evaluation are taken away."""
    (out / RESULTS).unlink(missing_ok=True)
    shutil.rmtree(out / EPISODES, ignore_errors=True)
    if played is not None:
        save_trajectories(out, 0, played)
    write_results(out / RESULTS, results)


def _audit(recipe: Recipe, played: Sequence[Trajectory], out: Path) -> dict[str, Any]:
    from mobilerl.judge.audit import audit

    try:
        return audit(recipe.judge, played)
    except ConfigError as error:
        raise ConfigError(f"{error}; the results without the judge are in {out / RESULTS}") from None


def _judge(recipe: Recipe) -> dict[str, Any]:
    """Tries the judge out, at start rather than after the episodes; returns what decides its verdicts."""
    from mobilerl.judge.judge import Judge, check_judge

    check_judge(recipe.judge)
    return Judge(recipe.judge).protocol()


def choose_tasks(split: str, instances: int, templates: Sequence[str] = ()) -> list[Task]:
    """The tasks of a split, of these templates only if any are named. Raises ConfigError when none are left."""
    for name in templates:
        if name not in suite.TEMPLATES:
            raise ConfigError(f"no task template is called {name!r}; `mobilerl eval sim --list` shows them all")
    tasks = [t for t in eval_tasks(split, instances) if not templates or t.template in templates]
    if not tasks:
        raise ConfigError(f"--split {split} has no tasks of {', '.join(templates)}; --split all has every template")
    return tasks


def protocol_of(
    recipe: Recipe, agent: str, who: Mapping[str, Any], split: str, trials: int, instances: int, temperature: float,
    templates: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Everything that affects the score, in plain JSON values; `who` is what the model adds to it, if one plays.

    Raises ValueError when the splits leak.
    """
    protocol: dict[str, Any] = {
        "mobilerl": __version__,
        "agent": agent,
        "split": split,
        "instances_per_template": instances,
        "trials": trials,
        "templates": list(templates) or "all",
        "suite_templates": len(suite.TEMPLATES),
        "held_out_seeds_from": suite.HELD_OUT_SEEDS,
        "leak_guard": leak_verdict(recipe, instances),
        "step_budget": STEP_BUDGET,
        "screen": f"{recipe.phone.width}x{recipe.phone.height}",
        "popup_rate": recipe.phone.popup_rate,
        "deadline_s": recipe.agent.deadline_s,
        "seed": recipe.eval.seed,
    }
    if not who:
        return protocol
    return protocol | {
        **who,
        "temperature": temperature,
        "prompt_hash": prompt_hash(make_context(recipe.agent)),
        **{f"agent.{name}": value for name, value in recipe.agent.model_dump().items() if name != "deadline_s"},
        "max_pixels": recipe.engine.max_pixels,
        "phones": min(recipe.phone.count, trials * len(choose_tasks(split, instances, templates))),
    }


def leak_verdict(recipe: Recipe, instances: int) -> str:
    """Checks what warm-up and training use against what is held out. Raises ValueError when they meet."""
    trained = suite.train_tasks(max(recipe.tasks.per_template, recipe.sft.demos_per_template))
    tested = suite.test_tasks(instances)
    suite.check_no_leak(trained, tested)
    return f"passed: {len(tested)} held-out instances share no parameters or seeds with {len(trained)} training ones"


def _check(agent: str, model: str | Path | None, trials: int, instances: int, temperature: float) -> None:
    if agent not in AGENTS:
        raise ConfigError(f"no agent is called {agent!r}; choose one of {', '.join(AGENTS)}")
    if (agent == POLICY) != (model is not None):
        wrong = "needs a checkpoint or a server: --model DIR, --model http://HOST:PORT/v1"
        wrong = wrong if agent == POLICY else "plays without a model; leave --model out"
        raise ConfigError(f"--agent {agent} {wrong}")
    for name, value in (("--trials", trials), ("--instances", instances)):
        if value < 1:
            raise ConfigError(f"{name} is {value}; it must be at least 1")
    if temperature < 0:
        raise ConfigError(f"--temperature is {temperature:g}; it must be 0 (greedy) or more")


def _results_with(protocol: dict[str, Any], out: Path, keep: bool) -> dict[str, Any] | None:
    """What is there, if it is whole: episodes that are to be kept, and the audit of a judge, included."""
    results = read_results(out / RESULTS) if (out / RESULTS).is_file() else None
    if results is None or results["protocol"] != protocol or keep and not (out / EPISODES).is_dir():
        return None
    return results if "judge" in results or not any(name.startswith("judge.") for name in protocol) else None
