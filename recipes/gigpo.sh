#!/usr/bin/env bash
# GiGPO: besides whole episodes, steps taken on the same screen are compared with each other.
#
#   bash recipes/gigpo.sh [--train.max_minutes 20 --algorithm.step_weight 0.5 ...]
#
# recipes/online.sh lists what else can be given.

TITLE=GiGPO
CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/gigpo.toml}
# shellcheck source=recipes/online.sh
source "$(dirname "${BASH_SOURCE[0]}")/online.sh" "$@"
