"""The database sink on Spark: each batch of a query, by the key of the query's own plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from aggloom.errors import SpecError
from aggloom.runtime.sinks.database import DatabaseOptions, DatabaseSink
from aggloom.runtime.spark.checkpoint import is_local, local
from aggloom.runtime.spark.failures import telling
from aggloom.runtime.spark.lower import Lowering
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, parse_kinds

_WHERE = "sink database"


def change_column_of(names: Sequence[str]) -> str:
    """The change column's name: the last column, by either profile."""
    if names and names[-1] in CHANGE_COLUMNS.values():
        return names[-1]
    raise SpecError(
        f"not a changelog: the last column is none of {', '.join(CHANGE_COLUMNS.values())}"
    )


@dataclass(frozen=True)
class IntoDatabase:
    """Writes the batches of a query into a database, under the id of the query's checkpoint."""

    sink: DatabaseSink
    checkpoint: str

    @classmethod
    def of(
        cls,
        df: DataFrame,
        made: Lowering | None,
        options: DatabaseOptions,
        key_columns: Sequence[str] | None,
        checkpoint: str | Path,
    ) -> IntoDatabase:
        """The sink of a changelog; raises SpecError where no key tells its rows apart."""
        names = df.columns[: -1 if df.columns and change_column_of(df.columns) else None]
        key, tells_before = _key(made, names, key_columns)
        return cls(DatabaseSink(options, key, tells_before), str(checkpoint))

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        # Spark commits the state of a batch that has run; one that it repeats must run, too.
        with telling(_WHERE):
            changes = batch.toArrow()
        kinds = parse_kinds(changes.column(changes.num_columns - 1), _WHERE)
        rows = changes.drop_columns([changes.column_names[-1]])
        self.sink.write(rows, kinds, batch_id, checkpoint_id(batch, self.checkpoint))


def _key(
    made: Lowering | None, names: Sequence[str], said: Sequence[str] | None
) -> tuple[tuple[str, ...], bool | None]:
    """The columns by which rows are written, and whether each row that is replaced is told (None: unknown)."""
    for name in said or ():
        if name not in names:
            raise SpecError(f"{_WHERE}: key_columns names {name!r}, which the result does not have")
    if made is None:
        if said is None:
            raise SpecError(
                f"{_WHERE}: what the DataFrame was made of is not known any more, so that its key is not; give "
                "key_columns=, or write it as al.sql made it"
            )
        return tuple(said), None
    plan = made.plan
    known = plan.root.unique_keys
    if said is not None:
        if not any(set(key) <= set(said) for key in known):
            told = "; ".join(", ".join(key) or "(one row)" for key in known) or "none"
            raise SpecError(
                f"{_WHERE}: key_columns {', '.join(said)} do not tell the result's rows apart; keys of it: {told}"
            )
        key = tuple(said)
    elif plan.key is None:
        raise SpecError(
            f"{_WHERE}: no columns tell the rows of the result apart, so that they cannot be written by a key. Select "
            "the columns of GROUP BY (or of the table's PRIMARY KEY), or write the changes to jsonl: or parquet:"
        )
    else:
        key = plan.key
    if not plan.tells_before and not plan.is_ordered(key):
        raise SpecError(
            f"{_WHERE}: a row of a key may come before the one that it replaces has gone, and update_before=False does "
            "not tell that one; leave update_before=False out"
        )
    return key, plan.tells_before


def checkpoint_id(batch: DataFrame, checkpoint: str) -> str:
    """The id that Spark has given to a checkpoint, which no other has."""
    if is_local(checkpoint):
        text = (local(checkpoint) / "metadata").read_text(encoding="utf-8")
    else:
        text = batch.sparkSession.read.text(f"{checkpoint}/metadata").collect()[0][0]
    return str(json.loads(text)["id"])
