#!/usr/bin/env bash
# Filtered behaviour cloning, offline-to-online: the newest trajectories are kept, and their successes imitated.
#
#   bash recipes/filtered_bc.sh [--train.max_minutes 20 ...]
#   bash recipes/filtered_bc.sh --offline.trajectories runs/adagrpo      begins with what another run collected
#
# recipes/online.sh says what else can be given, and where the run goes.

TITLE="Filtered BC"
CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/filtered_bc.toml}
# shellcheck source=recipes/online.sh
source "$(dirname "${BASH_SOURCE[0]}")/online.sh" "$@"
