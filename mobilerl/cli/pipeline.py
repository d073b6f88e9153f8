"""The steps of `mobilerl run`, each in a process of its own, which leaves no memory and no threads behind."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.config.layers import Layers, RunTable, read_layers, take_run_table
from mobilerl.config.packaged import RECIPES, recipe_names
from mobilerl.config.reading import CONFIG_FILE
from mobilerl.config.suite import suite_name
from mobilerl.envs.claims import Claim
from mobilerl.suites.base import evaluations, make_suite
from mobilerl.suites.fleet import check_devices, fleet_type
from mobilerl.system.terminal import say

RENDEZVOUS_PORT = "29400"


class StepFailed(Exception):
    """A command of the pipeline ended with the exit code `code`, having said why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A recipe (with overlays and flags) and where its runs go. Raises ConfigError for mistakes in them."""

    recipes: Sequence[Path]
    flags: Sequence[str]
    model: str = ""
    run_dir: Path | None = None
    sft_dir: Path | None = None
    eval_flags: Sequence[str] = ()

    def run(self, evaluate: str) -> int:
        """Runs all steps; returns the exit code of the first that fails, or 0. `evaluate` is yes, no or pass-k."""
        kind = self.kind
        try:
            if kind == "sft":
                self._sft(evaluate)
            else:
                self._online(kind, self._start_model(), evaluate)
        except StepFailed as failure:
            return failure.code
        return 0

    def extras(self) -> tuple[str, ...]:
        """Extras of the package that the recipe needs. Raises ConfigError without a model to start from."""
        from mobilerl.doctor.examine import extras_of
        from mobilerl.models.checkpoint_folder import model_of_run

        recipe = self.recipe()
        if self.kind != "sft" and not (self.model or self.table.sft or recipe.model):
            raise self._no_model()
        if model := self.model or recipe.model:
            recipe = recipe.model_copy(update={"model": str(model_of_run(Path(model)))})
        return extras_of(recipe)

    # --- what the recipe says --------------------------------------------------------------------------------------

    def recipe(self) -> Recipe:
        return load_recipe(list(self.recipes), [*self.flags, *self._model_flags()])

    def _files(self) -> Layers:
        """Settings of all recipes by file; one that several recipes extend counts where it comes last."""
        files: Layers = {}
        for path in self.recipes:
            layers = read_layers(path)
            files = {name: own for name, own in files.items() if name not in layers} | layers
        return files

    @property
    def table(self) -> RunTable:
        return take_run_table(self._files())

    @property
    def kind(self) -> str:
        """The command that trains: `pages`, `train` or `sft`, by the sections that the recipes have."""
        sections = {name for own in self._files().values() for name in own}
        return next((kind for name, kind in SECTIONS_OF if name in sections), "train")

    @property
    def out(self) -> Path:
        return self.run_dir or Path("runs") / run_name(self.recipes[0])

    @property
    def title(self) -> str:
        return self.table.title or self.recipes[0].stem

    def _model_flags(self) -> list[str]:
        return ["--model", self.model] if self.model else []

    def _config_flags(self) -> list[str]:
        return [word for path in self.recipes for word in ("--config", str(path))]

    def _no_model(self) -> ConfigError:
        return ConfigError(
            f"--model is missing: {self.recipes[-1]} is for a published model; give its folder, or ORG/NAME on the "
            "Hugging Face Hub"
        )

    # --- steps -----------------------------------------------------------------------------------------------------

    def _start_model(self) -> str:
        """The checkpoint to start from, made by the SFT that the recipe names if there is none."""
        if self.model:
            return self.model
        if not self.table.sft:
            if not (model := self.recipe().model):
                raise self._no_model()
            say(f"== starting from {model}")
            return model
        sft = Pipeline([Path(self.table.sft)], (), run_dir=self.sft_dir, eval_flags=self.eval_flags)
        final = sft.out / "final"
        if not final.is_dir():
            if slurm_flags() or node_rank(self.flags):
                raise ConfigError(f"there is no {final}: run the recipe {self.table.sft} first, or give --model DIR")
            check_devices(recipe := self.recipe())  # SFT takes minutes, after which they are needed
            fleet_type(recipe.fleet).claim(recipe, Claim())
            say(f"== no checkpoint in {sft.out}: running SFT first")
            sft._sft("yes")
        return str(final)

    def _sft(self, evaluate: str) -> None:
        out = self.sft_dir or self.out
        words = ["--run-dir", str(out), *self._model_flags(), *slurm_flags(), *self.flags]
        call("sft", *self._config_flags(), *words)
        if node_rank(self.flags):
            return  # the rest is node 0's
        table = self.table
        config = ["--config", table.evaluation] if table.evaluation else self._config_flags()
        recipe = load_recipe(config[1::2], () if table.evaluation else self.flags)
        if evaluate != "no" and is_evaluated(recipe):
            for suite in self._evaluations(recipe):
                results = self._evaluate(str(out / "final"), out / "eval" / suite, suite, config)
                print_table({self.title: results})
        say(f"== checkpoint: {out / 'final'}")
        say(f"== report: {page_of(out)}")

    def _online(self, kind: str, model: str, evaluate: str) -> None:
        out, flags = self.out, [*self._config_flags(), "--run-dir", str(self.out), "--model", model]
        say(f"== training in {out}")
        if kind == "train":
            flags += ["--resume"] if (out / CONFIG_FILE).is_file() else []
        else:
            flags += slurm_flags()
        call(kind, *flags, *self.flags)
        if kind != "train" and node_rank(self.flags):
            return  # the rest is node 0's
        recipe = self.recipe()
        if evaluate != "no" and is_evaluated(recipe):
            trained = str(out / "final") if kind == "pages" else str(out)
            sampled = ("", "pass-k") if evaluate == "pass-k" else ("",)
            for suite in self._evaluations(recipe):
                print_table({k: v for how in sampled for k, v in self._both(model, trained, suite, how).items()})
                say(f"== by task: {out / 'eval' / f'{suite}-after' / PRINT_OUT}")
        if kind == "pages":
            say(f"== page tasks: {out / 'eval' / 'pages.md'}")
        say(f"== report: {page_of(out)}")

    def _evaluations(self, recipe: Recipe) -> tuple[str, ...]:
        """The evaluations of the recipe; with templates in their flags, which are of one suite, the main one alone."""
        names = evaluations(recipe)
        return names[:1] if "--template" in self.eval_flags else names

    def _both(self, model: str, trained: str, suite: str, sampled: str) -> dict[str, Path]:
        """Results before and after the training, by the name of their row in the table."""
        config, found = self._config_flags(), {}
        for name, policy, when in (("SFT", model, "before"), (self.title, trained, "after")):
            folder = self.out / "eval" / "-".join(filter(None, (suite, when, sampled)))
            more = ["--pass-k", "8"] if sampled else []
            row = f"{name}, sampled" if sampled else name
            found[row] = self._evaluate(policy, folder, suite, config, *more)
        return found

    def _evaluate(self, model: str, out: Path, suite: str, config: Sequence[str], *more: str) -> Path:
        """results.json of a policy, with its print-out beside it; results with equal settings are kept."""
        say(f"== evaluating {model}")
        out.mkdir(parents=True, exist_ok=True)
        words = ["--model", model, "--out", str(out), "--replace", *more, *self.eval_flags]
        call("eval", suite, *config, *words, print_out=out / PRINT_OUT)
        return out / "results.json"


def run_name(recipe: Path) -> str:
    """Name of a recipe's folder in `runs/`: `miniwob-adagrpo` for `miniwob/adagrpo` or the path of that file."""
    if str(recipe) in recipe_names():
        return "-".join(recipe.parts)
    path = recipe.resolve().with_suffix("")
    return "-".join(path.relative_to(RECIPES).parts) if path.is_relative_to(RECIPES) else path.name


