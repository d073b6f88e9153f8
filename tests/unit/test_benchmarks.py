"""The benchmarks' own arithmetic: operations by formula, held bytes, and what counts as worse."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import compare, refresh
from benchmarks.flops import Network, peak_flops, update_flops, vision_flops
from benchmarks.networks import PUBLISHED, published_config
from benchmarks.traffic import Answer, Traffic
from mobilerl import tiny
from mobilerl.cli import main
from mobilerl.engines.base import EngineError, Request, Sampling
from mobilerl.records import Completion

SMALL = Network(
    layers=2, width=4, weights=100, head=30, vision_layers=3, vision_width=2, vision_weights=50, merger_weights=40,
    merge=4, window=4, full_layers=1,
)  # fmt: skip


def test_operations_of_a_row_worked_by_hand():
    # 5 tokens: weights 6 * 100 * 5 = 3000; head at 2 of them 6 * 30 * 2 = 360; causal pairs 5 * 6 / 2 = 15 in each of
    # 2 layers, 12 * 4 each: 1440.
    assert update_flops(SMALL, prompt=3, response=2, images=()) == 3000 + 360 + 1440
    # 8 patches: 6 * (50 * 8 + 40 * 2 tokens) = 2880; pairs 1 * 8 * 8 + 2 layers * 8 * 4 = 128, 12 * 2 each: 3072.
    assert vision_flops(SMALL, 8) == 2880 + 3072
    assert update_flops(SMALL, 3, 2, (8, 8)) == 4800 + 2 * 5952


def test_an_image_smaller_than_a_window_sees_only_itself():
    # 2 patches: 6 * 50 * 2 = 600, no whole token; pairs 4 in each of 3 layers, 12 * 2 each: 288.
    assert vision_flops(SMALL, 2) == 600 + 288


def test_sizes_of_a_network_are_those_of_its_matrices():
    tokenizer = tiny.build_tokenizer(["open settings"])
    model = tiny.build_model(len(tokenizer), tokenizer, 64, 3, 2, 32, 2)
    network = Network.of(model.config)

    def matrices(module: torch.nn.Module) -> int:
        return sum(p.numel() for p in module.parameters() if p.dim() > 1)

    assert network.weights == matrices(model.model.language_model.layers)
    assert network.head == matrices(model.model.language_model.embed_tokens)
    visual = model.model.visual
    assert network.vision_weights == matrices(visual.patch_embed) + matrices(visual.blocks)
    assert network.merger_weights == matrices(visual.merger)
    assert (network.layers, network.width, network.merge, network.full_layers) == (3, 64, 4, 2)


@pytest.mark.parametrize("name, billions", [("3B", 3.09), ("7B", 7.62)])
def test_published_sizes_have_their_text_models_parameters(name, billions):
    """As the cards of Qwen2.5 3B and 7B give them, embeddings included (3B's are tied)."""
    network = Network.of(published_config(name))
    embeddings = network.head * (1 if PUBLISHED[name]["tie_word_embeddings"] else 2)
    assert (network.weights + embeddings) / 1e9 == pytest.approx(billions, abs=0.01)


def test_peak_of_a_device_is_known_by_its_name():
    assert peak_flops("NVIDIA H100 80GB HBM3") == 989e12
    assert peak_flops("cpu") is None


# --- replay --------------------------------------------------------------------------------------------------------


def test_shared_screens_are_counted_once():
    from benchmarks.replay import deep_bytes

    png = bytes(1_000_000)
    shared, copied = ((png,), (png,)), ((png,), (bytes(bytearray(png)),))
    assert deep_bytes(shared) < 1_001_000
    assert deep_bytes(copied) > 2_000_000


def test_a_copy_of_a_screen_is_another_file_of_the_same_picture():
    from io import BytesIO

    from PIL import Image

    from benchmarks.replay import _copy

    out = BytesIO()
    Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3)).save(out, "PNG")
    one, two = _copy(out.getvalue(), 1), _copy(out.getvalue(), 2)
    assert len({out.getvalue(), one, two}) == 3
    for png in (one, two):
        image = Image.open(BytesIO(png))
        image.load()
        assert np.array_equal(np.asarray(image), np.arange(300, dtype=np.uint8).reshape(10, 10, 3))
    assert zlib.crc32(one) != zlib.crc32(two)


# --- refreshing weights ---------------------------------------------------------------------------------------------


def answer(asked: float, given: float, version: int, logprobs: Sequence[float] = (-1.0,) * 4) -> Answer:
    request = Request((1, 2), (), Sampling(1.0, 4))
    ids = tuple(range(len(logprobs)))
    return Answer(asked, given, request, Completion(request.prompt_ids, ids, tuple(logprobs), version, ""))


