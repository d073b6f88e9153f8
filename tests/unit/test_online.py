"""The online loop as a whole, on embedded phones and a tiny model that knows nothing."""

from __future__ import annotations

import json
import threading

import torch

from mobilerl import tiny
from mobilerl.config import load_recipe
from mobilerl.engines.local import LocalEngine
from mobilerl.train.checkpoint import latest
from mobilerl.train.online import train


def test_learning_publishing_and_saving_share_a_thread_that_ends_with_the_run(tmp_path, monkeypatch):
    """Every thread that does such work keeps the most memory it ever used."""
    torch.manual_seed(0)
    tiny.create(tmp_path / "model", ["pause the music"], hidden=16, layers=1, heads=2, vision_hidden=16)
    seen: dict[str, set[threading.Thread]] = {}
    for name in ("update", "publish", "save"):
        real = getattr(LocalEngine, name)

        def noted(self, *args, real=real, name=name):
            seen.setdefault(name, set()).add(threading.current_thread())
            return real(self, *args)

        monkeypatch.setattr(LocalEngine, name, noted)
    flags = {
        "model": tmp_path / "model", "phone.count": 4, "phone.width": 180, "phone.height": 360, "agent.screenshots": 0,
        "agent.layout": "compact", "agent.max_new_tokens": 4, "agent.max_invalid": 1, "engine.threads": 1,
        "tasks.templates": json.dumps(["MusicPause"]), "tasks.per_template": 2, "collect.tasks_per_iteration": 2,
        "collect.group_size": 2, "collect.workers": 0, "collect.max_staleness": 1, "train.iterations": 3,
        "train.checkpoint_every": 1, "algorithm.credit.drop_constant_groups": "false",
    }  # fmt: skip
    train(load_recipe(None, [word for name, value in flags.items() for word in (f"--{name}", str(value))]),
          tmp_path / "run", resume=False)  # fmt: skip
    assert latest(tmp_path / "run").name == "iter-000003" and set(seen) == {"update", "publish", "save"}
    (thread,) = set.union(*seen.values())
    assert thread is not threading.main_thread() and not thread.is_alive()
