#!/usr/bin/env bash
# Walks MobileRL's main table with a tiny model of random weights on two CPU cores: the commands of docs/reproduce.md,
# each printed before it runs, with OUT/tiny.toml over the recipes. docs/reproduce.md says what stands in for what.
#
#   bash recipes/paper/rehearse.sh [OUT]      in a clone, with an environment of tests/run.sh; OUT: runs/rehearsal
#
#   MOBILERL_ANDROIDWORLD, MOBILERL_ANDROIDWORLD_PYTHON   AndroidWorld's checkout and its Python; without: eval sim
#   MOBILERL_ANDROIDLAB, MOBILERL_ANDROIDLAB_PYTHON       the same of AndroidLab; without: skipped

set -euo pipefail
OUT=${1:-runs/rehearsal}
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}

# run COMMAND...: prints the command as one would type it, and runs it.
run() {
    local word line=""
    for word in "$@"; do
        [[ $word =~ ^[[:alnum:]_./:=,@%-]+$ ]] || word=${word@Q}
        line+=" $word"
    done
    printf '\n$%s\n' "$line"
    "$@"
}

[[ ! -e $OUT ]] || { echo "$OUT exists already: give another folder" >&2; exit 2; }
mkdir -p "$OUT"
run python "$ROOT/tests/rehearsal.py" prepare "$OUT"
python "$ROOT/tests/rehearsal.py" serve "$OUT" 2>"$OUT/served.log" &
SERVING=$!
trap 'kill "$SERVING" 2>/dev/null || true; wait' EXIT
until [[ -e $OUT/served.sh ]]; do
    kill -0 "$SERVING" 2>/dev/null || { cat "$OUT/served.log" >&2; exit 1; }
    sleep 0.2
done
# shellcheck source=/dev/null
source "$OUT/served.sh"     # MODELS, and the flags BENCHMARK, LAB and DEVICES

# evaluate NAME MODEL
evaluate() {
    run mobilerl eval "${BENCHMARK[@]}" --config paper/mobilerl-7b --config "$OUT/tiny.toml" --model "$2" --out "$OUT/eval/$1"
    [[ ! -v LAB ]] || run mobilerl eval androidlab --protocol mobilerl --mode screenshot "${LAB[@]}" \
        --config paper/mobilerl-7b --config "$OUT/tiny.toml" --model "$2" --out "$OUT/eval/$1-androidlab"
}

evaluate base "$OUT/base"
run mobilerl sft --config paper/mobilerl-7b-sft --config "$OUT/tiny.toml" --run-dir "$OUT/mobilerl-7b-sft" \
    --sft.proposer_url "$MODELS" --sft.proposer_model proposer
evaluate stage1 "$OUT/mobilerl-7b-sft/stage1"
evaluate stage2 "$OUT/mobilerl-7b-sft/final"
run mobilerl run paper/mobilerl-7b --config "$OUT/tiny.toml" --evaluate no --model "$OUT/mobilerl-7b-sft/final" \
    --run-dir "$OUT/mobilerl-7b" "${DEVICES[@]}"
evaluate adagrpo "$OUT/mobilerl-7b"
for on in "" ${LAB:+-androidlab}; do
    run python -m mobilerl.eval.table "base=$OUT/eval/base$on/results.json" \
        "+ reasoning-free SFT=$OUT/eval/stage1$on/results.json" "+ reasoning SFT=$OUT/eval/stage2$on/results.json" \
        "+ AdaGRPO=$OUT/eval/adagrpo$on/results.json"
done