PRINT_OUT = "print-out.txt"
SECTIONS_OF = (("pages", "pages"), ("algorithm", "train"), ("sft", "sft"))


def is_evaluated(recipe: Recipe) -> bool:
    """Whether the recipe's suite is evaluated here; others need devices, or files that flags name."""
    here = make_suite(recipe).in_process or recipe.suite.type == "miniwob"
    if not here:
        name = suite_name(type(recipe.suite))
        say(f"== the suite {name} is not evaluated here: see mobilerl eval --help")
    return here


def page_of(run_dir: Path) -> Path:
    from mobilerl.viewer import build

    return build(run_dir).resolve()


def print_table(rows: dict[str, Path]) -> None:
    """Success rates side by side, and the differences paired by instance."""
    from mobilerl.eval.table import markdown, read_entries

    print(markdown(read_entries([f"{name}={path}" for name, path in rows.items()])), flush=True)


# --- nodes of a SLURM step -----------------------------------------------------------------------------------------


def slurm_flags() -> list[str]:
    """Settings of this node in a distributed SFT, where `srun` started one task on each of several nodes."""
    nodes = os.environ.get("SLURM_STEP_NUM_NODES", "1")
    if "SLURM_JOB_ID" not in os.environ or int(nodes) < 2:
        return []
    listed = ["scontrol", "show", "hostnames", os.environ["SLURM_STEP_NODELIST"]]
    head = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()[0]
    port = os.environ.get("RENDEZVOUS_PORT", RENDEZVOUS_PORT)
    rank = os.environ.get("SLURM_NODEID", "0")
    return ["--sft.nodes", nodes, "--sft.node_rank", rank, "--sft.rendezvous", f"{head}:{port}"]


def node_rank(flags: Sequence[str]) -> int:
    """This node's number in a distributed SFT, of the flags or else of SLURM."""
    words = [word for flag in flags for word in flag.split("=", 1)]
    given = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--sft.node_rank"]
    return int(given[-1] if given else os.environ.get("SLURM_NODEID", "0"))


# --- processes -----------------------------------------------------------------------------------------------------


def call(*words: str, print_out: Path | None = None) -> None:
    """Runs a command of mobilerl in a child process, with its standard output in `print_out` if given.

    Raises StepFailed with its exit code. SIGTERM, which the end of a container or of a job may send to this process
    alone, is passed on; Ctrl-C reaches the child anyway, as it belongs to the same process group. In a SLURM step,
    srun's SIGINT reaches this process alone, and the child, where a second one would end it at once, gets SIGTERM.
    """
    sys.stdout.flush()
    # A fork, since nothing heavy is loaded here that it could inherit: each command loads what it needs.
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(words, print_out))
    # A signal that comes meanwhile waits for its handler.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    child.start()
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: child.terminate())}
    is_step = "SLURM_STEP_ID" in os.environ and not os.isatty(0)
    before[signal.SIGINT] = signal.signal(signal.SIGINT, (lambda *_: child.terminate()) if is_step else signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        child.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    code = child.exitcode or 0
    if code:
        raise StepFailed(code if code > 0 else 128 - code)


def _in_child(words: Sequence[str], print_out: Path | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
    if print_out is not None:
        os.dup2(os.open(print_out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), sys.stdout.fileno())
    sys.argv = ["mobilerl", *words]
    runpy.run_module("mobilerl", run_name="__main__", alter_sys=True)  # as `python -m mobilerl` does
    sys.exit()
