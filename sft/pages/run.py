"""ReachAgent from a warm-up's checkpoint to `final/` and the table of its page metrics."""

from __future__ import annotations

from pathlib import Path

from mobilerl.atomic_files import write_atomic
from mobilerl.config import ConfigError, Recipe
from mobilerl.config.reading import claim
from mobilerl.setup import check_checkpoint
from mobilerl.train import checkpoint
from mobilerl.train.run_dir import with_checkpoints_agent
from sft.distributed import follow
from sft.folders import put_final, remove_unfinished
from sft.pages.agent import SUITE
from sft.pages.collect import check
from sft.pages.evaluation import table
from sft.pages.stages import PagesRun, stage1_recipe
from sft.placement import check as check_placement
from sft.run import PLACEMENT

TABLE = "pages.md"
TRAINERS_FILES = ("trainer.pt", checkpoint.STATE_FILE)


def run(recipe: Recipe, run_dir: Path) -> Path:
    """Runs all of it, or what is left of it; returns the checkpoint, which is also copied to `final/`.

    On any node but the first it trains stage 1 along and then waits until the run is done.

    Raises ConfigError, GraphError or CheckpointError for what the user can mend.
    """
    if not recipe.model:
        raise ConfigError("stage 1 begins with a warm-up's checkpoint: name it by --model DIR")
    check_checkpoint(recipe.model)
    check(recipe.pages)
    check_placement(stage1_recipe(recipe), "pages")
    if recipe.sft.node_rank:
        follow(recipe.sft)
        return run_dir / "final"
    recipe = with_checkpoints_agent(recipe)
    claim(recipe, run_dir, PLACEMENT)
    remove_unfinished(run_dir, run_dir / "pages", *(run_dir / "eval").glob(f"{SUITE}-*"), run_dir / "eval")
    made = PagesRun(recipe, run_dir)
    entries = [("warm-up", made.measure(f"{SUITE}-before", made.base_path))]
    final = made.learn_flows()
    entries.append(("stage 1", made.measure(f"{SUITE}-stage1", final)))
    if recipe.dpo.enabled:
        final = made.prefer(final)
        entries.append(("DPO", made.measure(f"{SUITE}-after", final)))
    put_final(final, run_dir, TRAINERS_FILES)
    shown = table(entries)
    write_atomic(run_dir / "eval" / TABLE, f"{shown}\n".encode())
    made.say(shown)
    made.say(f"checkpoint: {run_dir / 'final'}")
    made.cluster.close()
    return run_dir / "final"
