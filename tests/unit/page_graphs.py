"""What the tests of the page graph share: explorers of embedded phones, and a small graph made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from mobilerl.envs.device import Device
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks.base import Admin
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.reachagent.actions import BACK, COMPLETE, PageAction
from mobilerl.reachagent.agent import Decision
from mobilerl.reachagent.evaluation import walk
from mobilerl.reachagent.exploration import Explorer, Limits
from mobilerl.reachagent.graph import Page, PageGraph, Seen
from mobilerl.reachagent.identity import Abstraction
from mobilerl.reachagent.tasks import PageTask

SEED = 1
PRODUCTS = "shop/products"


def phone_device() -> tuple[Phone, Device]:
    phone = Phone(APPS)
    return phone, Device(InProcessTransport(phone), APP_NAMES)


def sell_out(device: Device) -> None:
    """One product that cannot be bought: phones are filled without any, but some tasks bring one."""
    admin = Admin(device.transport)
    admin.update(PRODUCTS, admin.rows(PRODUCTS)[0]["_id"], stock=0)


def phone_explorer(
    seed: int = SEED, abstraction: Abstraction | None = None, limits: Limits | None = None, screenshots: bool = False
) -> Explorer:
    return Explorer(Phone(APPS), seed, abstraction, limits, screenshots, sell_out)


def click(name: str, at: int) -> PageAction:
    """A button of 100 x 100, the `at`-th from the top."""
    return PageAction("click", name, (0, 100 * at, 100, 100 * at + 100))


OPEN, SAVE, LIST, NEWS = click("Open", 1), click("Save", 2), click("List", 3), click("News", 4)
FIELD = PageAction("input", "Title", (0, 500, 100, 600))
TYPED = PageAction("input", "Title", (0, 500, 100, 600), text="buy milk")
UP = PageAction("scroll", "", (0, 0, 999, 999), "up")

EDGES: dict[str, dict[PageAction, str]] = {
    "A": {LIST: "L", NEWS: "N", OPEN: "E"},
    "L": {OPEN: "E", UP: "L", BACK: "A"},
    "E": {TYPED: "T", BACK: "A"},
    "T": {SAVE: "L", BACK: "E"},
    "N": {BACK: "A"},
    "X": {BACK: "A"},
}
"""A is the home. L a list that can be scrolled, E a form (T: with a title), N a dead end, X cannot be reached."""
TITLES = {"A": "App", "L": "List", "E": "Edit", "T": "Edit", "N": "News", "X": "Lost"}


def small_graph() -> PageGraph:
    """A -List-> L -Open-> E -Title-> T -Save-> L; A -Open-> E; A -News-> N; Back from all but T leads to A."""
    return graph_of(EDGES, TITLES)


def graph_of(edges: dict[str, dict[PageAction, str]], titles: dict[str, str]) -> PageGraph:
    """A graph of one app with the home A. Pages of equal title are variants of the first of them."""
    graph = PageGraph(360, 720, {"App": "A"})
    for name, known in edges.items():
        space = dict.fromkeys([a.slot for a in known])
        actions = (*[a for a in space if a != BACK], BACK, COMPLETE)
        identity = next(page for page in edges if titles[page] == titles[name]).lower()
        graph.add_page(Page(name, "App", identity, titles[name], Seen(f"<{name}/>", b"", actions)))
    for name, known in edges.items():
        for action, target in known.items():
            graph.add_edge(name, action, target)
    return graph


def succeeds(graph: PageGraph, task: PageTask, actions: Sequence[PageAction]) -> bool:
    """Whether an agent that takes these actions succeeds."""
    left = iter(actions)
    agent = SimpleNamespace(decide=lambda queries: [Decision(next(left, None), (), ())])
    return walk(graph, [task], agent)[task.id][1]
