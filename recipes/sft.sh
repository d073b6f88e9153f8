#!/usr/bin/env bash
# Two-stage SFT on demonstrations, and its evaluation. The same as `mobilerl run sft`.
#
#   bash recipes/sft.sh [--sft.stage1_epochs 4 ...]
#   srun --ntasks-per-node=1 bash recipes/sft.sh ...     on the nodes of a SLURM job (docs/gpu.md)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run sft "$@"
