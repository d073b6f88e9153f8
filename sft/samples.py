"""SFT samples: pairs of a prompt with images and a response, encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

from mobilerl.envs.base import Action, Observation, Task
from mobilerl.models.codec import Codec
from mobilerl.policy.context import ContextPolicy, build_messages
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import Turn


@dataclass(frozen=True, slots=True)
class ExpertStep:
    """One step of a demonstration: the observation, the previous turns, and the expert's action."""

    task: Task
    turns: tuple[Turn, ...]
    observation: Observation
    screen: Screen
    action: Action
    thought: str = field(default="", kw_only=True)
    """What the expert had to remember; "" if nothing beyond the action."""
    purpose: str = field(default="", kw_only=True)
    """The purpose of this and the following actions; "" if the expert does not begin something new."""

    def messages(self, context: ContextPolicy) -> tuple[list[dict[str, Any]], list[bytes]]:
        return build_messages(self.task, self.turns, self.observation, self.screen, context)

    def write_response(self, context: ContextPolicy, thought: str | None = None) -> str:
        return context.write_response(self.action, self.screen, thought)


@dataclass(frozen=True, slots=True)
class Sample:
    """A token-exact training sample. Only `response_ids` have a loss; if `trained` is given, only those marked in
    it."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    images: tuple[bytes, ...]
    trained: tuple[bool, ...] | None = None

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


def encode(step: ExpertStep, context: ContextPolicy, codec: Codec, thought: str | None = None) -> Sample:
    """Encodes a step. Without a thought the sample is reasoning-free."""
    context = replace(context, size_seen=codec.images.size_seen)
    messages, images = step.messages(context)
    return Sample(
        codec.encode(messages, images), codec.encode_response(step.write_response(context, thought)), tuple(images)
    )


def encode_all(steps: Iterable[ExpertStep], context: ContextPolicy, codec: Codec) -> list[Sample]:
    """Encodes all steps; equal images share one bytes object."""
    images: dict[bytes, bytes] = {}
    made = []
    for step in steps:
        sample = encode(step, context, codec)
        made.append(replace(sample, images=tuple(images.setdefault(png, png) for png in sample.images)))
    return made


def write_samples(samples: Sequence[Sample], folder: Path) -> None:
    """Writes samples to two Arrow files. An image shared by several samples is stored once."""
    import pyarrow as pa
    from pyarrow.feather import write_feather

    numbers: dict[bytes, int] = {}
    columns = {
        "prompt_ids": pa.array([s.prompt_ids for s in samples], pa.list_(pa.int32())),
        "response_ids": pa.array([s.response_ids for s in samples], pa.list_(pa.int32())),
        "images": pa.array(
            [[numbers.setdefault(png, len(numbers)) for png in s.images] for s in samples], pa.list_(pa.int32())
        ),
        "trained": pa.array([s.trained for s in samples], pa.list_(pa.bool_())),
    }
    write_feather(pa.table(columns), folder / "samples.arrow", compression="uncompressed")
    images = pa.table({"png": pa.array(list(numbers), pa.large_binary())})
    write_feather(images, folder / "images.arrow", compression="uncompressed")


class SampleFile(Sequence[Sample]):
    """The samples of `write_samples`, memory-mapped so that several processes share them."""

    def __init__(self, folder: Path) -> None:
        from pyarrow.feather import read_table

        self._rows = read_table(folder / "samples.arrow", memory_map=True)
        self._images = read_table(folder / "images.arrow", memory_map=True)["png"]

    def __len__(self) -> int:
        return self._rows.num_rows

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = {name: self._rows[name][index].as_py() for name in self._rows.column_names}
        images = tuple(self._images[number].as_py() for number in row["images"])
        trained = None if row["trained"] is None else tuple(row["trained"])
        return Sample(tuple(row["prompt_ids"]), tuple(row["response_ids"]), images, trained)

    def counts(self, column: str) -> list[int]:
        """Number of tokens (`prompt_ids`, `response_ids`) or images (`images`) of each sample."""
        from pyarrow.compute import list_value_length

        return list_value_length(self._rows[column]).to_pylist()


def lengths_of(samples: Sequence[Sample]) -> list[int]:
    """Number of tokens of each sample."""
    if isinstance(samples, SampleFile):
        prompts, responses = samples.counts("prompt_ids"), samples.counts("response_ids")
        return [prompt + response for prompt, response in zip(prompts, responses, strict=True)]
    return [len(sample) for sample in samples]


def image_counts(samples: Sequence[Sample]) -> list[int]:
    """Number of images of each sample."""
    return samples.counts("images") if isinstance(samples, SampleFile) else [len(s.images) for s in samples]
