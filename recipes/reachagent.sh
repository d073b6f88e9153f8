#!/usr/bin/env bash
# ReachAgent. The same as `mobilerl run reachagent`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run reachagent "$@"
