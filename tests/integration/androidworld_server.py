"""A stand-in for AndroidWorld's server: its routes, its answers and its bad habits, over one of our embedded phones.

It is not AndroidWorld: behind each of the 116 names is a task of the embedded phone, so that whole evaluations can be
played (`androidworld_expert` plays them). What is true of it is how it talks: the shapes of answers and errors, the
connection that is closed after every 500, one request at a time, and when a call is refused.

It runs in containers too, on `envs` and Pillow alone.
"""

from __future__ import annotations

import hashlib
import io
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from http_stand_in import Handler, Server
from PIL import Image

from mobilerl.envs.androidworld.tasks import ANSWER_TASKS, FACTS, WALL_CLOCK_GOALS
from mobilerl.envs.base import Transport
from mobilerl.envs.device import Device
from mobilerl.envs.phone.apps.catalogue import APP_NAMES
from mobilerl.envs.phone.apps.catalogue import APPS as PHONE_APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks import suite
from mobilerl.envs.phone.tasks.base import Admin, Template
from mobilerl.envs.phone.transport import InProcessTransport

READING = ("SettingsReadVolume", "ContactsReadPhone", "NotesRead", "TodoDue", "ShopPrice")
DOING = ("SettingsVolume", "ContactsDelete", "NotesPin", "TodoAdd", "FilesDelete", "MapsSave")
CHOSEN = {
    "ContactsAddContact": "ContactsCreate",
    "MarkorCreateNote": "NotesCreate",
    "OsmAndMarker": "MapsNavigate",
    "RetroCreatePlaylist": "MusicNewPlaylist",
    "SimpleSmsSend": "MessagesSend",
    "RetroPlayingQueue": "MusicPlay",
}
FREE = {name for name in FACTS if name.startswith("System") and name.endswith("Verify")} | {
    "RecipeDeleteMultipleRecipesWithConstraint"
}
REWORDED = {"SimpleCalendarEventsInTimeRange", "SportsTrackerActivitiesOnDate", "TasksIncompleteTasksOnDate"}
"""Their goals are reworded while they are set up, and a second set-up of the same instance words them differently."""
COMPOSITES = {"MarkorCreateNoteAndSms", "TurnOffWifiAndTurnOnBluetooth", "TurnOnWifiAndOpenApp"}
"""They are made of sub-tasks that only exist once they were set up: a tear-down before that raises."""
FIELDS = {"action_type", "x", "y", "text", "direction", "app_name", "clear_text"}
INTEGERS = {"max_index", "n_task_combinations", "seed", "task_idx"}
FAMILIES = {"android_world": sorted(FACTS), "information_retrieval": sorted(ANSWER_TASKS)}


def instance_seed(seed: int, name: str, index: int) -> int:
    """As AndroidWorld draws it."""
    return int(hashlib.sha256(f"{seed}_{name}_{index}".encode()).hexdigest(), 16) % 2**32


class NotFound(Exception):
    """There is no such route: the server answers 404."""


class Raised(Exception):
    """AndroidWorld's code raised: the server answers 500."""


@dataclass
class Instance:
    goal: str
    template: Template
    phone_seed: int
    initialized: bool = False
    plays: int = 0

    def initialize(self, name: str) -> None:
        if self.initialized:
            raise Raised
        self.initialized = True
        self.plays += 1
        if name in REWORDED:
            self.goal = f"{'Hello! ' * self.plays}{self.goal}"


