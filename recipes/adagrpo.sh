#!/usr/bin/env bash
# MobileRL from nothing: installs, warms up when there is no checkpoint, trains with AdaGRPO, evaluates before and after.
#
#   bash recipes/adagrpo.sh [--train.max_minutes 20 --algorithm.replay.gamma 0.25 ...]
#   bash recipes/adagrpo.sh --fleet.type docker        on phones in containers (docs/devices.md)
#
# Settings given here go to `mobilerl train`. Called again, it goes on where it stopped.
# RUN_DIR is where the run goes (default: runs/adagrpo), SFT_DIR the warm-up's (default: runs/sft). More settings of the
# environment: recipes/common.sh.

# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
SFT_DIR=${SFT_DIR:-$ROOT/runs/sft}
RUN_DIR=${RUN_DIR:-$ROOT/runs/adagrpo}

case " $* " in
    *" --fleet.type"[=\ ]docker*) ensure_installed local,tracking,docker ;;
    *" --fleet.type"[=\ ]adb*) ensure_installed local,tracking,adb ;;
    *) ensure_installed local,tracking ;;
esac
if [[ ! -d $SFT_DIR/final ]]; then
    say "no checkpoint in $SFT_DIR: warming up first"
    SFT_DIR=$SFT_DIR bash "$RECIPES/sft.sh"
fi

say "training in $RUN_DIR"
mapfile -t resume < <(resume_flag "$RUN_DIR")
mobilerl train --config "$RECIPES/adagrpo.toml" --run-dir "$RUN_DIR" --model "$SFT_DIR/final" \
    --engine.type "$ENGINE" "${resume[@]}" "$@"

evaluate "$SFT_DIR/final" "$RUN_DIR/eval/sft-pass-k" --pass-k
evaluate "$RUN_DIR" "$RUN_DIR/eval/adagrpo-pass-k" --pass-k
evaluate "$SFT_DIR/final" "$RUN_DIR/eval/sim-before"
evaluate "$RUN_DIR" "$RUN_DIR/eval/sim-after"

table "SFT=$RUN_DIR/eval/sim-before/results.json" \
    "AdaGRPO=$RUN_DIR/eval/sim-after/results.json" \
    "SFT, sampled=$RUN_DIR/eval/sft-pass-k/results.json" \
    "AdaGRPO, sampled=$RUN_DIR/eval/adagrpo-pass-k/results.json"
page=$(mobilerl view "$RUN_DIR")
say "by task: $RUN_DIR/eval/sim-after/print-out.txt"
say "report: $page"
