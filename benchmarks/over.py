"""The Over operator alone, one thread, over micro-batches; DuckDB's window function asked anew after each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from bundles import asked_anew, command
from measure import Run

from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.changelog import DELETE, INSERT

_COLUMNS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("v", pa.int64())])


@dataclass(frozen=True)
class Case:
    """Rows (k, n, v) of so many keys, in bundles; `gone`: the share of rows that a later bundle takes back."""

    name: str
    keys: int
    call: str
    gone: float = 0.0

    @property
    def query(self) -> str:
        """The query, in both dialects of SQL."""
        return f"SELECT k, n, {self.call} AS w FROM t"

    def bundles(self, rows: int, size: int) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """The changes: rows come in the order of n."""
        random = np.random.default_rng(7)
        before: list[np.ndarray] = []
        for start in range(0, rows, size):
            n = min(size, rows - start)
            new = [random.integers(0, self.keys, n), np.arange(start, start + n)]
            new.append(random.integers(0, 1000, n))
            kinds, columns = np.full(n, INSERT, np.int8), new
            if before and self.gone:
                taken = random.choice(len(before[0]), int(self.gone * n), replace=False)
                columns = [np.concatenate([c[taken], d]) for c, d in zip(before, new, strict=True)]
                kinds = np.concatenate([np.full(len(taken), DELETE, np.int8), kinds])
            before = new
            arrays = [pa.array(each) for each in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=_COLUMNS), kinds


_LAST = "OVER (PARTITION BY k ORDER BY n ROWS 100 PRECEDING)"
CASES = (
    Case("SUM, ROWS 100 PRECEDING, 100 k keys, added", 100_000, f"SUM(v) {_LAST}"),
    Case("SUM, ROWS 100 PRECEDING, 100 k keys, 30 % taken back", 100_000, f"SUM(v) {_LAST}", 0.3),
    Case("SUM, ROWS 100 PRECEDING, 1 k keys, added", 1_000, f"SUM(v) {_LAST}"),
    Case("LAG, 100 k keys, added", 100_000, "LAG(v) OVER (PARTITION BY k ORDER BY n)"),
    Case("running SUM, 100 k keys, added", 100_000, "SUM(v) OVER (PARTITION BY k ORDER BY n)"),
)


def loom(case: Case, rows: int, size: int) -> tuple[Run, int]:
    """The operator over all bundles: what it took, and what the values add up to in the end."""
    operator = Harness.from_sql(case.query, {"t": _COLUMNS}).operator
    names = operator.spec.schema.names  # type: ignore[attr-defined]
    taken, seconds = 0, 0.0
    for batch, kinds in case.bundles(rows, size):
        picked = batch.select(names)
        begin = time.process_time()
        operator.process(picked, kinds)  # type: ignore[attr-defined]
        seconds += time.process_time() - begin
        taken += len(kinds)
    found = operator.contents()[0]
    return Run(taken, seconds), _total(found.column(found.num_columns - 1))


def window_function(case: Case, rows: int, size: int) -> tuple[Run, int]:
    """DuckDB with the net rows in a table and the query over all of them after each bundle."""
    ask = f"SELECT SUM(w)::BIGINT FROM ({case.query})"
    return asked_anew("k BIGINT, n BIGINT, v BIGINT", ask, case.bundles(rows, size))


def _total(values: pa.Array) -> int:
    return int(np.nansum(values.fill_null(0).to_numpy(zero_copy_only=False)))


main = command(
    "over",
    CASES,
    loom,
    window_function,
    "the values add up to {}",
    "Rows of three BIGINT columns, one thread, in bundles. After each bundle aggloom has emitted its changes; DuckDB "
    "is asked for the sum of all values over the net rows, which it keeps in a table. Both have one sum in the end.",
)


if __name__ == "__main__":
    main()
