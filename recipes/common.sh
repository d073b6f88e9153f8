# shellcheck shell=bash
# What the recipes share: the virtual environment they run in, and how a policy is evaluated. To be sourced.
#
#   PYTHON   interpreter that makes the virtual environment (default: python3.11, python3.12 or python3)
#   VENV     where it is made, or reused (default: .venv in the repository)
#   ENGINE   what holds the weights, see engine.type (default: local)
#   EVAL_FLAGS   further flags of `mobilerl eval sim`, such as "--instances 2 --split train" (default: none)

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
RECIPES=$ROOT/recipes
VENV=${VENV:-$ROOT/.venv}
ENGINE=${ENGINE:-local}
TORCH=torch==2.13.0

say() { printf '== %s\n' "$*"; }

die() {
    printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}

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

# ensure_installed EXTRAS: the package with these extras, unless exactly that was done before.
ensure_installed() {
    local extras=$1 stamp=$VENV/.mobilerl-$1 wanted
    wanted=$(cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt" | sha256sum)
    [[ -x $VENV/bin/python ]] || make_venv
    if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
        return
    fi
    local pip=("$VENV/bin/python" -m pip install -qq --disable-pip-version-check)
    # torch comes first and alone, so that nothing else decides which build of it is taken.
    if ! "$VENV/bin/python" -c 'import torch' 2>/dev/null; then
        say "installing $TORCH (once, some minutes)"
        "${pip[@]}" "$TORCH"
    fi
    say "installing mobilerl[$extras]"
    "${pip[@]}" -c "$ROOT/constraints.txt" -e "${ROOT}[$extras]"
    printf '%s\n' "$wanted" >"$stamp"
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
    mobilerl eval sim --config "$RECIPES/adagrpo.toml" --model "$model" --out "$out" --reuse "$@" "${flags[@]}" \
        >"$out/print-out.txt"
}

# table NAME=RESULTS...: success rates side by side, and the difference paired by instance.
table() { "$VENV/bin/python" -m mobilerl.eval.table "$@"; }
