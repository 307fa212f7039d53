"""Strings of a snapshot that its checks must take: packed values are no texts, and keys may have many columns."""

from __future__ import annotations

from typing import Any

import pytest

from aggloom.runtime.local.harness import Harness

SCHEMA = "k INT, s STRING, v BIGINT, d DOUBLE"
CALLS = (
    *("MIN(s)", "COUNT(DISTINCT s)", "MAX_BY(s, v)", "MAX_BY(v, s)", "COUNT(DISTINCT s, v)"),
    *("LISTAGG(s)", "FIRST_VALUE(s)", "ARRAY_AGG(s)", "MODE(s)"),
)


def restored(sql: str, schema: str, rows: list[Any], changes: Any, backend: Any) -> None:
    """Run rows in two halves with a restart between, and hold the table against that of one run."""
    tables: list[list[Any]] = []
    for restarts in (False, True):
        with Harness.from_sql(
            sql, tables={"t": schema}, backend=backend, input_changes=changes
        ) as t:
            t.process(rows[: len(rows) // 2])
            t.flush()
            if restarts:
                t.restore(t.snapshot())
            t.process(rows[len(rows) // 2 :])
            t.flush()
            tables.append(sorted(map(repr, t.table())))
    assert tables[0] == tables[1]


APPENDED = ("MIN(s)", "MAX_BY(s, v)", "MAX_BY(v, s)", "FIRST_VALUE(s)")
"""Calls that keep one value where rows only come; the others keep what they keep where rows leave, too."""
COMPILED = [(call, "append") for call in APPENDED] + [(call, "retract") for call in CALLS]


@pytest.mark.parametrize(
    ("call", "changes", "backend"),
    [
        *((call, changes, "python") for call in CALLS for changes in ("append", "retract")),
        *((*each, "numba") for each in COMPILED),
    ],
)
@pytest.mark.sampled(10)
def test_calls_that_pack_values_are_restored(call: str, changes: str, backend: str) -> None:
    rows = [("+I", n % 3, f"text{n}é" * (n % 4 + 1), n * 1_000_003, n / 2) for n in range(40)]
    restored(f"SELECT k, {call} AS c FROM t GROUP BY k", SCHEMA, rows, changes, backend)


@pytest.mark.parametrize("columns", [1, 8, 9, 40])
def test_keys_of_many_columns_are_restored(columns: int) -> None:
    names = [f"c{n}" for n in range(columns)]
    rows = [("+I", *(f"{n}" if n % 7 else None for _ in names)) for n in range(20)]
    sql = f"SELECT {', '.join(names)}, COUNT(*) AS n FROM t GROUP BY {', '.join(names)}"
    schema = ", ".join(f"{name} STRING" for name in names)
    restored(sql, schema, rows, "retract", "python")
