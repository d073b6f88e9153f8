# shellcheck shell=bash disable=SC2034
# Shared by the recipes: arguments, the virtual environment, training and evaluation. To be sourced.
#
# Every recipe takes these flags, and passes all others on as settings:
#   --config FILE   the recipe (also CONFIG)            --engine NAME   engine.type
#   --model DIR     checkpoint to start from            --nodes N       cluster.nodes
#
# Environment:
#   PYTHON         interpreter that makes the virtual environment (default: python3.11, 3.12, 3.13 or python3)
#   VENV           where it is made, or reused (default: .venv in the repository)
#   SKIP_INSTALL   not empty: install nothing, VENV has everything
#   SFT_DIR        directory of the SFT run (default: runs/sft, and for recipes/NAME/ with an sft.toml runs/sft-NAME)
#   EVAL_FLAGS     further flags of `mobilerl eval SUITE`, such as "--instances 2 --split train"

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
RECIPES=$ROOT/recipes
VENV=${VENV:-$ROOT/.venv}
SFT_DIR=${SFT_DIR:-}
MODEL=${MODEL:-}
TORCH=torch==2.13.0

say() { printf '== %s\n' "$*"; }

die() {
    printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}

mobilerl() { "$VENV/bin/mobilerl" "$@"; }

# print_help ARGUMENT...: with -h or --help, prints the comments at the top of the script and of those that it sources.
print_help() {
    local word i
    for word in "$@"; do
        [[ $word == -h || $word == --help ]] || continue
        for ((i = ${#BASH_SOURCE[@]} - 1; i >= 0; i--)); do
            [[ ${BASH_SOURCE[i]} == "${BASH_SOURCE[i + 1]:-}" ]] || sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[i]}"
        done
        exit
    done
}

# read_arguments ARGUMENT...: sets CONFIG, MODEL, `flags` (the settings), `node_flags` (those of a SLURM step), `rank`,
# this node's number in a distributed SFT, and FOLDER, which has the SFT of the recipe: sft.toml, and perhaps checkpoint/.
# RENDEZVOUS_PORT is node 0's port for the others (default: 29400).
read_arguments() {
    local head word
    print_help "$@"
    flags=() node_flags=() rank=${SLURM_NODEID:-0}
    if [[ -n ${SLURM_JOB_ID:-} ]] && ((${SLURM_STEP_NUM_NODES:-1} > 1)); then
        read -r head < <(scontrol show hostnames "$SLURM_STEP_NODELIST")
        node_flags=(--sft.nodes "$SLURM_STEP_NUM_NODES" --sft.node_rank "$rank"
            --sft.rendezvous "$head:${RENDEZVOUS_PORT:-29400}")
    fi
    while (($# > 0)); do
        word=$1
        shift
        case $word in
            --engine=* | --nodes=* | --config=* | --model=* | --sft.node_rank=*) set -- "${word%%=*}" "${word#*=}" "$@" ;;
            --engine | --nodes | --config | --model | --sft.node_rank)
                (($# > 0)) || die "$word needs a value"
                case $word in
                    --engine) flags+=(--engine.type "$1") ;;
                    --nodes) flags+=(--cluster.nodes "$1") ;;
                    --config) CONFIG=$1 ;;
                    --model) MODEL=$1 ;;
                    --sft.node_rank) rank=$1 && flags+=("$word" "$1") ;;
                esac
                shift
                ;;
            *) flags+=("$word") ;;
        esac
    done
    [[ -f $CONFIG ]] || die "there is no recipe $CONFIG"
    FOLDER=$(cd "$(dirname "$CONFIG")" && pwd)
    [[ -f $FOLDER/sft.toml ]] || FOLDER=$RECIPES
    if [[ -z $SFT_DIR ]]; then
        SFT_DIR=$ROOT/runs/sft
        [[ $FOLDER == "$RECIPES" ]] || SFT_DIR+=-$(basename "$FOLDER")
    fi
}

# --- installing ----------------------------------------------------------------------------------------------------

make_venv() {
    local name python=""
    for name in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            python=$name
            break
        fi
    done
    [[ -n $python ]] || die "Python 3.11, 3.12 or 3.13 is needed; name one with PYTHON=/path/to/python3.11"
    say "making the virtual environment $VENV"
    # Debian keeps ensurepip in a package of its own: without it, the interpreter's own pip fills the environment.
    if ! "$python" -m venv "$VENV" >/dev/null 2>&1; then
        "$python" -m venv --clear --without-pip "$VENV"
        "$python" -m pip --python "$VENV/bin/python" install -qq pip ||
            die "there is no pip; apt-get install -y python3-pip python3-venv"
    fi
}

# has MODULE: whether VENV has it, without importing it.
has() {
    "$VENV/bin/python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)' "$1" \
        2>/dev/null
}

