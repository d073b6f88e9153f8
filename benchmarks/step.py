"""The step that is measured: its rows and its memory. Imports torch: for the processes that run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.flops import Network, peak_flops, update_flops
from benchmarks.sides import Side, Step
from mobilerl.engines.codec import Codec
from mobilerl.trajectory_files import load_trajectories

MB = 1e6


def load_step(model: Path, run_dir: Path, count: int, micro_tokens: int) -> Step:
    """Recorded rows as a step of whole micro-batches, with advantages of both signs."""
    files = sorted((run_dir / "trajectories").glob("iter-*.jsonl"))
    rows = [row for trajectory in load_trajectories(files[-1]) for row in trajectory.rows()][:count]
    width = max(len(r.prompt_ids) for r in rows) + max(len(r.response_ids) for r in rows)
    per_micro = min(len(rows), max(1, micro_tokens // width))
    rows = rows[: len(rows) // per_micro * per_micro]
    signs = {name: 1.0 if i % 3 else -1.5 for i, name in enumerate(dict.fromkeys(r.trajectory_id for r in rows))}
    return Step(model, rows, [signs[r.trajectory_id] for r in rows], micro_tokens, per_micro)


def facts_of(step: Step, model: torch.nn.Module) -> dict[str, Any]:
    """What is the same for all sides: rows, tokens without padding, and the step's floating-point operations."""
    codec = Codec.load(step.model)
    network = Network.of(model.config)
    patches = [[int(codec.pixels(png)[1].prod()) for png in row.images] for row in step.rows]
    flops = sum(
        update_flops(network, len(r.prompt_ids), len(r.response_ids), images)
        for r, images in zip(step.rows, patches, strict=True)
    )
    tokens = sum(len(r.prompt_ids) + len(r.response_ids) for r in step.rows)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {"rows": len(step.rows), "tokens": tokens, "parameters": sum(p.numel() for p in model.parameters()),
            "flops": flops, "device": device, "peak_flops": peak_flops(device)}  # fmt: skip


def peak_memory(side: Side) -> dict[str, float]:
    """Megabytes in one more step: `held_mb` by weights and optimiser state, `peak_mb` at the most, those included.

    `process_peak_mb` is the process's largest resident size since its start, libraries included.
    """
    side.optimizer.zero_grad()
    held = _bytes(side.model.parameters()) + _bytes(
        value for state in side.optimizer.state.values() for value in state.values() if torch.is_tensor(value)
    )
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        side.update()
        peak = torch.cuda.max_memory_allocated()
    else:
        peak = held + _peak_on_cpu(side)
    return {"peak_mb": peak / MB, "held_mb": held / MB, "process_peak_mb": _resident_peak() / MB}


def _bytes(tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _peak_on_cpu(side: Side) -> int:
    """Largest sum of what torch allocated and had not freed at any moment of an update."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        side.update()
    events = recorded.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    now = peak = 0
    for _, change in changes:
        now += change
        peak = max(peak, now)
    return peak


def _resident_peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")
