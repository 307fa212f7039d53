"""The checks before a query starts from a checkpoint: the directory, its records, its query, the input files.

All of it is said before Spark begins, so that a start without new rows says it too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame

from aggloom.codegen.planner import Plan
from aggloom.errors import StateMismatchError
from aggloom.runtime.connectors.files.source_log import (
    FileSourceNote,
    check_batch_names,
    check_files,
    check_names,
    check_order,
    find_by_name,
    ignores_missing,
    read_files,
    warn_changed,
    warn_renamed,
)
from aggloom.runtime.connectors.kafka.topics import check_topics
from aggloom.runtime.hosting import query_record
from aggloom.runtime.hosting.added_columns import (
    describe_query,
    list_gained_columns,
    read_begun_query,
    resolve_added_columns,
)
from aggloom.runtime.hosting.checkpoint_paths import is_local, local, refuse_unfinished
from aggloom.runtime.hosting.evolution import compare_operators
from aggloom.runtime.hosting.factory import FragmentFactory
from aggloom.runtime.hosting.query_record import Query, buckets_of
from aggloom.runtime.spark.checkpoint import check_directory, check_records, copied_from
from aggloom.runtime.spark.moving.begin import begin_handed_over
from aggloom.runtime.spark.moving.source_lines import note_lines
from aggloom.runtime.spark.plan.lower import SparkLowering, find_lowering
from aggloom.runtime.spark.plan.timers import check_timers
from aggloom.runtime.spark.sessions.cluster import check_shared
from aggloom.runtime.spark.watch.repartition import note_repartitions

_log = logging.getLogger("aggloom")


def resume_changelog(df: DataFrame, checkpoint: str | Path) -> DataFrame:
    """Return the changelog that continues from a checkpoint, in which its tables may have fewer columns."""
    query = find_lowering(df)
    if query is None or not is_local(checkpoint):
        return df
    old = query_record.read_committed_query(checkpoint)
    buckets = query_record.known_buckets(checkpoint) if old else None
    settings = replace(query.settings, buckets=buckets or query.settings.buckets)

    def describe_nodes(plan: Plan) -> dict[int, FragmentFactory]:
        lowering = SparkLowering(plan, query.tables, query.handler_of, settings)
        lowering.result()
        return dict(enumerate(lowering.factories))

    begun = read_begun_query(checkpoint, "offsets") if old else None
    resumed = resolve_added_columns(old, query.plan, query.zone, describe_nodes, begun)
    changes = resumed.added is not None or resumed.plan is not query.plan
    return query.lower_again(resumed=resumed) if changes else df


def prepare_start(df: DataFrame, checkpoint: str | Path) -> DataFrame:
    """Check that a changelog can start from a checkpoint, note its query there, and return what has to be started.

    If aggregate calls have changed, the first batch calls every bucket, so that the state of all is carried over at
    once. The query of a DataFrame that does not come directly from `sql` and its kin is unknown until its first batch.

    Raises StateError and its kin, MissingFileError and FileOrderError.
    """
    _check_checkpoint(df, checkpoint)
    read = read_files(checkpoint)
    warn_changed(checkpoint, read)
    batch = query_record.next_batch(checkpoint)
    query = find_lowering(df)
    if query is None:
        check_files(checkpoint, batch, ignores_missing(df))
        query_record.write(checkpoint, None)
        return df
    old = query_record.read_committed_query(checkpoint)
    known = buckets_of(old) if old else None
    if known and query.settings.buckets is None and known != buckets_of(query.about()):
        df = query.lower_again(buckets=known)
        query = find_lowering(df)
        assert query is not None
    new = query.about()
    lines = _describe_changes(old, query, new) if old else []
    _check_begun(checkpoint, batch, query)
    if old:
        fragments = [each.fragment for each in query.factories]
        check_timers(checkpoint, fragments, query.plan.awaits_watermark)
    check_files(checkpoint, batch, ignores_missing(df))
    _check_file_names(query, read)
    query_record.write(checkpoint, new)
    note_lines(checkpoint, df, query)
    check_topics(checkpoint, [table.df for table in query.tables.values()])
    if batch and query.still:
        names = ", ".join(query.still)
        _log.warning(
            "%s: no stream, so read with the first batch and not again: %s", checkpoint, names
        )
    for line in lines:
        _log.warning("%s: %s", checkpoint, line)
    return query.lower_again(carries=batch) if lines else df


def _check_checkpoint(df: DataFrame, checkpoint: str | Path) -> None:
    """Raise StateError and its kin unless a query can start from the directory and its records."""
    check_shared(df.sparkSession, "checkpoint", checkpoint)
    if is_local(checkpoint):
        refuse_unfinished(local(checkpoint))
    check_directory(checkpoint)
    # Before records are checked, which this makes where a checkpoint was moved from the local engine.
    begin_handed_over(df, find_lowering(df), checkpoint)
    check_records(checkpoint)
    note_repartitions(checkpoint)
    original = copied_from(checkpoint)
    if original is not None:
        _log.warning(
            "%s: a copy of the checkpoint at %s, of which Spark reads files whose whole paths are in it: keep that one "
            "while this one runs, or put the copy back in its place.",
            *(checkpoint, original),
        )


def _check_begun(checkpoint: str | Path, batch: int, query: SparkLowering) -> None:
    """Raise StateMismatchError where a batch was begun without the columns that a query carries."""
    if query.added is not None and query.added.is_begun:
        raise StateMismatchError(
            f"{checkpoint}: batch {batch} was begun and not committed, and its sink may have it without the columns "
            "that the tables have gained. Let it end with added_columns='ignore' once, then start with 'carry'."
        )


def _check_file_names(query: SparkLowering, read: Mapping[str, int]) -> None:
    """Raise FileOrderError where new files are not behind those that were read; warn of renamed ones."""
    for name in sorted(query.orderly):
        check_order(name, query.tables[name].df, read)
    for name, source in ordered_by_name(query).items():
        check_names({name: source}, source.files().difference(read), read)
    for name, table in query.tables.items():
        warn_renamed(name, table.df, read)


def ordered_by_name(query: SparkLowering | None) -> dict[str, FileSourceNote]:
    """The sources of a query whose result depends on their order, which is that of names."""
    if query is None:
        return {}
    return find_by_name({name: query.tables[name].df for name in sorted(query.orderly)})


@dataclass(frozen=True)
class WithFiles:
    """A function for foreachBatch that is called only while all files that the batch has are there.

    sources: those whose files are ordered by name, over batches too.
    """

    checkpoint: str | Path
    sink: Callable[[DataFrame, int], None]
    sources: Mapping[str, FileSourceNote]

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Raise MissingFileError or FileOrderError, or hand the batch on."""
        check_files(self.checkpoint, batch_id, ignores_missing(batch))
        check_batch_names(self.checkpoint, batch_id, self.sources)
        self.sink(batch, batch_id)


def _describe_changes(old: Query, query: SparkLowering, new: Query) -> list[str]:
    """Return lines on the columns and calls that have changed; raises StateMismatchError where anything else has."""
    added, factories = query.added, query.factories
    if added is not None:
        # The earlier query is compared, so that the message names its changes other than the new columns.
        new = describe_query(added.former, added.factories, query.zone)
        factories = [each for _, each in sorted(added.factories.items())]
    changed = compare_operators(old, new, factories, query.plan.options.added_calls)
    return [*list_gained_columns(added)] + [
        f"the calls of the query have changed: {calls}. All {buckets} buckets follow in the next batch; without new "
        "rows there is none, and results stay those of the query before"
        for calls, buckets in changed
    ]
