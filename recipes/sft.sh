#!/usr/bin/env bash
# Two-stage SFT on demonstrations: the policy that reinforcement learning starts from.
#
#   bash recipes/sft.sh [--sft.stage1_epochs 4 ...]
#   bash recipes/sft.sh --config recipes/generated/sft.toml     a tiny model from scratch, on apps made from a seed
#   bash recipes/sft.sh --model CHECKPOINT --sft.processes 8 --sft.deepspeed zero3     on 8 GPUs
#   srun --ntasks-per-node=1 bash recipes/sft.sh ...     on the nodes of a SLURM job (docs/gpu.md)
#
# sft.toml starts from the tiny model that has learned to read on generated apps (docs/generated.md).
# recipes/common.sh lists flags and environment. The run goes to SFT_DIR; CONFIG is the recipe of its evaluation.

# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
evaluation=${CONFIG:-}
CONFIG=$RECIPES/sft.toml
read_arguments "$@"
install_for_recipe
mobilerl sft --config "$CONFIG" --run-dir "$SFT_DIR" ${MODEL:+--model "$MODEL"} "${node_flags[@]}" "${flags[@]}"
if ((rank > 0)); then
    exit  # the rest is node 0's
fi
CONFIG=${evaluation:-$FOLDER/adagrpo.toml}
suite=$(suite_name)
if is_embedded "$suite"; then
    evaluate "$SFT_DIR/final" "$SFT_DIR/eval/$suite" "$suite"
    table "SFT=$SFT_DIR/eval/$suite/results.json"
fi
page=$(mobilerl view "$SFT_DIR")
say "checkpoint: $SFT_DIR/final"
say "report: $page"
