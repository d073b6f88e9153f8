"""The suite `generated`: tasks in apps made from a seed, in splits that share nothing.

Apps, pairs of a verb and an entity ("delete recipe"), phrasings and instances are each split by a hash into training,
development and test. Training tasks use the training split of all four. The tasks of a held-out part use held-out
instances, and additionally:

    instances   nothing else
    phrasings   phrasings that were never trained on
    pairs       pairs that were never trained on
    apps        apps that were never trained on

Use the development split to choose settings, and the test split for results.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, count, islice
from typing import Any, ClassVar, Literal

from mobilerl.envs.base import Action, Back, Finish, Home, Task, Type
from mobilerl.envs.phone.app import App, Row
from mobilerl.envs.phone.apps.launcher import Launcher
from mobilerl.envs.phone.generated import everyday, goals, phrasing
from mobilerl.envs.phone.generated.app import GeneratedApp, app_class
from mobilerl.envs.phone.generated.search import Move
from mobilerl.envs.phone.tasks.base import Admin, Template, same_answer
from mobilerl.envs.phone.tasks.ui import UI

SUITE = "generated"
SPLITS = ("train", "dev", "test")
Split = Literal["train", "dev", "test"]
Part = Literal["", "instances", "phrasings", "pairs", "apps"]
HeldOut = Literal["instances", "phrasings", "pairs", "apps"]
HELD_OUT: tuple[HeldOut, ...] = ("instances", "phrasings", "pairs", "apps")
TEMPLATES = (*goals.KINDS, "two-changes", "three-changes")
BUCKETS = 8
"""Number of hash buckets: one for testing, one for development, the others for training."""
FEWEST = 512
"""Minimum number of apps from which held-out apps and pairs are drawn, even if fewer are trained on."""
OTHER_APPS = (1, 2, 3, 5, 8, 11)
"""Possible numbers of apps on a phone in addition to the one that is needed."""
SMALL, SPECIAL = 0.5, 0.6
"""Probability that a goal writes fields in lower case, and that it uses a field's own phrasing of `everyday.SAID`."""
DEMONSTRATION_SEEDS = 100_000
"""First of the seeds of tasks that are demonstrated for SFT, which are not those of online training."""
DRAWS, OPS_DRAWS = 2000, 30
"""Maximum number of apps tried for a task, and of goals in each."""
STEPS_BEYOND = 2
"""Steps of the budget in addition to twice the shortest path."""


def split_of(*what: Any) -> Split:
    """The split to which something belongs, by its hash."""
    digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).digest()
    held_out: dict[int, Split] = {0: "test", 1: "dev"}
    return held_out.get(digest[0] % BUCKETS, "train")


@lru_cache
def app_numbers(split: Split, number: int) -> tuple[int, ...]:
    """The first `number` apps of a split."""
    return tuple(islice((n for n in count() if split_of("app", n) == split), number))


def pair_split(op: goals.Op) -> Split:
    return split_of("pair", op["kind"], goals.table_of(op).noun)


