"""Public bug reports rebuilt as a query and a changelog, and what the rows left over give in DuckDB."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import cache
from typing import Any
from unittest import mock

import black
import duckdb
import pyarrow as pa
import pytest
from duck import quoted

from aggloom.codegen.planner.plan import Plan
from aggloom.codegen.spec.schemas import to_schema
from aggloom.errors import AggloomError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.local.pipeline import handlers

Row = tuple[Any, ...]
_EXACT = Context(prec=400)
KINDS = ("+I", "-U", "+U", "-D")


@dataclass(frozen=True)
class Report:
    """A public report: `source` is its thread, `changes` are (table, kind, values ..) or (table, values ..).

    expected: the final rows; without them DuckDB's answer to `duck` (default: the same text) over the rows left over.
    refused: a part of the message where the query is refused. options: keywords of the harness.
    end: the watermark that comes after the last row, for what waits for it.
    """

    name: str
    source: str
    sql: str
    tables: Mapping[str, str]
    changes: Sequence[Row]
    expected: Sequence[Row] | None = None
    duck: str | None = None
    refused: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    end: int | None = None


def rows(table: str, *values: Any) -> list[Row]:
    """Insertions into a table; a value that is no tuple is a row of one column."""
    return [(table, "+I", *(value if isinstance(value, tuple) else (value,))) for value in values]


def gone(table: str, *values: Any) -> list[Row]:
    """Deletions from a table."""
    return [(name, "-D", *row) for name, _, *row in rows(table, *values)]


def valued(
    name: str, source: str, call: str, kind: str, cases: Sequence[tuple[Any, Any]], **more: Any
) -> Report:
    """An expression over a column `x`, as pairs of value and result; of each value two rows stay and one is deleted."""
    values = list(enumerate(value for value, _ in cases))
    return Report(
        name,
        source,
        f"SELECT k, {call} AS r, COUNT(*) AS n FROM t GROUP BY k, {call}",
        {"t": f"k INT, x {kind}"},
        rows("t", *values, *values, *values) + gone("t", *values),
        expected=[(at, result, 2) for at, (_, result) in enumerate(cases)],
        **more,
    )


def refusal(name: str, source: str, call: str, kind: str, value: Any, part: str) -> Report:
    """An expression over a column `x` that is refused, or whose value is."""
    return Report(
        name,
        source,
        f"SELECT {call} AS r FROM t",
        {"t": f"x {kind}"},
        rows("t", (value,)),
        refused=part,
    )


def named(reports: Iterable[Report]) -> pytest.MarkDecorator:
    """Parametrise a test by reports."""
    listed = list(reports)
    return pytest.mark.parametrize("report", listed, ids=[report.name for report in listed])


MODES: Sequence[Mapping[str, Any]] = ({}, {"mode": "per_record"}, {"bundle_size": 1, "buckets": 3})


def check(report: Report, modes: Sequence[Mapping[str, Any]] = MODES) -> None:
    """Hold a report's query to its expected rows: in one bundle, record by record, and in a bundle a change."""
    if report.refused is not None:
        with pytest.raises(AggloomError) as caught:
            _final_rows(report, {})
        assert report.refused.lower() in str(caught.value).lower(), str(caught.value)
        return
    expected = duckdb_rows(report) if report.expected is None else list(map(tuple, report.expected))
    wanted = _bag(expected)
    plans: dict[bool, Plan] = {}
    for options in modes:
        got = _bag(_final_rows(report, plans, **options))
        assert got == wanted, f"{options}: got {got}, wanted {wanted}"


def _final_rows(
    report: Report,
    plans: dict[bool, Plan],
    mode: str = "mini_batch",
    bundle_size: int = 0,
    buckets: int = 1,
) -> list[Row]:
    """The table that the query's changelog folds to. plans: those that modes before have made; sizes need no other."""
    per_record = mode == "per_record"
    # Black takes long, and nobody reads these modules.
    with mock.patch.object(black, "format_str", lambda text, mode: text):
        if per_record not in plans:
            more = {"mini_batch_enabled": False} if per_record else {}
            harness = Harness.from_sql(
                report.sql,
                report.tables,
                backend="python",
                buckets=buckets,
                **{**report.options, **more},
            )
            plans[per_record] = harness.plan
        else:
            harness = Harness.of_plan(
                plans[per_record],
                handlers("python"),
                report.options.get("watermarks"),
                buckets=buckets,
            )
        return _feed_report(harness, report, bundle_size)


def _feed_report(harness: Harness, report: Report, bundle_size: int) -> list[Row]:
    """The rows of a harness that a report's changes were put into."""
    for table, kind, *row in map(_with_kind, report.changes):
        harness.process([(kind, *row)], table=table)
        if bundle_size:
            harness.flush()
    harness.flush()
    if report.end is not None:
        harness.watermark(report.end)
        harness.flush()
    columns = [column.to_pylist() for column in harness.to_arrow().columns]
    return list(zip(*columns, strict=True))


def duckdb_rows(report: Report) -> list[Row]:
    """DuckDB's answer over the rows that the changes leave."""
    connection = _connection()
    for table, schema in report.tables.items():
        left: list[Row] = []
        for name, kind, *row in map(_with_kind, report.changes):
            if name == table and kind in ("+I", "+U"):
                left.append(tuple(row))
            elif name == table:
                left.remove(tuple(row))
        fields = to_schema(schema)
        columns = [pa.array(list(column), field.type) for column, field in _columns(left, fields)]
        connection.register(f"_{table}", pa.Table.from_arrays(columns, schema=fields))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {quoted(table)} AS FROM _{table}")
    return connection.sql(report.duck or report.sql).fetchall()


def _columns(left: list[Row], fields: pa.Schema) -> Iterable[tuple[list[Any], pa.Field]]:
    return [([row[at] for row in left], field) for at, field in enumerate(fields)]


def _with_kind(change: Row) -> Row:
    table, *row = change
    return (table, *row) if row and row[0] in KINDS else (table, "+I", *row)


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
    return connection


def _bag(table: Iterable[Row]) -> Counter[Any]:
    return Counter(tuple(map(_plain, row)) for row in table)


def _plain(value: Any) -> Any:
    """A value as it compares over engines: 2, 2.0 and DECIMAL 2.00 are equal, and NaN equals NaN."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float | Decimal):
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        return exact.normalize(_EXACT) if exact else Decimal(0)
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple(sorted((key, _plain(inner)) for key, inner in value.items()))
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value
