"""Calls of a program, tried one at a time, and a table of what came of them. Needs the standard library alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """`held` says whether the phone did what was asserted; `reason` why the call has no use here ("": it works)."""

    call: str
    held: bool
    reason: str
    error: str = ""


@dataclass
class _Probe:
    calls: tuple[str, ...]
    reason: str
    run: Callable[..., None]


class Probes:
    """Functions that assert the effect of calls. With a `reason` they assert that the call is refused cleanly."""

    def __init__(self, program: str) -> None:
        self.program = program
        self._probes: list[_Probe] = []

    def __call__(self, *calls: str, reason: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
        def registered(function: Callable[..., None]) -> Callable[..., None]:
            self._probes.append(_Probe(calls, reason, function))
            return function

        return registered

    @property
    def calls(self) -> set[str]:
        return {call for probe in self._probes for call in probe.calls}

    def run(self, *arguments: Any, before: Callable[[], None] = lambda: None) -> list[Outcome]:
        """Runs all of them in order, `before` each of them, and goes on after one that fails."""
        outcomes = []
        for probe in self._probes:
            error = ""
            try:
                before()
                probe.run(*arguments)
            except Exception as failure:  # whatever the program raises is an outcome
                error = " ".join(f"{type(failure).__name__}: {failure}".split())[:300]
            outcomes += [Outcome(call, not error, probe.reason, error) for call in probe.calls]
        return outcomes


def dumped(outcomes: list[Outcome]) -> str:
    return json.dumps([asdict(o) for o in outcomes])


def loaded(text: str) -> list[Outcome]:
    return [Outcome(**row) for row in json.loads(text)]


def table(program: str, outcomes: list[Outcome]) -> str:
    """Markdown: the calls that work in one row, then a row for every reason why others do not."""
    works = [o for o in outcomes if o.held and not o.reason]
    reasons: dict[str, list[str]] = {}
    for o in outcomes:
        if o not in works:
            reasons.setdefault(o.reason if o.held else f"fails: {o.error}", []).append(o.call)
    lines = [f"**{program}**: {len(works)} of {len(outcomes)} calls work.", "", "| | calls |", "|---|---|"]
    rows = [("works", [o.call for o in works]), *sorted(reasons.items())]
    lines += [f"| {why} | {', '.join(f'`{c}`' for c in calls)} |" for why, calls in rows if calls]
    return "\n".join(lines) + "\n"


def report(outcomes: list[Outcome]) -> str:
    """One line for every probe that did not hold."""
    return "\n".join(f"{o.call}: {o.error}" for o in outcomes if not o.held)
