#!/usr/bin/env bash
# The ablations of MobileRL, each with several seeds, from one warm-up and on one budget; a table at the end.
#
#   bash recipes/ablation.sh [--collect.tasks_per_iteration 16 ...]
#
# MINUTES of training per run (default 10), SEEDS to use (default "0 1"), VARIANTS to run (default: all below), JOBS
# that run side by side (default 1; a run keeps collect.workers cores busy).
# RUN_DIR is where they go (default: runs/ablation), SFT_DIR the warm-up's (default: runs/sft). More settings of the
# environment: recipes/common.sh. Called again, it goes on where it stopped.

# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
SFT_DIR=${SFT_DIR:-$ROOT/runs/sft}
RUN_DIR=${RUN_DIR:-$ROOT/runs/ablation}
MINUTES=${MINUTES:-10}
SEEDS=${SEEDS:-0 1}
JOBS=${JOBS:-1}
VARIANTS=${VARIANTS:-full no-adapr no-spa no-adapr-no-spa no-fcf}

declare -A FLAGS=(
    [full]=""
    [no-adapr]="--algorithm.replay.type none"
    [no-spa]="--algorithm.credit.spa false"
    [no-adapr-no-spa]="--algorithm.replay.type none --algorithm.credit.spa false"
    [no-fcf]="--algorithm.curriculum.type uniform"
)
declare -A NAMES=(
    [full]="AdaGRPO" [no-adapr]="w/o AdaPR" [no-spa]="w/o SPA" [no-adapr-no-spa]="w/o AdaPR and SPA" [no-fcf]="w/o FCF"
)

for variant in $VARIANTS; do
    [[ -v FLAGS[$variant] ]] || die "there is no variant '$variant'; choose from ${!FLAGS[*]}"
done

ensure_installed local,tracking
[[ -d $SFT_DIR/final ]] || SFT_DIR=$SFT_DIR bash "$RECIPES/sft.sh"
evaluate "$SFT_DIR/final" "$RUN_DIR/sft/eval/sim"

# job VARIANT SEED FLAG...: one run and its evaluation.
job() {
    local variant=$1 seed=$2 run=$RUN_DIR/$1/seed-$2 flags resume
    shift 2
    read -ra flags <<<"${FLAGS[$variant]}"
    mapfile -t resume < <(resume_flag "$run")
    mkdir -p "$run"
    say "$variant, seed $seed: $run/print-out.txt"
    mobilerl train --config "$RECIPES/adagrpo.toml" --run-dir "$run" --model "$SFT_DIR/final" \
        --engine.type "$ENGINE" --train.seed "$seed" --train.max_minutes "$MINUTES" \
        "${flags[@]}" "${resume[@]}" "$@" >>"$run/print-out.txt" 2>&1
    evaluate "$run" "$run/eval/sim"
}

rows=("SFT only=$RUN_DIR/sft/eval/sim/results.json")
running=0 failed=0
for seed in $SEEDS; do
    for variant in $VARIANTS; do
        if ((running == JOBS)); then
            wait -n || failed=1
            running=$((running - 1))  # not ((running -= 1)): what comes to 0 counts as a failure
        fi
        job "$variant" "$seed" "$@" &
        ((running += 1))
    done
done
while ((running > 0)); do
    wait -n || failed=1
    running=$((running - 1))
done
((failed == 0)) || die "a run failed; see its print-out"

for variant in $VARIANTS; do
    for seed in $SEEDS; do
        rows+=("${NAMES[$variant]}=$RUN_DIR/$variant/seed-$seed/eval/sim/results.json")
    done
done
table "${rows[@]}" | tee "$RUN_DIR/ablation.md"
say "written to $RUN_DIR/ablation.md"
