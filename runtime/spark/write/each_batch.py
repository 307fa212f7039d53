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
from aggloom.runtime.lakes.sink import LakeSink
from aggloom.runtime.spark.checkpoint import id_of, is_local, local
from aggloom.runtime.spark.failures import translate_failures
from aggloom.runtime.spark.plan.lower import SparkLowering
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
        made: SparkLowering | None,
        options: Options,
        key_columns: Sequence[str] | None,
        checkpoint: str | Path,
    ) -> EachBatch:
        """The sink of a changelog; raises SpecError where no key tells its rows apart and one is needed."""
        names = df.columns[: -1 if df.columns and change_column_of(df.columns) else None]
        key, before = _key(made, names, key_columns, options)
        sink, where = made_sink(options, key, before)
        if isinstance(sink, LakeSink | KafkaSink):
            # A table or a registered schema that was there before is held against the result before any row is read.
            schema = to_schema(df)
            sink.check_start(pa.schema([schema.field(name) for name in names]))
        return cls(sink, where, str(checkpoint))

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        # Spark commits the state of a batch that has run; one that it repeats must run, too.
        with translate_failures(self.where):
            changes = batch.toArrow()
        kinds = parse_kinds(changes.column(changes.num_columns - 1), self.where)
        rows = changes.drop_columns([changes.column_names[-1]])
        before = batch_before(self.checkpoint, batch_id, batch.sparkSession)
        self.sink.write(rows, kinds, batch_id, checkpoint_id(batch, self.checkpoint), before)


def _key(
    made: SparkLowering | None, names: Sequence[str], said: Sequence[str] | None, options: Options
) -> tuple[tuple[str, ...] | None, bool | None]:
    """The columns by which rows are written, and whether each row that is replaced is told (None: unknown)."""
    where = f"sink {options.kind}"
    for name in said or ():
        if name not in names:
            raise SpecError(f"{where}: key_columns names {name!r}, which the result does not have")
    if made is None:
        if said is None and options.needs_key:
            raise SpecError(
                f"{where}: what the DataFrame was made of is not known any more, so that its key is not; give "
                "key_columns=, or write it as al.sql made it"
            )
        return None if said is None else tuple(said), None
    plan = made.plan
    known = plan.root.unique_keys
    if not options.needs_key:
        return tuple(said) if said is not None else plan.key, plan.tells_before
    if said is not None:
        if not any(set(key) <= set(said) for key in known):
            told = "; ".join(", ".join(key) or "(one row)" for key in known) or "none"
            raise SpecError(
                f"{where}: key_columns {', '.join(said)} do not tell the result's rows apart; keys of it: {told}"
            )
        key = tuple(said)
    elif plan.key is None:
        raise SpecError(
            f"{where}: no columns tell the rows of the result apart, so that they cannot be written by a key. Select "
            "the columns of GROUP BY (or of the table's PRIMARY KEY), or write the changes: jsonl:, parquet:, or "
            "into a table of Delta's or Iceberg's with form=changelog"
        )
    else:
        key = plan.key
    if not plan.tells_before and not plan.is_ordered(key):
        raise SpecError(
            f"{where}: a row of a key may come before the one that it replaces has gone, and update_before=False does "
            "not tell that one; leave update_before=False out"
        )
    return key, plan.tells_before


def checkpoint_id(batch: DataFrame, checkpoint: str) -> str:
    """The id that Spark has given to a checkpoint, which no other has."""
    if is_local(checkpoint):
        return id_of(local(checkpoint))
    text = batch.sparkSession.read.text(f"{checkpoint}/metadata").collect()[0][0]
    return str(json.loads(text)["id"])
