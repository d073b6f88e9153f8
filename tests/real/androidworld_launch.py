"""AndroidWorld's own server, or its own runner, on an embedded phone. Runs in AndroidWorld's environment.

    python androidworld_launch.py CHECKOUT serve --port 5000  --console-port 5554 --adb PATH --adb-server-port 5038
    python androidworld_launch.py CHECKOUT run --out FILE --seed 30  --console-port 5554 ...

`run` plays one suite with an agent that says it is done at once, and writes what that agent was told, task by task.

Everything that answers is AndroidWorld's and AndroidEnv's own code, except what only an emulator has: its gRPC service
is answered over adb (`serve_emulator`), the accessibility forwarder app is replaced by AndroidWorld's own choice
`A11yMethod.UIAUTOMATOR`, and the apps are not installed (`emulator_setup=False`): their data is (androidworld_apps.py).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from concurrent import futures
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import androidworld_apps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout")
    parser.add_argument("what", choices=("serve", "run"))
    parser.add_argument("--port", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--console-port", type=int, required=True)
    parser.add_argument("--adb", required=True)
    parser.add_argument("--adb-server-port", type=int, required=True)
    args = parser.parse_args()
    adb = [args.adb, "-P", str(args.adb_server_port), "-s", f"emulator-{args.console_port}"]
    args.grpc_port = serve_emulator(adb)
    if args.what == "serve":
        serve(args, adb)
    else:
        args.out.write_text(json.dumps(run(args, adb), indent=1))


def serve(args: argparse.Namespace, adb: list[str]) -> None:
    sys.path.insert(0, f"{args.checkout}/server")
    import android_server
    import uvicorn

    android_server.env_launcher.load_and_setup_env = lambda **_: load_env(args, adb)
    uvicorn.run(android_server.app, host="127.0.0.1", port=args.port, log_level="warning")


def run(args: argparse.Namespace, adb: list[str]) -> list[dict[str, Any]]:
    from android_world import registry, suite_utils
    from android_world.agents import base_agent

    class Finisher(base_agent.EnvironmentInteractingAgent):
        def step(self, goal: str) -> base_agent.AgentInteractionResult:
            return base_agent.AgentInteractionResult(True, {"goal": goal})

    env = load_env(args, adb)
    tasks = registry.TaskRegistry().get_registry("android_world")
    suite = suite_utils.create_suite(tasks, n_task_combinations=1, seed=args.seed)
    suite.suite_family = "android_world"
    agent = Finisher(env, "finisher", transition_pause=0.0)
    episodes = suite_utils.run(suite, agent, return_full_episode_data=True)
    return [
        {
            "task": episode["task_template"],
            "told": episode["episode_data"]["goal"][0] if episode["exception_info"] is None else None,
            "score": episode["is_successful"] if episode["exception_info"] is None else None,
            "error": episode["exception_info"],
        }
        for episode in episodes
    ]


def load_env(args: argparse.Namespace, adb: list[str]) -> Any:
    """Does what AndroidWorld's `load_and_setup_env` does, with this adb server and without the forwarder app."""
    from android_env import loader
    from android_env.components import config_classes
    from android_env.proto.a11y import android_accessibility_forest_pb2
    from android_world.env import adb_utils, android_world_controller, env_launcher, interface

    class Controller(android_world_controller.AndroidWorldController):
        """Also fills in the forest that a few checks read, which the forwarder app would send."""

        def _process_timestep(self, timestep: Any) -> Any:
            forest = android_accessibility_forest_pb2.AndroidAccessibilityForest()
            add_nodes(forest.windows.add().tree, ElementTree.fromstring(adb_utils.uiautomator_dump(self._env)))
            timestep = super()._process_timestep(timestep)
            timestep.observation[android_world_controller.OBSERVATION_KEY_FOREST] = forest
            return timestep

    config = config_classes.AndroidEnvConfig(
        task=config_classes.FilesystemTaskConfig(path=android_world_controller._write_default_task_proto()),
        simulator=config_classes.EmulatorConfig(
            emulator_launcher=config_classes.EmulatorLauncherConfig(
                emulator_console_port=args.console_port, adb_port=args.console_port + 1, grpc_port=args.grpc_port
            ),
            adb_controller=config_classes.AdbControllerConfig(adb_path=args.adb, adb_server_port=args.adb_server_port),
        ),
    )
    controller = Controller(loader.load(config), android_world_controller.A11yMethod.UIAUTOMATOR)
    env = interface.AsyncAndroidEnv(controller)
    env_launcher.setup_env(env, emulator_setup=False, freeze_datetime=True)
    androidworld_apps.push(adb)
    return env


def add_nodes(tree: Any, root: ElementTree.Element) -> None:
    """The nodes of a `uiautomator dump` as an accessibility service gives them: flat, with the numbers of children."""
    numbers = {element: number for number, element in enumerate(root.iter("node"))}
    for element, number in numbers.items():
        x, y, x2, y2 = (int(v) for v in re.findall(r"-?\d+", element.get("bounds")))
        node = tree.nodes.add(
            unique_id=number,
            class_name=element.get("class"),
            package_name=element.get("package"),
            text=element.get("text"),
            content_description=element.get("content-desc"),
            view_id_resource_name=element.get("resource-id"),
            is_clickable=element.get("clickable") == "true",
            is_scrollable=element.get("scrollable") == "true",
            is_visible_to_user=True,
            child_ids=[numbers[child] for child in element],
        )
        node.bounds_in_screen.left, node.bounds_in_screen.top = x, y
        node.bounds_in_screen.right, node.bounds_in_screen.bottom = x2, y2


def serve_emulator(adb: list[str]) -> int:
    """Answers the calls of an emulator's gRPC service that AndroidEnv makes. Returns the port."""
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
    serve_emulator.running = server  # it stops when nothing refers to it any more
    return port


if __name__ == "__main__":
    main()
