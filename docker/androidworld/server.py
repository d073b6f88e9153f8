"""AndroidWorld's own server on an emulator whose apps are installed already, for the images of docker/avd.

    python server.py --port 5000 --console-port 5554 --grpc-port 8554 --adb PATH

Its module `android_server` always installs the apps, and knows the ports of AndroidWorld's image only.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

CHECKOUT = "/opt/android_world"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--adb", default="/opt/android/platform-tools/adb")
    parser.add_argument("--console-port", type=int, default=5554, help="the emulator's; its adb port is the next one")
    parser.add_argument("--grpc-port", type=int, default=8554)
    args = parser.parse_args()
    sys.path.insert(0, os.path.join(os.environ.get("ANDROIDWORLD_CHECKOUT", CHECKOUT), "server"))
    import android_server
    import uvicorn

    launch = android_server.env_launcher.load_and_setup_env
    launch = partial(launch, args.console_port, False, True, args.adb, args.grpc_port)
    android_server.env_launcher.load_and_setup_env = lambda **upstream: launch()
    uvicorn.run(android_server.app, host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
