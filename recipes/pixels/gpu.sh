#!/usr/bin/env bash
# A larger model that learns from pixels alone, on one GPU in nine minutes, also without internet (docs/gpu.md).
#
#   bash recipes/pixels/gpu.sh pack FOLDER 3.12     # where there is internet: wheels; 3.12 is the other machine's Python
#   bash recipes/pixels/gpu.sh run FOLDER OUT       # there, in the checkout: runs in OUT, the table at the end
#
#   SIZE=tiny     a rehearsal on a CPU       STRETCH   factor on the deadlines (default: 1; for the rehearsal 4)
#   PYTHON        interpreter (default: python3)
#
# Every phase has a deadline. One that fails or is cut off does not keep the others from running.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../gpu/phases.sh"

pack() {
    pack_wheels "$1" "$2"
    split_files "$1"
}

run() {
    local trained sft_more=() train_more=()
    out=$2 instances=50
    mkdir -p "$out"
    unpack "$1"
    if [[ ${SIZE:-} == tiny ]]; then
        stretch=${STRETCH:-4} instances=2
        sft_more=(--tiny.hidden 64 --tiny.layers 2 --tiny.heads 4 --sft.demos_per_template 4 --sft.seeing_samples 64)
        train_more=(--train.iterations 1 --rollout.tasks_per_iteration 2 --fleet.count 4)
    fi
    phase sft 300 "$python" -m mobilerl sft --config "$root/recipes/pixels/gpu-sft.toml" --run-dir "$out/sft" "${sft_more[@]}"
    [[ -d $out/sft/final ]] || return 1
    evaluate SFT "$out/sft/final"
    evaluate shuffled "$out/sft/final" --shuffle-screens
    phase adagrpo 120 "$python" -m mobilerl train --config "$root/recipes/pixels/gpu-adagrpo.toml" --model "$out/sft/final" \
        --run-dir "$out/adagrpo" "${train_more[@]}"
    trained=$(newest "$out"/adagrpo/checkpoints/*)
    [[ -z $trained ]] || evaluate AdaGRPO "$out/adagrpo"
    printf '\n'
    table SFT="$out/SFT/results.json" "SFT, shuffled screens=$out/shuffled/results.json" AdaGRPO="$out/AdaGRPO/results.json"
}

# evaluate NAME MODEL [FLAG...]: on held-out tasks.
evaluate() {
    phase "evaluate-$1" 30 "$python" -m mobilerl eval sim --config "$root/recipes/pixels/gpu-adagrpo.toml" --model "$2" \
        --out "$out/$1" --instances "$instances" --template BoardColor --template BoardIcon --template BoardBoth \
        --template BoardAllOff "${@:3}"
}

case ${1:-} in
    pack | run) (($# == 3)) && "$@" ;;
    *) sed -n '3,9s/^# \{0,2\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
