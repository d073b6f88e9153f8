#!/usr/bin/env bash
# Packs what `mobilerl bench gpu` needs beside torch, transformers, accelerate and peft, for a machine without internet:
#
#   bash mobilerl/benchmarks/gpu/wheels.sh wheels 3.12        # here: about 4 MB; 3.12 is the other machine's Python
#
#   python -m pip install --no-index --no-deps --target site wheels/*.whl        # there, in the checkout
#   PYTHONPATH=site python -m mobilerl bench gpu --json > gpu.json

set -euo pipefail

[[ $# == 2 ]] || { echo "usage: $(basename "$0") FOLDER PYTHON_VERSION" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
packages=(pydantic pydantic_core annotated-types typing-inspection tomli-w shtab fontpkg fontpkg-roboto)
pins=()
for package in "${packages[@]}"; do
    pins+=("$(grep -i "^${package/_/[-_]}==" "$root/constraints.txt")")
done
python3 -m pip download -q --no-deps --only-binary=:all: --python-version "$2" --implementation cp \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d "$1" "${pins[@]}"
