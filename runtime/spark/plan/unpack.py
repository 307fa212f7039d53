"""Unpack: from an operator's binaries to ordinary columns, and HAVING over a changelog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen import having_kinds
from aggloom.codegen.planner import FromChangelog, Node, ToChangelog
from aggloom.runtime.hosting.blobs import binaries, concat, is_late, read_blob, split_kinds
from aggloom.runtime.operators.changelog_conversion import read_log, to_log
from aggloom.runtime.operators.stateless import run_alone
from aggloom.runtime.spark.node.batch_context import work_for_this_batch
from aggloom.runtime.storage.arena import NumberArray
from aggloom.runtime.values.batches import make_batch
from aggloom.runtime.values.changelog import UPDATE_BEFORE, Kinds, kinds_to_arrow, parse_kinds
from aggloom.type_layout import is_variant


@dataclass(frozen=True)
class Unpack:
    """The `mapInArrow` stage after an operator: its changes as columns, the change column last.

    profile: in whose words it writes the kinds; None: as numbers (int8), for what follows in the query.
    late: before the change column there is one more, a STRUCT that holds the row where it arrived too late, and is NULL
    elsewhere; such a row's kind begins with "late_".
    """

    schema: pa.Schema
    profile: str | None = "spark"
    late: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Open every blob."""
        for packed in batches:
            for blob in binaries(packed.column(0)):
                for whole, _ in read_blob(blob):
                    yield self._rows(whole)

    def _rows(self, whole: pa.RecordBatch) -> pa.RecordBatch:
        batch, kinds = split_kinds(whole)
        if not self.late:
            return shown_rows(batch, kinds, self.schema, self.profile)
        row, n = self.schema.field(len(self.schema) - 2), len(kinds)
        if not is_late(whole):
            columns = [*batch.columns, pa.nulls(n, row.type)]
            names = self.schema.names[:-1]
            with_row = pa.RecordBatch.from_arrays(columns, names=names)
            return shown_rows(with_row, kinds, self.schema, self.profile)
        words = pc.binary_join_element_wise("late", _words(kinds, self.profile), "_")
        # A late row has the columns of the operator's input, not those of its result: one STRUCT holds it whole.
        parts = [c.cast(f.type) for c, f in zip(batch.columns, row.type, strict=True)]
        columns = [pa.nulls(n, field.type) for field in list(self.schema)[:-2]]
        columns += [pa.StructArray.from_arrays(parts, fields=list(row.type)), words]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def shown_rows(
    changes: pa.RecordBatch, kinds: Kinds, schema: pa.Schema, profile: str | None
) -> pa.RecordBatch:
    """Changes as ordinary columns in the types of a schema, whose last column is that of the kinds.

    profile: in whose words they are written; None: as numbers (int8), for what follows in the query.
    """
    columns = [*changes.columns, _words(kinds, profile)]
    return make_batch(columns, schema, changes.num_rows)


def _words(kinds: Kinds, profile: str | None) -> pa.Array:
    """Kinds as words, or as numbers."""
    return kinds_to_arrow(kinds, profile).cast(pa.string()) if profile else pa.array(kinds)


