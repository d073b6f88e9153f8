# shellcheck shell=bash
# One online run: installs, runs SFT when there is no checkpoint, trains, evaluates before and after. To be sourced by
# the recipe of an algorithm, which sets TITLE and CONFIG.
#
# recipes/common.sh lists flags and environment; settings go to `mobilerl train`. Called again, it continues the run.
# RUN_DIR is the run's directory (default: runs/ and the script's name). EVALUATE=no leaves the evaluations
# out; EVALUATE=pass-k also samples eight episodes of each task, which takes longer than all else. Only suites of the
# embedded phone are evaluated.

# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
NAME=$(basename "$0" .sh)
RUN_DIR=${RUN_DIR:-$ROOT/runs/$NAME}
read_arguments "$@"
install_for_recipe
need_checkpoint

say "training in $RUN_DIR"
resume=()
[[ ! -f $RUN_DIR/config.json ]] || resume=(--resume)
stoppable "$VENV/bin/mobilerl" train --config "$CONFIG" --run-dir "$RUN_DIR" --model "$MODEL" "${resume[@]}" "${flags[@]}"

suite=$([[ ${EVALUATE:-yes} == no ]] || suite_name)
if [[ -n $suite ]] && is_embedded "$suite"; then
    rows=()
    if [[ ${EVALUATE:-yes} == pass-k ]]; then
        evaluate "$MODEL" "$RUN_DIR/eval/sft-pass-k" "$suite" --pass-k 8
        evaluate "$RUN_DIR" "$RUN_DIR/eval/$NAME-pass-k" "$suite" --pass-k 8
        rows=("SFT, sampled=$RUN_DIR/eval/sft-pass-k/results.json"
            "$TITLE, sampled=$RUN_DIR/eval/$NAME-pass-k/results.json")
    fi
    evaluate "$MODEL" "$RUN_DIR/eval/$suite-before" "$suite"
    evaluate "$RUN_DIR" "$RUN_DIR/eval/$suite-after" "$suite"
    table "SFT=$RUN_DIR/eval/$suite-before/results.json" "$TITLE=$RUN_DIR/eval/$suite-after/results.json" "${rows[@]}"
    say "by task: $RUN_DIR/eval/$suite-after/print-out.txt"
fi
page=$(mobilerl view "$RUN_DIR")
say "report: $page"
