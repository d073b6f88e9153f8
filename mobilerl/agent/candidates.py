"""The actions that a screen offers."""

from __future__ import annotations

from dataclasses import replace

from envs.base import Action, Finish, Swipe, Tap, Type
from mobilerl.agent.screen import Screen


def candidates(screen: Screen) -> list[Action]:
    """The action space A(P) of ReachAgent 4.2: taps and typing at element centres, scrolls, and completion.

    A scroll starts at the element's centre and covers a quarter of its width or height. `Type("")` stands for typing
    any text, and `Finish("")` for finishing with any message.
    """
    actions: list[Action] = []
    for e in screen.elements:
        x, y = e.centre
        if "click" in e.actions or "edit" in e.actions:
            actions.append(Tap(x, y))
        if "edit" in e.actions:
            actions.append(Type(""))
        if "scroll" in e.actions:
            x1, y1, x2, y2 = e.box
            dx, dy = (x2 - x1) // 4, (y2 - y1) // 4
            start = Swipe(x, y, x, y)
            actions += [replace(start, y2=y - dy), replace(start, y2=y + dy)]
            actions += [replace(start, x2=x - dx), replace(start, x2=x + dx)]
    actions.append(Finish(""))
    return list(dict.fromkeys(actions))
