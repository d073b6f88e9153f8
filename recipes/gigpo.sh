#!/usr/bin/env bash
# GiGPO. The same as `mobilerl run gigpo`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run gigpo "$@"
