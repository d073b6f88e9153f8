#!/usr/bin/env bash
# The two-stage warm-up: from demonstrations to a policy that reinforcement learning can start from.
#
#   bash recipes/sft.sh [--sft.stage1_epochs 4 ...]
#   bash recipes/sft.sh --model CHECKPOINT --sft.processes 8 --sft.deepspeed zero3     on 8 GPUs
#   srun --ntasks-per-node=1 bash recipes/sft.sh ...     the same on the nodes of a SLURM job (docs/sft-distributed.md)
#
# SFT_DIR is where it goes (default: runs/sft in the repository). RENDEZVOUS_PORT is node 0's for the others (default:
# 29400). More settings of the environment: recipes/common.sh.

# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
SFT_DIR=${SFT_DIR:-$ROOT/runs/sft}

extras=local,tracking
[[ -z $(CONFIG=$RECIPES/sft.toml setting sft.deepspeed "$@") ]] || extras+=,deepspeed
slurm_nodes
install_in_turn "$extras"
mobilerl sft --config "$RECIPES/sft.toml" --run-dir "$SFT_DIR" "${node_flags[@]}" "$@"
rank=$(CONFIG=$RECIPES/sft.toml setting sft.node_rank "${node_flags[@]}" "$@")
if ((${rank:-0} > 0)); then
    exit  # what follows is node 0's
fi
evaluate "$SFT_DIR/final" "$SFT_DIR/eval/sim"
table "SFT=$SFT_DIR/eval/sim/results.json"
page=$(mobilerl view "$SFT_DIR")
say "checkpoint: $SFT_DIR/final"
say "report: $page"
