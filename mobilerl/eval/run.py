"""One evaluation on the suite `sim`: from a recipe to results.json, which holds everything that affects the score."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.base import Task
from envs.phone.env import PhoneEnv
from envs.phone.tasks import suite
from mobilerl import __version__
from mobilerl.agent.actor import ModelActor
from mobilerl.agent.context import prompt_hash
from mobilerl.agent.policy import EnginePolicy
from mobilerl.config import ConfigError, Recipe
from mobilerl.engines.base import Sampling
from mobilerl.eval.agents import SCRIPTED, scripted_actor
from mobilerl.eval.report import read_results, write_results
from mobilerl.eval.sim import eval_tasks, play, results_of
from mobilerl.records import Group
from mobilerl.rollout.collector import Collector
from mobilerl.setup import check_checkpoint, make_context, make_engine, make_episode_settings, make_phones
from mobilerl.train.checkpoint import latest

POLICY = "policy"
AGENTS = (POLICY, *SCRIPTED)
RESULTS = "results.json"
STEP_BUDGET = "2 x steps of the expert + 2"


def evaluate(
    recipe: Recipe, agent: str, model: str | Path | None, split: str, trials: int, instances: int, temperature: float,
    out: Path, templates: Sequence[str] = (), reuse: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Plays every task of the split `trials` times and writes `out/results.json`; returns its content.

    `model` is a checkpoint folder or a run directory, and belongs to the agent "policy" alone. `temperature` 0 is
    greedy. `templates` keeps only those. With `reuse`, results that are already there with the very same protocol
    are returned instead of played again. Raises ConfigError for settings that cannot be used, ValueError when tasks
    to be tested on are trained on.
    """
    _check(agent, model, trials, instances, temperature)
    folder = find_model(model) if model is not None else None
    tasks = choose_tasks(split, instances, templates)
    protocol = protocol_of(recipe, agent, folder, split, trials, instances, temperature, templates)
    if reuse and (before := _results_with(protocol, out / RESULTS)) is not None:
        return before
    out.mkdir(parents=True, exist_ok=True)  # before playing: a folder that cannot be written to costs nothing then
    envs = make_phones(
        recipe.phone,
        count=min(recipe.phone.count, len(tasks) * trials),
        screenshots=folder is not None and recipe.agent.screenshots > 0,
    )
    if folder is None:
        groups = _play_script(recipe, agent, envs, tasks, trials)
    else:
        groups = _play_policy(recipe, folder, temperature, envs, tasks, trials)
    results = results_of(groups, tasks, trials, protocol)
    write_results(out / RESULTS, results)
    return results


def find_model(model: str | Path) -> Path:
    """The checkpoint folder itself, or the newest one of a run directory. Raises ConfigError when there is none."""
    run = Path(model)
    is_run = (run / "final").is_dir() or (run / "checkpoints").is_dir()
    folder = latest(run) or run / "final" if is_run else run
    check_checkpoint(folder)
    return folder


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
    recipe: Recipe, agent: str, folder: Path | None, split: str, trials: int, instances: int, temperature: float,
    templates: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Everything that affects the score, in plain JSON values. Raises ValueError when the splits leak."""
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
    if folder is None:
        return protocol
    return protocol | {
        "model": str(folder),
        "weights_sha256": weights_digest(folder),
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


def weights_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a checkpoint's *.safetensors files, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode() + b"\0")
        with open(path, "rb") as f:
            while block := f.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _check(agent: str, model: str | Path | None, trials: int, instances: int, temperature: float) -> None:
    if agent not in AGENTS:
        raise ConfigError(f"no agent is called {agent!r}; choose one of {', '.join(AGENTS)}")
    if (agent == POLICY) != (model is not None):
        wrong = "needs a checkpoint: --model DIR" if agent == POLICY else "plays without a model; leave --model out"
        raise ConfigError(f"--agent {agent} {wrong}")
    for name, value in (("--trials", trials), ("--instances", instances)):
        if value < 1:
            raise ConfigError(f"{name} is {value}; it must be at least 1")
    if temperature < 0:
        raise ConfigError(f"--temperature is {temperature:g}; it must be 0 (greedy) or more")


def _results_with(protocol: dict[str, Any], path: Path) -> dict[str, Any] | None:
    results = read_results(path) if path.is_file() else None
    return results if results and results["protocol"] == protocol else None


def _play_script(
    recipe: Recipe, agent: str, envs: Sequence[PhoneEnv], tasks: Sequence[Task], trials: int
) -> list[Group]:
    actor = scripted_actor(agent, recipe.eval.seed, envs)
    return play(envs, actor, tasks, trials, make_episode_settings(recipe.agent))


def _play_policy(
    recipe: Recipe, folder: Path, temperature: float, envs: Sequence[PhoneEnv], tasks: Sequence[Task], trials: int
) -> list[Group]:
    # Log-probabilities of greedy replies are taken at temperature 1.
    engine = make_engine(folder, recipe.engine, temperature or 1.0, seed=recipe.eval.seed)
    policy = EnginePolicy(engine)
    actor = ModelActor(policy, make_context(recipe.agent), Sampling(temperature, recipe.agent.max_new_tokens))

    def connect(collector: Collector) -> None:
        policy.expected = lambda: collector.playing

    return play(envs, actor, tasks, trials, make_episode_settings(recipe.agent), connect, policy.poke)
