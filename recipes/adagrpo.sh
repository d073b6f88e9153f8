#!/usr/bin/env bash
# MobileRL: installs, trains the tiny model that comes with the recipe with AdaGRPO on apps made from a seed, evaluates
# before and after.
#
#   bash recipes/adagrpo.sh [--train.max_minutes 20 --algorithm.replay.gamma 0.25 ...]
#   bash recipes/adagrpo.sh --config recipes/adagrpo.toml     on the embedded phone's own apps, after SFT on them
#   bash recipes/adagrpo.sh --fleet.type docker        on phones in containers (docs/devices.md)
#   bash recipes/adagrpo.sh --engine verl --config recipes/cluster/qwen2.5-vl-7b.toml --model CHECKPOINT [--nodes 4]
#                                                      on the GPUs of one node, or of a Ray cluster (docs/cluster.md)
#
# recipes/online.sh lists what else can be given.

TITLE=AdaGRPO
CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/generated/adagrpo.toml}
# shellcheck source=recipes/online.sh
source "$(dirname "${BASH_SOURCE[0]}")/online.sh" "$@"
