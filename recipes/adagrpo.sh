#!/usr/bin/env bash
# MobileRL: SFT when there is no checkpoint, AdaGRPO, evaluation before and after. The same as `mobilerl run adagrpo`.
#
#   bash recipes/adagrpo.sh [--train.iterations 100 --algorithm.replay.fraction 0.25 ...]
#   bash recipes/adagrpo.sh --config recipes/cluster/qwen2.5-vl-7b.toml --model CHECKPOINT [--nodes 4]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run adagrpo "$@"
