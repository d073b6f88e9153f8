"""Starts AndroidWorld's own server on an embedded phone. Runs in AndroidWorld's environment, not in mobilerl's.

    python androidworld_launch.py CHECKOUT --port 5000 --console-port 5554 --adb PATH --adb-server-port 5038

Everything that answers is AndroidWorld's and AndroidEnv's own code but two things that only an emulator has: its gRPC
service, which `Emulator` gives on top of adb, and the accessibility forwarder (an app), in whose place AndroidWorld's
own `A11yMethod.UIAUTOMATOR` is chosen. Apps are not installed (`emulator_setup=False`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent import futures
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--console-port", type=int, required=True)
    parser.add_argument("--adb", required=True)
    parser.add_argument("--adb-server-port", type=int, required=True)
    args = parser.parse_args()
    sys.path.insert(0, f"{args.checkout}/server")
    import android_server
    import uvicorn

    adb = [args.adb, "-P", str(args.adb_server_port), "-s", f"emulator-{args.console_port}"]
    grpc_port = serve_emulator(adb)
    android_server.env_launcher.load_and_setup_env = lambda **_: load_env(args, grpc_port)
    uvicorn.run(android_server.app, host="127.0.0.1", port=args.port, log_level="warning")


def load_env(args: argparse.Namespace, grpc_port: int) -> Any:
    """What AndroidWorld's `load_and_setup_env` does, with this adb server and without the forwarder app."""
    from android_env import loader
    from android_env.components import config_classes
    from android_world.env import android_world_controller, env_launcher, interface

    config = config_classes.AndroidEnvConfig(
        task=config_classes.FilesystemTaskConfig(path=android_world_controller._write_default_task_proto()),
        simulator=config_classes.EmulatorConfig(
            emulator_launcher=config_classes.EmulatorLauncherConfig(
                emulator_console_port=args.console_port, adb_port=args.console_port + 1, grpc_port=grpc_port
            ),
            adb_controller=config_classes.AdbControllerConfig(
                adb_path=args.adb, adb_server_port=args.adb_server_port
            ),
        ),
    )
    controller = android_world_controller.AndroidWorldController(
        loader.load(config), android_world_controller.A11yMethod.UIAUTOMATOR
    )
    env = interface.AsyncAndroidEnv(controller)
    env_launcher.setup_env(env, emulator_setup=False, freeze_datetime=True)
    return env


def serve_emulator(adb: list[str]) -> int:
    """The part of an emulator's gRPC service that AndroidEnv calls, answered over adb. Returns its port."""
    import grpc
    from android_env.proto import emulator_controller_pb2 as messages
    from android_env.proto import emulator_controller_pb2_grpc as service
    from google.protobuf import empty_pb2

    class Emulator(service.EmulatorControllerServicer):
        def getStatus(self, request: Any, context: Any) -> Any:
            return messages.EmulatorStatus(booted=True, uptime=1)

        def getScreenshot(self, request: Any, context: Any) -> Any:
            raw = subprocess.run([*adb, "exec-out", "screencap"], capture_output=True, check=True).stdout
            width, height = (int.from_bytes(raw[i : i + 4], "little") for i in (0, 4))
            form = messages.ImageFormat(format=messages.ImageFormat.RGBA8888, width=width, height=height)
            return messages.Image(format=form, image=raw[16:])

        def sendTouch(self, request: Any, context: Any) -> Any:
            return empty_pb2.Empty()  # AndroidWorld acts over adb; AndroidEnv lifts all fingers at a reset

    server = grpc.server(
        futures.ThreadPoolExecutor(4),
        options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)],
    )
    service.add_EmulatorControllerServicer_to_server(Emulator(), server)
    port = server.add_secure_port("localhost:0", grpc.local_server_credentials())
    server.start()
    serve_emulator.running = server  # type: ignore[attr-defined]  # it stops when nothing refers to it
    return port


if __name__ == "__main__":
    main()
