"""The tables of a checkpoint after one commit: its result, from sink `table`, and the rows of its operators.

The query may run meanwhile. The sink is written before the commit. So if the table is one batch ahead, the reader waits
for the commit, and reads the operators at the batch of the table.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.errors import CheckpointError
from aggloom.runtime.asking.point_lookup import Equalities
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, expand_rows, read_stored_table
from aggloom.runtime.hosting.checkpoint_paths import batches, require_checkpoint
from aggloom.runtime.inspection.checkpoint import open_state
from aggloom.runtime.inspection.keys import bucket_of
from aggloom.runtime.inspection.look import Look, Opened, StatefulNode

RESULT = "result"
_OPERATOR = "operator_"
_COMMIT_SECONDS = 5.0
"""The longest wait for the commit of the sink's batch."""
_PAUSE = 0.005


@dataclass(frozen=True)
class SnapshotTable:
    """A table of a snapshot; description: for people, such as the operator."""

    name: str
    description: str


class Snapshot:
    """The tables of a checkpoint after one of its commits, each read at its first use.

    Raises CheckpointError if nothing is committed, or the sink has a batch that was never committed.
    """

    def __init__(self, checkpoint: str, *, trust: bool = False, spark: Any = None) -> None:
        require_checkpoint(checkpoint)
        self.checkpoint, self._trust, self._spark = checkpoint, trust, spark
        self._root = Path(checkpoint)
        # Reentrant, since reading a table opens the operators under the same lock.
        self._lock = threading.RLock()
        self._looks: dict[str, Look] | None = None
        self._tables: dict[str, pa.Table] = {}
        # The batch is fixed here, before any table is read.
        self.batch = self._open()

    @property
    def is_last(self) -> bool:
        """True while no later batch is committed."""
        return _last_commit(self._root) == self.batch

    def _open(self) -> int:
        """Read the result, and return its batch."""
        last = _last_commit(self._root)
        if last is None:
            raise CheckpointError(
                f"{self.checkpoint}: no batch is committed yet, so that there is nothing to ask."
            )
        # A query whose sink is no table has operators only.
        if not (self._root / TABLE_FILE).exists():
            return last
        stored, batch = read_stored_table(self._root / TABLE_FILE)
        # The sink writes before the engine commits, so its batch may be one ahead of the last commit.
        self._await_commit(batch)
        self._tables[RESULT] = expand_rows(stored)
        return batch

    def _await_commit(self, batch: int) -> None:
        end = time.monotonic() + _COMMIT_SECONDS
        # No commit is not batch 0, whose result may exist before its commit.
        while (last := _last_commit(self._root)) is None or last < batch:
            if time.monotonic() > end:
                raise CheckpointError(
                    f"{self.checkpoint}: the table has batch {batch}, which is not committed: the query was killed "
                    "between both. Run the query once more, so that the batch ends."
                )
            time.sleep(_PAUSE)

    def list_tables(self) -> list[SnapshotTable]:
        """The tables, the result first."""
        tables = [SnapshotTable(RESULT, "the result")] if RESULT in self._tables else []
        operators = self._operators().items()
        return [*tables, *(SnapshotTable(n, look.description.operator) for n, look in operators)]

    def names(self) -> list[str]:
        """The names of the tables."""
        return [each.name for each in self.list_tables()]

    def names_in(self, sql: str) -> list[str]:
        """The names of the tables that are words of a text; operators are opened only if it has one of their names."""
        # Words and not parsed tables: too many is only slower, and comments do no harm.
        words = set(re.findall(r"\w+", sql.casefold()))
        names = [RESULT] if RESULT in self._tables and RESULT in words else []
        if any(word.startswith(_OPERATOR) for word in words):
            names += [name for name in self._operators() if name in words]
        return names

    def table(self, name: str, equalities: Equalities | None = None) -> pa.Table:
        """The rows of a table; equalities: value by column, so that rows with other values may be left out."""
        with self._lock:
            # A whole table is cached, so later queries of this snapshot read no file.
            if name in self._tables:
                return self._tables[name]
            look = self._operators()[name]
            bucket = _bucket_of(look, equalities or {})
            files = [each for each in look.files if bucket is None or each.bucket == bucket]
            # An empty bucket has no file; any other bucket has the columns, and its rows do not match.
            rows = _contents(look, files or look.files[:1])
            # The rows of one bucket are not the table.
            if bucket is None:
                self._tables[name] = rows
            return rows

    def _operators(self) -> Mapping[str, Look]:
        """The Look of each operator, by the name of its table."""
        with self._lock:
            if self._looks is None:
                self._looks = {
                    f"{_OPERATOR}{look.number.replace('.', '_')}": look
                    for look in self._open_looks()
                }
            return self._looks

    def _open_looks(self) -> list[Look]:
        reader = open_state(self.checkpoint, self._spark)
        try:
            operators = reader.operators()
        except CheckpointError:
            # A query without state has only a result.
            return []
        return [
            look
            for each in operators
            for look in StatefulNode(reader, each, self.batch, self._trust).looks
        ]


