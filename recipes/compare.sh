#!/usr/bin/env bash
# Compares algorithms and ablations on one budget: `bash recipes/compare.sh --help` says how.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ensure_installed local,tracking,plot
exec "$VENV/bin/python" -m mobilerl.benchmarks.comparison "$@"
