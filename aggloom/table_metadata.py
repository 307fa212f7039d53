"""Columns of a job's table that no row has, each with its source: facts of files, of topics, of envelopes, of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from aggloom.codegen import to_schema
from aggloom.errors import SpecError
from aggloom.runtime.connectors.files.file_facts import FILE_FACTS, check_file_facts, split_sources
from aggloom.runtime.formats.message_columns import TOPIC_FACTS, is_stable, message_columns
from aggloom.runtime.formats.registry import MESSAGES

if TYPE_CHECKING:
    from aggloom.codegen.planner import Plan

_REMEMBER: Final = (
    "declare its PRIMARY KEY (keys=) and changes=upsert, so that the row that a change replaces is remembered, "
    "changes=append where rows are only added, or leave the column out of the query"
)


def take_metadata(entries: dict[str, Any], where: str) -> dict[str, str]:
    """Take the sources of columns that no row has out of a table's entries; raises SpecError."""
    words_by_column = entries.pop("metadata", None) or {}
    if not isinstance(words_by_column, Mapping) or not all(
        isinstance(each, str) for each in words_by_column.values()
    ):
        raise SpecError(
            f"{where}: metadata is {words_by_column!r}; it is a mapping of columns to sources, as in {{ts: timestamp}}"
        )
    return {str(name): source for name, source in words_by_column.items()}


def check_sources(
    metadata: Mapping[str, str], is_topic: bool, schema: str | None, format: str, where: str
) -> None:
    """Raise SpecError and its kin for a column whose source is none of the table's, or has other values."""
    if not metadata:
        return
    if schema is None:
        raise SpecError(f"{where}: metadata names columns of the schema; give schema=")
    columns = to_schema(schema, is_cut=True)
    # A topic has no files, so that `path` there is looked for among the facts of a message, and refused with their
    # list.
    of_files, others = ({}, dict(metadata)) if is_topic else split_sources(metadata)
    check_file_facts(of_files, columns, where)
    for name, source in others.items():
        if not is_topic and (format not in MESSAGES or source in TOPIC_FACTS):
            raise SpecError(
                f"{where}: column {name!r} is METADATA {source!r}, which files do not say; they say "
                f"{', '.join(FILE_FACTS)}"
            )
    if others:
        message_columns(others, columns, format, where)


def refuse_files(name: str, metadata: Mapping[str, str]) -> None:
    """Raise SpecError where Spark would have to read facts of files. name: of the table."""
    for column, source in metadata.items():
        raise SpecError(
            f"table {name}: column {column!r} is METADATA {source!r} of files, which the local engine reads; run with "
            "--engine local, or leave the column out"
        )


def check_metadata(metadata: Mapping[str, Mapping[str, str]], plan: Plan) -> None:
    """Raise SpecError where a query reads what differs from change to change of one row.

    The change that retracts a row would have another value than the one that inserted it. metadata: the sources of
    columns by table.
    """
    from aggloom.runtime.engine.scan_columns import scan_columns

    for table, sources in metadata.items():
        scan = plan.scans.get(table)
        if scan is None or not sources or scan.changes != "retract":
            continue
        for name in scan_columns(plan, table):
            source = sources.get(name)
            if source is not None and not is_stable(source):
                raise SpecError(
                    f"table {table}: column {name!r} is METADATA {source!r}, which differs from change to change of a "
                    f"row, so that a deletion would not match its row; {_REMEMBER}"
                )
