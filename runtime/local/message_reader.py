"""Messages as rows of a table: lines of files, or those of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.codegen import ABSENT, without_absent
from aggloom.codegen.planner import Scan
from aggloom.errors import SpecError
from aggloom.runtime.formats.base import Format, Message
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.partitions import add_partitions, split_columns
from aggloom.runtime.formats.registry import MESSAGES
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import parse_kinds

Read = tuple[pa.RecordBatch, Array, list[tuple[Message, str]], int]
"""Rows, their kinds, messages that are refused, and how many messages are no rows."""


class MessageReader:
    """Reads the messages of a table.

    options: those of the format. source: where messages are from, for errors. directories: names of columns that
    directories may give; `given`: those that they do. Raises SpecError.
    """

    def __init__(
        self,
        format: str,
        scan: Scan,
        options: Mapping[str, Any],
        source: str,
        directories: Sequence[str] = (),
    ) -> None:
        kind, options = MESSAGES[format], dict(options)
        if kind.needs_keys and scan.changes != "upsert":
            raise SpecError(
                f"table {scan.table}: {format} sends upserts; make the harness with input_changes='upsert' and keys="
            )
        lacks_before = ChangeWords.of(options, format).lacks_before
        by_key = scan.changes == "upsert" and (kind.takes_keys or lacks_before)
        # A harness knows schema and keys from its query; as options they could contradict it.
        for name in ("schema", "keys", "source", "side", "beside"):
            if name in options:
                raise SpecError(
                    f"{format} has no option {name!r} in a harness, whose table says it"
                )
        rows = _find_columns(kind, scan, options)
        schema, self.directory_columns = split_columns(list(directories), rows, source)
        keys = scan.key if by_key else None
        self._decoder = decoder(format, schema, keys, source=source, **options)
        # There is no side table in memory, so the messages are collected in a list.
        if self._decoder.unreadable == "side":
            raise SpecError(
                'a harness keeps unreadable messages itself: unreadable="drop", then `.unreadable`'
            )
        self._scan, self._source = scan, source

    @property
    def topic_facts(self) -> frozenset[str]:
        """The facts that topics say of messages which the columns need, by Flink's words."""
        return self._decoder.topic_facts

    def read(
        self,
        messages: Sequence[Message],
        values: Mapping[str, str | None] | None = None,
        file: Path | None = None,
    ) -> Read:
        """The rows of messages. values: of the columns that directories give, to a file."""
        schema = self._scan.schema
        decoded = self._decoder.decode(messages)
        table = pa.table(decoded.columns, schema=self._decoder.columns)
        if self.directory_columns and values is not None and file is not None:
            table = add_partitions(table, values, schema, file)
        # The column is one of the declared schema, and a format without partial images fills it with NULL.
        if ABSENT in schema.names and ABSENT not in table.column_names:
            table = table.append_column(ABSENT, pa.nulls(table.num_rows, pa.string()))
        # One chunk for each column, as a batch cannot have several.
        columns = [column.combine_chunks() for column in table.select(schema.names).columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        notices = int(decoded.notices.sum())
        return batch, parse_kinds(decoded.words, self._source), decoded.refused, notices


def _find_columns(kind: type[Format], scan: Scan, options: dict[str, Any]) -> pa.Schema:
    """The columns that messages tell; which ones a row leaves out is what reading them as partial images says."""
    if "images" not in kind.options:
        return scan.schema
    # The user declared the column, and this one option gives it a meaning: it need not be said twice.
    if ABSENT in scan.schema.names and scan.changes == "upsert":
        options.setdefault("images", "partial")
        return without_absent(scan.schema)
    if options.get("images") == "partial":
        raise SpecError(
            f'table {scan.table}: images="partial" needs what remembers rows by key; make the harness with '
            f"input_changes='upsert', the key, and a last column {ABSENT} STRING"
        )
    return scan.schema
