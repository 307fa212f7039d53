"""A Delta table as a source: the current table, then the changes of each version.

The change data feed has the rows that a version retracted and inserted. A table without one can be read as long as its
versions only add rows.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from aggloom.errors import CheckpointError, InputFormatError, MissingFileError, SpecError
from aggloom.runtime.connectors.delta.options import DeltaSource, Start
from aggloom.runtime.connectors.delta.rows import feed_rows, file_rows, scanned_rows
from aggloom.runtime.connectors.delta.table import (
    BEGIN_ANEW,
    FEED,
    TIME,
    VERSION,
    DeltaPlace,
    delta_library,
    has_feed,
    is_plain,
    schema_of,
)
from aggloom.runtime.lakes.pieces import File, Offset, Piece, by_size
from aggloom.runtime.lakes.types import CHANGE, choose_columns, describe_difference, stored_schema
from aggloom.runtime.values.markers import check_markers

_METADATA = (pa.field(VERSION, pa.int64()), pa.field(TIME, pa.timestamp("us", "UTC")))


@dataclass(frozen=True)
class DeltaLake:
    """A Delta table as changes.

    schema: the columns of the rows: those of the table without `_change_type`, and perhaps `_commit_version` and
    `_commit_timestamp`. start: "snapshot" (the current table, then its versions), "latest" (new versions), a version,
    or the time of one. changelog: the table has a column `_change_type`.
    """

    place: DeltaPlace
    schema: pa.Schema
    start: Start = "snapshot"
    changelog: bool = False

    @classmethod
    def of(cls, source: DeltaSource, schema: pa.Schema | None = None) -> DeltaLake:
        """The lake of a table; schema: some of its columns, None: all. Raises SpecError."""
        place, metadata = DeltaPlace.of(source.path, source.storage), source.metadata
        source.check(place.where)
        start = source.parse_start(place.where)
        table = place.table()
        columns = schema_of(table, place.where)
        check_markers(columns.names, () if schema is None else schema.names, place.where)
        changelog = CHANGE in columns.names
        if changelog:
            columns = columns.remove(columns.get_field_index(CHANGE))
        if not is_plain(table) and not has_feed(table.metadata().configuration):
            features = ", ".join(table.protocol().reader_features or ["column mapping"])
            raise SpecError(
                f"{place.where}: it has {features} and no change data feed; set {FEED} = true"
            )
        for field in _METADATA:
            if field.name in columns.names and (metadata or schema is not None):
                raise SpecError(
                    f"{place.where}: it has a column {field.name!r} of its own; leave schema and metadata out"
                )
        known = pa.schema([*columns, *_METADATA])
        if schema is None:
            return cls(place, known if metadata else columns, start, changelog)
        extra = [f for f in _METADATA if metadata and f.name not in schema.names]
        chosen = choose_columns(known, pa.schema([*schema, *extra]), place.where)
        return cls(place, chosen, start, changelog)

    @property
    def columns(self) -> pa.Schema:
        """The columns of the schema that are the table's own."""
        return pa.schema([field for field in self.schema if not self._is_metadata(field)])

    def _is_metadata(self, field: pa.Field) -> bool:
        return field in _METADATA

    def first(self) -> Offset:
        """Return the offset at which reading begins."""
        table = self.place.table()
        base = {"table": str(table.metadata().id)}
        # A changelog is read by versions, which have its order, if its log still has all of them; otherwise the current
        # table has all its changes.
        if self.start == "snapshot" and not (self.changelog and self._has_all(table)):
            return {**base, "version": -1, "snapshot": True}
        if self.start == "snapshot":
            return {**base, "version": -1}
        if self.start == "latest":
            return {**base, "version": int(table.version())}
        version = self.start
        if isinstance(version, dt.datetime):
            version = self._version_at(table, version)
        assert isinstance(version, int)
        if version > table.version() + 1:
            raise SpecError(
                f"{self.place.where}: start is version {version}, and the last one is {table.version()}"
            )
        return {**base, "version": version - 1}

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Return the offset up to which it can be read; most: the number of versions, None: all."""
        table = self.place.table()
        last = int(table.version())
        self._check(table, start, last)
        # A table as it was at a version cannot be read in parts: half of its rows would be a state that never was.
        if start.get("snapshot") or most is None:
            return self._offset(start, last)
        return self._offset(start, min(last, start["version"] + most))

    def _offset(self, start: Offset, version: int) -> Offset:
        if start.get("snapshot") or version > start["version"]:
            return {"table": start["table"], "version": version}
        return start

    def _check(self, table: Any, start: Offset, last: int) -> None:
        # A table that was dropped and created again has the path of the old one, perhaps its versions, but another id.
        if str(table.metadata().id) != start["table"] or last < start["version"]:
            raise CheckpointError(
                f"{self.place.where}: it is not the table that the checkpoint has read (or an older copy): it was "
                "created again. Start with an empty checkpoint"
            )

    def pieces(self, start: Offset, end: Offset) -> Sequence[Piece]:
        """Return the pieces between two offsets, in the order in which they are applied."""
        if start == end:
            return ()
        if start.get("snapshot"):
            return self._whole(end["version"])
        listed: list[Piece] = []
        feed: bool | None = None
        table = self.place.table()
        plain, now = is_plain(table), schema_of(table, self.place.where).names
        # Version by version, and not as one range: a version may retract a row that the version before it inserted.
        for version in range(start["version"] + 1, end["version"] + 1):
            actions = self._commit(version)
            for metadata in (each["metaData"] for each in actions if "metaData" in each):
                self._check_schema(version, metadata["schemaString"], now)
                feed = has_feed(metadata.get("configuration") or {})
            pieces = _pieces(version, actions, plain)
            if any(piece.kind == "feed" or piece.retracts for piece in pieces):
                if feed is None:
                    feed = has_feed(self.place.table(version).metadata().configuration)
                if not feed:
                    infos = [each["commitInfo"] for each in actions if "commitInfo" in each]
                    operation = infos[0].get("operation") if infos else "a commit"
                    raise InputFormatError(
                        f"{self.place.where}: version {version} ({operation}) deletes or updates rows, and the table "
                        f"has no change data feed, so these are not known. Set {FEED} = true, and start with an empty "
                        "checkpoint"
                    )
            listed += pieces
        return listed

    def rows(self, piece: Piece) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The rows of a piece, and their kinds of change as words: string[rows]."""
        read_columns = self.columns
        if self.changelog:
            read_columns = read_columns.append(pa.field(CHANGE, pa.string()))
        read = {"feed": feed_rows, "scan": scanned_rows}.get(piece.kind, file_rows)
        for rows, words in read(self.place, piece, read_columns):
            if self.changelog:
                words = rows.column(len(self.columns))
                rows = rows.select(self.columns.names)
            has_metadata = len(self.columns) < len(self.schema)
            yield (self._with_metadata(rows, piece) if has_metadata else rows), words

    def _with_metadata(self, rows: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
        if piece.retracts and rows.num_rows:
            raise InputFormatError(
                f"{self.place.where}: version {piece.version} retracts rows, and the version and time with which they "
                "were added are lost: they would not cancel out. Remove metadata=True"
            )
        count = rows.num_rows
        values = {VERSION: piece.version, TIME: piece.time * 1000}
        columns = [
            (
                pa.repeat(pa.scalar(values[field.name], field.type), count)
                if self._is_metadata(field)
                else rows.column(field.name)
            )
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _whole(self, version: int) -> list[Piece]:
        """The pieces of the whole table at a version."""
        table = self.place.table(version)
        history = table.history(1)
        time = int(history[0].get("timestamp", 0)) if history else 0
        if not is_plain(table):
            return [Piece("scan", version, time)]
        adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        # The log has no order of files within a version. A batch that runs again has to read them in the same one.
        adds.sort(key=lambda each: (each["modification_time"], each["path"]))
        names = table.metadata().partition_columns
        values = [{n: _text(each[f"partition.{n}"]) for n in names} for each in adds]
        files = [File(unquote(e["path"]), v) for e, v in zip(adds, values, strict=True)]
        sizes = [each["size_bytes"] for each in adds]
        return by_size(Piece("files", version, time), list(zip(files, sizes, strict=True)))

    def _commit(self, version: int) -> list[dict[str, Any]]:
        """The actions of a commit."""
        name = f"_delta_log/{version:020d}.json"
        try:
            with self.place.open_file(name) as file:
                text = file.read().decode()
        except (FileNotFoundError, OSError) as error:
            raise MissingFileError(
                f"{self.place.where}: version {version} is not in its log any more. {BEGIN_ANEW}"
            ) from error
        return [json.loads(line) for line in text.split("\n") if line.strip()]

    def _has_all(self, table: Any) -> bool:
        """Tell whether the log still has every version."""
        return len(table.history()) == table.version() + 1

    def _check_schema(self, version: int, text: str, now: Sequence[str]) -> None:
        """Raise InputFormatError where a version lacks a column that is read, unless it was added later.

        text: the version's schema as JSON. now: the columns of the current table.
        """
        schema = delta_library(self.place.where).Schema.from_json(text)
        columns = stored_schema(pa.schema(schema.to_arrow()), self.place.where)
        for column in self.columns:
            difference = describe_difference(columns, column)
            if difference and (column.name in columns.names or column.name not in now):
                raise InputFormatError(
                    f"{self.place.where}: since version {version} column {column.name!r} {difference}. Start "
                    "again, with the columns that the table has and an empty checkpoint"
                )

    def _version_at(self, table: Any, moment: dt.datetime) -> int:
        """The first version that was committed at a time or after it."""
        instant = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        millis = int(instant.timestamp() * 1000)
        with self.place.translate_errors():
            later = [
                int(each["version"]) for each in table.history() if int(each["timestamp"]) >= millis
            ]
        if not later:
            raise SpecError(
                f"{self.place.where}: start is {moment.isoformat()}, since when there is no version"
            )
        return min(later)


def _pieces(version: int, actions: list[dict[str, Any]], plain: bool) -> list[Piece]:
    """Return the pieces of a commit: its retractions, then its insertions."""
    actions_by_kind: dict[str, list[Any]] = {"add": [], "remove": [], "cdc": [], "commitInfo": []}
    for action in actions:
        for kind, value in action.items():
            if kind in actions_by_kind and (
                # OPTIMIZE adds and removes files without a change of data: it moves rows between files.
                kind in ("cdc", "commitInfo")
                or value.get("dataChange", True)
            ):
                actions_by_kind[kind].append(value)
    adds, removes, cdc = (actions_by_kind[kind] for kind in ("add", "remove", "cdc"))
    info = actions_by_kind["commitInfo"][0] if actions_by_kind["commitInfo"] else {}
    time = int(info.get("inCommitTimestamp") or info.get("timestamp") or 0)
    # Some writers leave out the partition values of a removed file.
    has_values = cdc or all("partitionValues" in each for each in removes)
    if (adds or removes or cdc) and not (plain and has_values):
        feed = Piece("feed", version, time)
        # Retractions come first: an insertion of the same version may have their key.
        return [replace(feed, retracts=True), feed]
    if cdc:
        changes = Piece("changes", version, time)
        sized = _list_sizes(cdc)
        return [*by_size(replace(changes, retracts=True), sized), *by_size(changes, sized)]
    files = Piece("files", version, time)
    gone = by_size(replace(files, retracts=True), _list_sizes(removes))
    return [*gone, *by_size(files, _list_sizes(adds))]


def _list_sizes(actions: list[dict[str, Any]]) -> list[tuple[File, int]]:
    """The files of some actions, and their sizes in bytes."""
    return [
        (File(unquote(each["path"]), each.get("partitionValues") or {}), int(each.get("size") or 0))
        for each in actions
    ]


def _text(value: Any) -> str | None:
    """The value of a partition as Delta's log has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    return None if value is None else str(value)
