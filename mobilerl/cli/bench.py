"""`mobilerl bench`: measures the speed and memory of a part, and compares them with earlier results."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mobilerl.tables import make_console, make_table

if TYPE_CHECKING:
    from benchmarks.results import Figure

PARTS: dict[str, tuple[str, dict[str, tuple[Any, str]]]] = {
    "phone": (
        "steps per second of the embedded phone, on one core",
        {"steps": (600, "steps to time"), "width": (360, "screen width, pixels"), "height": (720, "screen height")},
    ),
    "rollout": (
        "utilisation of simulated devices by the collector, compared with a barrier per step and per episode",
        {
            "devices": ([8, 16, 32, 64, 128, 256, 512], "numbers of devices to measure"),
            "seconds": (10.0, "for each number of devices and collector"),
            "scale": (0.1, "of a real phone's times"),
        },
    ),
    "learner": (
        "speed and memory of an update, compared with TRL (if installed) and a plain Hugging Face loop",
        {
            "hidden": (128, "width of the tiny model, a multiple of 32"),
            "layers": (4, "its layers"),
            "rows": (256, "samples of an update"),
            "micro_tokens": (4096, "padded tokens of a micro-batch"),
            "rounds": (5, "updates of each side to time"),
            "threads": (1, "torch's, on a CPU"),
        },
    ),
    "replay": (
        "memory of replayed samples with full-size screenshots, and the speed of drawing and collating them",
        {
            "rows": (5120, "samples held"),
            "screens": (96, "different screens to draw; others are copies of them"),
            "max_pixels": (1_000_000, "of a picture in a batch"),
            "collate": (32, "samples to collate"),
        },
    ),
}
"""Help and options of each part; the options are the arguments of `measure` in the module of that name."""


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("bench", allow_abbrev=False, help="measure the speed of a part")
    names = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for name, (about, options) in PARTS.items():
        part = _add(names, common, name, about, _run_part)
        part.add_argument("--save", type=Path, metavar="FILE", help="also write the results, for `bench compare`")
        for option, (default, text) in options.items():
            many = isinstance(default, list)
            shown = " ".join(map(str, default)) if many else default
            part.add_argument(
                f"--{option.replace('_', '-')}",
                type=_positive(float if isinstance(default, float) else int),
                nargs="+" if many else None,
                default=default,
                metavar="N",
                help=f"{text} (default {shown})",
            )
    report = _add(names, common, "report", "measure parts as their baselines were, and report regressions", _report)
    report.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=tuple(PARTS), metavar="PART")
    report.add_argument("--baselines", type=Path, metavar="DIR", help="folder of PART.json (default: this release's)")
    report.add_argument("--save", type=Path, metavar="DIR", help="write the new results as DIR/PART.json")
    compare = _add(names, common, "compare", "compare two files of --save; exit code 1 for a regression", _compare)
    compare.add_argument("baseline", type=Path, metavar="BASELINE")
    compare.add_argument("new", type=Path, metavar="NEW")
    for command in (report, compare):
        command.add_argument("--factor", type=_positive(float), default=1.25, help="allowed (default 1.25)")


def _add(names: Any, common: argparse.ArgumentParser, name: str, about: str, run: Any) -> argparse.ArgumentParser:
    parser = names.add_parser(name, parents=[common], allow_abbrev=False, help=about)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, takes_settings=False)
    return parser


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def parse(word: str) -> float:
        value = kind(word)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{word} is not above 0")
        return value

    return parse


# --- the commands --------------------------------------------------------------------------------------------------


def _run_part(args: argparse.Namespace, rest: Sequence[str]) -> int:
    if args.save and not args.save.absolute().parent.is_dir():
        raise ValueError(f"--save {args.save}: there is no such folder")
    from benchmarks.results import take, write

    options = {name: getattr(args, name) for name in PARTS[args.part][1]}
    command = ["mobilerl", "bench", args.part]
    for name, value in options.items():
        if value != PARTS[args.part][1][name][0]:
            command += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    module = importlib.import_module(f"benchmarks.{args.part}")
    content = take(args.part, " ".join(command), lambda: module.measure(**options))
    if args.save:
        write(args.save, content)
    if args.json:
        print(json.dumps(content["results"]))
    else:
        _print_results(content["results"])
    return 0


def _compare(args: argparse.Namespace, rest: Sequence[str]) -> int:
    from benchmarks.results import compare, load

    figures, notes = compare(load(args.baseline), load(args.new), args.factor)
    if args.json:
        print(json.dumps(_as_json(figures, notes)))
    else:
        _print_figures(figures, notes)
    return int(any(figure.regression for figure in figures))


def _report(args: argparse.Namespace, rest: Sequence[str]) -> int:
    import benchmarks.results as results

    folder = args.baselines or Path(results.__file__).parent / "baselines"
    baselines = {part: _baseline(folder / f"{part}.json", part) for part in dict.fromkeys(args.parts)}
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for part, baseline in baselines.items():
        print(f"measuring {part}: {baseline['command']}", file=sys.stderr, flush=True)
        try:
            content = _measure_alone(baseline["command"].split()[1:])
            figures, notes = results.compare(baseline, content, args.factor)
        except ValueError as error:
            found[part] = {"error": str(error)}
            print(f"{part}: {error}", file=sys.stderr, flush=True)
            continue
        if args.save:
            results.write(args.save / f"{part}.json", content)
        found[part] = _as_json(figures, notes)
        if not args.json:
            print(baseline["command"])
            _print_figures(figures, notes)
    if args.json:
        print(json.dumps(found))
    failed = any("error" in part or any(f["regression"] for f in part["figures"]) for part in found.values())
    return int(failed)


def _baseline(file: Path, part: str) -> dict[str, Any]:
    """Raises ValueError if there is no baseline, or if its command does not measure `part`."""
    from benchmarks.results import load

    content = load(file)
    words = str(content.get("command")).split()
    if words[:3] != ["mobilerl", "bench", part] or "--save" in words:
        raise ValueError(f"{file}: its command {content.get('command')!r} is not one of `mobilerl bench {part}`")
    return content


def _measure_alone(words: Sequence[str]) -> dict[str, Any]:
    """The results of `mobilerl WORDS` in a process of its own, so that nothing else affects its time and memory."""
    from benchmarks.results import load

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        command = [sys.executable, "-m", "mobilerl", *words, "--save", str(file)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise ValueError(f"could not be measured: {lines[-1]}")
        return load(file)


# --- printing ------------------------------------------------------------------------------------------------------


def _as_json(figures: Sequence[Figure], notes: Sequence[str]) -> dict[str, Any]:
    rows = [{**dataclasses.asdict(figure), "regression": figure.regression} for figure in figures]
    return {"figures": rows, "measured_differently": list(notes)}


def _print_figures(figures: Sequence[Figure], notes: Sequence[str]) -> None:
    rows = []
    for f in figures:
        remark = "worse" if f.regression else f"not counted: {f.reason}" if f.reason else ""
        rows.append({"figure": f.name, "before": f.before, "now": f.after, "times as good": f.ratio, "": remark})
    _print_table(rows)
    for line in notes:
        print(f"measured differently: {line}")


def _print_results(results: Any) -> None:
    """A list as a table; a mapping as a table of its single values, followed by one for each list in it."""
    if isinstance(results, Mapping):
        _print_table([{"figure": k, "value": v} for k, v in results.items() if not isinstance(v, list)])
        for value in results.values():
            if isinstance(value, list):
                _print_table(value)
    else:
        _print_table(results)


def _print_table(rows: Sequence[Mapping[str, object]]) -> None:
    if rows:
        table = make_table(*rows[0])
        for row in rows:
            table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
        make_console().print(table)
