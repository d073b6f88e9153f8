#!/usr/bin/env bash
# Every algorithm and ablation on the embedded phone: the same warm-up, the same budget of environment steps, several
# seeds. Writes the tables into docs/results.md, with the learning curves as a picture and the figures as JSON.
#
#   bash recipes/compare.sh [--collect.tasks_per_iteration 16 ...]      settings go to every run that plays
#   bash recipes/compare.sh --list                                      what there is; recipes/compare.toml is the list
#   bash recipes/compare.sh --report-only                               tables of what has been trained so far
#
#   STEPS      environment steps of each run (default 12000: some minutes on one core)
#   SEEDS      default "0 1 2"
#   VARIANTS   names of variants or groups, such as "mobilerl filtered-bc" (default: all)
#   JOBS       runs side by side, each on one core (default: as many as there are cores)
#   DOCS       folder whose results.md, comparison.json and images/ are written (default: docs; empty: none)
#
# RUN_DIR is where the runs go (default: runs/compare), SFT_DIR the warm-up's (default: runs/sft). More settings of the
# environment: recipes/common.sh. Called again, it goes on where it stopped. A run that fails does not stop the others.

# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
SFT_DIR=${SFT_DIR:-$ROOT/runs/sft}
RUN_DIR=${RUN_DIR:-$ROOT/runs/compare}

options=(--plan "$RECIPES/compare.toml" --sft-dir "$SFT_DIR" --run-dir "$RUN_DIR" --steps "${STEPS:-12000}"
    --seeds "${SEEDS:-0 1 2}" --jobs "${JOBS:-$(nproc)}" --variants "${VARIANTS:-}" --eval-flags="${EVAL_FLAGS:-}")
[[ -z ${DOCS-default} ]] || options+=(--docs "${DOCS:-$ROOT/docs}")
case ${1:-} in
    --list | --report-only)
        options+=("$1")
        shift
        ;;
esac

ensure_installed local,tracking,plot
[[ -d $SFT_DIR/final || " ${options[*]} " =~ " --"(list|report-only)" " ]] || SFT_DIR=$SFT_DIR bash "$RECIPES/sft.sh"
export VENV
exec "$VENV/bin/python" -m benchmarks.comparison "${options[@]}" -- "$@"
