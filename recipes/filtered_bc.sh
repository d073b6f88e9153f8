#!/usr/bin/env bash
# Filtered behavior cloning: the successes among the newest trajectories are imitated.
#
#   bash recipes/filtered_bc.sh [--train.max_minutes 20 ...]
#   bash recipes/filtered_bc.sh --algorithm.offline.trajectories runs/adagrpo      starts from what another run collected
#
# recipes/online.sh lists what else can be given.

TITLE="Filtered BC"
CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/filtered_bc.toml}
# shellcheck source=recipes/online.sh
source "$(dirname "${BASH_SOURCE[0]}")/online.sh" "$@"
