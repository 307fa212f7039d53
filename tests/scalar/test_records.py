"""Records in texts, FROM_JSON and TO_JSON: equal to Spark's over random records, of which half have mistakes."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from record_texts import JSON_TYPES, random_document, random_texts
from scalar_oracle import by_spark, differences, evaluate, lowered

import aggloom as al
from aggloom import local
from aggloom.errors import DataError, InvalidCastError, UnsupportedExpressionError

ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'"})
EDGES = (
    *('{"a":1', '{"a":1,"b":tru}', "null", "[]", "", " ", '{"a":1}x', "{'a':1}", '{"a":1,"a":"x"}'),
    *(
        '{"a":1,"b":{"c":tru},"d":1}',
        '{"a":[1,tru],"d":1}',
        '{"a":"\\ud83d"}',
        '{"b":{"c":"\\ud83d"}}',
    ),
    *('{"a":01}', '{"a":[1.],"d":2}', '{"a":[0.],"d":2}', '{"a":[-],"d":2}', '{"a":[1e],"d":2}'),
    "[" * 299 + "]" * 299,
)


def batch_of(texts: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["s"])


def values(sql: str, *texts: str | None, zone: str = "UTC") -> list[Any]:
    rows: list[Any] = lowered(sql, batch_of(list(texts)), zone).to_pylist()
    return rows


@pytest.mark.spark
@pytest.mark.parametrize(("seed", "zone"), [(1, "UTC"), (2, "Europe/Berlin")])
def test_random_documents_are_spark_s_rows(spark: Any, seed: int, zone: str) -> None:
    batch = batch_of([*EDGES, *random_texts(random_document, seed, 2000)])
    expressions = [f"from_json(s, '{kind}')" for kind in JSON_TYPES]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        theirs = by_spark(spark, expressions, batch)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for place, sql in enumerate(expressions):
        rows = readable_rows(sql, batch, zone)
        mine = lowered(sql, batch.take(pa.array(rows)), zone)
        assert len(rows) > 0.98 * batch.num_rows
        assert differences(mine, theirs.column(place).take(pa.array(rows)))[:3] == [], sql


def readable_rows(sql: str, batch: pa.RecordBatch, zone: str) -> list[int]:
    """The rows without a time that only Spark reads, which is an error."""

    def is_readable(row: int) -> bool:
        try:
            lowered(sql, batch.slice(row, 1), zone)
        except DataError:
            return False
        return True

    try:
        lowered(sql, batch, zone)
    except DataError:
        return [row for row in range(batch.num_rows) if is_readable(row)]
    return list(range(batch.num_rows))


OPTIONS = (
    'from_json(\'{"a": "29.2.2020", "b": "29/02/2020 12:30"}\', \'a DATE, b TIMESTAMP\', '
    "map('dateFormat', 'd.M.yyyy', 'timestampFormat', 'dd/MM/yyyy HH:mm'))",
    "from_json(s, 'a INT, bad STRING', map('columnNameOfCorruptRecord', 'bad'))",
    "from_json('{\"a\": 1}', 'a INT NOT NULL', map('mode', 'failfast'))",
    "to_json(named_struct('a', s, 'b', CAST(NULL AS INT)), map('ignoreNullFields', 'false'))",
    "to_json(named_struct('a', DATE '2020-02-29', 't', TIMESTAMP_NTZ '2020-02-29 12:34:56.5'), "
    "map('dateFormat', 'dd.MM', 'timestampNTZFormat', 'yyyy HH'))",
    "to_json(named_struct('t', TIMESTAMP '2020-02-29 12:34:56.123456', 'x', 0.0000001, 'y', s))",
    "to_json(named_struct('h', TIME '12:00:00.5'))",
    "to_json(map(1, 'a', 2, NULL))",
    "to_json(map(1.50, s, 2.25, NULL))",
    "to_json(array(named_struct('a', CAST(s AS BINARY), 'b', double('NaN'), 'c', 1e20D, 'd', float(0.1))))",
    "from_json(to_json(named_struct('a', array(1, NULL), 'm', map('k', s))), 'a ARRAY<INT>, m MAP<STRING, STRING>')",
)


@pytest.mark.spark
def test_inferred_types_are_spark_s(spark: Any) -> None:
    """Documents without mistakes; others, and words beyond JSON, are refused."""
    expressions = {}
    for text in random_texts(random_document, 5, 400):
        sql = f"schema_of_json('{(text or '').translate(ESCAPES)}')"
        with suppress(UnsupportedExpressionError):
            expressions[sql] = evaluate(sql, batch_of(["x"]))
    assert len(expressions) > 60
    theirs = by_spark(spark, list(expressions), batch_of(["x"]))
    for place, (sql, mine) in enumerate(expressions.items()):
        assert differences(mine, theirs.column(place)) == [], sql


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_options_are_spark_s(spark: Any, zone: str) -> None:
    batch = batch_of([*EDGES[:12], 'é🙂\u0001"\\/', None])
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        theirs = by_spark(spark, OPTIONS, batch)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for place, sql in enumerate(OPTIONS):
        assert differences(lowered(sql, batch, zone), theirs.column(place)) == [], sql


def test_a_bad_record_is_an_error_in_failfast() -> None:
    sql = "from_json(s, 'a INT', map('mode', 'FAILFAST'))"
    assert values(sql, '{"a": 1}', "", None) == [{"a": 1}, None, None]
    for bad in ('{"a": "x"}', '{"a": 1', "null", "[]"):
        with pytest.raises(InvalidCastError, match=r"FROM_JSON.*FAILFAST"):
            values(sql, bad)


def test_what_only_spark_reads_is_an_error_and_no_null() -> None:
    for text, kind in (("18000", "DATE"), ("-200000", "DATE"), ("12:30", "TIMESTAMP")):
        with pytest.raises(DataError, match="only Spark reads"):
            values(f"from_json(s, 'a {kind}')", f'{{"a": "{text}"}}')
    with pytest.raises(DataError, match="300 levels"):
        values("from_json(s, 'ARRAY<STRING>')", "[" * 400 + "]" * 400)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("from_json(s, 'INT')", "a record is a ROW, ARRAY or MAP"),
        ("from_json(s, 'a BINARY')", "UNBASE64"),
        ("from_json(s, 'a ARRAY<TIME>')", "CAST the field AS TIME"),
        ("from_json(s, 'v VARIANT')", "PARSE_JSON"),
        ("from_json(s, 'MAP<INT, INT>')", "only STRING is a key"),
        ("from_json(s, 'a VARCHAR(3)')", "as its schema"),
        ("from_json(s, 'a NOSUCH')", "as its schema"),
        (
            "from_json(s, 'a INTT')",
            "column 'a': 'INTT' is not a supported type. Did you mean 'INT'",
        ),
        ("from_json(s, 'ARRAY<STRIN>')", "'STRIN' is not a supported type. Did you mean 'STRING'"),
        ("from_json(s, s)", "needs its schema as a literal"),
        ("from_json(s, schema_of_json(s))", "needs its document as one literal"),
        ("from_json(s, schema_of_json('{'))", "needs a document of JSON"),
        ('schema_of_json(\'{"a": 1, "a": 2}\')', "a name comes twice"),
        ("schema_of_json('{\"a\": NaN}')", "NaN is no JSON"),
        ("schema_of_json('{}', map('prefersDecimal', 'true'))", "as one literal"),
        ("from_json(1, 'a INT')", "CAST it AS STRING"),
        ("from_json(s, 'a INT', map('mode', 'DROPMALFORMED'))", "write PERMISSIVE or FAILFAST"),
        (
            "from_json(s, 'a INT', map('allowComments', 'true'))",
            "option 'allowcomments', which is outside what runs without Spark",
        ),
        ("from_json(s, 'a INT', map('mode', 'FAILFAST', 'MODE', 'x'))", "option 'mode' twice"),
        ("from_json(s, 'a INT', s)", "literals"),
        ("from_json(s, 'a INT, _corrupt_record INT')", "declare it as STRING"),
        ("to_json(s)", "give it a ROW, ARRAY, MAP or VARIANT"),
        ("to_json(map(DATE '2020-01-01', 1))", "TRANSFORM_KEYS"),
        ("to_json(named_struct('a', 1), map('pretty', 'true'))", "option 'pretty'"),
    ],
)
def test_refusals_name_what_to_write(sql: str, said: str) -> None:
    with pytest.raises(UnsupportedExpressionError) as raised:
        evaluate(sql, batch_of(["x"]))
    assert said in str(raised.value)


QUERY = (
    "SELECT r.k AS k, COUNT(*) AS n, SUM(r.v) AS v, MAX(to_json(r)) AS j "
    "FROM (SELECT from_json(s, 'k STRING, v INT') AS r FROM t) WHERE r.v > 1 GROUP BY r.k"
)


def test_records_are_computed_alike_for_rows_that_come_and_go() -> None:
    """In the harness and the local engine, over insertions and retractions, beside Python's own JSON."""
    draw = random.Random(3)
    records = [f'{{"k": "{draw.choice("ab")}", "v": {draw.randrange(5)}}}' for _ in range(40)]
    records += ['{"k": "a"}', "{", '{"k": 1, "v": 2}']
    gone = draw.sample(records, 15)
    rows = [("+I", text) for text in records] + [("-D", text) for text in gone]
    left = list(records)
    for text in gone:
        left.remove(text)
    with al.Harness.from_sql(QUERY, {"t": "s STRING"}, backend="python") as harness:
        harness.process(rows)
        harness.flush()
        table = sorted(harness.table())
    stream = local.sql(QUERY, t=local.from_rows(rows, "s STRING"), backend="python")
    assert sorted(tuple(row.values()) for row in local.collect(stream).to_pylist()) == table
    expected: dict[str, list[Any]] = {}
    for text in left:
        (row,) = values("from_json(s, 'k STRING, v INT')", text)
        if row["v"] is not None and row["v"] > 1:
            expected.setdefault(row["k"], []).append(row["v"])
    assert [(k, n, v) for k, n, v, _ in table] == [
        (k, len(vs), sum(vs)) for k, vs in sorted(expected.items())
    ]
    assert table[-1][3] == f'{{"k":"b","v":{max(expected["b"])}}}'
