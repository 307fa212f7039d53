"""Rolling horizons beside DuckDB's GROUP BY over the rows that are in them, at every watermark; restarts; refusals."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import udafs
from changelog_laws import check_laws
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import aggloom as al
from aggloom.cli import main
from aggloom.codegen.windows import Rolling, Windowing
from aggloom.codegen.windows.data import windowing_data, windowing_of
from aggloom.errors import AggloomError, NotMergeableError

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
TABLES = {"t": "k STRING, v INT, s STRING, ts TIMESTAMP"}
STEP, DELAY = 5, 3
HORIZONS = {"10 minutes": 10, "hour": 60, "2 hours": 120}
ROLLING = (
    "TABLE(ROLLING(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE, hour => INTERVAL '1' HOUR, "
    "INTERVAL '2' HOUR))"
)
CALLS = {
    "n": "COUNT(*)",
    "total": "SUM(v)",
    "least": "MIN(v)",
    "last": "MAX(s)",
    "kinds": "COUNT(DISTINCT s)",
    "a": "SUM(v) FILTER (WHERE s = 'a')",
    "own": "MY_AVG(v, v)",
}
LONG = (
    f"SELECT k, horizon, {', '.join(f'{call} AS {name}' for name, call in CALLS.items())} "
    f"FROM {ROLLING} GROUP BY k, horizon"
)
Row = tuple[Any, ...]


def over(call: str, horizon: str) -> str:
    """The call over one horizon."""
    head, _, rest = call.partition(" FILTER (WHERE ")
    more = f" AND {rest[:-1]}" if rest else ""
    return f"{head} FILTER (WHERE horizon = '{horizon}'{more})"


WIDE = "SELECT k, {} FROM {} GROUP BY k".format(
    ", ".join(
        f"{over(call, horizon)} AS {name}{place}"
        for place, horizon in enumerate(HORIZONS)
        for name, call in CALLS.items()
    ),
    ROLLING,
)


def at(minute: float) -> dt.datetime:
    return START + dt.timedelta(minutes=minute)


@st.composite
def batches(draw: Any) -> list[list[Row]]:
    """Batches of insertions and retractions, mostly in order of time, some far behind."""
    found: list[list[Row]] = []
    live: list[Row] = []
    now = 0
    for _ in range(draw(st.integers(2, 7))):
        batch: list[Row] = []
        now += draw(st.sampled_from([0, 4, 9, 33, 140]))
        for _ in range(draw(st.integers(1, 5))):
            if live and draw(st.integers(0, 3)) == 0:
                batch.append(("-D", *live.pop(draw(st.integers(0, len(live) - 1)))))
                continue
            minute = max(0, now + draw(st.sampled_from([0, 1, -2, -7, -50, -130])))
            row = (
                draw(st.sampled_from("xyz")),
                draw(st.integers(1, 9)),
                draw(st.sampled_from("ab")),
                at(minute),
            )
            live.append(row)
            batch.append(("+I", *row))
        found.append(batch)
    return found


def expected(rows: Counter[Row], newest: dt.datetime | None) -> dict[tuple[str, str], Row]:
    """The results by key and horizon, from all rows."""
    if newest is None:
        return {}
    minutes = (newest - START) / dt.timedelta(minutes=1) - DELAY
    edge = int(minutes // STEP * STEP)
    columns = zip("kvs", zip(*(row[:3] for row in rows.elements()), strict=True), strict=False)
    times = [int((row[3] - START) / dt.timedelta(minutes=1)) for row in rows.elements()]
    if not times:
        return {}
    calls = ", ".join(call for name, call in CALLS.items() if name != "own")
    found = {}
    with duckdb.connect() as base:
        base.register(
            "t", pa.table({**{name: list(each) for name, each in columns}, "minute": times})
        )
        for name, length in HORIZONS.items():
            where = f"minute >= {edge - length} AND minute < {edge}"
            text = f"SELECT k, {calls}, SUM(v * v) // SUM(v) FROM t WHERE {where} GROUP BY k"
            for key, *values in base.execute(text).fetchall():
                found[key, name] = tuple(values)
    return found


def widen(results: dict[tuple[str, str], Row]) -> set[Row]:
    """The results as one row for each key."""
    empty = tuple(0 if name in ("n", "kinds") else None for name in CALLS)
    keys = {key for key, _ in results}
    return {
        (key, *(value for name in HORIZONS for value in results.get((key, name), empty)))
        for key in keys
    }


def harness(query: str, backend: str = "python", **options: Any) -> Any:
    watermarks = {"t": ("ts", f"{DELAY} min")}
    return al.Harness.from_sql(query, TABLES, watermarks=watermarks, backend=backend, **options)


@pytest.fixture(autouse=True, scope="module")
def own_functions() -> None:
    udafs.my_avg()


@examples(8)
@given(made=batches(), cut=st.integers(0, 6))
def test_horizons_are_those_of_all_rows(made: list[list[Row]], cut: int) -> None:
    rows: Counter[Row] = Counter()
    newest = None
    tables = [harness(LONG), harness(WIDE)]
    emitted: list[list[Row]] = [[], []]
    for place, batch in enumerate(made):
        for each in tables:
            each.process(batch)
        for kind, *row in batch:
            rows[tuple(row)] += 1 if kind == "+I" else -1
        times = [row[4] for row in batch]
        newest = max(times) if newest is None else max(newest, *times)
        results = expected(rows, newest)
        for out, each in zip(emitted, tables, strict=True):
            out += each.changes()
        assert set(tables[0].table()) == {(*key, *values) for key, values in results.items()}
        assert set(tables[1].table()) == widen(results)
        if place == cut:
            tables = [
                _restarted(each, query) for each, query in zip(tables, (LONG, WIDE), strict=True)
            ]
    check_laws(emitted[0], 2, False)
    check_laws(emitted[1], 1, False)


def _restarted(old: Any, query: str) -> Any:
    made = harness(query)
    made.restore(old.snapshot())
    return made


@examples(5)
@given(made=batches())
def test_neither_cuts_nor_backends_change_the_table(made: list[list[Row]]) -> None:
    # Few calls: what they share with other tests is compiled already.
    query = f"SELECT k, horizon, COUNT(*) AS n, SUM(v) AS total FROM {ROLLING} GROUP BY k, horizon"
    whole, single = harness(query, "numba"), harness(query)
    for batch in made:
        whole.process(batch)
        for row in batch:
            single.process([row])
    assert set(whole.table()) == set(single.table())


def test_functions_of_the_order_see_older_slices_first() -> None:
    query = f"""SELECT k, horizon, FIRST_VALUE(v) AS f, LAST_VALUE(v) AS l, ARRAY_AGG(v) AS all FROM {ROLLING}
        GROUP BY k, horizon"""
    with harness(query, input_changes="append") as rolling:
        rolling.process([("+I", "x", minute, "a", at(minute)) for minute in (57, 1, 40, 58)])
        rolling.process([("+I", "x", 66, "a", at(66))])
        assert sorted(rolling.table()) == [
            ("x", "10 minutes", 57, 58, [57, 58]),
            ("x", "2 hours", 1, 58, [1, 40, 57, 58]),
            ("x", "hour", 1, 58, [1, 40, 57, 58]),
        ]
        rolling.process([("+I", "x", 69, "a", at(69)), ("+I", "x", 50, "a", at(50))])
        found = {row[1]: row[4] for row in rolling.table()}
        assert found == {
            "10 minutes": [57, 58],
            "hour": [40, 50, 57, 58],
            "2 hours": [1, 40, 50, 57, 58],
        }


def test_late_rows_correct_what_they_are_in_and_are_dropped_behind_it() -> None:
    query = f"SELECT k, horizon, COUNT(*) AS n FROM {ROLLING} GROUP BY k, horizon"
    with harness(query, late_rows=True) as rolling:
        rolling.process([("+I", "x", 1, "a", at(128))])
        rolling.changes()
        rolling.process(
            [("+I", "x", 1, "a", at(5)), ("+I", "x", 1, "a", at(4)), ("+I", "x", 1, "a", at(70))]
        )
        assert sorted(rolling.changes()) == [
            ("+I", "x", "2 hours", 2),
            ("+I", "x", "hour", 1),
        ]
        assert [row[-1] for row in rolling.late()] == [at(4)]
        assert rolling.counters["late_dropped"] == 1
        rolling.process([("-D", "x", 1, "a", at(5))])
        assert rolling.changes() == [("-U", "x", "2 hours", 2), ("+U", "x", "2 hours", 1)]


def test_time_takes_rows_out_and_the_end_of_input_does_not() -> None:
    query = f"SELECT k, horizon, COUNT(*) AS n FROM {ROLLING} GROUP BY k, horizon"
    with harness(query) as rolling:
        rolling.process([("+I", "x", 1, "a", at(0))])
        expected = {4: 0, 5: 3, 14: 3, 15: 2, 64: 2, 65: 1, 124: 1, 125: 0}
        for minute, count in expected.items():
            rolling.watermark(int(at(minute).timestamp() * 1000) - 1)
            assert len(rolling.table()) == count, minute
        rolling.process([("+I", "x", 1, "a", at(129))])
        rolling.watermark(int(at(130).timestamp() * 1000))
        rolling.end_of_input()
        assert len(rolling.table()) == 3
        rolling.process([("+I", "x", 1, "a", at(128))])
        assert len(rolling.table()) == 3 and rolling.counters["late_dropped"] == 1


def test_by_the_clock() -> None:
    query = """SELECT k, COUNT(*) FILTER (WHERE horizon = '10 s') AS n,
        SUM(v) FILTER (WHERE horizon = '1 min') AS total
        FROM TABLE(ROLLING(TABLE (SELECT *, PROCTIME() AS p FROM t), DESCRIPTOR(p), INTERVAL '5' SECOND,
          '10 s', '1 min'))
        GROUP BY k"""
    start = 1_714_554_000_000
    with al.Harness.from_sql(query, TABLES, input_changes="append", backend="python") as rolling:
        for second, (kind, value) in {0: ("x", 1), 4: ("y", 2), 8: ("x", 3)}.items():
            rolling.processing_time(start + 1000 * second)
            rolling.process([("+I", kind, value, "a", at(0))])
        found = {}
        for second in (10, 15, 20, 64, 65, 70):
            rolling.processing_time(start + 1000 * second)
            found[second] = sorted(rolling.table())
    assert found == {
        10: [("x", 2, 4), ("y", 1, 2)],
        15: [("x", 1, 4), ("y", 0, 2)],
        20: [("x", 0, 4), ("y", 0, 2)],
        64: [("x", 0, 4), ("y", 0, 2)],
        65: [("x", 0, 3)],
        70: [],
    }


def test_a_spec_in_python() -> None:
    spec = al.AggSpec.from_sql("SELECT k, SUM(v) AS total FROM t GROUP BY k", TABLES["t"])
    window = Rolling("5 min", {"hour": "1 hour", "week": "7 days"}, on="ts")
    written = windowing_data(Windowing(window))
    assert (
        windowing_of(written) == Windowing(window)
        and windowing_data(windowing_of(written)) == written
    )
    with al.Harness(
        spec, window=window, watermarks={"t": ("ts", "0 s")}, backend="python"
    ) as rolling:
        rolling.process([("+I", "x", 2, "a", at(0)), ("+I", "x", 3, "a", at(63))])
        assert sorted(rolling.table()) == [("x", "hour", 2), ("x", "week", 2)]
        rolling.process([("+I", "x", 4, "a", at(70))])
        assert sorted(rolling.table()) == [("x", "hour", 3), ("x", "week", 5)]
        with pytest.raises(AggloomError, match="draw a HOP"):
            rolling.timeline()


def test_explain_shows_the_horizons_of_each_call() -> None:
    text = str(al.explain(WIDE, tables=TABLES))
    for each in (
        "ROLLING(on=`ts`, step=5 min, horizons=[10 minutes, hour=1 h, 2 hours])",
        "COUNT_RETRACT(*) over 10 minutes AS n0",
        "FILTER (WHERE (s = 'a')) over hour AS a1",
        "unique key k",
        "3 results a key, the slices of 2 h before the watermark on `ts`",
        "horizons fired: they share their slices",
    ):
        assert each in text


def test_pivot_and_what_nothing_reads() -> None:
    query = f"""SELECT k, long_n FROM (SELECT k, horizon, v FROM {ROLLING})
        PIVOT (SUM(v) AS s, COUNT(v) AS n FOR horizon IN ('10 minutes' AS short, '2 hours' AS long))"""
    with harness(query) as rolling:
        rolling.process([("+I", "x", 2, "a", at(0)), ("+I", "x", 3, "a", at(63))])
        assert rolling.table() == [("x", 1)]


_GROUPED = "SELECT k, horizon, COUNT(*) AS n FROM {} GROUP BY k, horizon"
REFUSED = {
    f"SELECT k, COUNT(*) FROM {ROLLING} GROUP BY k": r"FILTER \(WHERE horizon = '10 minutes'\) after it",
    f"SELECT k, COUNT(*) FILTER (WHERE horizon = '2 hour') FROM {ROLLING} GROUP BY k": "Did you mean '2 hours'",
    f"SELECT * FROM {ROLLING}": "without a GROUP BY of horizon",
    f"SELECT COUNT(*) FILTER (WHERE horizon = 'hour') FROM {ROLLING}": "whose only row would have to stay",
    f"SELECT k, MAX(horizon) FROM {ROLLING} GROUP BY k": "of the horizon is not supported",
    f"SELECT k, BOOL_OR(horizon = 'hour') FILTER (WHERE horizon = 'hour') FROM {ROLLING} GROUP BY k": "from a horizon",
    f"SELECT k, COUNT(*) FROM {ROLLING} GROUP BY k, horizon = 'hour'": "from a horizon",
    f"SELECT k, COUNT(*) FILTER (WHERE horizon = 'hour' OR v > 1) FROM {ROLLING} GROUP BY k": "with AND for other",
    f"SELECT k, horizon, COUNT(*) FILTER (WHERE horizon = 'hour') FROM {ROLLING} GROUP BY k, horizon": "one of the two",
    _GROUPED.format(f"{ROLLING} WHERE horizon = 'hour'"): "GROUP BY horizon HAVING",
    "SELECT k, COUNT(*) FROM t GROUP BY k, ROLLING(ts, INTERVAL '1' HOUR)": "GROUP BY horizon",
    _GROUPED.format(ROLLING.replace("'5'", "'7'")): "take a step that divides every horizon",
    _GROUPED.format(ROLLING.replace("'2' HOUR", "'2' MONTH")): "a month has no fixed length",
    _GROUPED.format(ROLLING.replace("'2' HOUR", "'10' MINUTE")): "has the horizon 10 minutes twice",
    _GROUPED.format(ROLLING.replace("'2' HOUR", "'60' MINUTE")): "two horizons have one length",
    _GROUPED.format(
        "TABLE(ROLLING(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"
    ): "needs horizons",
    _GROUPED.format(
        ROLLING.replace("TABLE t", "TABLE (SELECT *, PROCTIME() AS p FROM t)").replace(
            "(ts)", "(p)"
        )
    ): ("roll over a time of the rows"),
}


@pytest.mark.parametrize("query", REFUSED)
def test_refusals_say_what_to_write(query: str) -> None:
    with pytest.raises(AggloomError, match=REFUSED[query]):
        al.explain(query, tables=TABLES)


@pytest.mark.parametrize(
    ("made", "fix"),
    [
        (
            lambda: Windowing(Rolling("1 min", ["5 min"], on="ts"), allowed_lateness="1 min"),
            "a late row corrects",
        ),
        (
            lambda: Windowing(Rolling("1 min", ["5 min"], on="ts"), al.CountTrigger(2)),
            "a trigger is for",
        ),
        (
            lambda: Windowing(Rolling("1 min", ["5 min"], on="ts"), updates=False),
            "updates=False is for",
        ),
        (lambda: Rolling("1 min", "5 min", on="ts"), "give lengths such as"),
        (lambda: Rolling("1 min", {"a": "5 min", "": "6 min"}, on="ts"), "a text of its own"),
        (lambda: Rolling("0 min", ["5 min"], on="ts"), "longer than nothing"),
    ],
)
def test_descriptions_that_are_none(made: Any, fix: str) -> None:
    with pytest.raises(AggloomError, match=fix):
        made()


def test_functions_have_to_merge() -> None:
    udafs.define("NO_MERGE_HERE", "0", "return state + 1", "state", "BIGINT")
    query = f"SELECT k, horizon, NO_MERGE_HERE(v) AS n FROM {ROLLING} GROUP BY k, horizon"
    with (
        pytest.raises(NotMergeableError, match="give its class `def merge"),
        harness(query) as rolling,
    ):
        rolling.process([("+I", "x", 2, "a", at(0))])


def test_a_shell_shows_what_a_run_shows(tmp_path: Path) -> None:
    """When files end, the table is that at the watermark behind their rows."""
    (tmp_path / "t.csv").write_text(
        "k,v,ts\na,1,2026-03-01 00:01:00\na,5,2026-03-01 02:30:00\nb,2,2026-03-01 03:00:00\n"
    )
    table = f"t={tmp_path / 't.csv'},schema=k STRING, v INT, ts TIMESTAMP,watermark=ts 1 minute"
    query = f"SELECT k, horizon, SUM(v) AS s FROM {ROLLING} GROUP BY k, horizon"
    shown = CliRunner().invoke(main, ["sql", "--format", "csv", "--table", table, "-c", query])
    assert sorted(shown.stdout.splitlines()) == ["a,2 hours,5", "a,hour,5", "k,horizon,s"]
    state = str(tmp_path / "state")
    written = ("--sink", "table", "--checkpoint", state, "--engine", "local")
    ended = CliRunner().invoke(main, ["run", "--table", table, "--sql", query, *written])
    assert ended.exit_code == 0, ended.output
    rows = al.read_table(state).to_pylist()
    assert sorted(map(repr, (list(row.values()) for row in rows))) == [
        "['a', '2 hours', 5]",
        "['a', 'hour', 5]",
    ]
