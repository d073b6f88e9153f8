"""AndroidWorld's server, thinner: it sets tasks up and scores them, and leaves the screen to adb.

Runs inside AndroidWorld's container, on the packages `android_world` and FastAPI that it has. The routes are those of
AndroidWorld's own server, so the same client talks to both, with these differences:

- The port is open from the start. While the emulator is being set up every answer is 503, with the reason.
- /health asks adb, and answers at once also while a task is being set up.
- /screenshot (30 MB of JSON in 15 s) is gone; /screenshot.png gives the PNG, and over adb it is not needed.
- /info has the commit and the step budgets, which AndroidWorld's server keeps to itself.
- An error that the package raises is a 500 that names it, on a connection that stays usable.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import subprocess
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI, HTTPException, Response

ADB_TIMEOUT_S = 15
CONNECT_TIMEOUT_S = 10
FAMILY = "android_world"
DEFAULT_SEED, DEFAULT_COMBINATIONS = 42, 2
PNG = b"\x89PNG\r\n\x1a\n"
T = TypeVar("T")


class World:
    """The package and its emulator. All that touches them runs in one thread, one call after the other."""

    def __init__(self, adb: str, console_port: int, grpc_port: int, install_apps: bool) -> None:
        self.adb, self.serial = adb, f"emulator-{console_port}"
        self._worker = ThreadPoolExecutor(1, "android_world")
        self._loaded: Future[None] = self._worker.submit(self._load, console_port, grpc_port, install_apps)

    def _load(self, console_port: int, grpc_port: int, install_apps: bool) -> None:
        from android_world import registry, suite_utils
        from android_world.env import env_launcher, json_action

        self.make_action, self._suite_utils = json_action.JSONAction, suite_utils
        self._registry = registry.TaskRegistry()
        self.env = env_launcher.load_and_setup_env(
            console_port=console_port,
            emulator_setup=install_apps,
            freeze_datetime=True,
            adb_path=self.adb,
            grpc_port=grpc_port,
        )
        self.make_suite(FAMILY, DEFAULT_COMBINATIONS, DEFAULT_SEED)
        self.budgets = {name: int(10 * tasks[0].complexity) for name, tasks in self.suite.items()}

    def make_suite(self, family: str, combinations: int, seed: int) -> None:
        try:
            tasks = self._registry.get_registry(family)
        except ValueError:
            raise HTTPException(400, f"Invalid task family: {family}") from None
        self.suite = self._suite_utils.create_suite(task_registry=tasks, n_task_combinations=combinations, seed=seed)

    def check_loaded(self) -> None:
        """Raises HTTPException while the emulator is being set up, and forever after that failed."""
        if not self._loaded.done():
            raise HTTPException(503, "starting: the emulator is being set up")
        if (error := self._loaded.exception()) is not None:
            raise HTTPException(500, f"AndroidWorld could not start: {describe(error)}")

    def call(self, work: Callable[[], T]) -> T:
        self.check_loaded()
        try:
            return self._worker.submit(work).result()
        except HTTPException:
            raise
        except Exception as error:  # the package's own
            traceback.print_exc()
            raise HTTPException(500, describe(error)) from error

    def run_adb(self, *words: str) -> bytes:
        """Raises HTTPException when adb fails: the phone is gone, or adb's server is being restarted."""
        self.check_loaded()
        try:
            done = subprocess.run([self.adb, "-s", self.serial, *words], capture_output=True, timeout=ADB_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HTTPException(503, f"adb {words[0]}: {describe(error)}") from None
        if done.returncode:
            raise HTTPException(503, f"adb {words[0]}: {done.stderr.decode(errors='replace').strip()[:200]}")
        return done.stdout


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def success(message: str) -> dict[str, str]:
    return {"status": "success", "message": message}


def make_app(world: World, commit: str) -> FastAPI:
    app = FastAPI()

    @app.get("/health")
    def health() -> dict[str, str]:
        if (state := world.run_adb("get-state").strip()) != b"device":
            raise HTTPException(503, f"adb says {state.decode(errors='replace')} of {world.serial}")
        return {"status": "success"}

    @app.get("/info")
    def info() -> dict[str, Any]:
        world.check_loaded()
        return {"server": "mobilerl", "commit": commit, "budgets": world.budgets, "screenshots": "png"}

    @app.get("/screenshot.png")
    def screenshot() -> Response:
        data = world.run_adb("exec-out", "screencap", "-p")
        if (start := data.find(PNG)) < 0:
            raise HTTPException(503, "screencap gave no picture")
        return Response(data[start:], media_type="image/png")

    @app.post("/reset")
    def reset(go_home: bool) -> dict[str, str]:
        world.call(lambda: world.env.reset(go_home=go_home))
        return success(f"Environment reset with go_home={go_home}.")

    @app.post("/execute_action")
    def execute_action(action: dict[str, Any]) -> dict[str, str]:
        world.call(lambda: world.env.execute_action(world.make_action(**action)))
        return success(f"Action {action} executed.")

    @app.get("/suite/task_list")
    def task_list(max_index: int) -> dict[str, list[str]]:
        names = world.call(lambda: list(world.suite))
        return {"task_list": names if max_index < 0 else names[:max_index]}

    @app.get("/suite/task_length")
    def task_length(task_type: str) -> dict[str, int]:
        return {"length": world.call(lambda: len(world.suite[task_type]))}

    @app.get("/suite/reinitialize")
    def reinitialize(
        n_task_combinations: int = DEFAULT_COMBINATIONS, seed: int = DEFAULT_SEED, task_family: str = FAMILY
    ) -> dict[str, str]:
        world.call(lambda: world.make_suite(task_family, n_task_combinations, seed))
        return success(f"Task suite re-initialized with n_task_combinations={n_task_combinations}, seed={seed}.")

    @app.post("/task/initialize")
    def initialize(task_type: str, task_idx: int) -> dict[str, str]:
        world.call(lambda: world.suite[task_type][task_idx].initialize_task(world.env))
        return success(f"Task {task_type} {task_idx} initialized.")

    @app.post("/task/tear_down")
    def tear_down(task_type: str, task_idx: int) -> dict[str, str]:
        world.call(lambda: world.suite[task_type][task_idx].tear_down(world.env))
        return success(f"Task {task_type} {task_idx} torn down.")

    @app.get("/task/score")
    def score(task_type: str, task_idx: int) -> dict[str, float | None]:
        value = world.call(lambda: float(world.suite[task_type][task_idx].is_successful(world.env)))
        return {"score": None if math.isnan(value) else value}

    @app.get("/task/goal")
    def goal(task_type: str, task_idx: int) -> dict[str, str]:
        return {"goal": world.call(lambda: world.suite[task_type][task_idx].goal)}

    return app


async def forward(host: str, port: int, to_port: int) -> asyncio.Server:
    """Forwards connections to `port` of this machine's loopback, where alone an emulator listens."""

    async def join(near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        with contextlib.closing(near_out), contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                far, far_out = await asyncio.open_connection("127.0.0.1", to_port)
            with contextlib.closing(far_out):
                await asyncio.gather(_copy(near, far_out), _copy(far, near_out))

    return await asyncio.start_server(join, host, port)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError):
        target.write_eof()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (a container needs 0.0.0.0)")
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--adb", default="/opt/android/platform-tools/adb")
    parser.add_argument("--console-port", type=int, default=5554, help="the emulator's; its adb port is the next one")
    parser.add_argument("--grpc-port", type=int, default=8554)
    parser.add_argument("--adb-forward", type=int, metavar="PORT", help="forward this port to the emulator's adb port")
    parser.add_argument(
        "--apps-installed", action="store_true", help="do not download and install the apps: the image has them"
    )
    args = parser.parse_args()
    world = World(args.adb, args.console_port, args.grpc_port, not args.apps_installed)
    app = make_app(world, os.environ.get("ANDROIDWORLD_COMMIT", ""))
    if args.adb_forward is not None:
        forwarding = await forward(args.host, args.adb_forward, args.console_port + 1)
        await forwarding.start_serving()
    await uvicorn.Server(uvicorn.Config(app, args.host, args.port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main())
