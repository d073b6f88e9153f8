#!/usr/bin/env bash
# Compares algorithms and ablations on the embedded phone: one SFT checkpoint, one budget of environment steps, several
# seeds. Leaves the tables (comparison.md), the learning curves as a picture and the figures as JSON in RUN_DIR.
#
#   bash recipes/compare.sh [--collect.tasks_per_iteration 16 ...]      settings go to every online run
#
#   STEPS      environment steps of each run (default 12000: some minutes on one core)
#   SEEDS      default "0 1 2"
#   VARIANTS   names of variants or groups of recipes/compare.toml, such as "mobilerl filtered-bc" (default: all)
#   JOBS       runs side by side, each on one core (default: the number of cores)
#
# RUN_DIR is the directory of the runs (default: runs/compare). recipes/common.sh lists the rest of the environment.
# Called again, it continues. A run that fails does not stop the others.

# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
RUN_DIR=${RUN_DIR:-$ROOT/runs/compare}
SFT_DIR=${SFT_DIR:-$ROOT/runs/sft}

print_help "$@"
ensure_installed local,tracking,plot
[[ -d $SFT_DIR/final ]] || SFT_DIR=$SFT_DIR bash "$RECIPES/sft.sh" --config "$RECIPES/sft.toml"
export VENV
exec "$VENV/bin/python" -m mobilerl.benchmarks.comparison --sft-dir "$SFT_DIR" --run-dir "$RUN_DIR" --steps "${STEPS:-12000}" \
    --seeds "${SEEDS:-0 1 2}" --jobs "${JOBS:-$(nproc)}" --variants "${VARIANTS:-}" --eval-flags="${EVAL_FLAGS:-}" \
    -- "$@"
