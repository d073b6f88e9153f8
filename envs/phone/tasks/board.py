"""Tasks of the board of tiles, whose places differ by phone: what to touch is known to who sees it or reads its names.

They are trained on and evaluated only where `tasks.templates` or `--template` names them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from mobilerl.envs.base import Action, Finish, Launch
from mobilerl.envs.phone.apps.board import COLORS, ICONS, Board
from mobilerl.envs.phone.tasks.base import Admin, Template
from mobilerl.envs.phone.tasks.ui import UI

TILES = "board/tiles"
PLACES = range(len(COLORS))
SOME = (1, 2, 3)
"""Possible numbers of switches that are on at first where all are to be turned off."""
TURN_ON = "[Turn|Switch|Please turn|Please switch] on"


class _Board(Template):
    """All switches but those of the task's tiles have to stay as they are."""

    app = Board.label
    installed = "board"

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.purpose = ""  # every action is for all of the goal

    def wanted(self, tile: dict[str, str]) -> bool:
        """Whether this tile's switch is one to flip."""
        return self.p.get("color") == tile["color"] or self.p.get("icon") == tile["icon"]

    def setup(self, phone: Admin) -> None:
        tiles = phone.rows(TILES)
        on = {tile["_id"] for tile in tiles if self.is_on(tile)}
        for row_id in on:
            phone.update(TILES, row_id, on=1)
        self.tiles = [f"{tile['color']} {tile['icon']}" for tile in tiles if self.wanted(tile)]
        """Those to flip."""
        flipped = on ^ {tile["_id"] for tile in tiles if self.wanted(tile)}
        self.goal = {tile["_id"]: int(tile["_id"] in flipped) for tile in tiles}

    def is_on(self, tile: dict[str, str]) -> bool:
        """Whether this tile's switch is on at first."""
        return not self.wanted(tile) and tile["_id"] in self.p["on"]

    def done(self, phone: Admin) -> bool:
        return {tile["_id"]: tile["on"] for tile in phone.rows(TILES)} == self.goal

    def expert(self, ui: UI) -> Iterator[Action]:
        """Thinks what it sees of the tiles up to the first to flip, as screenshots are described in `sft.seeing`."""
        yield Launch(self.app)
        seen: list[str] = []
        flipped: set[str] = set()
        for word in [self.p[name] for name in ("color", "icon") if name in self.p]:
            tile = next(name for name in self.tiles if word in name.split())
            tap = ui.tap(tile)
            (rest,) = {*tile.split()} - {word}
            if tile not in flipped:
                self.thought = " ".join([*seen, f"{word} {rest} {tap.x} {word} {tap.y} unchecked"])
                yield tap
                flipped.add(tile)
            seen.append(f"{word} {rest} {tap.x} {word} {tap.y} checked")
        self.thought = " ".join(seen)
        yield Finish()


def _places(rng: random.Random) -> list[int]:
    return sorted(1 + place for place in rng.sample(PLACES, rng.choice(SOME)))


class BoardColor(_Board):
    instructions = (f"{TURN_ON} [the switch below the {{color}} icon|the {{color}} tile|what is {{color}}]",)
    params = {"color": tuple(COLORS), "on": _places}
    steps = 3


class BoardIcon(_Board):
    instructions = (f"{TURN_ON} [the switch below the {{icon}}|the tile with the {{icon}}|the {{icon}}]",)
    params = {"icon": tuple(ICONS), "on": _places}
    steps = 3


class BoardBoth(_Board):
    """Usually two tiles; one if the icon has the color."""

    instructions = (f"{TURN_ON} [the {{color}} tile and the {{icon}}|what is {{color}} and the {{icon}}]",)
    params = {"color": tuple(COLORS), "icon": tuple(ICONS), "on": _places}
    steps = 4


class BoardAllOff(_Board):
    instructions = (
        "[Turn|Switch|Please turn|Please switch] off [all that are|every switch that is|each tile that is|whatever is] "
        "on[| now| here]",
    )
    params = {"on": _places}
    steps = 2 + max(SOME)

    def wanted(self, tile: dict[str, str]) -> bool:
        return tile["_id"] in self.p["on"]

    def is_on(self, tile: dict[str, str]) -> bool:
        return self.wanted(tile)

    def expert(self, ui: UI) -> Iterator[Action]:
        yield Launch(self.app)
        for tile in self.tiles:
            tap = ui.tap(tile)
            self.thought = f"{tile} {tap.x} {tile.split()[0]} {tap.y} checked"
            yield tap
        self.thought = ""
        yield Finish()
