"""Scripts as users of Flink write them run as they stand: DDL, settings, windows, joins, Top-N, statement sets.

Each is an entry of a file in `flink/`: the script, the rows of its tables, and the result by hand (of a statement set
by table), or a word of its plan where the result is another system's. A row may begin with its kind; times are those
of UTC. Nothing of a script is changed: the harness knows the tables by their columns.
"""

from __future__ import annotations

import datetime as dt
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

import aggloom as al
from aggloom.codegen import insertions, read_script
from aggloom.errors import IgnoredOptionWarning
from aggloom.runtime.local.harness import Harness

FILES = sorted((Path(__file__).parent / "flink").glob("*.yaml"))
SCRIPTS: list[dict[str, Any]] = [
    each for file in FILES for each in yaml.safe_load(file.read_text())
]
KINDS = ("+I", "-U", "+U", "-D")


def value(each: Any, dtype: pa.DataType) -> Any:
    """A value of a file as one of a column."""
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        return each.replace(tzinfo=dt.UTC)
    if pa.types.is_decimal(dtype):
        return Decimal(str(each))
    return each


def feed(harness: Harness, rows: dict[str, list[list[Any]]], clock: int | None) -> None:
    """Give the tables their rows, and end the input."""
    for table, scan in harness.plan.scans.items():
        columns = [field.type for field in scan.schema]
        marked = [row if row[0] in KINDS else ["+I", *row] for row in rows.get(table, [])]
        harness.process([(kind, *map(value, row, columns)) for kind, *row in marked], table=table)
    if clock is not None:
        harness.flush()
        harness.processing_time(clock)
    harness.end_of_input()


def comparable(row: Any) -> tuple[Any, ...]:
    """A row with exact numbers and times without a zone."""
    values: list[Any] = []
    for each in row:
        if isinstance(each, dt.datetime):
            each = each.replace(tzinfo=None)
        values.append(
            float(each) if isinstance(each, Decimal | int) and not isinstance(each, bool) else each
        )
    return tuple(values)


def ordered(rows: Any) -> list[tuple[Any, ...]]:
    """Rows in an order that does not depend on how they came."""
    return sorted(map(comparable, rows), key=repr)


def test_there_are_forty_of_them() -> None:
    names = [each["name"] for each in SCRIPTS]
    assert len(names) == len(set(names)) >= 40


@pytest.mark.parametrize("entry", SCRIPTS, ids=[each["name"] for each in SCRIPTS])
def test_a_script_runs_as_it_is_pasted(entry: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IgnoredOptionWarning)
        explained = al.explain(entry["script"], tables={}, dialect="flink")
        if "plan" in entry:
            assert entry["plan"] in explained
            return
        for text in insertions(entry["script"]):
            target, expected = read_script(text, "flink").target, entry["result"]
            if isinstance(expected, dict):
                assert target is not None
                expected = expected[target.name]
            harness = Harness.from_sql(text, {}, dialect="flink", backend="python")
            feed(harness, entry["rows"], entry.get("clock"))
            assert ordered(harness.table()) == ordered(expected)