# once NAME ARGUMENT...: pip installs the arguments, unless it did so for the same requirements and lock files.
once() {
    local stamp=$VENV/.mobilerl-$1 wanted
    shift
    wanted=$(cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt" "$ROOT/recipes/cluster/constraints.txt" | sha256sum)
    if [[ ! -f $stamp || $(<"$stamp") != "$wanted" ]]; then
        say "installing ${*: -1}"
        "$VENV/bin/python" -m pip install -qq --disable-pip-version-check "$@"
        printf '%s\n' "$wanted" >"$stamp"
    fi
}

# ensure_installed EXTRAS: the package with these extras. torch comes first, so that nothing else chooses its build.
ensure_installed() {
    local versions=(-c "$ROOT/constraints.txt")
    [[ -z ${SKIP_INSTALL:-} ]] || return 0
    [[ -x $VENV/bin/python ]] || make_venv
    if [[ ,$1, == *,verl,* || ,$1, == *,vllm,* ]]; then  # vLLM is built for one version of torch, with CUDA
        versions=(-c "$ROOT/recipes/cluster/constraints.txt")
        once torch-cuda "${versions[@]}" torch
        "$VENV/bin/python" -c 'import sys, torch; sys.exit(torch.version.cuda is None)' ||
            die "torch in $VENV is built without CUDA: leave PIP_EXTRA_INDEX_URL unset and give vLLM a new VENV"
    elif ! has torch; then
        once torch "$TORCH"
    fi
    once "$1" "${versions[@]}" -e "${ROOT}[$1]"
}

# install_for_recipe: the package with the extras that CONFIG and `flags` need. The nodes of a SLURM step take turns,
# since they may share VENV.
install_for_recipe() {
    local extras lock
    [[ -z ${SKIP_INSTALL:-} ]] || return 0
    if ((${#node_flags[@]} > 0)); then
        exec {lock}>"$VENV.lock"
        flock "$lock"
    fi
    [[ -x $VENV/bin/python ]] || make_venv
    if [[ ! -x $VENV/bin/mobilerl ]] || ! has verl; then
        once core -c "$ROOT/constraints.txt" -e "$ROOT"
    fi
    extras=$(mobilerl doctor --extras --config "$CONFIG" "${flags[@]}")
    if [[ ,$extras, != *,verl,* ]] || ! has verl; then
        ensure_installed "$extras"
    fi
    [[ -z ${lock:-} ]] || exec {lock}>&-
}

# --- running -------------------------------------------------------------------------------------------------------

# need_checkpoint: sets MODEL, unless --model gave it, to the checkpoint of SFT_DIR, or else to the one that comes with the
# recipe, or else to one that sft.sh makes now.
need_checkpoint() {
    [[ -z $MODEL ]] || return 0
    MODEL=$SFT_DIR/final
    if [[ ! -d $MODEL && -d $FOLDER/checkpoint ]]; then
        MODEL=$FOLDER/checkpoint
        say "starting from $MODEL"
    elif [[ ! -d $MODEL ]]; then
        ((${#node_flags[@]} == 0 && rank == 0)) ||
            die "there is no $MODEL: run recipes/sft.sh on the nodes first, or give --model DIR"
        say "no checkpoint in $SFT_DIR: running SFT first"
        if has vllm; then export SKIP_INSTALL=yes; fi  # SFT must not replace the torch of vLLM
        CONFIG='' MODEL='' SFT_DIR=$SFT_DIR bash "$RECIPES/sft.sh" --config "$FOLDER/sft.toml"
    fi
}

# stoppable COMMAND...: runs it and passes SIGTERM on to it, which the end of a container or of a job step may send to this
# script alone. Ctrl-C reaches the command anyway, as it belongs to the same process group. In a SLURM step, srun's SIGINT
# reaches this script alone; the command gets SIGTERM, since a second SIGINT, where it has one, would end it at once.
stoppable() {
    local status=0 pid pass_on
    env --default-signal=INT "$@" &
    pid=$!
    pass_on="kill -TERM $pid 2>/dev/null || true"
    # shellcheck disable=SC2064  # this process, whatever `pid` is later
    trap "$pass_on" TERM
    # shellcheck disable=SC2064
    if [[ -n ${SLURM_STEP_ID:-} && ! -t 0 ]]; then trap "$pass_on" INT; else trap : INT; fi
    wait "$pid" || status=$?
    while kill -0 "$pid" 2>/dev/null; do  # a signal ends `wait` before the command has ended
        status=0
        wait "$pid" || status=$?
    done
    trap - INT TERM
    return "$status"
}

# suite_name: what `mobilerl eval` calls the suite of CONFIG and `flags`.
suite_name() {
    "$VENV/bin/python" -c '
import pathlib, sys
from mobilerl.config import load_recipe
name = load_recipe(pathlib.Path(sys.argv[1]), [*sys.argv[2:], "--model", ""]).suite.type
print({"phone": "sim"}.get(name, name))' "$CONFIG" "${flags[@]}"
}

# is_embedded SUITE: whether its tasks are played on embedded phones. Evaluations on other devices need flags of their own.
is_embedded() {
    [[ $1 == sim || $1 == generated ]] && return
    say "the suite $1 is not evaluated here: see mobilerl eval --help"
    return 1
}

# evaluate MODEL OUT SUITE [FLAG...]: results.json and its printed form in OUT; results with equal settings are kept.
evaluate() {
    local model=$1 out=$2 suite=$3 more
    shift 3
    read -ra more <<<"${EVAL_FLAGS:-}"
    mkdir -p "$out"
    say "evaluating $model"
    mobilerl eval "$suite" --config "$CONFIG" --model "$model" --out "$out" --replace "$@" "${more[@]}" \
        >"$out/print-out.txt"
}

# table NAME=RESULTS...: success rates side by side, and the difference paired by instance.
table() { "$VENV/bin/python" -m mobilerl.eval.table "$@"; }
