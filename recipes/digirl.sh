#!/usr/bin/env bash
# DigiRL. The same as `mobilerl run digirl`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run digirl "$@"
