"""Tables with versions in time: one with a primary key, or the last rows by time of each key (a versioned view)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from aggloom.codegen.operators import Calc, Deduplicate, Node, Normalise, Scan
from aggloom.codegen.scalar.expressions import column_name


@dataclass(frozen=True)
class Versions:
    """The changes of which each is a version of its key's row, before anything has netted them.

    time: the column from which on a version holds; None if the changes do not say it.
    """

    rows: Node
    time: str | None = None


def versions_of(node: Node) -> Versions | str:
    """The versions of a node's rows, with its columns; or why it has none."""
    if isinstance(node, Calc):
        if node.where is not None:
            # A version that fails it would leave the one before it in force.
            return "its filter would hide when a version ends"
        below = versions_of(node.input)
        if isinstance(below, str):
            return below
        # By the column below; of one that is picked twice the first name.
        names = {column_name(sql): name for name, sql in reversed(node.select)}
        time = None if below.time is None else names.get(below.time)
        if below.time is not None and time is None:
            return f"the time of its versions, {below.time}, is not among its columns"
        return Versions(replace(node, input=below.rows), time)
    # Its changes come as they were written, each a version.
    if isinstance(node, Scan):
        return Versions(node)
    if isinstance(node, Normalise) and node.absent is not None:
        return "its rows leave columns out, and are made whole by what they are after a bundle"
    if isinstance(node, Normalise) and node.passes is None:
        # Upserts say when a version begins; made whole they would be netted by bundle.
        return versions_of(node.input)
    if isinstance(node, Deduplicate):
        return _of_last_rows(node)
    return f"{node.title[0]} tells of its rows what they are after a bundle, not since when"


def _of_last_rows(node: Deduplicate) -> Versions | str:
    if node.keep != "last" or node.order is None:
        return "it keeps the first row of a key, or the last to arrive; keep the last by a time"
    if not node.input.appends_only:
        return "its rows change"
    return Versions(node.input, node.order)


def time_of(versions: Versions) -> str | list[str]:
    """The column from which on versions hold; or the TIMESTAMP columns between which nothing decides."""
    schema = versions.rows.schema
    if versions.time is not None:
        return versions.time
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    return times[0] if len(times) == 1 else times