@dataclass
class StandIn:
    """`requests` logs (method, route, arguments). A first request to a route in `drops` gets no answer, the next ones
    to a route in `answers` get those; `scores[name]` replaces a score.
    """

    transport: Transport
    names: tuple[str, ...] = tuple(sorted(FACTS))
    requests: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    drops: set[str] = field(default_factory=set)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    init_s: float = 0.0
    go: threading.Event | None = None
    """A set-up waits for it, where there is one."""
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        self._http: Server | None = None
        self._serial = threading.Lock()
        self._open: set[Any] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> StandIn:
        """A server that has booted: the default suite, nothing set up. After `stop` it comes back at the same port."""
        self.answer, self._scored = "", 0
        self.make_suite("android_world", 2, 42)
        stand_in = self

        class Connection(_Handler):
            server_of = stand_in

        self._http = Server(Connection, self.port, self.host)
        self.port = self._http.server_port
        return self

    def stop(self) -> None:
        """As when its container is killed: open connections end, new ones are refused."""
        if self._http is not None:
            self._http.stop()
            self._http = None
        for connection in list(self._open):
            connection.close()

    def make_suite(self, family: str, combinations: int, seed: int) -> None:
        wanted = [name for name in self.names if name not in FACTS or name in FAMILIES[family]]
        self.suite = {name: [self._make(name, seed, i) for i in range(combinations)] for name in sorted(wanted)}
        self.seed = seed

    def _make(self, name: str, seed: int, index: int) -> Instance:
        kinds = READING if name in ANSWER_TASKS else DOING
        chosen = CHOSEN.get(name) or kinds[instance_seed(0, name, 0) % len(kinds)]
        task = suite.make_task(chosen, instance_seed(seed, name, index) % suite.HELD_OUT_SEEDS)
        goal = task.instruction
        if name in WALL_CLOCK_GOALS:
            goal += f" ({time.time_ns()})"
        return Instance(goal, suite.template(chosen)(task.params), suite.phone_seed(task))

    def instance(self, name: str, index: int = 0) -> Instance:
        try:
            return self.suite[name][index]
        except (KeyError, IndexError):
            raise Raised from None

    def handle(self, route: str, query: dict[str, str], body: Any) -> dict[str, Any]:
        work = getattr(self, "do_" + route.strip("/").replace("/", "_"), None)
        if work is None:
            raise NotFound
        arguments = {name: int(text) if name in INTEGERS else text for name, text in query.items()}
        return work(**arguments) if body is None else work(action=body)

    def do_health(self) -> dict[str, Any]:
        return SUCCESS

    def do_reset(self, go_home: str) -> dict[str, Any]:
        if go_home == "true":
            self._run("input", "keyevent", "KEYCODE_HOME")
        self.answer = ""
        return SUCCESS

    def do_screenshot(self, wait_to_stabilize: str) -> dict[str, Any]:
        image = Image.open(io.BytesIO(self.transport.exec_out(("screencap", "-p")))).convert("RGB")
        row, data = 3 * image.width, list(image.tobytes())
        rows = [data[i : i + row] for i in range(0, len(data), row)]
        return {"pixels": [[line[i : i + 3] for i in range(0, row, 3)] for line in rows]}

    def do_suite_task_list(self, max_index: int) -> dict[str, Any]:
        return {"task_list": list(self.suite)}

    def do_suite_task_length(self, task_type: str) -> dict[str, Any]:
        self.instance(task_type)
        return {"length": len(self.suite[task_type])}

    def do_suite_reinitialize(self, n_task_combinations: int, seed: int, task_family: str) -> dict[str, Any]:
        self.make_suite(task_family, n_task_combinations, seed)
        return SUCCESS

    def do_task_initialize(self, task_type: str, task_idx: int) -> dict[str, Any]:
        """Brings the phone into its state first, and only then finds that it may not."""
        instance = self.instance(task_type, task_idx)
        self.answer = ""
        time.sleep(self.init_s)
        if self.go is not None:
            self.go.wait()
        self._run("sim", "reset", "--seed", str(instance.phone_seed), "--popups", "0")
        instance.template.setup(Admin(self.transport))
        instance.initialize(task_type)
        return SUCCESS

    def do_task_tear_down(self, task_type: str, task_idx: int) -> dict[str, Any]:
        instance = self.instance(task_type, task_idx)
        if task_type in COMPOSITES and not instance.plays:
            raise Raised
        instance.initialized = False
        return SUCCESS

    def do_task_score(self, task_type: str, task_idx: int) -> dict[str, Any]:
        instance = self.instance(task_type, task_idx)
        if not instance.initialized:
            raise Raised
        if task_type in self.scores:
            return {"score": self.scores[task_type]}
        if task_type == "RetroPlayingQueue" and "launcher" in Device(self.transport).foreground_package():
            raise Raised  # its database is only there once the app was opened
        done = task_type in FREE or instance.template.check(Admin(self.transport), self.answer)
        self._scored += 1
        return {"score": float(done) if self._scored % 2 else int(done)}

    def do_task_goal(self, task_type: str, task_idx: int) -> dict[str, Any]:
        return {"goal": self.instance(task_type, task_idx).goal}

    def do_execute_action(self, action: dict[str, Any]) -> dict[str, Any]:
        kind = action.get("action_type")
        x, y = action.get("x"), action.get("y")
        if action.keys() - FIELDS or (kind in ("click", "long_press", "input_text") and (x is None or y is None)):
            raise Raised
        if kind == "answer":
            self.answer = action["text"]
        elif kind == "click":
            self._run("input", "tap", str(x), str(y))
        elif kind == "long_press":
            self._run("input", "swipe", str(x), str(y), str(x), str(y), "1000")
        elif kind == "input_text":
            self._run("input", "tap", str(x), str(y))
            self._run("am", "broadcast", "-a", "ADB_CLEAR_TEXT")
            self._run("input", "text", action["text"].replace(" ", "%s"))
            self._run("input", "keyevent", "KEYCODE_ENTER")
        elif kind == "scroll":
            w, h = Device(self.transport).size()
            end = {"down": (w // 2, 0), "up": (w // 2, h), "right": (0, h // 2), "left": (w, h // 2)}
            self._run("input", "swipe", str(w // 2), str(h // 2), *(str(v) for v in end[action["direction"]]))
        elif kind == "open_app":
            packages = {label.lower(): package for label, package in APP_NAMES.items()}
            self._run("monkey", "-p", packages[action["app_name"]], "-c", "android.intent.category.LAUNCHER", "1")
        elif kind in KEYS:
            self._run("input", "keyevent", KEYS[kind])
        else:
            raise Raised
        return SUCCESS

    def _run(self, *words: str) -> None:
        assert self.transport.shell(words).exit_code == 0, words


KEYS = {"keyboard_enter": "KEYCODE_ENTER", "navigate_home": "KEYCODE_HOME", "navigate_back": "KEYCODE_BACK"}


SUCCESS = {"status": "success"}


class _Handler(Handler):
    server_of: StandIn

    def setup(self) -> None:
        super().setup()
        self.server_of._open.add(self.connection)

    def finish(self) -> None:
        self.server_of._open.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        action = self.body()
        server = self.server_of
        with server._serial:  # one event loop, and no handler that ever gives it up
            server.requests.append((method, parts.path, {**query, **(action or {})}))
            if parts.path in server.drops:
                server.drops.remove(parts.path)
                self.close_connection = True
                return
            planned = server.answers.get(parts.path)
            try:
                status, answer = 200, planned.pop(0) if planned else server.handle(parts.path, query, action)
            except NotFound:
                status, answer = 404, {"detail": "Not Found"}
            except Raised:
                status, answer = 500, "Internal Server Error"
        self.respond(answer, status)
        if status == 500:  # closed without a `Connection: close` that would say so
            self.close_connection = True


def in_process(width: int = 180, height: int = 360) -> InProcessTransport:
    """A phone of this process, small so that its pixels make little JSON."""
    return InProcessTransport(Phone(PHONE_APPS, width, height), "in-process")
