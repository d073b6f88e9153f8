#!/usr/bin/env bash
# DistRL: asynchronous, off-policy, with Retrace and prioritized replay.
#
#   bash recipes/distrl.sh [--train.max_minutes 20 ...]
#   bash recipes/distrl.sh --algorithm.offline.trajectories runs/adagrpo      starts from what another run collected
#
# recipes/online.sh lists what else can be given.

TITLE="DistRL"
CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/distrl.toml}
# shellcheck source=recipes/online.sh
source "$(dirname "${BASH_SOURCE[0]}")/online.sh" "$@"
