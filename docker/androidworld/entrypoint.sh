#!/usr/bin/env bash
# Boots the emulator with AndroidWorld's own script, then serves. Arguments go to server.py, --apps-installed say.
set -euo pipefail

cd /
./docker_setup/start_emu_headless.sh
exec python3 /opt/mobilerl/server.py --host 0.0.0.0 --port 5000 --adb-forward 5556 "$@"
