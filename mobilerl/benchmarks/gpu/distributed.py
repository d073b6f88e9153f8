"""Compares one rank of FSDP2 with the plain model, and passes a tensor to another process without a copy."""

from __future__ import annotations

import os
import tempfile
import time
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from mobilerl.benchmarks.gpu.families import FLOAT32, TEXTS, requests
from mobilerl.benchmarks.gpu.report import Report, device, wait
from mobilerl.benchmarks.model_families import FAMILIES, create
from mobilerl.engines.scoring import sample_logprobs
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from mobilerl.records import TrainingSample


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _one_rank(report, Path(folder))
    _handed_over(report)


def _one_rank(report: Report, folder: Path) -> None:
    """Compares log-probabilities and all gradients, with a forward pass that needs FSDP's hooks."""
    path = folder / "model"
    create(FAMILIES["Qwen2.5-VL"], path, TEXTS)
    codec = Codec.load(path, max_pixels=40_000)
    asked = requests(codec)
    rows = [TrainingSample("t", 0, r.prompt_ids, r.prompt_ids[-6:], (0.0,) * 6, r.images, 0) for r in asked]
    for library in ("NCCL", "GLOO"):  # there may be no other network
        os.environ.setdefault(f"{library}_SOCKET_IFNAME", "lo")
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, init_method=f"file://{folder / 'rendezvous'}", rank=0, world_size=1)
    found = []
    for sharded in (False, True):
        model = load_model(path, learns=True).float().to(device())
        if sharded:
            mesh = dist.device_mesh.init_device_mesh(device().type, (1,))
            for layer in (*model.model.language_model.layers, *model.model.visual.blocks):
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
        logp, _ = sample_logprobs(model, codec, rows, 1.0, device())
        logp.sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        whole = [g.full_tensor() if isinstance(g, DTensor) else g for g in gradients]
        found.append((logp.detach(), torch.cat([g.flatten() for g in whole])))
    dist.destroy_process_group()
    (plain, plain_gradient), (shard, shard_gradient) = found
    report.check(f"FSDP2 with {backend}, log-probabilities", float((plain - shard).abs().max()), FLOAT32)
    gap = float((plain_gradient - shard_gradient).norm() / plain_gradient.norm())
    report.check(f"FSDP2 with {backend}, gradient", gap, FLOAT32)


def _handed_over(report: Report) -> None:
    """Passes a tensor like weights to vLLM; on a GPU it has over 2 GiB, a length that does not fit 31 bits."""
    gpu = torch.cuda.is_available()
    count = 2**31 // 2 + 2**20 if gpu else 2**20
    tensor = torch.ones(count, dtype=torch.bfloat16, device=device())
    tensor[-1] = 7
    if not gpu:
        tensor.share_memory_()
    spawn = mp.get_context("spawn")
    there, back = spawn.SimpleQueue(), spawn.SimpleQueue()
    process = spawn.Process(target=_last, args=(there, back), daemon=True)
    process.start()
    wait()
    began = time.perf_counter()
    there.put(tensor)
    last, seen = back.get()
    seconds = time.perf_counter() - began
    process.join()
    report.check(f"a tensor of {count * 2 / 2**30:.3g} GiB handed to a process", abs(last - 7) + abs(seen - count), 0)
    report.figure("handing over", seconds=seconds)


def _last(there: SimpleQueue[torch.Tensor], back: SimpleQueue[tuple[float, int]]) -> None:
    tensor = there.get()
    back.put((float(tensor[-1]), tensor.numel()))
    del tensor
