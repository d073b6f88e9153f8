#!/usr/bin/env bash
# DistRL: asynchronous, off-policy, with Retrace and prioritised replay.
#
#   bash recipes/distrl.sh [--train.max_minutes 20 ...]
#   bash recipes/distrl.sh --offline.trajectories runs/adagrpo      begins with what another run collected
#
# recipes/online.sh says what else can be given, and where the run goes.

TITLE="DistRL"
CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/distrl.toml}
# shellcheck source=recipes/online.sh
source "$(dirname "${BASH_SOURCE[0]}")/online.sh" "$@"
