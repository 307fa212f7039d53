"""Windows in SQL: every way to write one, what it means, and what is said of one that is wrong."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from window_plans import CLOCKED, FIVE, HOUR, KEYS, MINUTE, TVF, assigner, planned, windows

from aggloom import errors
from aggloom.codegen.planner import Plan, WindowTable
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK
from aggloom.codegen.windows import Assigner, Cumulate, Hop, Session, Tumble
from aggloom.errors import SpecError, SqlError, UnsupportedSqlError


def columns(plan: Plan) -> dict[str, pa.DataType]:
    """The names and types of a plan's columns."""
    return dict(zip(plan.schema.names, plan.schema.types, strict=True))


# Table functions


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (f"TUMBLE(TABLE bid, DESCRIPTOR(ts), {HOUR})", Tumble("1 h", "ts")),
        (f"TUMBLE(TABLE bid, DESCRIPTOR(ts), {HOUR}, {FIVE})", Tumble("1 h", "ts", "5 min")),
        (
            f"TUMBLE(TABLE bid, DESCRIPTOR(ts), {HOUR}, -{FIVE})",
            Tumble("1 h", "ts", -5 * MINUTE),
        ),
        (f"HOP(TABLE bid, DESCRIPTOR(ts), {FIVE}, {HOUR})", Hop("1 h", "5 min", "ts")),
        (
            f"HOP(TABLE bid, DESCRIPTOR(ts), {FIVE}, {HOUR}, INTERVAL '1' SECOND)",
            Hop("1 h", "5 min", "ts", "1 s"),
        ),
        (f"CUMULATE(TABLE bid, DESCRIPTOR(ts), {FIVE}, {HOUR})", Cumulate("1 h", "5 min", "ts")),
        (f"SESSION(TABLE bid, DESCRIPTOR(ts), {FIVE})", Session("5 min", "ts")),
        (
            f"tumble(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => {HOUR})",
            Tumble("1 h", "ts"),
        ),
        (
            f'TUMBLE(SIZE => {HOUR}, "OFFSET" => {FIVE}, data => TABLE bid, timecol => DESCRIPTOR(ts))',
            Tumble("1 h", "ts", "5 min"),
        ),
        (
            f"HOP(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => {HOUR}, SLIDE => {FIVE})",
            Hop("1 h", "5 min", "ts"),
        ),
        (
            f"CUMULATE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => {HOUR}, STEP => {FIVE}, OFFSET => {FIVE})",
            Cumulate("1 h", "5 min", "ts", "5 min"),
        ),
        (
            f"SESSION(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), GAP => {FIVE})",
            Session("5 min", "ts"),
        ),
        (f"TUMBLE(TABLE (SELECT ts FROM bid), DESCRIPTOR(ts), {HOUR})", Tumble("1 h", "ts")),
        (f"TUMBLE((SELECT ts FROM bid), DESCRIPTOR(ts), {HOUR})", Tumble("1 h", "ts")),
        (f"TUMBLE(TABLE BID, DESCRIPTOR(TS), {HOUR})", Tumble("1 h", "ts")),
    ],
)
def test_a_table_function_is_its_windows(function: str, expected: Assigner) -> None:
    for source in (f"TABLE({function})", function, f"TABLE({function}) AS w"):
        assert assigner(f"SELECT COUNT(*) FROM {source} {KEYS}") == expected


@pytest.mark.parametrize(
    "keys", ["PARTITION BY name", "PARTITION BY (name)", "PARTITION BY name, cnt"]
)
def test_sessions_have_the_keys_of_partition_by(keys: str) -> None:
    names = keys.removeprefix("PARTITION BY ").strip("()")
    for time in ("DESCRIPTOR(ts)", "TIMECOL => DESCRIPTOR(ts)"):
        data, gap = ("DATA => ", "GAP => ") if "=>" in time else ("", "")
        source = f"TABLE(SESSION({data}TABLE bid {keys}, {time}, {gap}{HOUR}))"
        (node,) = windows(planned(f"SELECT COUNT(*) FROM {source} {KEYS}, {names}"))
        assert node.keys == tuple(names.split(", "))


