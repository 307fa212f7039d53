"""The rank operator alone, one thread, over micro-batches; DuckDB's window function asked anew after each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from bundles import asked_anew, command
from measure import Run

from aggloom.runtime.operators.rank.operator import RankOperator
from aggloom.runtime.operators.rank.spec import RankSpec
from aggloom.runtime.state.sort_key import SortColumn
from aggloom.runtime.values.changelog import DELETE, INSERT

_COLUMNS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("v", pa.float64())])


@dataclass(frozen=True)
class Case:
    """Rows (k, n, v) of so many keys, in bundles; `gone`: the share of rows that a later bundle takes back."""

    name: str
    keys: int
    end: int = 10
    gone: float = 0.0
    numbered: bool = True

    def bundles(self, rows: int, size: int) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """The changes."""
        random = np.random.default_rng(7)
        before: list[np.ndarray] = []
        for start in range(0, rows, size):
            n = min(size, rows - start)
            new = [random.integers(0, self.keys, n), np.arange(start, start + n), random.random(n)]
            kinds = np.full(n, INSERT, np.int8)
            columns = new
            if before and self.gone:
                taken = random.choice(len(before[0]), int(self.gone * n), replace=False)
                columns = [np.concatenate([c[taken], d]) for c, d in zip(before, new, strict=True)]
                kinds = np.concatenate([np.full(len(taken), DELETE, np.int8), kinds])
            before = new
            arrays = [pa.array(each) for each in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=_COLUMNS), kinds


CASES = (
    Case("Top-10 of 100 k keys, added", 100_000),
    Case("Top-10 of 100 k keys, added, no number", 100_000, numbered=False),
    Case("Top-10 of 100 k keys, 30 % taken back", 100_000, gone=0.3),
    Case("first of 100 k keys, added", 100_000, end=1, numbered=False),
    Case("Top-10 of one key, added", 1),
    Case("Top-10 of one key, 30 % taken back", 1, gone=0.3),
)


def loom(case: Case, rows: int, size: int) -> tuple[Run, int]:
    """The operator over all bundles: what it took, and how many rows are seen in the end."""
    operator = RankOperator(
        RankSpec(
            schema=_COLUMNS,
            keys=1,
            function="ROW_NUMBER",
            sort=(SortColumn(2, True, False),),
            strategy="retract" if case.gone else "append",
            end=case.end,
            number="place" if case.numbered else None,
        )
    )
    taken, seconds = 0, 0.0
    for batch, kinds in case.bundles(rows, size):
        begin = time.process_time()
        operator.process(batch, kinds)
        seconds += time.process_time() - begin
        taken += len(kinds)
    return Run(taken, seconds), operator.contents()[0].num_rows


def window_function(case: Case, rows: int, size: int) -> tuple[Run, int]:
    """DuckDB with the net rows in a table and the query over all of them after each bundle."""
    ask = (
        "SELECT COUNT(*) FROM (SELECT k, n, v FROM t QUALIFY "
        f"ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) <= {case.end})"
    )
    return asked_anew("k BIGINT, n BIGINT, v DOUBLE", ask, case.bundles(rows, size))


main = command(
    "rank",
    CASES,
    loom,
    window_function,
    "{} rows are seen",
    "Rows of two BIGINT columns and a DOUBLE, by which they are ranked, one thread, in bundles. After each bundle "
    "aggloom has emitted the changes; DuckDB is asked for the whole answer over the net rows, which it keeps in a "
    "table. Both see as many rows in the end.",
)


if __name__ == "__main__":
    main()