def _last_commit(root: Path) -> int | None:
    """The number of the last committed batch; None before the first."""
    return max(batches(root / "commits"), default=None)


def _contents(look: Look, files: list[Any]) -> pa.Table:
    """The rows of an operator's state in some buckets."""
    parts = []
    for stored in look.checkpoint.buckets(look.stored.number, look.batch, files):
        fragment = Opened(stored, look.trust, look.part).rebuild()
        parts.append(fragment.operators[look.part].contents()[0])
    return with_own_names(pa.Table.from_batches(parts))


def with_own_names(table: pa.Table) -> pa.Table:
    """The table with unique column names, also for SQL, which does not distinguish cases."""
    counts: dict[str, int] = {}
    names = []
    for name in table.column_names:
        count = counts[name.casefold()] = counts.get(name.casefold(), 0) + 1
        names.append(name if count == 1 else f"{name}_{count}")
    return table.rename_columns(names)


def _bucket_of(look: Look, equalities: Equalities) -> int | None:
    """The bucket of all rows with these values; None if it does not follow from them."""
    spread = list(look.description.spread)
    fields = {field.name: field for field in look.description.key_fields}
    values = {name.casefold(): value for name, value in equalities.items()}
    # The bucket is a hash of all these columns; with one unknown the rows may lie in any.
    if not spread or any(name.casefold() not in values for name in spread):
        return None
    arrays = []
    for name in spread:
        field, value = fields[name], values[name.casefold()]
        fits = (
            pa.types.is_string(field.type)
            if isinstance(value, str)
            else pa.types.is_integer(field.type)
        )
        # A value of another type may be equal (1 = 1.0), but has another hash.
        if not fits:
            return None
        try:
            arrays.append(pa.array([value], field.type))
        except (pa.ArrowException, OverflowError):
            return None
    row = pa.RecordBatch.from_arrays(arrays, names=spread)
    return bucket_of(row, look.description.buckets)


class LiveSnapshots:
    """Checkpoints by name, of which each is opened anew after a commit."""

    def __init__(
        self, checkpoints: Mapping[str, str], trust: bool = False, spark: Any = None
    ) -> None:
        self._checkpoints, self._trust, self._spark = checkpoints, trust, spark
        self._lock = threading.Lock()
        self._opened: dict[str, Snapshot] = {}

    def current(self) -> dict[str, Snapshot]:
        """A snapshot of the last commit of each; raises CheckpointError and its subclasses."""
        return {name: self._open(name) for name in self._checkpoints}

    def _open(self, name: str) -> Snapshot:
        with self._lock:
            # Listing the commits shows whether the open snapshot is still the newest.
            snapshot = self._opened.get(name)
            if snapshot is None or not snapshot.is_last:
                self._opened[name] = Snapshot(
                    self._checkpoints[name], trust=self._trust, spark=self._spark
                )
            return self._opened[name]
