#!/usr/bin/env bash
# The two-stage warm-up: from demonstrations to a policy that reinforcement learning can start from.
#
#   bash recipes/sft.sh [--sft.stage1_epochs 4 ...]
#
# SFT_DIR is where it goes (default: runs/sft in the repository). More settings of the environment: recipes/common.sh.

# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
SFT_DIR=${SFT_DIR:-$ROOT/runs/sft}

ensure_installed local,tracking
mobilerl sft --config "$RECIPES/sft.toml" --run-dir "$SFT_DIR" "$@"
evaluate "$SFT_DIR/final" "$SFT_DIR/eval/sim"
table "SFT=$SFT_DIR/eval/sim/results.json"
page=$(mobilerl view "$SFT_DIR")
say "checkpoint: $SFT_DIR/final"
say "report: $page"
