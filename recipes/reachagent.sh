#!/usr/bin/env bash
# ReachAgent: explores the phone's apps into a page graph, makes tasks of it, learns their shortest paths (stage 1) and
# preferences between steps (DPO). Installs, and runs SFT when there is no checkpoint; evaluates before and after.
#
#   bash recipes/reachagent.sh [--dpo.beta 0.2 ...]
#   bash recipes/reachagent.sh --pages.alignment false     without action alignment
#   bash recipes/reachagent.sh --pages.reaching false      without page reaching
#   bash recipes/reachagent.sh --pages.operation false     without page operation
#   bash recipes/reachagent.sh --dpo.enabled false         without DPO
#   srun --ntasks-per-node=1 bash recipes/reachagent.sh --model DIR --sft.processes 8 ...     on the nodes of a SLURM job
#
# recipes/common.sh lists flags and environment; settings go to `mobilerl pages`. Called again, it continues the run.
# RUN_DIR is the run's directory (default: runs/reachagent). EVALUATE=no leaves out the evaluation on the phone's tasks.

CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/reachagent.toml}
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
RUN_DIR=${RUN_DIR:-$ROOT/runs/reachagent}
read_arguments "$@"
install_for_recipe
need_checkpoint

say "training in $RUN_DIR"
mobilerl pages --config "$CONFIG" --run-dir "$RUN_DIR" --model "$MODEL" "${node_flags[@]}" "${flags[@]}"
if ((rank > 0)); then
    exit  # the rest is node 0's
fi

if [[ ${EVALUATE:-yes} != no ]]; then
    evaluate "$MODEL" "$RUN_DIR/eval/sim-before" sim
    evaluate "$RUN_DIR/final" "$RUN_DIR/eval/sim-after" sim
    say "the phone's own tasks, held-out instances:"
    table "SFT=$RUN_DIR/eval/sim-before/results.json" "ReachAgent=$RUN_DIR/eval/sim-after/results.json"
fi
page=$(mobilerl view "$RUN_DIR")
say "page tasks: $RUN_DIR/eval/pages.md"
say "report: $page"
