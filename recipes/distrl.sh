#!/usr/bin/env bash
# DistRL. The same as `mobilerl run distrl`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run distrl "$@"
