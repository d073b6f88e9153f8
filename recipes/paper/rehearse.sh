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
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LAB=${MOBILERL_ANDROIDLAB:-}
PYTHONPATH=$(cd "$HERE/../.." && pwd)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH

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
run python "$HERE/rehearsal.py" prepare "$OUT"
python "$HERE/rehearsal.py" serve "$OUT" >"$OUT/served.log" 2>&1 &
SERVING=$!
trap 'kill "$SERVING" 2>/dev/null || true; wait' EXIT
until [[ -e $OUT/served.sh ]]; do
    kill -0 "$SERVING" 2>/dev/null || { cat "$OUT/served.log" >&2; exit 1; }
    sleep 0.2
done
# shellcheck source=/dev/null
source "$OUT/served.sh"     # MODELS and TEMPLATES, and SERVER or SERIAL where there is a checkout

overlay=(--config "$OUT/tiny.toml")
suite=(sim --instances 2)
devices=()
if [[ -n ${SERVER:-} ]]; then
    suite=(androidworld --protocol mobilerl --runs 1 --server "$SERVER" --step-cap 3)
    devices=(--fleet.type embedded --suite.servers "[\"$SERVER\"]")
else
    echo "no MOBILERL_ANDROIDWORLD: tasks of the embedded phone in place of AndroidWorld's, in training and evaluation"
fi
[[ -n $LAB ]] || echo "no MOBILERL_ANDROIDLAB: AndroidLab is skipped"

# evaluate NAME MODEL
evaluate() {
    local template words=()
    for template in "${TEMPLATES[@]}"; do words+=(--template "$template"); done
    run mobilerl eval "${suite[@]}" "${words[@]}" --config paper/mobilerl-7b "${overlay[@]}" \
        --model "$2" --out "$OUT/eval/$1"
    [[ -z $LAB ]] || run mobilerl eval androidlab --protocol mobilerl --mode screenshot --config paper/mobilerl-7b \
        "${overlay[@]}" --android-lab "$LAB" --judge-python "${MOBILERL_ANDROIDLAB_PYTHON:-python}" \
        --serial "$SERIAL" --judge-url "$MODELS" --judge-model judge --task setting_3 --rounds 3 --interval 0 \
        --launch-wait 0 --model "$2" --out "$OUT/eval/$1-androidlab"
}

evaluate base "$OUT/base"
run mobilerl sft --config paper/mobilerl-7b-sft "${overlay[@]}" --run-dir "$OUT/mobilerl-7b-sft" \
    --sft.proposer_url "$MODELS" --sft.proposer_model proposer
evaluate stage1 "$OUT/mobilerl-7b-sft/stage1"
evaluate stage2 "$OUT/mobilerl-7b-sft/final"
run mobilerl run paper/mobilerl-7b --evaluate no "${overlay[@]}" "${devices[@]}" --model "$OUT/mobilerl-7b-sft/final" \
    --run-dir "$OUT/mobilerl-7b"
evaluate adagrpo "$OUT/mobilerl-7b"
for suite in "" ${LAB:+-androidlab}; do
    rows=()
    for row in "base=base" "+ reasoning-free SFT=stage1" "+ reasoning SFT=stage2" "+ AdaGRPO=adagrpo"; do
        rows+=("${row%%=*}=$OUT/eval/${row##*=}$suite/results.json")
    done
    run python -m mobilerl.eval.table "${rows[@]}"
done