@dataclass(frozen=True)
class Stepped:
    """The `mapInArrow` stage of a step over ordinary columns; what stands after the columns goes along."""

    node: Node

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the step over the rows."""
        # Before the first row: a lookup in the step reads its table as it is for this batch.
        work_for_this_batch()
        width = len(self.node.inputs[0].schema)
        for batch in batches:
            known = _first_columns(batch, self.node.inputs[0].schema)
            done, places = run_alone(self.node, known)
            # A step may drop rows or repeat them; places say which row each of the result is made of.
            extra = [column.take(pa.array(places)) for column in batch.columns[width:]]
            names = [*self.node.schema.names, *batch.schema.names[width:]]
            yield pa.RecordBatch.from_arrays([*_texts_of_variants(done), *extra], names=names)


@dataclass(frozen=True)
class Converted:
    """The `mapInArrow` stage of TO_CHANGELOG and FROM_CHANGELOG over ordinary columns.

    has_kind: whether the column of kinds follows those of the node; else rows are insertions. What follows
    goes along. What leaves has that column again, as `Unpack` writes it.
    """

    node: ToChangelog | FromChangelog
    has_kind: bool
    profile: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert the rows."""
        work_for_this_batch()
        width = len(self.node.input.schema)
        for batch in batches:
            known = _first_columns(batch, self.node.input.schema)
            done, kinds, places = self._convert(known, batch.columns[width:])
            beside = batch.columns[width + self.has_kind :]
            extra = [column.take(pa.array(places)) for column in beside]
            names = [*self.node.schema.names, "kind", *batch.schema.names[width + self.has_kind :]]
            columns = [*_texts_of_variants(done), _words(kinds, self.profile), *extra]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    def _convert(
        self, known: pa.RecordBatch, beside: list[pa.Array]
    ) -> tuple[pa.RecordBatch, Kinds, NumberArray]:
        """The converted rows, their kinds, and the number of the row of each."""
        if isinstance(self.node, FromChangelog):
            return read_log(self.node, known)
        kinds = _kinds_of(beside[0]) if self.has_kind else np.zeros(known.num_rows, np.int8)
        return to_log(self.node, known, kinds)


@dataclass(frozen=True)
class Having:
    """The `mapInArrow` stage of a condition on changes: the last two columns are the change column and it.

    profile: as of `Unpack`. upsert: of updates only the +U comes.
    late: before the change column there is one that is set in late rows, which pass.
    """

    profile: str | None = "spark"
    upsert: bool = True
    late: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Filter a changelog; a -U at the end of a batch waits for its +U."""
        waiting: pa.RecordBatch | None = None
        for batch in batches:
            if self.late:
                on_time = batch.column(batch.num_columns - 3).is_null()
                # Late rows are no changes of the result. They leave first, lest one parts a -U from its +U.
                yield batch.filter(pc.invert(on_time)).select(range(batch.num_columns - 1))
                batch = batch.filter(on_time)
            if not batch.num_rows:
                continue
            whole = concat([waiting, batch]) if waiting is not None else batch
            kinds = _kinds_of(whole.column(whole.num_columns - 2))
            waiting = None
            # Both rows of an update decide what becomes of it, and a batch of Arrow may end between them.
            if kinds[-1] == UPDATE_BEFORE:
                waiting = whole.slice(len(kinds) - 1)
                whole, kinds = whole.slice(0, len(kinds) - 1), kinds[:-1]
            yield from self._filter(whole, kinds)
        if waiting is not None:
            yield from self._filter(waiting, np.array([UPDATE_BEFORE], np.int8))

    def _filter(self, batch: pa.RecordBatch, kinds: Kinds) -> Iterator[pa.RecordBatch]:
        """The rows that remain, with the kinds they get."""
        # As in SQL, a row passes only if the condition is true, not if it is unknown.
        condition = batch.column(batch.num_columns - 1).fill_null(False)
        keep, new = having_kinds(kinds, condition.to_numpy(zero_copy_only=False), self.upsert)
        if keep.any():
            columns = [*batch.columns[:-2], _words(new, self.profile)]
            names = batch.schema.names[:-1]
            yield pa.RecordBatch.from_arrays(columns, names=names).filter(pa.array(keep))


def _texts_of_variants(rows: pa.RecordBatch) -> list[pa.Array]:
    """The columns as Spark takes them: VARIANTs as their texts."""
    return [each.storage if is_variant(each.type) else each for each in rows.columns]


def _first_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema, in its types, with which a batch begins."""
    # Kinds and whatever goes along follow the schema's columns.
    return make_batch(batch.columns[: len(schema)], schema, batch.num_rows)


def _kinds_of(column: pa.Array) -> Kinds:
    """The kinds (int8[rows]) that a column of numbers or words holds."""
    if column.type == pa.int8():
        return column.to_numpy()
    return parse_kinds(column, "the query")
