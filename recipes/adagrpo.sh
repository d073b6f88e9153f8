#!/usr/bin/env bash
# MobileRL: installs, runs SFT when there is no checkpoint, trains with AdaGRPO, evaluates before and after.
#
#   bash recipes/adagrpo.sh [--train.max_minutes 20 --algorithm.replay.gamma 0.25 ...]
#   bash recipes/adagrpo.sh --config recipes/generated/adagrpo.toml     on apps made from a seed
#   bash recipes/adagrpo.sh --fleet.type docker        on phones in containers (docs/devices.md)
#   bash recipes/adagrpo.sh --engine verl --config recipes/cluster/qwen2.5-vl-7b.toml --model CHECKPOINT [--nodes 4]
#                                                      on the GPUs of one node, or of a Ray cluster (docs/cluster.md)
#
# recipes/online.sh lists what else can be given.

TITLE=AdaGRPO
CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/adagrpo.toml}
# shellcheck source=recipes/online.sh
source "$(dirname "${BASH_SOURCE[0]}")/online.sh" "$@"
