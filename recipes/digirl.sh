#!/usr/bin/env bash
# DigiRL, online or offline-to-online: steps that value functions find better than expected are imitated.
#
#   bash recipes/digirl.sh [--train.max_minutes 20 ...]
#   bash recipes/digirl.sh --algorithm.offline.trajectories runs/adagrpo      starts from what another run collected
#
# recipes/online.sh lists what else can be given.

TITLE="DigiRL"
CONFIG=${CONFIG:-$(dirname "${BASH_SOURCE[0]}")/digirl.toml}
# shellcheck source=recipes/online.sh
source "$(dirname "${BASH_SOURCE[0]}")/online.sh" "$@"