# Four tokens take 1 s when nothing is in the way. The refresh is from 10 to 13; three requests are in flight when it
# begins, the last of them ends at 10.9; two are asked for while it goes on and wait.
CALM = [answer(6.0, 7.0, 0), answer(7.0, 8.0, 0), answer(14.5, 15.5, 1), answer(15.5, 16.5, 1)]
MET = [answer(9.2, 10.2, 0), answer(9.5, 10.5, 0), answer(9.9, 10.9, 0), answer(10.2, 14.0, 1), answer(10.5, 14.5, 1)]
SWAP = refresh.Swap(10.0, 13.0, version=1)


def test_a_refresh_is_worked_by_hand():
    answers = [*CALM, *MET]
    assert refresh.around(answers, SWAP) == MET
    row = refresh.swap_row(answers, SWAP, s_per_token=0.25)
    expected = {"refresh_s": 3.0, "begun_s": 0.9, "then_s": 2.1, "answer_s": 4.0, "gap_s": 3.1, "held": 2.0,
                "delay_s": 3.0}  # fmt: skip
    assert row == pytest.approx(expected)
    late = refresh.Swap(10.0, 14.8, version=1)  # the caller heard of it late
    assert refresh.swap_row(answers, late, 0.25)["held"] == 2
    figures = refresh.figures(answers, [SWAP], [{"restart_s": 40.0}, {"restart_s": 44.0}], size=0.5)
    assert figures["refresh_speed_against_restart"] == pytest.approx(42 / 4)
    assert figures["refreshed_gb_per_s"] == pytest.approx(0.5 / 3)
    assert figures["undisturbed_gap_longest_s"] == pytest.approx(1.0)  # not the 7.5 s around the refresh
    assert figures["undisturbed_tokens_per_s_of_a_request"] == pytest.approx(4.0)


def test_versions_that_cannot_be_are_counted():
    assert refresh.wrong_versions([*CALM, *MET], [SWAP]) == 0
    old = answer(13.1, 14.1, 0)  # asked for when the refresh was over
    early = answer(8.0, 9.9, 1)  # given before it began
    assert refresh.wrong_versions([*CALM, old, early], [SWAP]) == 2


def test_an_answer_of_two_sets_of_weights_is_noticed():
    class Learner:
        model = torch.nn.Linear(1, 1, bias=False)

        def logprobs(self, rows):
            return [(self.model.weight.item(),) * len(row.response_ids) for row in rows]

    states = [[torch.tensor([[-1.0]])], [torch.tensor([[-2.0]])]]
    whole = [answer(0, 1, 0, (-1.0, -1.0)), answer(0, 1, 3, (-2.0, -2.0))]
    assert refresh.check(Learner(), states, whole)["of_mixed_versions"] == 0
    changed_midway, other = answer(0, 1, 0, (-1.0, -2.0)), answer(0, 1, 1, (-1.0, -1.0))
    assert refresh.check(Learner(), states, [*whole, changed_midway, other])["of_mixed_versions"] == 2


def test_requests_are_in_flight_all_the_time_and_none_is_left_over():
    asked, lock, most = [], threading.Lock(), 0
    pool = ThreadPoolExecutor(8)

    def work(number: int, request: Request) -> Completion:
        if number == 5:
            raise ValueError("vLLM refused")
        time.sleep(0.005)
        return Completion(request.prompt_ids, (1,), (-1.0,), 0, "")

    def submit(request: Request) -> Future[Completion]:
        nonlocal most
        with lock:
            asked.append(request)
            most = max(most, len(asked) - len(traffic.answers) - len(traffic.lost))
            return pool.submit(work, len(asked), request)

    requests = [Request((i,), (), Sampling()) for i in range(3)]
    with pool:
        traffic = Traffic(submit, requests, 4)
        with traffic:
            traffic.wait(lambda answers: len(answers) >= 20)
        assert len(traffic.answers) + len(traffic.lost) == len(asked) and len(traffic.lost) == 1
        assert most == 4 and traffic.in_flight == 0
        assert [r.prompt_ids[0] for r in asked[:5]] == [0, 1, 2, 0, 1]


def test_waiting_ends_when_every_request_was_lost():
    def submit(request: Request) -> Future[Completion]:
        raise EngineError("vLLM died")

    with (
        pytest.raises(EngineError, match="0 answers and no more; the first of 2 errors: vLLM died"),
        Traffic(submit, [Request((1,), (), Sampling())], 2) as traffic,
    ):
        traffic.wait(lambda answers: len(answers) > 0)


def test_without_vllm_the_cure_is_named(monkeypatch, capsys):
    monkeypatch.setattr(refresh, "find_spec", lambda name: None)
    assert main(["bench", "refresh"]) == 2
    error = capsys.readouterr().err
    assert "pip install 'mobilerl[vllm]'" in error and error.count("\n") == 1


# --- comparing -----------------------------------------------------------------------------------------------------


def results(speed: float, memory: float, rows: int = 256) -> dict:
    sides = [{"side": "mobilerl", "rows_per_s": speed, "peak_mb": memory, "grad_norm": 7.0},
             {"side": "trl", "rows_per_s": 10.0, "peak_mb": 600.0, "grad_norm": 7.0}]  # fmt: skip
    return {"part": "learner", "results": {"rows": rows, "sides": sides}}


