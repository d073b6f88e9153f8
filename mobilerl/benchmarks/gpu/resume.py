"""Goes on from the checkpoint of the phase `verl`, whose process was killed; then the same update locally."""

from __future__ import annotations

import json

import torch

from mobilerl.benchmarks.gpu import verl
from mobilerl.benchmarks.gpu.report import Report
from mobilerl.benchmarks.gpu.serving import requests, time_block
from mobilerl.benchmarks.gpu.shapes import full_size_rows
from mobilerl.engines.local import LocalEngine, LocalSettings

MAX_GAP = 1e-3
"""Limit of the difference of log-probabilities, the same computation of the same weights in another process."""


def run(report: Report) -> None:
    if not (report.folder / verl.KEPT).is_file():
        report.failure("there is no checkpoint: the phase verl left none")
        return
    kept = json.loads((report.folder / verl.KEPT).read_text())
    with time_block(report, "kill -9 to the first samples"):
        engine = verl.start(report.folder / verl.MODEL)
        engine.load(report.folder / verl.CHECKPOINT)
        rows = full_size_rows(engine.codec, len(kept["logprobs"]))
        engine.generate(requests(rows, 1, 2))
    saved = torch.tensor([x for values in kept["logprobs"] for x in values])
    loaded = torch.tensor([x for values in engine.logprobs(rows) for x in values])
    report.check("resumed, log-probabilities", float((loaded - saved).abs().max()), MAX_GAP)
    verl.learn(report, engine, rows)
    with time_block(report, "close"):
        engine.close()
    local = LocalEngine(report.folder / verl.MODEL, LocalSettings.of(verl.SETTINGS, verl.OPTIMIZER))
    for _ in range(2):
        verl.learn(report, local, rows)
