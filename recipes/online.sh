# shellcheck shell=bash
# One online run from start to end: installs, warms up when there is no checkpoint, trains, evaluates before and after.
# To be sourced by the recipe of an algorithm, which gives its TITLE and CONFIG.
#
#   --engine NAME    engine.type                      --nodes N     cluster.nodes
#   --config FILE    the recipe                       --model DIR   checkpoint to start from, in place of the warm-up's
#
# Settings given here go to `mobilerl train`. Called again, it goes on where it stopped.
# RUN_DIR is where the run goes (default: runs/ and the script's name), SFT_DIR the warm-up's (default: runs/sft).
# EVALUATE=no leaves the evaluations out. More settings of the environment: recipes/common.sh.

# shellcheck source=recipes/arguments.sh
source "$(dirname "${BASH_SOURCE[0]}")/arguments.sh" "$@"
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
NAME=$(basename "$0" .sh)
SFT_DIR=${SFT_DIR:-$ROOT/runs/sft}
RUN_DIR=${RUN_DIR:-$ROOT/runs/$NAME}
MODEL=${MODEL:-}
EVALUATE=${EVALUATE:-yes}

flags=(--engine.type "$ENGINE" "${flags[@]}")
extras=local
if [[ $(setting engine.type "${flags[@]}") == verl ]]; then
    extras=verl
    nodes=$(setting cluster.nodes "${flags[@]}")
    if ((${nodes:-1} > 1)) && [[ -z ${RAY_ADDRESS:-}$(setting cluster.address "${flags[@]}") ]]; then
        die "$nodes nodes need a Ray cluster: set RAY_ADDRESS=HEAD:PORT (docs/cluster.md)"
    fi
fi
extras+=,tracking
case $(setting fleet.type "${flags[@]}") in
    docker) extras+=,docker ;;
    adb) extras+=,adb ;;
esac
[[ $(setting phone.suite "${flags[@]}") != androidworld ]] || extras+=,androidworld
ensure_installed "$extras"

if [[ -z $MODEL ]]; then
    MODEL=$SFT_DIR/final
    if [[ ! -d $MODEL ]]; then
        say "no checkpoint in $SFT_DIR: warming up first"
        if [[ $extras == verl,* ]]; then
            export SKIP_INSTALL=yes  # the warm-up needs nothing that is not there, and must not change torch
        fi
        CONFIG='' ENGINE='' SFT_DIR=$SFT_DIR bash "$RECIPES/sft.sh"
    fi
fi

say "training in $RUN_DIR"
mapfile -t resume < <(resume_flag "$RUN_DIR")
mobilerl train --config "$CONFIG" --run-dir "$RUN_DIR" --model "$MODEL" "${resume[@]}" "${flags[@]}"

if [[ $EVALUATE == no ]]; then
    say "report: $(mobilerl view "$RUN_DIR")"
    exit
fi
evaluate "$MODEL" "$RUN_DIR/eval/sft-pass-k" --pass-k
evaluate "$RUN_DIR" "$RUN_DIR/eval/$NAME-pass-k" --pass-k
evaluate "$MODEL" "$RUN_DIR/eval/sim-before"
evaluate "$RUN_DIR" "$RUN_DIR/eval/sim-after"

table "SFT=$RUN_DIR/eval/sim-before/results.json" \
    "$TITLE=$RUN_DIR/eval/sim-after/results.json" \
    "SFT, sampled=$RUN_DIR/eval/sft-pass-k/results.json" \
    "$TITLE, sampled=$RUN_DIR/eval/$NAME-pass-k/results.json"
page=$(mobilerl view "$RUN_DIR")
say "by task: $RUN_DIR/eval/sim-after/print-out.txt"
say "report: $page"
