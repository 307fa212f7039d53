"""An Iceberg table as a source: the current table, then the changes of each snapshot, by its data files.

A snapshot that rewrites files retracts the rows of the old ones and inserts those of the new ones; rows of both cancel
out. A table with delete files is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from aggloom.errors import CheckpointError, InputFormatError, MissingFileError, SpecError
from aggloom.runtime.connectors.iceberg.options import IcebergSource
from aggloom.runtime.connectors.iceberg.table import IcebergPlace, ancestors_of, iceberg_columns
from aggloom.runtime.lakes.pieces import File, Offset, Piece, by_size
from aggloom.runtime.lakes.types import CHANGE, choose_columns, describe_difference
from aggloom.runtime.values.batches import make_batch
from aggloom.runtime.values.markers import check_markers


@dataclass(frozen=True)
class IcebergLake:
    """An Iceberg table as changes.

    schema: the columns of the rows, without `_change_type`. start: "snapshot" (the current table, then its snapshots),
    "latest" (new snapshots), or the id of a snapshot, after which reading begins. changelog: the table has a column
    `_change_type`.
    """

    place: IcebergPlace
    schema: pa.Schema
    start: str | int = "snapshot"
    changelog: bool = False

    @classmethod
    def of(cls, source: IcebergSource, schema: pa.Schema | None = None) -> IcebergLake:
        """The lake of a table; schema: some of its columns, None: all. Raises SpecError."""
        place = IcebergPlace.of(source)
        source.check(place.where)
        start = source.parse_start(place.where)
        table = place.open_table()
        if table.format_version < 2:
            raise SpecError(
                f"{place.where}: it is of format version 1, whose snapshots have no numbers; make it one of version 2"
            )
        columns = iceberg_columns(table, place.where)
        check_markers(columns.names, () if schema is None else schema.names, place.where)
        changelog = CHANGE in columns.names
        if changelog:
            columns = columns.remove(columns.get_field_index(CHANGE))
        read_columns = columns if schema is None else choose_columns(columns, schema, place.where)
        return cls(place, read_columns, start, changelog)

    def first(self) -> Offset:
        """Return the offset at which reading begins."""
        table = self.place.open_table()
        base = {"table": str(table.metadata.table_uuid)}
        if self.start == "snapshot":
            # A changelog is read by snapshots, which have its order, if all of them still exist.
            by_snapshots = self.changelog and _has_all(table)
            return {**base, "version": -1, **({} if by_snapshots else {"snapshot": True})}
        current = table.current_snapshot()
        if self.start == "latest":
            return {**base, "version": -1} if current is None else {**base, **_position(current)}
        first = next((each for each in _lineage(table) if each.snapshot_id == self.start), None)
        if first is None:
            raise SpecError(
                f"{self.place.where}: start is {self.start}, which is no snapshot of it"
            )
        return {**base, **_position(first)}

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Return the offset up to which it can be read; most: the number of snapshots, None: all."""
        table = self.place.open_table()
        lineage = _lineage(table)
        # A rolled-back table continues with the same numbers for other snapshots: number and id have to agree.
        known = start["version"] < 0 or any(
            _position(each).items() <= start.items() for each in lineage
        )
        # Not an error yet: `pieces` raises one if a batch needs an expired snapshot.
        expired = bool(lineage) and start["version"] < lineage[0].sequence_number
        if str(table.metadata.table_uuid) != start["table"] or not (known or expired):
            raise CheckpointError(
                f"{self.place.where}: it has not what the checkpoint has read: it was created again, or rolled back. "
                "Start with an empty checkpoint"
            )
        # By sequence number: ids of snapshots are random, and their times may be equal.
        later = [each for each in lineage if each.sequence_number > start["version"]]
        if not later:
            return start
        at_most = len(later) if most is None or start.get("snapshot") else most
        return {"table": start["table"], **_position(later[:at_most][-1])}

    def pieces(self, start: Offset, end: Offset) -> Sequence[Piece]:
        """Return the pieces between two offsets, in the order in which they are applied."""
        if start == end:
            return ()
        table = self.place.open_table()
        lineage = _lineage(table)
        if start.get("snapshot"):
            last = [each for each in lineage if each.snapshot_id == end["id"]]
            if not last:
                raise self._missing_error(end["version"])
            return self._whole(table, last[0])
        first = start["version"] + 1
        snapshots = [each for each in lineage if first <= each.sequence_number <= end["version"]]
        # After an expiry the first remaining snapshot may have no parent.
        is_whole = (
            bool(snapshots)
            and snapshots[0].parent_snapshot_id == start.get("id")
            and snapshots[-1].snapshot_id == end["id"]
            and (first > 0 or _is_first(snapshots[0]))
        )
        if not is_whole:
            raise self._missing_error(first)
        self._check_schema(table)
        return [piece for each in snapshots for piece in self._pieces(table, each)]

    def rows(self, piece: Piece) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The rows of a piece, and their kinds of change as words: string[rows]."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.table import FileScanTask

        table = self.place.open_table()
        names = [*self.schema.names, *([CHANGE] if self.changelog else [])]
        read_fields = table.schema().select(*names)
        scan = ArrowScan(table.metadata, table.io, read_fields, AlwaysTrue())
        paths = {file.path for file in piece.files}
        with self.place.translate_errors(piece.version):
            snapshot = table.snapshot_by_id(piece.version)
            if snapshot is None:
                raise self._missing_error(piece.version)
            files_by_path = {
                f.file_path: f for _, f in self._files(table, snapshot) if f.file_path in paths
            }
            for file in piece.files:
                for batch in scan.to_record_batches([FileScanTask(files_by_path[file.path])]):
                    yield self._to_changes(batch, piece)

    def _to_changes(self, batch: pa.RecordBatch, piece: Piece) -> tuple[pa.RecordBatch, pa.Array]:
        columns = [batch.column(name) for name in self.schema.names]
        if self.changelog:
            words = batch.column(CHANGE).cast(pa.string())
        else:
            words = pa.repeat(pa.scalar("delete" if piece.retracts else "insert"), batch.num_rows)
        return make_batch(columns, self.schema, batch.num_rows), words

    def _pieces(self, table: Any, snapshot: Any) -> list[Piece]:
        """Return the pieces of a snapshot: its retractions, then its insertions."""
        operation = snapshot.summary.operation.value if snapshot.summary else "append"
        if operation == "replace":
            # The same rows in other files, as after compaction.
            return []
        gone, added = list[tuple[File, int]](), list[tuple[File, int]]()
        for is_added, file in self._files(table, snapshot, own=True):
            listed = added if is_added else gone
            listed.append((File(file.file_path, {}), file.file_size_in_bytes))
        # Removed rows of a changelog are no retractions: their changes have been applied.
        if gone and self.changelog:
            raise InputFormatError(
                f"{self.place.where}: snapshot {snapshot.snapshot_id} ({operation}) takes rows out of a changelog"
            )
        files = Piece("files", snapshot.snapshot_id, snapshot.timestamp_ms)
        return [*by_size(replace(files, retracts=True), gone), *by_size(files, added)]

    def _whole(self, table: Any, snapshot: Any) -> list[Piece]:
        """The pieces of the whole table at a snapshot."""
        self._check_schema(table)
        sized = [
            (File(file.file_path, {}), file.file_size_in_bytes)
            for is_added, file in self._files(table, snapshot)
            if is_added
        ]
        return by_size(Piece("files", snapshot.snapshot_id, snapshot.timestamp_ms), sized)

    def _files(self, table: Any, snapshot: Any, own: bool = False) -> Iterator[tuple[bool, Any]]:
        """Yield (is not deleted, data file) of a snapshot; own: only the files that it added or deleted itself."""
        from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

        with self.place.translate_errors(snapshot.snapshot_id):
            for manifest in snapshot.manifests(table.io):
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                    is_own = entry.snapshot_id == snapshot.snapshot_id
                    is_gone = entry.status == ManifestEntryStatus.DELETED
                    # A rewritten manifest lists entries of older snapshots again.
                    if own and (not is_own or entry.status == ManifestEntryStatus.EXISTING):
                        continue
                    if entry.data_file.content != DataFileContent.DATA:
                        if is_gone and not own:
                            continue
                        raise InputFormatError(
                            f"{self.place.where}: snapshot {snapshot.snapshot_id} has delete files, which cannot be "
                            "read as changes. Write the table with 'write.delete.mode' = 'copy-on-write', and so for "
                            "update and merge"
                        )
                    if own or is_own or not is_gone:
                        yield not is_gone, entry.data_file

    def _check_schema(self, table: Any) -> None:
        """Raise InputFormatError where the table no longer has the columns that are read."""
        columns = iceberg_columns(table, self.place.where)
        for field in self.schema:
            if difference := describe_difference(columns, field):
                raise InputFormatError(
                    f"{self.place.where}: column {field.name!r} {difference}. Start again, with the columns that the "
                    "table has and an empty checkpoint"
                )

    def _missing_error(self, version: int) -> MissingFileError:
        return MissingFileError(
            f"{self.place.where}: the snapshots after version {version} were expired before they were read. Start with "
            "an empty checkpoint, which begins with the current table, and keep snapshots for longer than a query "
            "may be stopped"
        )


def _lineage(table: Any) -> list[Any]:
    """The current snapshot and its ancestors that have not expired, the oldest first."""
    return list(ancestors_of(table))[::-1]


def _position(snapshot: Any) -> Offset:
    """Return the position of a snapshot: its sequence number, which orders snapshots, and its id."""
    return {"version": int(snapshot.sequence_number), "id": int(snapshot.snapshot_id)}


def _is_first(snapshot: Any) -> bool:
    return snapshot.parent_snapshot_id is None and snapshot.sequence_number <= 1


def _has_all(table: Any) -> bool:
    """Tell whether no snapshot has expired, from the first one on."""
    lineage = _lineage(table)
    return not lineage or _is_first(lineage[0])