@lru_cache
def phrase_splits(kind: str) -> dict[phrasing.Phrase, Split]:
    """The split of every phrasing of a kind."""
    ranked = sorted(phrasing.phrases(kind), key=lambda p: hashlib.sha256(repr((kind, p)).encode()).digest())
    share = max(2, len(ranked) // BUCKETS)
    sizes: dict[Split, int] = {"test": share, "dev": share, "train": len(ranked)}
    parts = [part for part, size in sizes.items() for _ in range(size)]
    return dict(zip(ranked, parts, strict=False))


def make_task(template: str, seed: int, apps: int, split: Split = "train", part: Part = "") -> Task:
    """The instance of a template for a seed. `apps`: number of training apps, used unless `part` holds out apps."""
    if split != "train" and part not in HELD_OUT:
        raise ValueError(f"part is {part!r}; choose {', '.join(HELD_OUT)}")
    rng = random.Random(f"{SUITE}/{split}/{part}/{template}/{seed}")
    for _ in range(DRAWS):
        if (params := _draw(template, rng, apps, split, part)) is None:
            continue
        try:
            visits = goals.visits(params["ops"], params["phone"])
        except LookupError:  # impossible in this app
            continue
        steps = sum(1 + len(v.moves) for v in visits) + len(visits)
        label = app_class(params["ops"][0]["app"]).label
        return Task(
            id="/".join([SUITE, split, *([part] if part else []), template, str(seed)]),
            template=template,
            instruction=params.pop("goal"),
            params=params,
            seed=seed,
            max_steps=2 * steps + STEPS_BEYOND,
            suite=SUITE,
            app=label,
            feasible=template != "missing",
        )
    raise ValueError(f"{template}: {DRAWS} draws gave no task of {split} {part} in {apps} apps: set suite.apps to more")


def _draw(template: str, rng: random.Random, apps: int, split: Split, part: Part) -> dict[str, Any] | None:
    """Parameters with the `goal`, or None if nothing that fits the split was drawn."""
    if part == "apps":
        numbers = app_numbers(split, max(apps, FEWEST))
    else:  # among few apps some pairs do not occur at all
        numbers = app_numbers("train", max(apps, FEWEST) if part == "pairs" else apps)
    number, phone_seed = rng.choice(numbers), rng.randrange(2**24)
    app = goals.fresh_app(number, phone_seed)
    others = _others(number, rng.sample(numbers, min(rng.choice(OTHER_APPS), len(numbers))))
    if template == "copy" and not others:
        return None
    source = goals.fresh_app(others[0], phone_seed) if others else None
    pairs = {split} if part == "pairs" else {"train"}
    for _ in range(OPS_DRAWS):
        ops = _ops(template, app, source, rng)
        if ops and split_of("instance", ops) == split and {pair_split(op) for op in ops} == pairs:
            break
    else:
        return None
    wording = split if part == "phrasings" else "train"
    installed = [number, *others]
    rng.shuffle(installed)
    small = rng.random() < SMALL
    goal = _goal(ops, app, source, len(installed), wording, small, rng)
    if not goal:
        return None
    said = set(re.findall(r"\w+", goal))
    nouns = [not said.isdisjoint((goals.table_of(op).noun, goals.table_of(op).plural)) for op in ops]
    fields = [small and _field(op).lower() in said for op in ops]
    return {"apps": installed, "phone": phone_seed, "ops": ops, "nouns": nouns, "small": fields, "goal": goal}


def _field(op: goals.Op) -> str:
    """The field that the goal may name, or ""."""
    column = goals.column_of(op)
    return column.name if column else ""


def _others(number: int, candidates: Iterable[int]) -> list[int]:
    """The candidates whose names and contents cannot be confused with app `number` or with each other."""
    chosen: list[int] = []
    known = _words(number)
    for n in candidates:
        if known.isdisjoint(_words(n)):
            chosen.append(n)
            known |= _words(n)
    return chosen


def _words(number: int) -> set[str]:
    spec = app_class(number).spec
    return {spec.label, *(t.noun for t in spec.tables)}


def _ops(template: str, app: GeneratedApp, source: GeneratedApp | None, rng: random.Random) -> list[goals.Op] | None:
    """The operations of a task, or None if the app does not allow them."""
    if template in goals.KINDS:
        op = goals.draw(template, app, source, rng)
        return None if op is None else [op]
    ops: list[goals.Op] = []
    for _ in range({"two-changes": 2, "three-changes": 3}[template]):
        op = goals.draw(rng.choice(goals.CHANGES), app, None, rng)
        if op is None or any(_same_place(op, other) for other in ops):
            return None
        ops.append(op)
    return ops


def _same_place(a: goals.Op, b: goals.Op) -> bool:
    """Whether two changes concern the same row, so that one may undo the other."""
    return a["table"] == b["table"] and a.get("row") == b.get("row")


def _goal(
    ops: Sequence[goals.Op],
    app: GeneratedApp,
    source: GeneratedApp | None,
    installed: int,
    wording: Split,
    small: bool,
    rng: random.Random,
) -> str:
    clauses = [_clause(op, app, goals.wording(op, app, source, small), wording, small, rng) for op in ops]
    if not all(clauses):
        return ""
    label = app.label
    known = all(everyday.holds(label, goals.table_of(op).noun) for op in ops) or installed == 1
    named = rng.random() < (0.3 if known else 1.0)
    deletes = [_wording_kind(op) for op in ops] == ["delete"]
    return phrasing.sentence(clauses, label if named else "", rng, from_app=deletes)


def _clause(
    op: goals.Op, app: GeneratedApp, names: Mapping[str, str], wording: Split, small: bool, rng: random.Random
) -> str:
    kind, values = _wording_kind(op), _values(op, small)
    general = [p for p in phrasing.phrases(kind) if phrase_splits(kind)[p] == wording]
    special = [p for p in phrasing.find_phrases(kind, _field(op)) if split_of("phrase", kind, p) == wording]
    needs_noun = len(app_class(op["app"]).spec.tables) > 1
    both = [
        [p for p in some if not needs_noun or "{noun}" in p[0] or "{plural}" in p[0]] for some in (special, general)
    ]
    allowed = next(filter(None, both if rng.random() < SPECIAL else both[::-1]), [])
    if not allowed:
        return ""
    table = goals.table_of(op)
    article = "row" in op and table.style in phrasing.ARTICLE_STYLES and rng.random() < phrasing.ARTICLE
    located = {**names, "title": names["title"] + _place(op, goals.row_of(op, app), rng)}
    return phrasing.clause(rng.choice(allowed), located, values, rng, article)


def _place(op: goals.Op, row: Row, rng: random.Random) -> str:
    """Where the row is, in some goals: " in Downloads"."""
    known = [c for c in goals.table_of(op).columns if c.name in phrasing.PLACES and c.name != _field(op) and row]
    return f" in {row[known[0].key]}" if known and rng.random() < phrasing.LOCATED else ""


def _values(op: goals.Op, small: bool) -> list[tuple[str, str]]:
    """Names and values of a new row's fields, without its title."""
    table = goals.table_of(op)
    listed = [(table.column(k), v) for k, v in op.get("values", {}).items() if op["kind"] == "create" and k != "title"]
    return [(goals.name_field(column, small), column.format_value(value)) for column, value in listed]


def _wording_kind(op: goals.Op) -> str:
    if op["kind"] == "missing":
        return op["asked"]
    if op["kind"] == "toggle":
        return "on" if next(iter(op["values"].values())) else "off"
    return op["kind"]


class GeneratedTask(Template):
    """The task of one episode. `params` holds the `apps` on the phone, its seed `phone`, the `ops`, and for each of
    these whether the noun occurs in the goal, be it as an app's name (`nouns`), and whether it writes
    fields in lower case (`small`)."""

    app: ClassVar[str] = ""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.ops: list[goals.Op] = params["ops"]
        self.apps = {n: goals.fresh_app(n, params["phone"]) for n in params["apps"]}
        main = self.apps[self.ops[0]["app"]]
        self.expected = goals.answer(self.ops[0], main.db)

    def check(self, phone: Admin, answer: str) -> bool:
        """Whether the tables of all apps are as expected and the answer is right."""
        if self.expected and not same_answer(answer, self.expected):
            return False
        return self._holds(phone, self.ops)

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        """Which of several changes were made, if nothing else was changed."""
        if len(self.ops) == 1:
            return super().conditions(phone, answer)
        some = (ops for n in range(len(self.ops), 0, -1) for ops in combinations(self.ops, n))
        made = next((ops for ops in some if self._holds(phone, ops)), ())
        return [op in made for op in self.ops]

    def _holds(self, phone: Admin, ops: Sequence[goals.Op]) -> bool:
        """Whether the tables of all apps are as these operations leave them."""
        return all(
            _comparable(phone.rows(f"{app.spec.authority}/{name}")) == _comparable(rows)
            for app in self.apps.values()
            for name, rows in self.expected_tables(app, ops).items()
        )

    def expected_tables(self, app: GeneratedApp, ops: Sequence[goals.Op]) -> dict[str, list[Row]]:
        """The expected tables of an app after these operations."""
        db = app.db
        for op in ops:
            if op["app"] == app.spec.number and op["kind"] not in (*goals.QUESTIONS, "missing"):
                db = goals.apply(op, db)
        return db

    def expert(self, ui: UI) -> Iterator[Action]:
        """A shortest path in every app, from the home screen to `finish`."""
        visits, purposes = goals.visits(self.ops, self.p["phone"]), self.purposes()
        self.purpose = purposes[0]
        for visit in visits:
            if visit is not visits[0]:
                self.thought = f"carry {visits[0].carried}"
                yield Home()
            self.thought = ""
            yield ui.tap(visit.label)
            for move in visit.moves:
                self.purpose = purposes[move.change]
                yield from _actions(move, ui)
        yield Finish(self.expected)

    def purposes(self) -> list[str]:
        """The purpose of each operation, in words that do not depend on the goal's phrasing."""
        return [self._purpose(*of) for of in zip(self.ops, self.p["nouns"], self.p["small"], strict=True)]

    def _purpose(self, op: goals.Op, noun: bool, small: bool) -> str:
        source = self.apps[op["source"]["app"]] if "source" in op else None
        names = goals.wording(op, self.apps[op["app"]], source, small)
        names["row"] = f"{names['noun']} {names['title']}" if noun else names["title"]
        names["values"] = "".join(f", {name} {value}" for name, value in _values(op, small))
        return phrasing.PURPOSES[_wording_kind(op)].format_map(names)


def _actions(move: Move, ui: UI) -> Iterator[Action]:
    match move.kind:
        case "type":
            yield Type(move.text)
        case "back":
            yield Back()
        case "swipe":
            yield ui.scroll_down()
        case _ if move.edit:
            yield ui.tap_field(move.nth, move.text)
        case _:
            yield from ui.press(move.text, move.nth)  # on a screen of another size it may be further down


def _comparable(rows: Iterable[Row]) -> list[dict[str, str]]:
    """Rows without ids and types, because texts that look like numbers are printed like them."""
    return sorted(({k: str(v) for k, v in row.items() if k != "_id"} for row in rows), key=lambda r: sorted(r.items()))


def open_task(task: Task) -> GeneratedTask:
    return GeneratedTask(task.params)


def reset_options(task: Task) -> tuple[str, ...]:
    """Options of `sim reset` that bring a phone into the initial state of the task."""
    return ("--seed", str(task.params["phone"]), "--apps", ",".join(map(str, task.params["apps"])))


def app_names(task: Task) -> dict[str, str]:
    """Name under the icon -> package."""
    apps: list[type[App]] = [Launcher, *map(app_class, task.params["apps"])]
    return {cls.label: cls.package for cls in apps}


def train_tasks(per_template: int, apps: int, templates: Sequence[str] = TEMPLATES, first_seed: int = 0) -> list[Task]:
    return [make_task(t, first_seed + i, apps) for t in templates for i in range(per_template)]


def held_out_tasks(
    per_template: int, apps: int, split: Split, parts: Sequence[Part] = HELD_OUT, templates: Sequence[str] = TEMPLATES
) -> list[Task]:
    return [make_task(t, i, apps, split, part) for part in parts for t in templates for i in range(per_template)]


def wordings(count: int, apps: int, rng: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Goals of training tasks, each with the purposes of its operations."""
    while count > 0:
        if params := _draw(rng.choice(TEMPLATES), rng, apps, "train", ""):
            count -= 1
            yield params["goal"], GeneratedTask(params).purposes()


def is_held_out(task: Task) -> bool:
    """Whether an app, a pair or the instance is held out. For phrasings, `check_no_leak` compares the goals."""
    ops = task.params["ops"]
    held_out = {split_of("app", op["app"]) for op in ops} | {pair_split(op) for op in ops}
    return held_out != {"train"} or split_of("instance", ops) != "train"


def check_no_leak(train: Iterable[Task], test: Iterable[Task]) -> None:
    """Raises ValueError if a held-out app, pair, goal or instance occurs in training."""
    for task in train:
        if is_held_out(task):
            raise ValueError(f"leak: {task.id} is held out")
    seen = {task.instruction for task in train}
    for task in test:
        if task.instruction in seen and task.template != "missing":
            raise ValueError(f"leak: the goal of {task.id} is trained on")
