"""Sinks of batches on Spark: each batch of a query, by the key of the query's own plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from aggloom.codegen import to_schema
from aggloom.errors import SpecError
from aggloom.runtime.connectors.kafka.sink import KafkaSink
from aggloom.runtime.connectors.registry import Options, Sink, made_sink
from aggloom.runtime.connectors.sink_key import find_key
from aggloom.runtime.hosting.checkpoint_paths import is_local, local
from aggloom.runtime.hosting.recent_changes import note_changes
from aggloom.runtime.lakes.sink import LakeSink
from aggloom.runtime.spark.checkpoint import id_of
from aggloom.runtime.spark.failures import translate_failures
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.plan.variant_frames import rows_of
from aggloom.runtime.spark.watch.repartition import batch_before
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, parse_kinds


def change_column_of(names: Sequence[str]) -> str:
    """The change column's name: the last column, by either profile."""
    if names and names[-1] in CHANGE_COLUMNS.values():
        return names[-1]
    raise SpecError(
        f"not a changelog: the last column is none of {', '.join(CHANGE_COLUMNS.values())}"
    )


@dataclass(frozen=True)
class EachBatch:
    """Writes the batches of a query into a sink, under the id of the query's checkpoint. where: what to call it."""

    sink: Sink
    where: str
    checkpoint: str

    @classmethod
    def of(
        cls,
        df: DataFrame,
        lowering: SparkLowering | None,
        options: Options,
        key_columns: Sequence[str] | None,
        checkpoint: str | Path,
    ) -> EachBatch:
        """The sink of a changelog; raises SpecError where no key distinguishes its rows and one is needed."""
        names = df.columns[: -1 if df.columns and change_column_of(df.columns) else None]
        key, before = find_key(
            lowering.plan if lowering is not None else None, names, key_columns, options
        )
        added = lowering.added if lowering is not None else None
        sink, where = made_sink(options, key, before, added.names if added else frozenset())
        if isinstance(sink, LakeSink | KafkaSink):
            # A table or a registered schema that exists is compared with the result before any row is read.
            schema = to_schema(df)
            sink.check_start(pa.schema([schema.field(name) for name in names]))
        return cls(sink, where, str(checkpoint))

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        # Spark commits the state of a batch that has run; one that it repeats must run, too.
        with translate_failures(self.where):
            changes = rows_of(batch)
        kinds = parse_kinds(changes.column(changes.num_columns - 1), self.where)
        rows = changes.drop_columns([changes.column_names[-1]])
        before = batch_before(self.checkpoint, batch_id, batch.sparkSession)
        self.sink.write(rows, kinds, batch_id, checkpoint_id(batch, self.checkpoint), before)
        if is_local(self.checkpoint):
            note_changes(local(self.checkpoint), rows, kinds, batch_id)


def checkpoint_id(batch: DataFrame, checkpoint: str) -> str:
    """The id that Spark has given to a checkpoint, which no other has."""
    if is_local(checkpoint):
        return id_of(local(checkpoint))
    text = batch.sparkSession.read.text(f"{checkpoint}/metadata").collect()[0][0]
    return str(json.loads(text)["id"])
