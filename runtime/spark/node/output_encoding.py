"""The ways in which changes leave a stateful node: packed for the next operator, as ordinary columns, or as blobs.

Columns need no further stage: pandas hands those of Arrow on as they are. Where it would look into each value, or rows
that arrived too late are among the changes, blobs leave, which `Unpack` opens. Beside the changes of a bucket, in the
first row, is what its operators have counted; a row that brings nothing else has NULL in the column `change_column`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Protocol

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from aggloom.runtime.hosting.blobs import cut_batch, late_blob, with_kinds, write_blob
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.spark.plan.routes import PackedRow, Packer, Route
from aggloom.runtime.spark.plan.unpack import shown_rows

COUNTS = "row counts"
"""The column in which counts leave."""
_COUNTS = StructField(COUNTS, StringType())


class OutputEncoding(Protocol):
    """A form in which changes leave."""

    @property
    def fields(self) -> StructType:
        """The columns, that of the counts last."""

    @property
    def change_column(self) -> str:
        """The column that is NULL in no row of changes."""

    def frames(self, bucket: int, changes: Rows) -> Iterator[pd.DataFrame]:
        """The changes of a bucket."""

    def late(self, rows: Rows) -> Iterator[pd.DataFrame]:
        """Rows that arrived too late."""

    def empty_frame(self) -> pd.DataFrame:
        """A row that brings no change."""


@dataclass(frozen=True)
class PackedRowOutput:
    """Packed rows for another operator, or for every bucket of it where its route says so."""

    route: Route
    change_column: ClassVar[str] = "blob"

    @property
    def fields(self) -> StructType:
        """The columns of packed rows."""
        whole = [StructField(n, IntegerType()) for n in ("bucket", "input", "partition", "seq")]
        return StructType([*whole, StructField("blob", BinaryType()), _COUNTS])

    def frames(self, bucket: int, changes: Rows) -> Iterator[pd.DataFrame]:
        """One, if any row goes on."""
        route = self.route
        # A route that carries the clock sends an empty packed row: operators behind it have to wake.
        if not len(changes[1]) and not (route.emits_without_rows or route.carries_now):
            return
        packer = Packer(route, bucket)
        rows = [*packer.add(*changes), *packer.finish()]
        if rows:
            yield self._frame(rows)

    def late(self, rows: Rows) -> Iterator[pd.DataFrame]:
        """None: they are no changes."""
        return iter(())

    def empty_frame(self) -> pd.DataFrame:
        """No blob."""
        return self._frame([(0, 0, 0, 0, None)])

    def _frame(self, rows: list[PackedRow] | list[tuple[int, int, int, int, None]]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=self.fields.names[:-1])


@dataclass(frozen=True)
class ColumnOutput:
    """Ordinary columns, the kinds last. schema: in Arrow's types as Spark reads them; columns: the same as Spark's.

    profile: in whose words the kinds are written; None: as numbers.
    """

    schema: pa.Schema
    columns: StructType
    profile: str | None

    @property
    def fields(self) -> StructType:
        """The columns of a frame: the result's, and the counts."""
        return StructType([*self.columns.fields, _COUNTS])

    @property
    def change_column(self) -> str:
        """The kinds."""
        return str(self.columns.names[-1])

    def frames(self, bucket: int, changes: Rows) -> Iterator[pd.DataFrame]:
        """Yield frames of limited size."""
        if len(changes[1]):
            for piece in cut_batch(shown_rows(*changes, self.schema, self.profile)):
                yield self._frame(piece.columns)

    def late(self, rows: Rows) -> Iterator[pd.DataFrame]:
        """None: nobody asked for them."""
        return iter(())

    def empty_frame(self) -> pd.DataFrame:
        """NULL in every column."""
        return self._frame([pa.nulls(1, field.type) for field in self.schema])

    def _frame(self, columns: Iterable[pa.Array]) -> pd.DataFrame:
        # Columns without names are taken by place, none of them is copied or looked into.
        series = {at: pd.arrays.ArrowExtensionArray(each) for at, each in enumerate(columns)}
        return pd.DataFrame(series, copy=False)


@dataclass(frozen=True)
class BlobOutput:
    """One binary for each piece of the changes, and for rows that arrived too late."""

    change_column: ClassVar[str] = "blob"

    @property
    def fields(self) -> StructType:
        """A binary, and the counts."""
        return StructType([StructField("blob", BinaryType()), _COUNTS])

    def frames(self, bucket: int, changes: Rows) -> Iterator[pd.DataFrame]:
        """Yield frames of limited size."""
        if len(changes[1]):
            for piece in cut_batch(with_kinds(*changes)):
                yield self._frame(write_blob(piece.schema, [(piece, b"")]))

    def late(self, rows: Rows) -> Iterator[pd.DataFrame]:
        """Marked as such."""
        yield self._frame(late_blob(*rows))

    def empty_frame(self) -> pd.DataFrame:
        """No blob."""
        return self._frame(None)

    def _frame(self, blob: bytes | None) -> pd.DataFrame:
        return pd.DataFrame({"blob": [blob]})


def is_column_output(schema: pa.Schema) -> bool:
    """Tell whether pandas hands the columns on as they are: it looks into each value of those that are nested."""
    return not any(pa.types.is_nested(field.type) for field in schema)


def emit_frames(
    encoding: OutputEncoding,
    bucket: int,
    changes: Iterable[Rows],
    late: Iterable[Rows],
    counts: Iterable[int],
) -> Iterator[pd.DataFrame]:
    """Yield the output of a bucket: the frames of its changes and late rows, its counts in the first row of all."""
    counts_text: str | None = ",".join(map(str, counts))
    frames_of_changes = chain.from_iterable(encoding.frames(bucket, rows) for rows in changes)
    for frame in chain(frames_of_changes, chain.from_iterable(map(encoding.late, late))):
        yield _with_counts(frame, counts_text)
        # In one row alone, because every text that is observed counts.
        counts_text = None
    if counts_text is not None:
        yield _with_counts(encoding.empty_frame(), counts_text)


def format_counts(text: str) -> list[int]:
    """The counts in a row."""
    return [int(count) for count in text.split(",")]


def _with_counts(frame: pd.DataFrame, counts: str | None) -> pd.DataFrame:
    """A frame with the column of counts, NULL in all rows but perhaps the first."""
    rest = pa.nulls(len(frame) - 1, pa.string())
    column = pa.concat_arrays([pa.array([counts], pa.string()), rest])
    width = len(frame.columns)
    # Columns of Arrow have places instead of names.
    name = COUNTS if isinstance(frame.columns[0], str) else width
    frame.insert(width, name, pd.Series(pd.arrays.ArrowExtensionArray(column)))
    return frame
