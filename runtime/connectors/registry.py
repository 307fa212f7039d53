"""The kinds of sinks that take options, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from aggloom.errors import SpecError, nearest
from aggloom.runtime.connectors.database.options import DatabaseOptions, database_options
from aggloom.runtime.connectors.delta.options import DeltaOptions, delta_options
from aggloom.runtime.connectors.iceberg.options import IcebergOptions, iceberg_options
from aggloom.runtime.connectors.kafka.options import KafkaOptions, kafka_options
from aggloom.runtime.connectors.printing.options import (
    BlackholeOptions,
    PrintOptions,
    blackhole_options,
    print_options,
)
from aggloom.runtime.connectors.printing.sink import BlackholeSink, PrintSink

if TYPE_CHECKING:
    from aggloom.runtime.values.changelog import Kinds

Options = (
    DatabaseOptions | DeltaOptions | IcebergOptions | KafkaOptions | PrintOptions | BlackholeOptions
)
SINKS: dict[str, type[Options]] = {
    each.kind: each
    for each in (
        *(DatabaseOptions, DeltaOptions, IcebergOptions, KafkaOptions),
        *(PrintOptions, BlackholeOptions),
    )
}
"""The options of each kind of sink."""
_READERS: dict[str, Callable[[Mapping[str, Any]], Options]] = {
    "database": database_options,
    "delta": delta_options,
    "iceberg": iceberg_options,
    "kafka": kafka_options,
    "print": print_options,
    "blackhole": blackhole_options,
}
PLAIN = ("console", "table", "jsonl", "parquet")
"""Sinks that Spark writes, or that take a path at most: jsonl:PATH."""
KNOWN = (
    *("console", "table", "jsonl:PATH", "parquet:PATH"),
    f"a mapping with a kind: {', '.join(SINKS)}",
)
"""The choices for a sink, as messages say them."""


class Sink(Protocol):
    """A place for the batches of a result."""

    def write(
        self, rows: pa.Table, kinds: Kinds, batch: int, checkpoint: str, before: int | None = None
    ) -> bool:
        """Write a batch; False if it was there.

        checkpoint: its id. before: the number of its batch before this one, if not the one that is less by one: a
        repartition takes a number and writes nothing.
        """


def made_sink(
    options: Options,
    key: Sequence[str] | None,
    has_old_rows: bool | None,
    added: Set[str] = frozenset(),
) -> tuple[Sink, str]:
    """The sink of options, and what to call it; key: the columns by which rows are distinguished.

    added: the columns that a table which was there before may get, since the result has gained them.
    """
    where = f"sink {options.kind}"
    if isinstance(options, PrintOptions):
        return PrintSink(options), where
    if isinstance(options, BlackholeOptions):
        return BlackholeSink(), where
    # A command imports the one sink that it writes to.
    if isinstance(options, KafkaOptions):
        from aggloom.runtime.connectors.kafka.sink import KafkaSink

        return KafkaSink(options, key, has_old_rows), where
    if isinstance(options, DeltaOptions):
        from aggloom.runtime.connectors.delta.sink import DeltaSink

        return DeltaSink(options, key, has_old_rows, added=added), where
    if isinstance(options, IcebergOptions):
        from aggloom.runtime.connectors.iceberg.sink import IcebergSink

        return IcebergSink(options, key, has_old_rows, added=added), where
    from aggloom.runtime.connectors.database.sink import DatabaseSink

    assert key is not None
    return DatabaseSink(options, key, has_old_rows, added), where


def destination(sink: str | Mapping[str, Any]) -> tuple[str, str, Any]:
    """The kind of a sink, its path, and its options, if it takes some; raises SpecError."""
    options = None
    if isinstance(sink, str) and sink in SINKS:
        # A kind alone: what it cannot do without is named by its own reader.
        sink = {"kind": sink}
    if isinstance(sink, Mapping):
        sink, options = sink_options(sink)
    kind, _, path = sink.partition(":")
    if kind not in PLAIN and options is None:
        close = nearest(kind, (*PLAIN, *SINKS))
        hint = f". {close} Known" if close.startswith("Did") else "; known"
        raise SpecError(f"unknown sink {sink!r}{hint} are {', '.join(KNOWN)}")
    if kind in ("jsonl", "parquet") and not path:
        raise SpecError(f"sink {sink!r}: write {kind}:PATH")
    return kind, path, options


def sink_options(entries: Mapping[str, Any]) -> tuple[str, Any]:
    """The kind of a sink, and its options; raises SpecError."""
    rest = {str(name): value for name, value in entries.items()}
    kind = rest.pop("kind", None)
    if kind in PLAIN:
        path = rest.pop("path", None)
        if rest:
            raise SpecError(f"sink {kind}: there is no option {next(iter(rest))!r}; known is path")
        return f"{kind}:{path}" if path else str(kind), None
    if kind not in SINKS:
        known = (*PLAIN, *SINKS)
        hint = nearest(str(kind), known) if kind else f"give its kind, one of {', '.join(known)}"
        raise SpecError(f"unknown sink {kind!r}. {hint}")
    return str(kind), _READERS[kind](rest)
