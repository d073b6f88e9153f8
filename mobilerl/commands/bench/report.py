"""`mobilerl bench report`: parts measured again as their baselines were, and what got worse."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mobilerl.commands.bench.compare import check_factor
from mobilerl.commands.bench.plans import Plan, committed, read_plan
from mobilerl.commands.bench.tables import print_table
from mobilerl.engines.base import EngineError

if TYPE_CHECKING:
    from benchmarks.report import Figure

PARTS = ("phone", "rollout", "replay", "learner", "refresh")
USUAL = PARTS[:-1]


def add(names: Any, common: argparse.ArgumentParser) -> None:
    report = names.add_parser(
        "report", parents=[common], allow_abbrev=False,
        help="measure parts as their baselines were, and say what got worse",
        epilog="Exits with 1 if a figure that counts got worse or a part broke. Ratios between sides of one run and "
        "sizes count where the accelerator is the baseline's; times only on its class of machine, beyond the factor "
        "times itself; what a clock on the wall tells only where other work leaves a core. A part that cannot run "
        "here is skipped and says why.",
    )  # fmt: skip
    report.add_argument("--parts", nargs="+", choices=PARTS, default=USUAL, metavar="PART",
                        help=f"of {', '.join(PARTS)} (default: all but refresh, which needs vLLM)")  # fmt: skip
    report.add_argument("--baselines", type=Path, metavar="DIR", help="with a PART.json of each, as "
                        "`bench PART --save` writes it (default: those of this release)")  # fmt: skip
    report.add_argument("--factor", type=float, default=1.25, help="that counts as worse (default 1.25)")
    report.add_argument("--save", type=Path, metavar="DIR", help="write the new results there, as PART.json")
    report.add_argument("--json", action="store_true", help="print JSON, with the figures that never count")
    report.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    check_factor(args.factor)
    plans = [read_plan(args.baselines or committed(), part) for part in dict.fromkeys(args.parts)]
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    sections = []
    for section in _sections(plans, args.factor, load, args.save):
        sections.append(section)
        if not args.json:
            _print(section)
    if args.json:
        print(json.dumps(_as_json(sections, args.factor, load)))
    else:
        _print_end(sections, args.factor, load)
    if all(section.state == "skipped" for section in sections):
        raise ValueError("no part could be measured here; the reasons are above")
    return int(any(section.state == "failed" or section.regressions for section in sections))


# --- measuring -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Section:
    """What the report says of a part. `state`: measured, skipped (it cannot run here) or failed (it broke)."""

    part: str
    command: str
    state: str
    reason: str = ""
    seconds: float = 0.0
    figures: Sequence[Figure] = ()
    differ: Sequence[str] = ()

    @property
    def regressions(self) -> int:
        return sum(figure.regression for figure in self.figures)


def _sections(plans: Sequence[Plan], factor: float, load: float, folder: Path | None) -> Iterator[Section]:
    for plan in plans:
        command = plan.baseline["command"]
        print(f"measuring {plan.part}: {command}", file=sys.stderr, flush=True)
        try:
            yield _section(plan, factor, load, folder)
        except ValueError as error:
            yield Section(plan.part, command, "skipped", str(error))
        except EngineError as error:
            yield Section(plan.part, command, "failed", str(error))


def _section(plan: Plan, factor: float, load: float, folder: Path | None) -> Section:
    from benchmarks.compare import write
    from benchmarks.report import judge
    from mobilerl.commands.bench.alone import measure_alone

    began = time.monotonic()
    content = measure_alone(plan.words)
    seconds = time.monotonic() - began
    if folder:
        write(folder / f"{plan.part}.json", content)
    figures, differ = judge(plan.baseline, content, factor, load)
    return Section(plan.part, content["command"], "measured", "", seconds, figures, differ)


# --- saying it -----------------------------------------------------------------------------------------------------


def _print(section: Section) -> None:
    if section.state != "measured":
        print(f"{section.part}: {section.state}: {section.reason}\n")
        return
    shown = [figure for figure in section.figures if figure.kind != "aside"]
    rows = [{"figure": f.change.name, "baseline": f.change.before, "now": f.change.after,
             "times as good": f.change.ratio, "": _remark(f)} for f in shown]  # fmt: skip
    print(f"{section.part}: {section.command} ({section.seconds:.0f} s)")
    print_table(rows)
    for line in section.differ:
        print(f"measured differently: {line}")
    print()


def _remark(figure: Figure) -> str:
    reason = f"not counted: {figure.reason}" if figure.reason else ""
    return ", ".join(word for word in ("worse" if figure.worse else "", reason) if word)


def _print_end(sections: Sequence[Section], factor: float, load: float) -> None:
    from benchmarks.report import is_busy

    print(f"worse: by more than {factor:g} times; {factor**2:.3g} times for what is per second or per step")
    if is_busy(load):
        print(f"load average {load:.1f} at the start on {os.cpu_count()} cores: wall clock times do not count")
    for section in sections:
        counted = sum(not figure.reason for figure in section.figures)
        found = f"{section.regressions} of {counted} figures got worse" if counted else "no figure counts here"
        print(f"{section.part}: {found if section.state == 'measured' else section.state}")


def _as_json(sections: Sequence[Section], factor: float, load: float) -> dict[str, Any]:
    from benchmarks.report import is_busy

    parts = [
        {"part": s.part, "command": s.command, "state": s.state, "reason": s.reason, "seconds": s.seconds,
         "regressions": s.regressions, "measured differently": list(s.differ),
         "figures": [{"figure": f.change.name, "kind": f.kind, "baseline": f.change.before, "now": f.change.after,
                      "times as good": f.change.ratio, "allowed": f.allowed, "worse": f.worse, "counts": not f.reason,
                      "why not": f.reason} for f in s.figures]}
        for s in sections
    ]  # fmt: skip
    return {"factor": factor, "load_average": load, "busy": is_busy(load), "parts": parts}
