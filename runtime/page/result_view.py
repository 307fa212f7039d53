"""The rows of a result as a page shows them: the first ones with a text in a column."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import CheckpointError
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, expand_rows, read_stored_table
from aggloom.runtime.page.formatting import value

SHOWN = 100
"""The number of rows on a page."""

_CACHE_BYTES = 256 << 20
_PART_ROWS = 1 << 17
_THREADS = 4
_SEPARATOR = "\x00"


@dataclass(frozen=True)
class ResultView:
    """Rows of a result; words: their number and batch. columns: (name, CSS class)."""

    words: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class _Loaded:
    """A table and its batch; texts: string[_PART_ROWS] each, a row of the table in lower case; none until a search."""

    table: pa.Table
    batch: int
    texts: list[pa.Array]

    @property
    def nbytes(self) -> int:
        """The bytes that it occupies in memory."""
        return self.table.nbytes + sum(each.nbytes for each in self.texts)


class Results:
    """The results of checkpoints, with a cache of the newest ones of at most `cache_bytes`."""

    def __init__(self, cache_bytes: int = _CACHE_BYTES) -> None:
        self._cache_bytes = cache_bytes
        self._loaded: OrderedDict[tuple[Path, int, int, int], _Loaded] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, root: Path, find: str = "") -> ResultView:
        """The first rows of sink `table` with a text in a column, without regard to case; an empty text is in all.

        Raises CheckpointError where the result goes to another sink, StateCorruptError for a damaged file.
        """
        # Every column as text occupies more memory than the rows, so texts exist only after a search.
        loaded = self._load(root, with_texts=bool(find))
        table = loaded.table
        matching = table.filter(_match(loaded.texts, find)) if find else table
        numbers = [
            "number" if pa.types.is_integer(f.type) or pa.types.is_floating(f.type) else ""
            for f in table.schema
        ]
        rows = [[value(each) for each in row] for row in list_rows(matching.slice(0, SHOWN))]
        some = (
            f"{matching.num_rows:,} of {table.num_rows:,} rows"
            if find
            else f"{table.num_rows:,} rows"
        )
        cut = f", the first {SHOWN} are shown" if matching.num_rows > SHOWN else ""
        words = f"{some} after batch {loaded.batch}{cut}."
        return ResultView(words, list(zip(table.column_names, numbers, strict=True)), rows)

    def _load(self, root: Path, *, with_texts: bool) -> _Loaded:
        file = root / TABLE_FILE
        try:
            status = file.stat()
        except OSError:
            raise CheckpointError(
                "The result does not lie in this checkpoint: its sink is another one, or no batch has run yet."
            ) from None
        # The sink writes a new file under the same name, so that one of these differs for each batch.
        name = file, status.st_mtime_ns, status.st_size, status.st_ino
        with self._lock:
            loaded = self._loaded.get(name)
        # Read without the lock: a large table must not block the other pages.
        if loaded is None:
            stored, batch = read_stored_table(file)
            loaded = _Loaded(expand_rows(stored), batch, [])
        elif loaded.texts or not with_texts:
            return loaded
        if with_texts:
            loaded = _Loaded(loaded.table, loaded.batch, _write_texts(loaded.table))
        self._keep(name, loaded)
        return loaded

    def _keep(self, name: tuple[Path, int, int, int], loaded: _Loaded) -> None:
        """Put a table into the cache instead of its older version, and drop the oldest tables beyond the bound."""
        with self._lock:
            for other in [each for each in self._loaded if each[0] == name[0]]:
                del self._loaded[other]
            if loaded.nbytes <= self._cache_bytes:
                self._loaded[name] = loaded
            while sum(each.nbytes for each in self._loaded.values()) > self._cache_bytes:
                self._loaded.popitem(last=False)


def list_rows(table: pa.Table) -> list[tuple[object, ...]]:
    """The rows of a table; two of its columns may have one name."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _match(texts: Sequence[pa.Array], find: str) -> pa.ChunkedArray:
    """Tell for each row whether its text contains another one: bool[rows]."""
    # A match must not reach across the border between two values.
    pattern = pc.utf8_lower(pa.scalar(find.replace(_SEPARATOR, "\ufffd"))).as_py()
    with ThreadPoolExecutor(_THREADS) as pool:
        matches = pool.map(lambda part: pc.match_substring(part, pattern), texts)
        return pa.chunked_array(list(matches), pa.bool_())


def _write_texts(table: pa.Table) -> list[pa.Array]:
    """The rows of a table in parts, each row as one text in lower case, with a separator between its values."""
    parts = [table.slice(start, _PART_ROWS) for start in range(0, table.num_rows, _PART_ROWS)]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(_write_part, parts))


def _write_part(part: pa.Table) -> pa.Array:
    columns = [_write_column(column.combine_chunks()) for column in part.columns]
    if not columns:
        return pa.array([""] * part.num_rows, pa.string())
    joined = pc.binary_join_element_wise(
        *columns, _SEPARATOR, null_handling="replace", null_replacement=""
    )
    return pc.utf8_lower(joined)


def _write_column(column: pa.Array) -> pa.Array:
    """The values of a column as texts."""
    if not pa.types.is_nested(column.type) and not pa.types.is_binary(column.type):
        try:
            return column.cast(pa.string())
        except pa.ArrowException:
            # Types that Arrow does not write as texts are written value by value.
            pass
    texts = [None if each is None else value(each) for each in column.to_pylist()]
    return pa.array(texts, pa.string())