def test_more_speed_and_less_memory_are_better():
    changes, differ = compare.compare(results(20.0, 200.0), results(30.0, 400.0))
    by_name = {c.name: c.ratio for c in changes}
    assert by_name["sides.mobilerl.rows_per_s"] == 1.5
    assert by_name["sides.mobilerl.peak_mb"] == 0.5
    assert by_name["sides.trl.rows_per_s"] == 1.0
    assert changes[0].name == "sides.mobilerl.peak_mb"  # worst first
    assert not differ
    assert "grad_norm" not in str(changes)


def test_other_sizes_are_named():
    _, differ = compare.compare(results(20.0, 200.0), results(20.0, 200.0, rows=64))
    assert differ == ["rows: 256 before, 64 now"]


def test_rows_of_a_list_are_matched_by_what_they_are_of():
    def at(devices: int, rate: float) -> dict:
        return {"devices": devices, "collector": "trajectory", "steps_per_min": rate, "cpu_ms_per_step": 2.0}

    before = {"part": "rollout", "results": [at(8, 100.0), at(64, 900.0)]}
    after = {"part": "rollout", "results": [at(64, 450.0)]}
    changes, _ = compare.compare(before, after)
    assert {c.name: c.ratio for c in changes} == {
        "64 trajectory.steps_per_min": 0.5, "64 trajectory.cpu_ms_per_step": 1.0,
    }  # fmt: skip


def test_a_figure_that_is_zero_has_no_ratio():
    changes, _ = compare.compare(results(20.0, 0.0), results(20.0, 300.0))
    assert "sides.mobilerl.peak_mb" not in {c.name for c in changes}


def test_other_parts_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="learner and rollout"):
        compare.compare(results(1.0, 1.0), {"part": "rollout", "results": []})
    with pytest.raises(ValueError, match="share no figure"):
        compare.compare(results(1.0, 1.0), {"part": "learner", "results": {"rows": 1}})
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match="x.json holds no results"):
        compare.load(tmp_path / "x.json")


def test_the_command_fails_on_what_got_worse_beyond_the_factor(tmp_path, capsys):
    for name, speed in (("before", 100.0), ("slower", 85.0), ("slow", 70.0)):
        content = {"schema": compare.SCHEMA, "command": "mobilerl bench learner", **results(speed, 200.0)}
        compare.write(tmp_path / f"{name}.json", content)
    files = {name: str(tmp_path / f"{name}.json") for name in ("before", "slower", "slow")}
    assert main(["bench", "compare", files["before"], files["slower"]]) == 0
    assert main(["bench", "compare", files["before"], files["slower"], "--factor", "1.1"]) == 1
    capsys.readouterr()
    assert main(["bench", "compare", files["before"], files["slow"], "--json"]) == 1
    worst = json.loads(capsys.readouterr().out)["changes"][0]
    assert (worst["figure"], worst[""]) == ("sides.mobilerl.rows_per_s", "worse")


def test_a_part_is_measured_saved_and_equal_to_itself(tmp_path, capsys):
    file = tmp_path / "phone.json"
    assert main(["bench", "phone", "--steps", "20", "--json", "--save", str(file)]) == 0
    printed = json.loads(capsys.readouterr().out)
    saved = compare.load(file)
    assert saved["results"] == printed and saved["part"] == "phone"
    assert saved["machine"]["cores"] >= 1 and all(rate > 0 for rate in saved["pace"].values())
    assert main(["bench", "compare", str(file), str(file), "--factor", "1"]) == 0


def test_committed_baselines_can_be_compared():
    files = sorted((Path(compare.__file__).parent / "baselines").glob("*.json"))
    assert {f.stem for f in files} == {"learner", "phone", "refresh", "replay", "rollout"}
    for file in files:
        content = compare.load(file)
        changes, differ = compare.compare(content, content)
        assert content["part"] == file.stem and content["command"].startswith(f"mobilerl bench {file.stem}")
        assert len(changes) >= 3 and all(c.ratio == 1.0 for c in changes) and not differ


@pytest.mark.parametrize(
    "words, says",
    [
        (("learner", "--rows", "0"), "--rows is 0"),
        (("learner", "--sides", "sglang"), "there is no sglang"),
        (("learner", "--hidden", "40"), "--hidden is 40"),
        (("learner", "--network", "1T"), "--network is '1T'"),
        (("phone", "--save", "{dir}/none/x.json"), "there is no such folder"),
        (("replay", "--threads", "0"), "--threads is [0]"),
        (("refresh", "--requests", "0"), "--requests is 0"),
        (("refresh", "--hidden", "40"), "--hidden is 40"),
        (("compare", "{dir}/no.json", "{dir}/no.json"), "no.json cannot be read"),
    ],
)
def test_bad_input_is_one_line(words, says, tmp_path, capsys):
    assert main(["bench", *(w.format(dir=tmp_path) for w in words)]) == 2
    assert says in capsys.readouterr().err