def test_an_alias_may_rename_the_columns_and_the_bounds() -> None:
    source = f"TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), {HOUR})) AS w (a, b, c, d, x, s, e, t)"
    plan = planned(f"SELECT w.a, w.s, w.t, SUM(w.b) AS n FROM {source} GROUP BY w.a, w.s, w.e, w.t")
    assert list(columns(plan)) == ["a", "s", "t", "n"]
    assert windows(plan)[0].bounds.names == ("window_start", "window_end", "window_time")


def test_a_window_stands_over_views_and_with_queries() -> None:
    function = f"TABLE(TUMBLE(TABLE v, DESCRIPTOR(at), {HOUR}))"
    query = f"SELECT n, SUM(c) AS s FROM {function} {KEYS}, n"
    body = "SELECT name AS n, cnt AS c, ts AS at FROM bid WHERE cnt > 0"
    for script in (f"CREATE VIEW v AS {body}; {query}", f"WITH v AS ({body}) {query}"):
        assert assigner(script) == Tumble("1 h", "at")


def test_rows_with_their_windows_are_a_table() -> None:
    plan = planned(f"SELECT * FROM {TVF}")
    assert list(columns(plan))[-3:] == ["window_start", "window_end", "window_time"]
    assert isinstance(plan.root, WindowTable)


def test_a_column_that_is_called_like_a_bound_is_hidden() -> None:
    plan = planned(f"SELECT * FROM TABLE(TUMBLE(TABLE clock, DESCRIPTOR(ts), {HOUR}))")
    names = ["name", "cnt", "ts", "window_start0", "window_start", "window_end", "window_time"]
    assert list(columns(plan)) == names
    assert columns(plan)["window_start"] == WALL_CLOCK


# The older calls, and Spark's


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (f"TUMBLE(ts, {HOUR})", Tumble("1 h", "ts")),
        (f"tumble(bid.ts, {HOUR}, {FIVE})", Tumble("1 h", "ts", "5 min")),
        (f"HOP(ts, {FIVE}, {HOUR})", Hop("1 h", "5 min", "ts")),
        (f"SESSION(ts, {FIVE})", Session("5 min", "ts")),
        ("window(ts, '1 hour')", Tumble("1 h", "ts")),
        ("window(ts, '1 hour', '1 hour')", Tumble("1 h", "ts")),
        ("window(ts, '1 hour', '5 minutes')", Hop("1 h", "5 min", "ts")),
        ("window(ts, '1 hour', '5 minutes', '1 minute')", Hop("1 h", "5 min", "ts", "1 min")),
        ("window(ts, '1 hour', '1 hour', '1 minute')", Tumble("1 h", "ts", "1 min")),
        ("window(ts, INTERVAL 1 HOUR)", Tumble("1 h", "ts")),
        ("session_window(ts, '5 minutes')", Session("5 min", "ts")),
    ],
)
def test_a_window_in_group_by_is_its_windows(call: str, expected: Assigner) -> None:
    assert assigner(f"SELECT COUNT(*) FROM bid GROUP BY name, {call}") == expected
    assert assigner(f"SELECT COUNT(*) FROM bid WHERE cnt > 1 GROUP BY {call}, 'a'") == expected


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("name", "arguments"), [("TUMBLE", HOUR), ("HOP", f"{FIVE}, {HOUR}"), ("SESSION", HOUR)]
)
def test_the_parts_of_a_window_are_columns(name: str, arguments: str, dialect: str) -> None:
    call = f"(ts, {arguments})"
    parts = f"{name}_START{call}, {name}_END{call} AS e, {name}_ROWTIME{call} AS t"
    plan = planned(
        f"SELECT {parts}, COUNT(*) AS n FROM bid GROUP BY {name}{call} "
        f"HAVING {name}_START{call} < {name}_END{call}",
        dialect,
    )
    bound = WALL_CLOCK if dialect == "flink" else INSTANT
    assert columns(plan) == {"window_start": bound, "e": bound, "t": INSTANT, "n": pa.int64()}


