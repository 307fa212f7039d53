"""The tables of a checkpoint after one commit: its result, as sink `table` keeps it, and the rows of its operators.

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
_SECONDS = 5.0
"""So long the commit of a batch that the sink has is waited for."""
_PAUSE = 0.005


@dataclass(frozen=True)
class AskedTable:
    """A table of a snapshot: its name, and what it is, in words."""

    name: str
    about: str


class Snapshot:
    """The tables of a checkpoint after one of its commits, each read when it is first asked for.

    Raises CheckpointError where nothing is committed, or the sink has a batch that was never committed.
    """

    def __init__(self, checkpoint: str, *, trust: bool = False, spark: Any = None) -> None:
        require_checkpoint(checkpoint)
        self.checkpoint, self._trust, self._spark = checkpoint, trust, spark
        self._root = Path(checkpoint)
        # Reentrant, since reading a table opens the operators under the same lock.
        self._lock = threading.RLock()
        self._looks: dict[str, Look] | None = None
        self._tables: dict[str, pa.Table] = {}
        # The batch is fixed as soon as the snapshot is made, before any table is read.
        self.batch = self._open()

    @property
    def is_last(self) -> bool:
        """True while no later batch is committed."""
        return _last_commit(self._root) == self.batch

    def _open(self) -> int:
        """Read the result, and return the batch that it is of."""
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
        end = time.monotonic() + _SECONDS
        # The result of batch 0 may be there before any commit: 0 for `no commit` would be taken for it.
        while (_last_commit(self._root) or 0) < batch or _last_commit(self._root) is None:
            if time.monotonic() > end:
                raise CheckpointError(
                    f"{self.checkpoint}: the table has batch {batch}, which is not committed: the query was killed "
                    "between both. Run the query once more, so that the batch ends."
                )
            time.sleep(_PAUSE)

    def list_tables(self) -> list[AskedTable]:
        """The tables that there are, the result first."""
        tables = [AskedTable(RESULT, "the result")] if RESULT in self._tables else []
        return tables + [
            AskedTable(name, look.description.operator) for name, look in self._operators().items()
        ]

    def names(self) -> list[str]:
        """The names of the tables."""
        return [each.name for each in self.list_tables()]

    def names_in(self, sql: str) -> list[str]:
        """The names of the tables that a text has as a word; operators are looked at only if it has one of theirs."""
        # Words of the text are looked up and not its tables: too many is only slower, and comments do no harm.
        words = set(re.findall(r"\w+", sql.casefold()))
        names = [RESULT] if RESULT in self._tables and RESULT in words else []
        if any(word.startswith(_OPERATOR) for word in words):
            names += [name for name in self._operators() if name in words]
        return names

    def table(self, name: str, equalities: Equalities | None = None) -> pa.Table:
        """The rows of a table; equalities: columns that have one value each, so that other rows may be left out."""
        with self._lock:
            # A whole table is remembered, so later queries of this snapshot read no file.
            if name in self._tables:
                return self._tables[name]
            look = self._operators()[name]
            bucket = _bucket_of(look, equalities or {})
            files = [each for each in look.files if bucket is None or each.bucket == bucket]
            # An empty bucket has no file; any other bucket has the columns, and its rows fail the condition.
            rows = _contents(look, files or look.files[:1])
            # The rows of one bucket are not the table.
            if bucket is None:
                self._tables[name] = rows
            return rows

    def _operators(self) -> Mapping[str, Look]:
        """A look at each operator, by the name of its table."""
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
            # A query without state has a result alone.
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
    """The rows that an operator holds in some buckets."""
    parts = []
    for stored in look.checkpoint.buckets(look.stored.number, look.batch, files):
        fragment = Opened(stored, look.trust, look.part).rebuild()
        parts.append(fragment.operators[look.part].contents()[0])
    return with_own_names(pa.Table.from_batches(parts))


def with_own_names(table: pa.Table) -> pa.Table:
    """The table under names that are different, also to SQL, which does not distinguish cases."""
    counts: dict[str, int] = {}
    names = []
    for name in table.column_names:
        count = counts[name.casefold()] = counts.get(name.casefold(), 0) + 1
        names.append(name if count == 1 else f"{name}_{count}")
    return table.rename_columns(names)


def _bucket_of(look: Look, equalities: Equalities) -> int | None:
    """The one bucket in which rows with these values lie; None where it does not follow from them."""
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
        # A value of another type is compared by its rules (1 = 1.0), but has another hash.
        if not fits:
            return None
        try:
            arrays.append(pa.array([value], field.type))
        except (pa.ArrowException, OverflowError):
            return None
    row = pa.RecordBatch.from_arrays(arrays, names=spread)
    return bucket_of(row, look.description.buckets)


class LiveSnapshots:
    """Checkpoints by name, each opened anew after a commit."""

    def __init__(
        self, checkpoints: Mapping[str, str], trust: bool = False, spark: Any = None
    ) -> None:
        self._checkpoints, self._trust, self._spark = checkpoints, trust, spark
        self._lock = threading.Lock()
        self._opened: dict[str, Snapshot] = {}

    def current(self) -> dict[str, Snapshot]:
        """A snapshot of the last commit of each; raises CheckpointError and its kin."""
        return {name: self._open(name) for name in self._checkpoints}

    def _open(self, name: str) -> Snapshot:
        with self._lock:
            # One look at the commits shows whether all that was read before is still the newest.
            known = self._opened.get(name)
            if known is None or not known.is_last:
                self._opened[name] = Snapshot(
                    self._checkpoints[name], trust=self._trust, spark=self._spark
                )
            return self._opened[name]
