#!/usr/bin/env bash
# Filtered BC. The same as `mobilerl run filtered_bc`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run filtered_bc "$@"