def test_sparks_window_has_fields() -> None:
    query = (
        "SELECT window.start, window.end AS e, COUNT(*) AS n FROM bid GROUP BY window(ts, '1 h')"
    )
    assert list(columns(planned(query))) == ["start", "e", "n"]
    query = "SELECT session_window.end, window_time(session_window) FROM bid GROUP BY session_window(ts, '1 h')"
    assert list(columns(planned(query))) == ["end", "window_time"]


def test_the_time_may_be_computed() -> None:
    query = "SELECT window.start, COUNT(*) FROM bid GROUP BY window(CAST(name AS TIMESTAMP), '1 h')"
    assert assigner(query) == Tumble("1 h", "$time")


def test_a_window_may_be_in_every_grouping_set() -> None:
    call = f"TUMBLE(ts, {HOUR})"
    for group in (f"GROUPING SETS (({call}, name), ({call}))", f"ROLLUP(name), {call}"):
        (node,) = windows(planned(f"SELECT name, COUNT(*) FROM bid GROUP BY {group}"))
        assert node.keys == ("name", "$e")


def test_bounds_have_names_that_no_column_has() -> None:
    plan = planned(
        f"SELECT TUMBLE_END(ts, {HOUR}), window_start FROM clock GROUP BY window_start, TUMBLE(ts, {HOUR})"
    )
    assert list(columns(plan)) == ["window_end", "window_start"]
    assert columns(plan)["window_start"] == pa.int32()


# Lengths of time


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("INTERVAL '10' SECOND", 10_000),
        ("INTERVAL '0.003' SECOND", 3),
        ("INTERVAL '1' DAY", 86_400_000),
        ("INTERVAL '1' DAY(3)", 86_400_000),
        ("INTERVAL '7' SECOND(3)", 7000),
        ("INTERVAL '1:30' HOUR TO MINUTE", 90 * MINUTE),
        ("INTERVAL '2 03:04:05.006' DAY TO SECOND", 183_845_006),
        ("INTERVAL '01:30' MINUTE TO SECOND", 90_000),
        ("INTERVAL 10 SECONDS", 10_000),
        ("INTERVAL '1 hour'", 60 * MINUTE),
        ("INTERVAL '1 hour 30 minutes'", 90 * MINUTE),
        ("INTERVAL 1 HOUR 30 MINUTES", 90 * MINUTE),
        ("'2 weeks'", 1_209_600_000),
        ("'interval 5 minutes'", 5 * MINUTE),
    ],
)
def test_lengths_of_time(text: str, ms: int) -> None:
    assert assigner(f"SELECT COUNT(*) FROM bid GROUP BY TUMBLE(ts, {text})") == Tumble(ms, "ts")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("INTERVAL '1-2' YEAR TO MONTH", "a year has no fixed length"),
        ("'1 year'", "a year has no fixed length"),
        ("INTERVAL '0' HOUR", "longer than nothing; write a larger one"),
        ("INTERVAL '-1' HOUR", "longer than nothing"),
        ("INTERVAL '0.0001' SECOND", "whole milliseconds"),
        ("INTERVAL 'x' SECOND", "no length of time; write INTERVAL '10' MINUTE"),
        ("INTERVAL '1:2:3' HOUR TO MINUTE", "HOUR TO MINUTE are 2 numbers"),
        ("cnt", "no length of time; write INTERVAL '10' MINUTE"),
        ("'1 fortnight'", "a duration such as"),
    ],
)
def test_a_wrong_length_says_why(text: str, words: str) -> None:
    with pytest.raises(SqlError) as caught:
        planned(f"SELECT COUNT(*) FROM bid GROUP BY TUMBLE(ts, {text})")
    assert words in str(caught.value).splitlines()[0]
    assert "^" in str(caught.value)


