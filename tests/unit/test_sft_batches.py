"""How batches are shared by ranks, how samples travel to them, and what is refused before anything starts."""

import json
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.config.claims import claim
from mobilerl.sft.batches import LengthBatches, RankBatches, with_placeholder
from mobilerl.sft.checks import CONFIGS, check, deepspeed_file, fit_recipe
from mobilerl.sft.sample_files import SampleFile, image_counts, lengths_of, write_samples
from mobilerl.sft.samples import Sample

ROOT = Path(__file__).parents[2]
SAMPLES = [
    Sample((1, 2, 3), (4, 5), (b"png one",)),
    Sample((6,), (7, 8, 9), (), trained=(True, False, True)),
    Sample((10, 11), (12,), (b"png two", b"png one")),
]


# --- ranks -------------------------------------------------------------------------------------------------------


@given(count=st.integers(1, 90), ranks=st.integers(1, 4), micro=st.integers(1, 3), accumulation=st.integers(1, 3))
def test_ranks_share_the_batches_of_one_process(count, ranks, micro, accumulation):
    lengths = [random.Random(i).randrange(5, 99) for i in range(count)]
    size = ranks * micro * accumulation
    alone = [sorted(batch) for batch in LengthBatches(lengths, size, 1)]
    parts = [RankBatches(LengthBatches(lengths, size, 1), rank, ranks, micro) for rank in range(ranks)]
    shares = [list(part) for part in parts]
    assert {len(share) for share in shares} == {len(part) for part in parts} == {len(alone) * accumulation}
    assert all(len(step) <= micro for share in shares for step in share)
    for number, batch in enumerate(alone):
        steps = slice(number * accumulation, (number + 1) * accumulation)
        assert sorted(i for share in shares for step in share[steps] for i in step) == batch


def test_epochs_that_are_skipped_are_as_if_they_had_been_seen():
    lengths = [random.Random(i).randrange(5, 99) for i in range(50)]
    batches, later = (LengthBatches(lengths, 4, 1) for _ in range(2))
    seen = [list(batches) for _ in range(3)]
    later.skip_epochs(2)
    assert list(later) == seen[2] != seen[1]


def test_a_placeholder_fills_empty_micro_batches_and_those_without_images():
    make = with_placeholder(list, SAMPLES, image_counts(SAMPLES))
    (placeholder,) = make([])
    assert placeholder.images == (b"png two", b"png one") and not any(placeholder.trained), "the shortest with images"
    assert make([SAMPLES[1]]) == [SAMPLES[1], placeholder]
    assert make([SAMPLES[0], SAMPLES[1]]) == [SAMPLES[0], SAMPLES[1]]
    assert with_placeholder(list, SAMPLES[1:2], [0])([SAMPLES[1]]) == [SAMPLES[1]]


@pytest.mark.parametrize("batch", [1, 2, 256])
def test_samples_come_back_from_their_file_with_each_image_stored_once(tmp_path, monkeypatch, batch):
    monkeypatch.setattr("mobilerl.sft.sample_files.BATCH_SAMPLES", batch)
    write_samples(iter(SAMPLES), tmp_path / "samples")
    read = SampleFile(tmp_path / "samples")
    assert list(read) == SAMPLES and read[1:] == SAMPLES[1:] and read[-1] == SAMPLES[-1]
    assert lengths_of(read) == [5, 4, 3] and image_counts(read) == [1, 0, 2]
    assert (tmp_path / "samples" / "images.arrow").read_bytes().count(b"png one") == 1


def test_memory_does_not_grow_with_the_number_of_samples(tmp_path):
    """Images are as large as small screenshots, and each is shown twice."""

    def peak(count: int) -> int:
        images = (random.Random(i // 2).randbytes(20_000) for i in range(count))
        tracemalloc.start()
        write_samples((Sample((1,) * 99, (2,) * 9, (png,)) for png in images), tmp_path / str(count))
        made = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return made

    assert peak(4000) < peak(1000) + 500_000
    assert (tmp_path / "4000" / "images.arrow").stat().st_size == pytest.approx(2000 * 20_000, rel=0.01)


def test_samples_that_were_cut_off_are_not_there(tmp_path):
    def cut_off():
        yield SAMPLES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_samples(cut_off(), tmp_path / "samples")
    assert not (tmp_path / "samples").exists()
    write_samples(SAMPLES, tmp_path / "samples")
    assert list(SampleFile(tmp_path / "samples")) == SAMPLES


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--sft.deepspeed", "zero2"), "sft.deepspeed needs sft.processes"),
        (("--sft.nodes", "2"), "sft.nodes above 1 needs sft.processes"),
        (("--sft.nodes", "2", "--sft.processes", "8"), "sft.rendezvous = HOST:PORT"),
        (("--sft.node_rank", "1"), "sft.node_rank must be below"),
    ],
)
def test_settings_that_do_not_fit_together_are_one_line(flags, said):
    with pytest.raises(ConfigError, match=said) as error:
        load_recipe(None, flags)
    assert "\n" not in str(error.value)


def recipe(**sft: object) -> Recipe:
    return Recipe(sft=sft)


def test_a_batch_that_cannot_be_shared_is_refused():
    check(recipe(processes=4, batch_size=32, micro_batch_size=2))
    with pytest.raises(ConfigError, match=r"sft.batch_size = 32 must be a multiple of 3 processes"):
        check(recipe(processes=3))
    with pytest.raises(ConfigError, match=r"reading pre-training = 16 .* x sft.micro_batch_size \(8\)"):
        check(recipe(processes=4, micro_batch_size=8))
    check(recipe(processes=4, micro_batch_size=8, reading_samples=0))


@pytest.mark.parametrize(("gpus", "nodes", "processes"), [(0, 1, 2), (1, 1, 0), (4, 1, 2), (1, 2, 2)])
def test_a_recipe_for_two_cores_runs_on_one_gpu(monkeypatch, gpus, nodes, processes):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    given = recipe(processes=2, nodes=nodes, rendezvous="host:1" if nodes > 1 else "")
    assert fit_recipe(given).sft.processes == processes


def test_deepspeed_files(tmp_path, monkeypatch):
    for name in ("zero2", "zero3", "zero2-offload", "zero3-offload"):
        path = deepspeed_file(name)
        said = json.loads(path.read_text())
        assert path.parent == CONFIGS and said["zero_optimization"]["stage"] == int(name[4])
        assert ("offload_optimizer" in said["zero_optimization"]) == name.endswith("offload")
        if name.startswith("zero3"):
            assert said["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"]
    with pytest.raises(ConfigError, match="'zero4': choose zero2"):
        deepspeed_file("zero4")
    (tmp_path / "mine.json").write_text("{")
    with pytest.raises(ConfigError, match="mine.json cannot be read as JSON"):
        deepspeed_file(str(tmp_path / "mine.json"))


def test_a_run_may_go_on_elsewhere_but_not_as_another(tmp_path):
    claim(recipe(processes=2), tmp_path, "sft")
    (tmp_path / "metrics.jsonl").touch()
    claim(recipe(processes=8, nodes=2, rendezvous="head:29400"), tmp_path, "sft")
    with pytest.raises(ConfigError, match="another recipe: sft.learning_rate is 0.5, and "):
        claim(recipe(processes=2, learning_rate=0.5), tmp_path, "sft")
