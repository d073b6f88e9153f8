# shellcheck shell=bash
# What the scripts for one GPU and a limited time share; they source it.
#
#   STRETCH   factor on the deadlines (default: 1)       PYTHON    interpreter (default: python3)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
stretch=${STRETCH:-1}
out=.                       # the folder of runs and logs, which a script sets


# pack_wheels FOLDER PYTHON_VERSION: what mobilerl needs beside torch and transformers, where there is internet.
pack_wheels() {
    local more
    bash "$root/mobilerl/benchmarks/gpu/wheels.sh" "$1" "$2"
    mapfile -t more < <(grep -E '^(pyarrow|google-crc32c)==' "$root/constraints.txt")
    "$python" -m pip download -q --no-deps --only-binary=:all: --python-version "$2" --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        -d "$1/if-missing" "${more[@]}"
}

# split_files FOLDER: into parts of at most 50 MB.
split_files() {
    find "$1" -type f -size +50000000c -exec split -b 50000000 -d {} {}.part \; -delete
    ls -l "$1" "$1/if-missing"
}

# unpack FOLDER: joins the parts, and installs the wheels, without internet, into FOLDER/site.
unpack() {
    local name
    for name in "$1"/*.part00 "$1"/if-missing/*.part00; do
        [[ ! -f $name ]] || cat "${name%00}"* >"${name%.part00}"
    done
    _install "$1" "$1"/*.whl
    for name in pyarrow google_crc32c; do  # SFT needs them
        "$python" -c "import $name" 2>/dev/null || _install "$1" "$1/if-missing/$name"-*.whl
    done
    export PYTHONPATH="$root:$1/site${PYTHONPATH:+:$PYTHONPATH}"
}

_install() {
    [[ ! -f $2 ]] || "$python" -m pip install -q --no-index --no-deps --upgrade --target "$1/site" "${@:2}"
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

# table NAME=RESULTS...: of those results that there are.
table() {
    local rows=() row
    for row in "$@"; do [[ ! -f ${row#*=} ]] || rows+=("$row"); done
    [[ ${#rows[@]} == 0 ]] || "$python" -m mobilerl.eval.table "${rows[@]}" || true
}
