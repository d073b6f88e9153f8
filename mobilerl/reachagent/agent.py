"""Our agent on a page graph: queries, and the mapping of its responses to page actions.

Each action of ReachAgent is one response of our agent, except `input`, which takes two: a tap on the field and typing.
So a tap on a field is followed by a second query, on the same page with the field focused. If the agent types, the two
responses form an input; otherwise the tap was a click, and the second response is discarded.
"""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mobilerl.envs.base import Action, Observation, Tap, Task, Type
from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.policy.actions import describe
from mobilerl.policy.context import ContextPolicy, build_messages
from mobilerl.policy.screen import Box, Screen, parse_screen
from mobilerl.policy.turns import Turn
from mobilerl.policy.unreadable import explain_unreadable
from mobilerl.reachagent.actions import PageAction, from_device
from mobilerl.reachagent.graph import PageGraph
from mobilerl.reachagent.identity import node_box
from mobilerl.reachagent.metrics import MAX_STEPS
from mobilerl.reachagent.tasks import PageTask
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling

SUITE = "pages"
CACHED = 1024
"""Number of scenes in memory."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A page as the agent sees it."""

    observation: Observation
    screen: Screen
    space: tuple[PageAction, ...]

    @property
    def focused(self) -> Box | None:
        """Box of the field that receives typed text."""
        return next((e.box for e in self.screen.elements if "focused" in e.states and "edit" in e.actions), None)


class Scenes:
    """Scenes of the pages of a graph; the `CACHED` used last are kept in memory."""

    def __init__(self, graph: PageGraph) -> None:
        self.graph = graph
        self._see = lru_cache(CACHED)(self._make)

    def see(self, page: str, focus: Box | None = None) -> Scene:
        """Scene of a page or, with `focus`, of the page after a tap on the field with that box."""
        return self._see(page, focus)

    def _make(self, page: str, focus: Box | None) -> Scene:
        return self._focus(page, focus) if focus else self._plain(page)

    def _plain(self, page_id: str) -> Scene:
        page, size = self.graph.pages[page_id], (self.graph.width, self.graph.height)
        observation = Observation(page.screenshot, *size, page.xml, page.app, 0)
        return Scene(observation, parse_screen(page.xml, *size), page.actions)

    def _focus(self, page_id: str, box: Box) -> Scene:
        """Scene after a tap on a field, with the screenshot of that state if the graph has it, else the plain one."""
        plain, size = self.see(page_id), (self.graph.width, self.graph.height)
        xml = with_focus(plain.observation.xml, box, *size)
        screen, png = parse_screen(xml, *size), plain.observation.screenshot
        click = next((a for a in plain.space if a.kind == "click" and a.box == box), None)
        target = self.graph.target(page_id, click) if click else None
        if target is not None and self.see(target).screen.elements == screen.elements:
            png = self.graph.pages[target].screenshot
        return Scene(replace(plain.observation, screenshot=png, xml=xml), screen, plain.space)


def with_focus(xml: str, box: Box, width: int, height: int) -> str:
    """Changes a dump so that only the node with this box (0-999) has the focus."""
    root = ET.fromstring(xml)
    for node in root.iter():
        node.set("focused", str(node_box(node, width, height) == box).lower())
    return ET.tostring(root, encoding="unicode")


def episode_task(task: PageTask) -> Task:
    """Converts a page task to the form used in prompts and results."""
    return Task(f"{SUITE}/{task.id}", task.kind, task.instruction, {}, 0, MAX_STEPS, SUITE, task.app)


@dataclass(frozen=True, slots=True)
class Query:
    """A question to the agent: the task, the page, and the previous turns."""

    task: Task
    page: str
    turns: tuple[Turn, ...] = ()
    focus: Box | None = None

    def turns_after(self, scene: Scene, action: Action, response: str, thought: str) -> tuple[Turn, ...]:
        """The turns followed by that of `action` in `scene`, which must be this query's."""
        seen = replace(scene.observation, step=len(self.turns))
        return (*self.turns, Turn(seen, response, thought, action, describe(action, scene.screen)))


@dataclass(frozen=True, slots=True)
class Response:
    query: Query
    completion: Completion
    action: Action
    thought: str


@dataclass(frozen=True, slots=True)
class Decision:
    """`action` is None for a response that is not an action of the page. After a tap on a field there are two
    responses."""

    action: PageAction | None
    responses: tuple[Response, ...]
    turns: tuple[Turn, ...]
    """Turns so far, including that of the action."""


class PageAgent:
    """Queries a policy about many pages at once. Batches depend only on the queries, never on timing."""

    def __init__(self, policy: EnginePolicy, scenes: Scenes, context: ContextPolicy, sampling: Sampling) -> None:
        self.policy, self.scenes, self.context, self.sampling = policy, scenes, context, sampling

    def decide(self, queries: Sequence[Query]) -> list[Decision]:
        return asyncio.run(self._decide(queries))

    async def _decide(self, queries: Sequence[Query]) -> list[Decision]:
        first = await self._ask(queries)
        tapped = {i: box for i, response in enumerate(first) if (box := self._tapped_field(response)) is not None}
        again = [replace(queries[i], turns=self._turns(first[i]), focus=box) for i, box in tapped.items()]
        second = dict(zip(tapped, await self._ask(again), strict=True))
        return [self._decision(response, second.get(i)) for i, response in enumerate(first)]

    async def _ask(self, queries: Sequence[Query]) -> list[Response]:
        self.policy.expect(lambda: len(queries))
        return list(await asyncio.gather(*(self._response(query, f"{i:08d}") for i, query in enumerate(queries))))

    async def _response(self, query: Query, key: str) -> Response:
        scene = self.scenes.see(query.page, query.focus)
        seen = scene.observation
        messages, images = build_messages(query.task, query.turns, seen, scene.screen, self.context)
        completion = await self.policy.act(messages, images, self.sampling, key)
        response = self.context.parse(completion.text, scene.screen)
        action = explain_unreadable(response.action, completion, self.sampling.max_new_tokens)
        return Response(query, completion, action, response.thought)

    def _tapped_field(self, response: Response) -> Box | None:
        space = self.scenes.see(response.query.page).space
        hit = from_device(response.action, space) if isinstance(response.action, Tap) else None
        return hit.box if hit and any(a.kind == "input" and a.box == hit.box for a in space) else None

    def _turns(self, response: Response) -> tuple[Turn, ...]:
        scene = self.scenes.see(response.query.page, response.query.focus)
        return response.query.turns_after(scene, response.action, response.completion.text, response.thought)

    def _decision(self, first: Response, second: Response | None) -> Decision:
        scene = self.scenes.see(first.query.page)
        if second is None:
            nowhere = isinstance(first.action, Type) and scene.focused is None  # typing needs a focused field
            action = None if nowhere else from_device(first.action, scene.space, scene.focused)
            return Decision(action, (first,), self._turns(first))
        if isinstance(second.action, Type):
            typed = from_device(second.action, scene.space, second.query.focus)
            return Decision(typed, (first, second), self._turns(second))
        return Decision(from_device(first.action, scene.space), (first, second), self._turns(first))
