#!/usr/bin/env bash
# ReachAgent from nothing: installs, warms up when there is no checkpoint, explores the phone's apps into a page graph,
# makes tasks of it, learns their shortest ways (stage 1) and preferences between steps (DPO), evaluates before and after.
#
#   bash recipes/reachagent.sh [--dpo.beta 0.2 ...]
#   bash recipes/reachagent.sh --pages.alignment false     without action alignment
#   bash recipes/reachagent.sh --pages.reaching false      without page reaching
#   bash recipes/reachagent.sh --pages.operation false     without page operation
#   bash recipes/reachagent.sh --dpo.enabled false         without DPO
#
#   --config FILE    the recipe                       --model DIR   checkpoint to start from, in place of the warm-up's
#
# Settings given here go to `mobilerl pages`. Called again, it goes on where it stopped.
# On the nodes of a SLURM job: srun --ntasks-per-node=1 bash recipes/reachagent.sh --model DIR --sft.processes 8 ...
#
# RUN_DIR is where the run goes (default: runs/reachagent), SFT_DIR the warm-up's (default: runs/sft). EVALUATE=no leaves
# the evaluation on the phone's own tasks out. More settings of the environment: recipes/common.sh.

CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/reachagent.toml}
# shellcheck source=recipes/arguments.sh
source "$(dirname "${BASH_SOURCE[0]}")/arguments.sh" "$@"
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
SFT_DIR=${SFT_DIR:-$ROOT/runs/sft}
RUN_DIR=${RUN_DIR:-$ROOT/runs/reachagent}
MODEL=${MODEL:-}

extras=local,tracking
[[ -z $(setting sft.deepspeed "${flags[@]}") ]] || extras+=,deepspeed
slurm_nodes
install_in_turn "$extras"
count=$(setting sft.nodes "${node_flags[@]}" "${flags[@]}")
if [[ -z $MODEL ]]; then
    MODEL=$SFT_DIR/final
    if [[ ! -d $MODEL ]]; then
        ((${count:-1} <= 1)) || die "there is no $MODEL: run recipes/sft.sh on the nodes first, or give --model DIR"
        say "no checkpoint in $SFT_DIR: warming up first"
        CONFIG='' ENGINE='' SFT_DIR=$SFT_DIR bash "$RECIPES/sft.sh"
    fi
fi

say "training in $RUN_DIR"
mobilerl pages --config "$CONFIG" --run-dir "$RUN_DIR" --model "$MODEL" --engine.type "$ENGINE" "${node_flags[@]}" "${flags[@]}"
rank=$(setting sft.node_rank "${node_flags[@]}" "${flags[@]}")
if ((${rank:-0} > 0)); then
    exit  # what follows is node 0's
fi

if [[ ${EVALUATE:-yes} != no ]]; then
    evaluate "$MODEL" "$RUN_DIR/eval/sim-before"
    evaluate "$RUN_DIR/final" "$RUN_DIR/eval/sim-after"
    say "the phone's own tasks, held-out instances:"
    table "warm-up=$RUN_DIR/eval/sim-before/results.json" "ReachAgent=$RUN_DIR/eval/sim-after/results.json"
fi
page=$(mobilerl view "$RUN_DIR")
say "page tasks: $RUN_DIR/eval/pages.md"
say "report: $page"
