# shellcheck shell=bash
# What the recipes share: the virtual environment they run in, and how a policy is evaluated. To be sourced.
#
#   PYTHON   interpreter that makes the virtual environment (default: python3.11, python3.12 or python3)
#   VENV     where it is made, or reused (default: .venv in the repository)
#   CONFIG   the recipe (default: adagrpo.toml)
#   ENGINE   what holds the weights, see engine.type (default: what CONFIG says, else local)
#   EVAL_FLAGS   further flags of `mobilerl eval sim`, such as "--instances 2 --split train" (default: none)
#   SKIP_INSTALL   when it is not empty nothing is installed: VENV has it all

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
RECIPES=$ROOT/recipes
VENV=${VENV:-$ROOT/.venv}
CONFIG=${CONFIG:-$RECIPES/adagrpo.toml}
TORCH=torch==2.13.0

say() { printf '== %s\n' "$*"; }

die() {
    printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}

# toml_value FILE SECTION KEY: a plain value without its quotes; nothing when it is not there.
toml_value() {
    awk -v section="[$2]" -v key="$3=" '
        { sub(/#.*/, ""); gsub(/[[:space:]"]/, "") }
        /^\[/ { here = $0 == section; next }
        here && index($0, key) == 1 { print substr($0, length(key) + 1); exit }
    ' "$1"
}

# setting SECTION.KEY [FLAG...]: the value the flags give, the last one winning, or else the one in CONFIG.
setting() {
    local name=$1 found=0 value=""
    shift
    while (($# > 0)); do
        case $1 in
            "--$name") found=1 value=${2:-} ;;
            "--$name="*) found=1 value=${1#*=} ;;
        esac
        shift
    done
    ((found)) || value=$(toml_value "$CONFIG" "${name%.*}" "${name##*.}")
    printf '%s\n' "$value"
}

[[ -f $CONFIG ]] || die "there is no recipe $CONFIG"
ENGINE=${ENGINE:-$(setting engine.type)}
ENGINE=${ENGINE:-local}

find_python() {
    local name
    for name in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
            printf '%s\n' "$name"
            return
        fi
    done
    die "Python 3.11 or 3.12 is needed; name one with PYTHON=/path/to/python3.11"
}

make_venv() {
    local python
    python=$(find_python)
    say "making the virtual environment $VENV"
    # Debian keeps ensurepip in a package of its own: without it, the interpreter's own pip fills the environment.
    if ! "$python" -m venv "$VENV" >/dev/null 2>&1; then
        "$python" -m venv --clear --without-pip "$VENV"
        "$python" -m pip --python "$VENV/bin/python" install -qq pip ||
            die "no pip to be found; apt-get install -y python3-pip python3-venv"
    fi
}

# wants_verl EXTRAS; has_verl: whether VENV has both verl and mobilerl, wherever they came from.
wants_verl() { [[ ,$1, == *,verl,* ]]; }

has_verl() {
    [[ -x $VENV/bin/mobilerl ]] && "$VENV/bin/python" -c \
        'import importlib.util, sys; sys.exit(importlib.util.find_spec("verl") is None)' 2>/dev/null
}

# ensure_installed EXTRAS: the package with these extras, unless exactly that was done before.
ensure_installed() {
    local extras=$1 stamp=$VENV/.mobilerl-$1 wanted versions=(-c "$ROOT/constraints.txt")
    [[ -z ${SKIP_INSTALL:-} ]] || return 0
    if wants_verl "$extras" && has_verl; then
        return
    fi
    wanted=$(cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt" | sha256sum)
    [[ -x $VENV/bin/python ]] || make_venv
    if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
        return
    fi
    local pip=("$VENV/bin/python" -m pip install -qq --disable-pip-version-check)
    # torch comes first and alone, so that nothing else decides which build of it is taken. vLLM is built for one
    # version of it, with CUDA.
    if wants_verl "$extras"; then
        versions+=(-c "$ROOT/recipes/cluster/constraints.txt")
        say "installing torch with CUDA (once, some minutes)"
        "${pip[@]}" "${versions[@]}" torch
        "$VENV/bin/python" -c 'import sys, torch; sys.exit(torch.version.cuda is None)' ||
            die "torch in $VENV is built without CUDA: leave PIP_EXTRA_INDEX_URL unset and give verl a new VENV"
    elif ! "$VENV/bin/python" -c 'import torch' 2>/dev/null; then
        say "installing $TORCH (once, some minutes)"
        "${pip[@]}" "$TORCH"
    fi
    say "installing mobilerl[$extras]"
    "${pip[@]}" "${versions[@]}" -e "${ROOT}[$extras]"
    printf '%s\n' "$wanted" >"$stamp"
}

# slurm_nodes: sets `node_flags` to the flags that make this node one of its SLURM step's; to none without SLURM.
# RENDEZVOUS_PORT is node 0's for the others (default: 29400).
slurm_nodes() {
    local head
    node_flags=()
    if [[ -n ${SLURM_JOB_ID:-} ]] && ((${SLURM_STEP_NUM_NODES:-1} > 1)); then
        read -r head < <(scontrol show hostnames "$SLURM_STEP_NODELIST")
        node_flags=(--sft.nodes "$SLURM_STEP_NUM_NODES" --sft.node_rank "$SLURM_NODEID")
        node_flags+=(--sft.rendezvous "$head:${RENDEZVOUS_PORT:-29400}")
    fi
}

# install_in_turn EXTRAS: `ensure_installed`, one node after the other, since they may share VENV.
install_in_turn() {
    local lock
    if ((${#node_flags[@]} > 0)); then
        exec {lock}>"$VENV.lock"
        flock "$lock"
    fi
    ensure_installed "$1"
    [[ -z ${lock:-} ]] || exec {lock}>&-
}

mobilerl() { "$VENV/bin/mobilerl" "$@"; }

# resume_flag RUN_DIR: prints --resume when there is a run to go on with.
resume_flag() {
    if [[ -f $1/config.json ]]; then
        printf '%s\n' --resume
    fi
}

# evaluate MODEL OUT [FLAG...]: results.json and a print-out in OUT; what is already there with equal settings is kept.
evaluate() {
    local model=$1 out=$2 flags
    shift 2
    read -ra flags <<<"${EVAL_FLAGS:-}"
    mkdir -p "$out"
    say "evaluating $model"
    mobilerl eval sim --config "$CONFIG" --model "$model" --out "$out" --reuse "$@" "${flags[@]}" \
        >"$out/print-out.txt"
}

# table NAME=RESULTS...: success rates side by side, and the difference paired by instance.
table() { "$VENV/bin/python" -m mobilerl.eval.table "$@"; }
