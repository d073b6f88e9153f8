#!/usr/bin/env bash
# AndroidWorld's own entry point, with port 5556 forwarded to the emulator, which only listens on the container's loopback.
set -euo pipefail

socat TCP-LISTEN:5556,fork,reuseaddr TCP:127.0.0.1:5555 &
cd /
exec ./docker_setup/entrypoint.sh "$@"
