"""Our agent on a page graph: where it is asked, what it replies, and which action of the page that is.

ReachAgent's actions are replies of our agent one to one, but for `input`, which is two: a tap on the field, and typing.
So a tap on a field is followed by a second question, on the same page with the field focused. When the agent types
then, both replies are one input; else the tap was a click, and what was replied to the second question is not done.
"""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, replace

from envs.base import Action, Observation, Tap, Task, Type
from mobilerl.agent.actions import describe, parse_reply
from mobilerl.agent.context import ContextPolicy, Turn, build_messages
from mobilerl.agent.policy import EnginePolicy
from mobilerl.agent.screen import Box, Screen, parse_screen
from mobilerl.engines.base import Sampling
from mobilerl.records import Completion
from sft.pages.actions import PageAction, from_device
from sft.pages.graph import PageGraph
from sft.pages.identity import node_box
from sft.pages.metrics import LONGEST
from sft.pages.tasks import PageTask

SUITE = "pages"


@dataclass(frozen=True, slots=True)
class Scene:
    """A page as an agent sees it."""

    observation: Observation
    screen: Screen
    space: tuple[PageAction, ...]

    @property
    def focused(self) -> Box | None:
        """Box of the field that typing goes to."""
        return next((e.box for e in self.screen.elements if "focused" in e.states and "edit" in e.actions), None)


class Scenes:
    """What the pages of a graph look like; every one is read once."""

    def __init__(self, graph: PageGraph) -> None:
        self.graph = graph
        self._made: dict[tuple[str, Box | None], Scene] = {}

    def see(self, page: str, focus: Box | None = None) -> Scene:
        """The page; with `focus`, after a tap on the field there."""
        if (page, focus) not in self._made:
            self._made[page, focus] = self._focused(page, focus) if focus else self._plain(page)
        return self._made[page, focus]

    def _plain(self, page_id: str) -> Scene:
        page, size = self.graph.pages[page_id], (self.graph.width, self.graph.height)
        observation = Observation(page.screenshot, *size, page.xml, page.app, 0)
        return Scene(observation, parse_screen(page.xml, *size), page.actions)

    def _focused(self, page_id: str, box: Box) -> Scene:
        """The graph may know a page that looks just so; else the picture is the one from before the tap."""
        plain, size = self.see(page_id), (self.graph.width, self.graph.height)
        xml = with_focus(plain.observation.xml, box, *size)
        screen, png = parse_screen(xml, *size), plain.observation.screenshot
        click = next((a for a in plain.space if a.kind == "click" and a.box == box), None)
        target = self.graph.target(page_id, click) if click else None
        if target is not None and self.see(target).screen.elements == screen.elements:
            png = self.graph.pages[target].screenshot
        return Scene(replace(plain.observation, screenshot=png, xml=xml), screen, plain.space)


def with_focus(xml: str, box: Box, width: int, height: int) -> str:
    """A dump in which the node with this box (0-999), and no other, has the focus."""
    root = ET.fromstring(xml)
    for node in root.iter("node"):
        node.set("focused", str(node_box(node, width, height) == box).lower())
    return ET.tostring(root, encoding="unicode")


def episode_task(task: PageTask) -> Task:
    """The task as prompts and results know it."""
    return Task(f"{SUITE}/{task.id}", task.kind, task.instruction, {}, 0, LONGEST, SUITE, task.app)


@dataclass(frozen=True, slots=True)
class Place:
    """A question to the agent: the task, the page, and the turns before."""

    task: Task
    page: str
    turns: tuple[Turn, ...] = ()
    focus: Box | None = None

    def after(self, scene: Scene, action: Action, response: str, thought: str) -> tuple[Turn, ...]:
        """The turns, with one more: `action` in `scene`, which is this place's."""
        seen = replace(scene.observation, step=len(self.turns))
        return (*self.turns, Turn(seen, response, thought, action, describe(action, scene.screen)))


@dataclass(frozen=True, slots=True)
class Said:
    """One reply."""

    place: Place
    completion: Completion
    action: Action
    thought: str


@dataclass(frozen=True, slots=True)
class Decided:
    """`action` is None when the reply is no action of the page. `said` has a second reply after a tap on a field."""

    action: PageAction | None
    said: tuple[Said, ...]
    turns: tuple[Turn, ...]
    """With those of the action."""


class PageAgent:
    """A policy that is asked about many places at once. Batches depend on the places alone, never on the clock."""

    def __init__(self, policy: EnginePolicy, scenes: Scenes, context: ContextPolicy, sampling: Sampling) -> None:
        self.policy, self.scenes, self.context, self.sampling = policy, scenes, context, sampling

    def decide(self, places: Sequence[Place]) -> list[Decided]:
        return asyncio.run(self._decide(places))

    async def _decide(self, places: Sequence[Place]) -> list[Decided]:
        first = await self._ask(places)
        tapped = {i: box for i, said in enumerate(first) if (box := self._tapped_field(said)) is not None}
        asked = [replace(places[i], turns=self._turns(first[i]), focus=box) for i, box in tapped.items()]
        second = dict(zip(tapped, await self._ask(asked), strict=True))
        return [self._decided(said, second.get(i)) for i, said in enumerate(first)]

    async def _ask(self, places: Sequence[Place]) -> list[Said]:
        self.policy.expected = lambda: len(places)
        return list(await asyncio.gather(*(self._reply(place, f"{i:08d}") for i, place in enumerate(places))))

    async def _reply(self, place: Place, key: str) -> Said:
        scene = self.scenes.see(place.page, place.focus)
        seen = scene.observation
        messages, images = build_messages(place.task, place.turns, seen, scene.screen, self.context)
        completion = await self.policy.act(messages, images, self.sampling, key)
        reply = parse_reply(completion.text, scene.screen, self.context.grounding, seen.width, seen.height)
        return Said(place, completion, reply.action, reply.thought)

    def _tapped_field(self, said: Said) -> Box | None:
        """Box of the field that a tap hits."""
        space = self.scenes.see(said.place.page).space
        hit = from_device(said.action, space) if isinstance(said.action, Tap) else None
        return hit.box if hit and any(a.kind == "input" and a.box == hit.box for a in space) else None

    def _turns(self, said: Said) -> tuple[Turn, ...]:
        scene = self.scenes.see(said.place.page, said.place.focus)
        return said.place.after(scene, said.action, said.completion.text, said.thought)

    def _decided(self, first: Said, second: Said | None) -> Decided:
        scene = self.scenes.see(first.place.page)
        if second is None:
            return Decided(meaning(first.action, scene), (first,), self._turns(first))
        if isinstance(second.action, Type):
            typed = from_device(second.action, scene.space, second.place.focus)
            return Decided(typed, (first, second), self._turns(second))
        return Decided(from_device(first.action, scene.space), (first, second), self._turns(first))


def meaning(action: Action, scene: Scene) -> PageAction | None:
    """What a single reply is on a page. Typing needs a field that has the focus already."""
    if isinstance(action, Type) and scene.focused is None:
        return None
    return from_device(action, scene.space, scene.focused)
