# shellcheck shell=bash
# Makes the virtual environment for a recipe, and runs `mobilerl run` in it. To be sourced by the recipes.
#
#   PYTHON         interpreter that makes the environment (default: python3.11, 3.12, 3.13 or python3)
#   VENV           where it is made, or reused (default: .venv in the repository)
#   SKIP_INSTALL   not empty: install nothing, VENV has everything
#   RUN_DIR, SFT_DIR, EVALUATE, EVAL_FLAGS   as --run-dir, --sft-dir, --evaluate and --eval-flags

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${VENV:-$ROOT/.venv}
TORCH=torch==2.13.0

say() { printf '== %s\n' "$*"; }
die() { printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2; exit 2; }

make_venv() {
    local name python=""
    for name in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            python=$name && break
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

# run RECIPE ARGUMENT...: installs what the recipe needs, and becomes `mobilerl run`. Nodes of a SLURM step take turns,
# since they may share VENV.
run() {
    local words extras lock
    words=(run "$@" ${RUN_DIR:+--run-dir "$RUN_DIR"} ${SFT_DIR:+--sft-dir "$SFT_DIR"}
        ${EVALUATE:+--evaluate "$EVALUATE"} ${EVAL_FLAGS:+--eval-flags "$EVAL_FLAGS"})
    if [[ -z ${SKIP_INSTALL:-} ]]; then
        mkdir -p "$(dirname "$VENV")"
        exec {lock}>"$VENV.lock" && flock "$lock"
        [[ -x $VENV/bin/python ]] || make_venv
        if [[ ! -x $VENV/bin/mobilerl ]] || ! has verl; then once core -c "$ROOT/constraints.txt" -e "$ROOT"; fi
        [[ " $* " != *" --help "* && " $* " != *" -h "* ]] || exec "$VENV/bin/mobilerl" "${words[@]}"
        extras=$("$VENV/bin/mobilerl" "${words[@]}" --extras)
        if [[ ,$extras, != *,verl,* ]] || ! has verl; then
            ensure_installed "$extras"
        fi
        exec {lock}>&-
    fi
    exec "$VENV/bin/mobilerl" "${words[@]}"
}
