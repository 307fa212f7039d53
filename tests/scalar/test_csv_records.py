"""Lines of CSV, FROM_CSV and TO_CSV: Spark's over random lines, of which half have mistakes, and random rows."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from record_texts import CSV_TYPES, random_field, random_line, random_texts
from scalar_oracle import by_spark, differences, evaluate, lowered

import aggloom as al
from aggloom import local
from aggloom.errors import DataError, InvalidCastError, UnsupportedExpressionError
from tests.scalar.test_records import ESCAPES, batch_of, readable_rows, values

EDGES = (
    *(
        "",
        " ",
        ",",
        ",,",
        "a,",
        ',"',
        '"',
        '""',
        '"",',
        '"" ',
        '"a" ,b',
        '"a" b,c',
        '"a"b,c',
        '"a""b",c',
        '"a"",b',
    ),
    *(
        '"a\\"b",c',
        '"a\\\\",c',
        '"a\\nb"',
        '"a,b',
        'a,"b',
        '"a\\',
        '"a\\"',
        '"""',
        '"a"b',
        '"a" ',
        '"a" \t',
        'a"b"',
    ),
    *(
        ' "a"',
        '"a""",b',
        '""""',
        '"" x',
        '"\\"',
        '"\\\\"',
        "1,2,3,4",
        "\ufeff1,2",
        "#1,2",
        "1,x,2",
        '"1","2","3"',
    ),
)


@pytest.mark.spark
@pytest.mark.parametrize(("seed", "zone"), [(1, "UTC"), (2, "Europe/Berlin")])
def test_random_lines_are_spark_s_rows(spark: Any, seed: int, zone: str) -> None:
    # An empty line behind another one gets that one's text from Spark, as a bad record.
    lines = [text for text in random_texts(random_line, seed, 900) if text != ""]
    batch = batch_of([*EDGES, *lines])
    expressions = [f"from_csv(s, '{kind}')" for kind in CSV_TYPES]
    expressions += [
        "from_csv(s, 'a INT, b STRING, c STRING', map('sep', ';'))",
        "from_csv(s, 'a STRING, b STRING, c STRING', map('delimiter', '\\t', 'nullValue', 'x'))",
        "from_csv(s, 'a STRING, b DATE, bad STRING', "
        "map('dateFormat', 'd.M.yyyy', 'columnNameOfCorruptRecord', 'bad'))",
    ]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        theirs = by_spark(spark, expressions, batch)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for place, sql in enumerate(expressions):
        rows = readable_rows(sql, batch, zone)
        mine = lowered(sql, batch.take(pa.array(rows)), zone)
        assert len(rows) > 0.96 * batch.num_rows
        assert differences(mine, theirs.column(place).take(pa.array(rows)))[:3] == [], sql


