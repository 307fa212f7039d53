"""`aggloom.local`, the door of the local engine in Python: rows in, streams that are started, awaited and stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engine_jobs import ORDERS, random_changes, rows_of_table, write_files
from table_aggregates import register_all, unregister_all

from aggloom import local
from aggloom.errors import CheckpointError, DataError, SpecError, UnsupportedExpressionError
from aggloom.runtime.connectors.files.table_file import read_table

PAIRS = "k STRING, v INT"
SUM = "SELECT k, SUM(v) AS s FROM t GROUP BY k"


def changes_of(rows: Any, sql: str = SUM, **given: Any) -> local.LocalChanges:
    table = local.from_rows(rows, PAIRS)
    return local.sql(sql, t=table, backend="python", **given)


def test_rows_are_added_up() -> None:
    rows = [("+I", "a", 1), ("+I", "b", 5), ("-D", "a", 1), ("+I", "a", 7)]
    made = changes_of(rows)
    assert made.schema.names == ["k", "s"]
    assert local.collect(made).to_pylist() == [{"k": "a", "s": 7}, {"k": "b", "s": 5}]


def test_a_function_takes_each_batch_with_its_number(tmp_path: Path) -> None:
    taken: list[tuple[int, list[dict[str, Any]]]] = []
    query = local.write_changes(
        changes_of([("+I", "a", 1)]), lambda t, n: taken.append((n, t.to_pylist())), tmp_path
    )
    local.await_end(query)
    assert taken == [(0, [{"k": "a", "s": 1, "_change_type": "insert"}])]
    assert not query.is_active
    assert local.progress(query).rows == 1


def test_a_run_goes_on_with_the_rows_behind_those_before(tmp_path: Path) -> None:
    first = [("+I", "a", 1), ("+I", "b", 2)]
    local.await_end(local.write_changes(changes_of(first), "table", tmp_path))
    more = [*first, ("+I", "a", 10)]
    local.await_end(local.write_changes(changes_of(more), "table", tmp_path))
    assert rows_of_table(tmp_path) == [("a", 11), ("b", 2)]
    with pytest.raises(CheckpointError, match="3 rows were read"):
        local.write_changes(changes_of(first), "table", tmp_path)


def test_a_failure_in_a_sink_is_raised_where_the_end_is_awaited(tmp_path: Path) -> None:
    def fail(_: pa.Table, __: int) -> None:
        raise RuntimeError("the sink is away")

    query = local.write_changes(changes_of([("+I", "a", 1)]), fail, tmp_path)
    with pytest.raises(RuntimeError, match="the sink is away"):
        local.await_end(query)
    taken: list[int] = []
    again = local.write_changes(
        changes_of([("+I", "a", 1)]), lambda t, n: taken.append(n), tmp_path
    )
    local.await_end(again)
    assert taken == [0]


@pytest.mark.parametrize("sink", ["console", "jsonl", "print"])
@pytest.mark.parametrize("day", ["DATE '9999-12-31' + v", "DATE '0001-01-01' - v"])
def test_a_day_that_python_s_dates_do_not_reach_is_named(
    day: str, sink: str, tmp_path: Path
) -> None:
    named = f"jsonl:{tmp_path / 'out'}" if sink == "jsonl" else sink
    for made in (day, f"CAST({day} AS TIMESTAMP)"):
        changes = changes_of([("+I", "a", 1)], f"SELECT k, {made} AS d FROM t")
        query = local.write_changes(changes, named, tmp_path / made)
        with pytest.raises(DataError, match="column 'd': a time lies outside the years 1 to 9999"):
            local.await_end(query)


def test_a_sink_with_options_may_be_named_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local.await_end(local.write_changes(changes_of([("+I", "a", 1)]), "print", tmp_path / "1"))
    assert capsys.readouterr().out == "+I[a, 1]\n"
    with pytest.raises(SpecError, match="sink database: give it table"):
        local.write_changes(changes_of([("+I", "a", 1)]), "database", tmp_path / "2")


def test_a_continuous_query_follows_files_until_it_is_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_files(folder, random_changes(1, 20, retracts=False), 1)
    orders = local.read_changes(folder, "jsonl", ORDERS)
    sums = local.sql("SELECT COUNT(*) AS n FROM orders", orders=orders, backend="python")
    query = local.write_changes(sums, "table", tmp_path / "state", continuous=True)
    _wait_until(lambda: query.counts.rows == 20)
    write_files(folder, random_changes(2, 5, retracts=False), 1, start=1)
    _wait_until(lambda: query.counts.rows == 25)
    assert query.is_active
    query.stop()
    assert not query.is_active
    assert read_table(tmp_path / "state").to_pylist() == [{"n": 25}]


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="known"):
        local.write_changes(changes_of([]), "tabel", tmp_path)
    with pytest.raises(SpecError, match=r"local\.sql"):
        local.write_changes("SELECT 1", "table", tmp_path)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="no format"):
        local.sql(SUM, t=local.read_changes(tmp_path, "jsonx", PAIRS))


def test_what_would_be_passed_over_is_refused(tmp_path: Path) -> None:
    table = local.from_rows([("+I", "a", 1)], PAIRS)
    with pytest.raises(SpecError, match="'u' is given, and the query does not read it"):
        local.sql(SUM, t=table, u=table)
    assert local.sql(SUM, tables={"t": table, "u": table}).schema.names == ["k", "s"]
    with pytest.raises(SpecError, match="'t' is given twice"):
        local.sql(SUM, t=table, tables={"t": table})
    made = local.sql(SUM, t=table, backend="python")
    for checkpoint in (None, ""):
        with pytest.raises(SpecError, match="checkpoint is"):
            local.write_changes(made, "table", checkpoint)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="key_columns is the text 'k'"):
        local.write_changes(made, "table", tmp_path / "c", key_columns="k")
    assert not (tmp_path / "c").exists()


def test_an_empty_input_has_the_row_of_a_global_aggregate() -> None:
    empty = changes_of([], "SELECT COUNT(*) AS n FROM t")
    assert local.collect(empty).to_pylist() == [{"n": 0}]


def test_what_only_spark_evaluates_is_refused_before_the_run(tmp_path: Path) -> None:
    made = changes_of([("+I", "a", 1)], "SELECT k, xpath_int(k, 'a/b') AS h FROM t")
    with pytest.raises(UnsupportedExpressionError, match="--engine spark"):
        local.write_changes(made, "table", tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_table_aggregate_emits_several_rows_over_restarts(tmp_path: Path) -> None:
    register_all()
    sql = "SELECT k, TOP2_OF_ALL(v) AS (value, place) FROM t GROUP BY k"
    rows: list[tuple[Any, ...]] = []
    for more in (
        [("+I", "a", 1), ("+I", "a", 5)],
        [("+I", "a", 3), ("+I", "b", 2)],
        [("-D", "a", 5)],
    ):
        rows += more
        local.await_end(local.write_changes(changes_of(rows, sql), "table", tmp_path))
    unregister_all()
    assert rows_of_table(tmp_path) == [("a", 1, 2), ("a", 3, 1), ("b", 2, 1)]


def _wait_until(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