# Refusals

WRONG = """
FROM TABLE(TUMBEL(TABLE bid, DESCRIPTOR(ts), $HOUR))
    UnknownFunctionError at TUMBEL: Did you mean 'TUMBLE'?
FROM TABLE(explode(bid))
    UnknownColumnError at bid: no column 'bid'
FROM foo(TABLE bid)
    UnknownFunctionError at foo: no function 'foo' takes a table. Known: 'TUMBLE'
FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), $HOUR)
    UnknownTableError at bids: Did you mean 'bid'?
FROM TUMBLE(TABLE bid, DESCRIPTOR(tz), $HOUR)
    UnknownColumnError at tz: no column 'tz'
FROM SESSION(TABLE bid PARTITION BY nam, DESCRIPTOR(ts), $HOUR)
    UnknownColumnError at nam: Did you mean 'name'?
FROM TUMBLE(TABLE bid, DESCRIPTOR(cnt), $HOUR)
    TypeMismatchError at cnt: column 'cnt' is INT: make it one before, by CAST
FROM bid GROUP BY TUMBLE(name, $HOUR)
    TypeMismatchError at name: TO_TIMESTAMP(name)
FROM TUMBLE(TABLE bid, DESCRIPTOR(ts))
    SqlError at TUMBLE: SIZE is missing
FROM TUMBLE(TABLE bid, ts, $HOUR)
    SqlError at ts: write DESCRIPTOR(ts)
FROM TUMBLE(TABLE bid, DESCRIPTOR(ts, cnt), $HOUR)
    SqlError at DESCRIPTOR: write DESCRIPTOR(ts)
FROM TUMBLE(TABLE bid, DESCRIPTOR(cnt + 1), $HOUR)
    UnsupportedSqlError at cnt: DESCRIPTOR of an expression is not supported here
FROM TUMBLE(bid, DESCRIPTOR(ts), $HOUR)
    SqlError at bid: write TABLE and its name
FROM HOP(TABLE bid, DESCRIPTOR(ts), $FIVE, $HOUR, $HOUR, $HOUR)
    SqlError at '1': takes at most 5
FROM HOP(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), GAP => $HOUR)
    SqlError at '1': no argument 'GAP'
FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), $HOUR, SIZE => $HOUR)
    SqlError at '1': SIZE twice
FROM TUMBLE(TABLE bid PARTITION BY name, DESCRIPTOR(ts), $HOUR)
    SqlError at name: take PARTITION BY out
FROM CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '7' MINUTE, $HOUR)
    SpecError at CUMULATE: no multiple of the step
FROM bid GROUP BY CUMULATE(ts, $FIVE, $HOUR)
    UnsupportedSqlError at CUMULATE: read FROM TABLE(CUMULATE(
FROM bid GROUP BY TUMBLE(DESCRIPTOR(ts), $HOUR)
    SqlError at DESCRIPTOR: takes the time column itself
FROM bid GROUP BY TUMBLE(ts, $HOUR), HOP(ts, $FIVE, $HOUR)
    UnsupportedSqlError at HOP: a window other than that of GROUP BY
FROM bid GROUP BY ROLLUP(name, TUMBLE(ts, $HOUR))
    UnsupportedSqlError at TUMBLE: write it beside the other keys
FROM bid WHERE TUMBLE_END(ts, $HOUR) > ts GROUP BY TUMBLE(ts, $HOUR)
    UnsupportedSqlError at TUMBLE_END: outside GROUP BY
SELECT TUMBLE_START(ts, $HOUR) FROM bid
    UnsupportedSqlError at TUMBLE_START: TUMBLE_START outside GROUP BY
SELECT TUMBLE_START(ts, $FIVE) FROM bid GROUP BY TUMBLE(ts, $HOUR)
    UnsupportedSqlError at TUMBLE_START: write the same times in both
SELECT HOP_START(ts, $FIVE, $HOUR) FROM bid GROUP BY TUMBLE(ts, $HOUR)
    UnsupportedSqlError at HOP_START: write the same times in both
SELECT TUMBLE(ts, $HOUR) FROM bid GROUP BY TUMBLE(ts, $HOUR)
    UnsupportedSqlError at TUMBLE: take its start and end
SELECT window(ts, '1 h') FROM bid
    UnsupportedSqlError at window: WINDOW outside GROUP BY
SELECT session_window FROM bid GROUP BY session_window(ts, '1 h')
    UnsupportedSqlError at session_window: select session_window.start
"""