WRITTEN = (
    "to_csv(named_struct('a', s, 'b', i, 'c', t, 'd', f))",
    "to_csv(named_struct('a', s))",
    "to_csv(named_struct('a', t, 'b', s), map('sep', ';', 'nullValue', ' - '))",
    "to_csv(named_struct('a', CAST(f AS FLOAT), 'b', CAST(i AS DECIMAL(20,8)), 'c', i > 1, 'd', s), map('sep', '\\t'))",
    "to_csv(named_struct('a', DATE '2020-02-29', 'b', TIMESTAMP '2020-02-29 12:34:56.5', "
    "'c', TIMESTAMP_NTZ '2020-02-29 12:34:56.123456', 'd', CAST(i AS DECIMAL(20,8)) / 100000000))",
    "to_csv(named_struct('a', DATE '2020-02-29', 'b', TIMESTAMP '2020-02-29 12:34:56.5'), "
    "map('dateFormat', 'dd,MM', 'timestampFormat', 'yyyy HH'))",
    "from_csv(to_csv(named_struct('a', t, 'b', s, 'c', i)), 'a STRING, b STRING, c INT')",
)


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_random_rows_are_spark_s_lines(spark: Any, zone: str) -> None:
    draw = random.Random(zone)
    texts = [*(random_field(draw) for _ in range(200)), None]
    texts += ["".join(draw.choices('ab"\\, \n\r\t#;-', k=draw.randrange(7))) for _ in range(600)]
    columns = {
        "s": pa.array(texts, pa.string()),
        "t": pa.array(draw.sample(texts, len(texts)), pa.string()),
        "i": pa.array([draw.choice((0, 1, -5, 10**9, None)) for _ in texts], pa.int32()),
        "f": pa.array([draw.choice((0.1, 1e20, -0.0, 1e-7, float("nan"), None)) for _ in texts]),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        theirs = by_spark(spark, WRITTEN, batch)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for place, sql in enumerate(WRITTEN):
        rows = readable_rows(sql, batch, zone)
        mine = lowered(sql, batch.take(pa.array(rows)), zone)
        assert len(rows) > 0.9 * batch.num_rows
        assert differences(mine, theirs.column(place).take(pa.array(rows)))[:3] == [], sql


@pytest.mark.spark
def test_inferred_types_are_spark_s(spark: Any) -> None:
    """Lines whose fields are no times but dates; others are refused."""
    expressions = {}
    for text in [*EDGES, *random_texts(random_line, 5, 300)]:
        sql = f"schema_of_csv('{(text or '').translate(ESCAPES)}')"
        with suppress(UnsupportedExpressionError):
            expressions[sql] = evaluate(sql, batch_of(["x"]))
    assert len(expressions) > 50
    theirs = by_spark(spark, list(expressions), batch_of(["x"]))
    for place, (sql, mine) in enumerate(expressions.items()):
        assert differences(mine, theirs.column(place)) == [], sql


def test_a_bad_line_is_an_error_in_failfast() -> None:
    sql = "from_csv(s, 'a INT, b STRING', map('mode', 'FAILFAST'))"
    assert values(sql, "1,x", None, ",") == [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]
    for bad in ("x,y", "1", "1,2,3", ""):
        with pytest.raises(InvalidCastError, match=r"FROM_CSV.*FAILFAST"):
            values(sql, bad)


def test_what_only_spark_reads_is_an_error_and_no_null() -> None:
    for text in ('"a"\\b,c', "a\0b", "0x1p3"):
        with pytest.raises(DataError, match="only Spark reads"):
            values("from_csv(s, 'a DOUBLE')", text)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("from_csv(s, 'INT')", "a line of CSV is a ROW"),
        ("from_csv(s, 'a ARRAY<INT>')", "FROM_JSON around the field"),
        ("from_csv(s, 'a BINARY')", "UNBASE64"),
        ("from_csv(s, 'a INTT')", "column 'a': 'INTT' is not a supported type. Did you mean 'INT'"),
        ("from_csv(s, s)", "needs its schema as a literal"),
        ("from_csv(1, 'a INT')", "CAST it AS STRING"),
        ("from_csv(s, 'a INT', map('header', 'true'))", "option 'header', which is outside"),
        ("from_csv(s, 'a INT', map('sep', '||'))", "a separator is one character"),
        ("from_csv(s, 'a INT', map('sep', ';', 'delimiter', ';'))", "leave one out"),
        ("from_csv(s, 'a INT', map('mode', 'DROPMALFORMED'))", "write PERMISSIVE or FAILFAST"),
        ("from_csv(s, 'a INT, _corrupt_record INT')", "declare it as STRING"),
        ("to_csv(s)", "give it a ROW"),
        ("to_csv(named_struct('a', 1), map('nullValue', '\"'))", "leave the quote out"),
        ("to_csv(named_struct('a', array(1)))", "with TO_JSON or BASE64"),
        ("to_csv(named_struct('a', 1), map('quoteAll', 'true'))", "option 'quoteall'"),
        ("schema_of_csv(s)", "needs its line as a literal"),
        ("schema_of_csv('12:30')", "is known to Spark alone"),
        ("schema_of_csv('1', map('header', 'true'))", "option 'header'"),
    ],
)
def test_refusals_name_what_to_write(sql: str, said: str) -> None:
    with pytest.raises(UnsupportedExpressionError) as raised:
        evaluate(sql, batch_of(["x"]))
    assert said in str(raised.value)


QUERY = (
    "SELECT r.k AS k, COUNT(*) AS n, SUM(r.v) AS v, MAX(to_csv(r)) AS c "
    "FROM (SELECT from_csv(s, 'k STRING, v INT') AS r FROM t) WHERE r.v > 1 GROUP BY r.k"
)


def test_lines_are_computed_alike_for_rows_that_come_and_go() -> None:
    """In the harness and the local engine, over insertions and retractions, beside a table made in Python."""
    draw = random.Random(3)
    lines = [f'"{draw.choice("ab")}",{draw.randrange(5)}' for _ in range(40)] + [
        "a",
        "",
        "x,y",
        "b,2,3",
    ]
    gone = draw.sample(lines, 15)
    changes = [("+I", text) for text in lines] + [("-D", text) for text in gone]
    left = Counter(lines) - Counter(gone)
    rows = [line.replace('"', "").split(",")[:2] for line in left.elements() if line.count(",")]
    numbers = [(key, int(value)) for key, value in rows if value.isdigit() and int(value) > 1]
    expected = sorted(
        (key, len(own), sum(own), f"{key},{max(own)}")
        for key in {key for key, _ in numbers}
        for own in [[value for other, value in numbers if other == key]]
    )
    with al.Harness.from_sql(QUERY, {"t": "s STRING"}, backend="python") as harness:
        harness.process(changes)
        harness.flush()
        assert sorted(harness.table()) == expected
    source = local.from_rows(changes, "s STRING")
    found = local.collect(local.sql(QUERY, t=source, backend="python")).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == expected
