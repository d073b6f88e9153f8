"""Encoded samples on disk: Arrow files, written in a stream and memory-mapped by all processes that train on them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Any, overload

from mobilerl.sft.samples import Sample
from mobilerl.system.atomic_files import put_folder

SAMPLES, IMAGES = "samples.arrow", "images.arrow"
BATCH_SAMPLES, BATCH_BYTES = 256, 64 << 20
"""Samples, and bytes of images, that are in memory before they are written."""


class _Writer:
    """Writes one Arrow file in batches."""

    def __init__(self, path: Path, **types: Any) -> None:
        import pyarrow as pa

        self._schema = pa.schema(types)
        self._file = pa.ipc.new_file(str(path), self._schema)
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *row: Any) -> None:
        self._rows.append(row)

    def flush(self) -> None:
        import pyarrow as pa

        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(column, type_) for column, type_ in zip(columns, self._schema.types, strict=True)]
            self._file.write_batch(pa.record_batch(arrays, schema=self._schema))
            self._rows = []

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()
        self._file.close()


def write_samples(samples: Iterable[Sample], folder: Path) -> None:
    """Writes samples to a new folder, which is complete or absent even if the process is killed.

    An image shared by several samples is stored once. Memory holds a batch, and 16 bytes for every image so far.
    """
    import pyarrow as pa

    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    ids = pa.list_(pa.int32())
    numbers: dict[bytes, int] = {}
    held = 0
    with ExitStack() as stack:
        images = stack.enter_context(_Writer(temporary / IMAGES, png=pa.large_binary()))
        types = {"prompt_ids": ids, "response_ids": ids, "images": ids, "trained": pa.list_(pa.bool_())}
        rows = stack.enter_context(_Writer(temporary / SAMPLES, **types))
        for sample in samples:
            shown = []
            for png in sample.images:
                new = len(numbers)
                shown.append(numbers.setdefault(blake2b(png, digest_size=16).digest(), new))
                if shown[-1] == new:
                    images.add(png)
                    held += len(png)
            rows.add(sample.prompt_ids, sample.response_ids, shown, sample.trained)
            if len(rows) >= BATCH_SAMPLES or held >= BATCH_BYTES:
                images.flush()
                rows.flush()
                held = 0
    put_folder(temporary, folder)


class SampleFile(Sequence[Sample]):
    """The samples of `write_samples`, memory-mapped so that several processes share them."""

    def __init__(self, folder: Path) -> None:
        from pyarrow.feather import read_table

        self._rows = read_table(folder / SAMPLES, memory_map=True)
        self._images = read_table(folder / IMAGES, memory_map=True)["png"]

    def __len__(self) -> int:
        return self._rows.num_rows

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        prompt, response, images, trained = (self._values(name, index) for name in self._rows.column_names)
        assert prompt is not None and response is not None and images is not None
        return Sample(prompt, response, tuple(self._images[number].as_py() for number in images), trained)

    def _values(self, column: str, index: int) -> tuple[Any, ...] | None:
        values = self._rows[column][index].values
        return None if values is None else tuple(values.to_numpy(zero_copy_only=False).tolist())

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