def wrong() -> list[tuple[str, type[SpecError], str, str]]:
    """The queries that are wrong, with the error, the words of its first line, and what it marks."""
    text = WRONG.replace("$HOUR", HOUR).replace("$FIVE", FIVE).strip().splitlines()
    found = []
    for query, expected in zip(text[::2], text[1::2], strict=True):
        name, place, words = re.fullmatch(r"    (\w+) at (\S+): (.*)", expected).groups()  # type: ignore[union-attr]
        select = "" if query.startswith("SELECT") else "SELECT COUNT(*) "
        found.append((select + query, getattr(errors, name), words, place))
    return found


@pytest.mark.parametrize(("query", "error", "words", "place"), wrong())
def test_what_is_wrong_is_told_with_its_place(
    query: str, error: type[SpecError], words: str, place: str
) -> None:
    with pytest.raises(error) as caught:
        planned(query)
    first, at, line, carets = str(caught.value).splitlines()
    assert words in first
    assert at.startswith("At line 1")
    marked = line[carets.index("^") : carets.rindex("^") + 1]
    assert marked.startswith(place)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            f"SESSION(TABLE bid, DESCRIPTOR(ts), {HOUR})) {KEYS}, name",
            "sessions with no PARTITION BY are not those",
        ),
        (
            f"SESSION(TABLE bid PARTITION BY name, DESCRIPTOR(ts), {HOUR})) {KEYS}",
            "sessions with PARTITION BY name are not those",
        ),
        (
            f"SESSION(TABLE bid PARTITION BY name, DESCRIPTOR(ts), {HOUR})) WHERE cnt > 1 {KEYS}, name",
            "WHERE `cnt` > 1 is applied after",
        ),
        (
            f"SESSION(TABLE bid, DESCRIPTOR(ts), {HOUR})) GROUP BY window_start",
            "GROUP BY lacks the window's start or end",
        ),
    ],
)
def test_groups_that_are_no_sessions_have_rows_of_sessions(source: str, words: str) -> None:
    plan = planned(f"SELECT COUNT(*) FROM TABLE({source}")
    notes = [note for listed in plan.notes.by_spec.values() for note in listed]
    assert any(words in note.why for note in notes if not note.fired)
    assert any(note.rule == "session_rows" and note.fired for note in notes)
    assert plan.awaits_watermark and plan.root.changelog != ("I",)


def test_windows_by_the_clock_are_laid_out_by_it_where_they_are_not_grouped_by() -> None:
    query = f"SELECT name, window_end FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(pt), {HOUR}))"
    plan = planned(f"{CLOCKED}{query}")
    assert plan.reads_clock and not plan.awaits_watermark


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT COUNT(*) FROM {TVF.replace('bid', 't')} {KEYS}",
        f"SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, {HOUR})",
    ],
)
def test_a_single_spec_has_no_windows(query: str) -> None:
    with pytest.raises(UnsupportedSqlError, match="a window is not supported here"):
        AggSpec.from_sql(query, "ts TIMESTAMP")


def test_words_of_windows_are_names_elsewhere() -> None:
    plan = planned("SELECT window, COUNT(*) AS session FROM bid GROUP BY `window`")
    assert list(columns(plan)) == ["window", "session"]
