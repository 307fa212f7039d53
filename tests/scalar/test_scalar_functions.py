"""The types of Spark's functions, and which of them change from run to run, held against Spark's own analyser."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from versions import about_newest

import aggloom as al
from aggloom.codegen.scalar.expressions import infer_type
from aggloom.codegen.scalar.function_types import RULES
from aggloom.codegen.scalar.nondeterminism import CHANGING
from aggloom.codegen.scalar.own_functions import OWN_FUNCTIONS
from aggloom.codegen.scalar.variant_types import RULES as VARIANT_RULES
from aggloom.codegen.spec.agg_spec import to_schema
from aggloom.codegen.spec.dtypes import parse_type, type_name
from aggloom.errors import (
    AggloomError,
    SpecError,
    UnknownFunctionError,
    UnsupportedExpressionError,
    UnsupportedSqlError,
)

DDL = (
    "i INT, l BIGINT, y TINYINT, h SMALLINT, s STRING, b BINARY, d DATE, ts TIMESTAMP, n TIMESTAMP_NTZ, f FLOAT, "
    "g DOUBLE, x DECIMAL(10,2), z DECIMAL(20,4), a ARRAY<INT>, q ARRAY<STRING>, m MAP<STRING,INT>, ok BOOLEAN"
)
# One call or more of every function in the table, by what it takes.
OF_TEXT = (
    "ascii base64 bit_length btrim char_length character_length collation crc32 hex initcap is_valid_utf8 "
    "json_array_length json_object_keys lcase len length lower ltrim luhn_check make_valid_utf8 mask md5 octet_length "
    "quote reverse rtrim sentences sha sha1 soundex str_to_map to_base32 trim try_url_decode try_validate_utf8 ucase "
    "unbase64 unhex upper url_decode url_encode validate_utf8 from_base32 to_binary try_to_binary"
)
OF_NUMBER = (
    "abs acos acosh asin asinh atan atanh bin bit_count bround cbrt ceil ceiling char chr cos cosh cot csc degrees exp "
    "expm1 factorial floor hash ln log log10 log1p log2 negative nullifzero positive radians rint round sec sign "
    "signum sin sinh space sqrt tan tanh typeof xxhash64 zeroifnull isnan bigint boolean decimal double float "
    "int smallint string tinyint bitmap_bit_position bitmap_bucket_number isnull isnotnull timestamp_micros "
    "timestamp_millis timestamp_seconds date_from_unix_date from_unixtime coalesce array struct concat_ws"
)
OF_TIME = (
    "day dayname dayofmonth dayofweek dayofyear hour last_day minute month monthname quarter second to_date "
    "to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp try_to_date try_to_timestamp "
    "unix_timestamp weekday weekofyear year date timestamp"
)
OF_TWO_NUMBERS = (
    "atan2 bit_get div equal_null getbit greatest hypot ifnull least mod nanvl nullif nvl pmod pow power "
    "shiftleft shiftright shiftrightunsigned try_add try_divide try_mod try_multiply try_subtract"
)
OF_TWO_TEXTS = (
    "contains encode endswith find_in_set get_json_object ilike instr jaro_winkler_similarity levenshtein like locate "
    "parse_url position regexp regexp_count regexp_extract_all regexp_instr regexp_like regexp_substr rlike split "
    "startswith try_parse_url xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number "
    "xpath_short xpath_string decode aes_decrypt try_aes_decrypt hmac"
)
OF_ARRAY = (
    "array_compact array_distinct array_max array_min array_size array_sort cardinality reverse size "
    "sort_array to_json"
)
OTHERS = [
    *(
        "bitmap_count(b)",
        "binary(s)",
        "unix_date(d)",
        "bround(x, 1)",
        "ceil(x)",
        "floor(x)",
        "ceil(z)",
        "abs(x)",
        "abs(f)",
        "round(x, 1)",
    ),
    *(
        "round(g, 1)",
        "negative(x)",
        "mod(x, 3)",
        "pmod(x, z)",
        "try_add(x, z)",
        "try_divide(x, i)",
        "try_multiply(x, z)",
    ),
    *(
        "try_subtract(x, 1)",
        "x || s",
        "b || b",
        "a || a",
        "concat(s, i)",
        "concat(b, b)",
        "concat(a, a)",
        "reverse(a)",
    ),
    *(
        "left(s, 2)",
        "left(b, 2)",
        "right(s, 2)",
        "lpad(s, 3, ' ')",
        "lpad(b, 3, x'00')",
        "rpad(s, 3)",
    ),
    *(
        "overlay(s PLACING 'a' FROM 1)",
        "overlay(s, 'a', 1)",
        "substr(s, 1)",
        "substring(b, 1, 2)",
        "substring(s, 1)",
    ),
    *(
        "conv(s, 10, 2)",
        "date_format(ts, 'yyyy')",
        "format_number(g, 2)",
        "format_string('%s', s)",
        "printf('%d', i)",
    ),
    *(
        "regexp_extract(s, 'a', 0)",
        "regexp_replace(s, 'a', 'b')",
        "repeat(s, 2)",
        "replace(s, 'a')",
        "e()",
        "pi()",
    ),
    *(
        "schema_of_csv('a')",
        "schema_of_json('{}')",
        "sha2(s, 256)",
        "split_part(s, ',', 1)",
        "array_join(q, ',')",
    ),
    *(
        "substring_index(s, ',', 1)",
        "to_char(ts, 'yyyy')",
        "to_varchar(ts, 'yyyy')",
        "to_csv(struct(i))",
    ),
    *(
        "translate(s, 'a', 'b')",
        "array_position(a, 1)",
        "unix_micros(ts)",
        "unix_millis(ts)",
        "unix_seconds(ts)",
    ),
    *(
        "months_between(d, ts)",
        "array_contains(a, 1)",
        "arrays_overlap(a, a)",
        "exists(a, v -> v > 1)",
        "nvl(i, x)",
    ),
    *(
        "forall(a, v -> v > 1)",
        "map_contains_key(m, 'a')",
        "add_months(d, 1)",
        "date_sub(d, 1)",
        "next_day(d, 'MO')",
    ),
    *(
        "make_date(i, 1, 1)",
        "trunc(d, 'month')",
        "date_trunc('hour', ts)",
        "date_trunc('hour', n)",
        "i & l",
        "~i",
    ),
    *(
        "date_trunc('hour', d)",
        "from_utc_timestamp(ts, 'UTC')",
        "to_utc_timestamp(ts, 'UTC')",
        "a[0]",
        "m['a']",
    ),
    *(
        "make_timestamp(i, 1, 1, 1, 1, 1)",
        "make_timestamp_ltz(i, 1, 1, 1, 1, 1)",
        "make_timestamp_ntz(i, 1, 1, 1, 1, 1)",
    ),
    *("try_make_timestamp(i, 1, 1, 1, 1, 1)", "try_make_timestamp_ltz(i, 1, 1, 1, 1, 1)"),
    *(
        "try_make_timestamp_ntz(i, 1, 1, 1, 1, 1)",
        "convert_timezone('UTC', n)",
        "date_add(d, 1)",
        "dateadd(d, 1)",
    ),
    *(
        "dateadd(HOUR, 1, ts)",
        "dateadd(DAY, 1, d)",
        "timestampadd(HOUR, 1, n)",
        "timestampdiff(DAY, d, ts)",
    ),
    *(
        "date_add(MONTH, 1, ts)",
        "datediff(d, ts)",
        "datediff(HOUR, d, ts)",
        "date_diff(d, d)",
        "date_diff(DAY, d, d)",
    ),
    *(
        "date_part('hour', ts)",
        "date_part('second', ts)",
        "datepart('SECONDS', ts)",
        "EXTRACT(SECOND FROM ts)",
    ),
    *(
        "EXTRACT(HOUR FROM ts)",
        "EXTRACT(DAY FROM d)",
        "if(ok, i, x)",
        "nvl2(s, i, l)",
        "coalesce(i, x)",
        "greatest(i, g)",
    ),
    *(
        "aggregate(a, 0, (u, v) -> u + v)",
        "reduce(a, 0, (u, v) -> u + v, u -> u * 1.5)",
        "get(a, 0)",
        "nanvl(f, f)",
    ),
    *(
        "element_at(a, 1)",
        "element_at(m, 'a')",
        "try_element_at(m, 'a')",
        "array_append(a, 1)",
        "array_prepend(a, 1)",
    ),
    *(
        "array_insert(a, 1, 5)",
        "array_except(a, a)",
        "array_intersect(a, a)",
        "array_union(a, a)",
        "array_remove(a, 1)",
    ),
    *(
        "filter(a, v -> v > 1)",
        "slice(a, 1, 2)",
        "array_sort(a, (u, v) -> u - v)",
        "array(1, l)",
        "array_repeat(s, 2)",
    ),
    *(
        "decode(b, 'utf-8')",
        "decode(i, 1, 'a', 'b')",
        "decode(i, 1, 'a', 2, 'b')",
        "elt(1, s, s)",
        "flatten(array(a, a))",
    ),
    *(
        "from_json(s, 'u INT, v ARRAY<STRING>')",
        "from_json(s, 'ARRAY<INT>')",
        "from_csv(s, 'u INT')",
        "map('a', 1)",
    ),
    *(
        "map(i, 1, l, 2.5)",
        "map_concat(m, m)",
        "map_entries(m)",
        "map_filter(m, (k, v) -> v > 1)",
        "map_zip_with(m, m, (k, v, w) -> v + w)",
        "map_from_arrays(q, a)",
    ),
    *(
        "map_from_entries(array(struct('a', 1)))",
        "map_keys(m)",
        "map_values(m)",
        "named_struct('u', i, 'v', s)",
    ),
    *(
        "sequence(1, 3)",
        "sequence(l, l)",
        "struct(i, s)",
        "transform(a, v -> v + 1.5)",
        "transform(a, (v, p) -> p)",
    ),
    *(
        "transform_keys(m, (k, v) -> v)",
        "transform_values(m, (k, v) -> k)",
        "zip_with(a, q, (u, v) -> concat(u, v))",
    ),
    *(
        "d + 1",
        "1 + d",
        "d - 1",
        "ts + INTERVAL 1 HOUR",
        "INTERVAL 1 HOUR + n",
        "d + INTERVAL 1 DAY",
        "d - INTERVAL 1 WEEK",
    ),
    *(
        "d + INTERVAL 2 HOURS",
        "d + INTERVAL 1 MONTH",
        "d - INTERVAL '1' YEAR",
        "d + INTERVAL '1 2' DAY TO HOUR",
        "d - INTERVAL '1-2' YEAR TO MONTH",
    ),
    *(
        "CASE WHEN ok THEN i ELSE l END",
        "i BETWEEN 1 AND 2",
        "s RLIKE 'a'",
        "try_cast(s AS INT)",
        "shiftleft(y, 1)",
    ),
    *(
        "x * z",
        "x / i",
        "i / l",
        "i DIV 2",
        "-x",
        "i % l",
        "f + i",
        "f * x",
        "nullif(i, 1)",
        "zeroifnull(x)",
    ),
    *(
        "make_time(i, i, 1.5)",
        "to_time(s)",
        "try_to_time(s, 'HH:mm')",
        "time(s)",
        "time_from_seconds(i)",
        "time_from_millis(i)",
        "time_from_micros(l)",
        "time_to_seconds(time(s))",
        "time_to_millis(time(s))",
        "time_to_micros(time(s))",
        "time_trunc('HOUR', time(s))",
        "time_diff('HOUR', time(s), time(s))",
        "time_bucket(INTERVAL '1' HOUR, n)",
        "time_bucket(INTERVAL '1' MONTH, ts)",
        "to_number(s, '999.9')",
        "try_to_number(s, '$9,999')",
        "current_timezone()",
        "CASE WHEN ok THEN raise_error(s) ELSE i END",
        "coalesce(assert_true(ok), 1)",
        "(i, s)",
    ),
    *(
        "n + make_interval(1, i)",
        "d + try_make_interval(1, i)",
        "d - make_ym_interval(i)",
        "d + make_dt_interval(i)",
        "make_ym_interval(i) + ts",
    ),
    *("-s", "abs(s)", "s / 2", "s + i", "s * 1.5", "s % f", "y - s", "i / s", "s * 2 + i"),
]
SAMPLES = [
    *(f"{name}(s)" for name in OF_TEXT.split()),
    *(f"{name}(i)" for name in OF_NUMBER.split()),
    *(f"{name}({kind})" for name in OF_TIME.split() for kind in ("ts", "d")),
    *(f"{name}(i, l)" for name in OF_TWO_NUMBERS.split()),
    *(f"{name}(s, 'a')" for name in OF_TWO_TEXTS.split()),
    *(f"{name}(a)" for name in OF_ARRAY.split()),
    "arrays_zip(a, array(1))",
    *OTHERS,
]


def test_every_rule_has_a_sample() -> None:
    called = " ".join(SAMPLES).lower()
    # Spark has no opinion of the first, and a VARIANT leaves no query here.
    own = {*OWN_FUNCTIONS, *VARIANT_RULES}
    assert [name for name in RULES if name not in own and f"{name}(" not in called] == []


@about_newest
@pytest.mark.spark
def test_the_table_tells_what_sparks_analyser_tells(spark: Any) -> None:
    """All samples in one query: what Spark would make a column of."""
    schema = to_schema(DDL)
    analysed = spark.createDataFrame([], DDL).selectExpr(
        *(f"{sql} AS c{n}" for n, sql in enumerate(SAMPLES))
    )
    wrong = {}
    for sql, field in zip(SAMPLES, analysed.schema.fields, strict=True):
        spoken = parse_type(field.dataType.simpleString())
        told: Any = None
        try:
            told = infer_type(sql, schema)
        except SpecError as error:
            told = error
        if told != spoken:
            wrong[sql] = (str(told), type_name(spoken))
    assert wrong == {}


@pytest.mark.parametrize("call", ["explode(a)", "POSEXPLODE_OUTER(a)", "stack(2, i, i)"])
def test_what_makes_rows_is_refused(call: str) -> None:
    with pytest.raises(UnsupportedExpressionError, match="makes several rows of one"):
        infer_type(call, pa.schema([("a", pa.list_(pa.int32())), ("i", pa.int32())]))


def test_a_text_in_arithmetic_counts_as_a_number() -> None:
    schema = pa.schema([("s", pa.string()), ("i", pa.int32()), ("d", pa.decimal128(5, 1))])
    told = {sql: infer_type(sql, schema) for sql in ("s / 2", "-s", "s * d", "abs(s)")}
    assert set(told.values()) == {pa.float64()}, told
    assert infer_type("s + i", schema) == infer_type("i % s", schema) == pa.int64()


@pytest.mark.spark
def test_a_session_is_asked_for_what_the_table_does_not_know(spark: Any) -> None:
    spark.udf.register("twice", lambda value: value * 2, "bigint")
    t = spark.createDataFrame([], DDL)
    out = al.sql(
        "SELECT twice(i) AS k, SUM(width_bucket(g, 0, 9, 3)) AS n FROM t GROUP BY twice(i)", t=t
    )
    assert [out.schema[name].dataType.simpleString() for name in ("k", "n")] == ["bigint"] * 2
    with pytest.raises(UnknownFunctionError, match=r"(?si)nosuch.*At line 1, column 12"):
        al.sql("SELECT SUM(nosuch(i)) AS n FROM t", t=t)
    with pytest.raises(UnsupportedExpressionError, match=r"INTERVAL DAY.*cast it"):
        al.sql("SELECT d - d AS n FROM t", t=t)


# How to call those of Spark's functions that need arguments, for the samples of them that can be analysed alone.
CHANGING_CALLS = {
    "aes_encrypt": "s, s",
    "java_method": "'java.util.UUID', 'randomUUID'",
    "randstr": "3",
    "reflect": "'java.util.UUID', 'randomUUID'",
    "shuffle": "a",
    "try_reflect": "'java.util.UUID', 'randomUUID'",
    "uniform": "1, 2",
}


@pytest.mark.parametrize("name", sorted(CHANGING))
@pytest.mark.parametrize(
    "query",
    [
        "SELECT MAX({}) AS m FROM t",
        "SELECT MAX(CAST({} AS STRING)) AS m FROM t",
        "SELECT i, COUNT(*) FILTER (WHERE {} IS NULL) AS n FROM t GROUP BY i",
        "SELECT i, concat({}, SUM(l)) AS n FROM t GROUP BY i",
        "SELECT i, COUNT(*) AS n FROM t GROUP BY i HAVING CASE WHEN {} IS NULL THEN TRUE END",
        "SELECT COUNT(*) AS n FROM t WHERE coalesce(s, CAST({} AS STRING)) = 'a'",
    ],
)
def test_what_changes_from_run_to_run_is_refused_anywhere(name: str, query: str) -> None:
    call = f"{name}({CHANGING_CALLS.get(name, '')})"
    # A clock in a condition is that of a temporal filter, which FILTER is not.
    words = r"(?s)(differs from run to run.*column of the input|the clock in FILTER).*At line"
    with pytest.raises(UnsupportedSqlError, match=words):
        al.AggSpec.from_sql(query.format(call), DDL)


def test_what_changes_is_refused_in_a_spec_that_is_no_sql() -> None:
    with pytest.raises(UnsupportedExpressionError, match=r"RAND.. differs"):
        al.AggSpec(DDL, ("i",), (al.AggCall("COUNT", filter="rand() > 0.5"),))
    computed = (al.Computed("c", "CAST(now() AS STRING)", pa.string()),)
    with pytest.raises(UnsupportedExpressionError, match=r"NOW.. differs"):
        al.AggSpec(DDL, ("c",), computed=computed)


@about_newest
@pytest.mark.spark
def test_no_function_of_sparks_that_changes_is_left_out(spark: Any) -> None:
    """Look at the classes of all functions, and analyse those that are made of others."""
    catalyst = "org.apache.spark.sql.catalyst.expressions."
    jvm = spark._jvm
    bases = [
        jvm.java.lang.Class.forName(catalyst + base)
        for base in ("Nondeterministic", "ExpressionWithRandomSeed", "CurrentTimestampLike")
    ]
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names = registry.listFunction()
    found = set()
    for place in range(names.size()):
        name = names.apply(place).funcName()
        class_name = registry.lookupFunction(names.apply(place)).get().getClassName()
        if "$$Lambda" in class_name:
            continue  # A function that a test has registered.
        short = class_name.rpartition(".")[2]
        kind = jvm.java.lang.Class.forName(class_name)
        reads = short.startswith(("Current", "Local", "InputFile", "Now", "SparkVersion"))
        if reads or any(base.isAssignableFrom(kind) for base in bases):
            found.add(name)
    t = spark.createDataFrame([], DDL)
    calls = [f"{name}({CHANGING_CALLS.get(name, '')})" for name in sorted(CHANGING)]
    plan = t.selectExpr(*SAMPLES, *calls)._jdf.queryExecution().analyzed().expressions()
    settled = [plan.apply(place).deterministic() for place in range(len(SAMPLES))]
    assert [sql for sql, fixed in zip(SAMPLES, settled, strict=True) if not fixed] == []
    # The zone is fixed for a query, as that of every text of a TIMESTAMP.
    assert {name for name in found if name not in CHANGING} == {"current_timezone"}
    assert len(found) > 20


@pytest.mark.spark
def test_a_harness_with_a_session_tells_the_types_that_al_sql_does(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.udf.register("thrice", lambda value: value * 3, "bigint")
    query = "SELECT SUM(thrice(l)) AS s, MAX(thrice(l)) AS m FROM t"
    with monkeypatch.context() as alone, pytest.raises(UnknownFunctionError, match="thrice"):
        alone.setattr(type(spark), "getActiveSession", lambda: None)
        al.Harness.from_sql(query, {"t": DDL})
    with al.Harness.from_sql(query, {"t": DDL}, session=spark) as harness:
        assert harness.plan.schema == to_schema(
            al.sql(query, t=spark.createDataFrame([], DDL)).drop("_change_type")
        )
        row = dict.fromkeys(to_schema(DDL).names) | {"l": 4}
        harness.process([("+I", *row.values()), ("+I", *(row | {"l": 5}).values())])
        harness.flush()
        assert harness.table() == [(27, 15)]
    with pytest.raises(UnknownFunctionError, match="nowhere"):
        al.Harness.from_sql("SELECT SUM(nowhere(l)) AS s FROM t", {"t": DDL}, session=spark)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT TRY_SUM(i) FROM t", "TRY_SUM is an aggregate of Spark's .* Did you mean 'SUM'"),
        ("SELECT HISTOGRAM_NUMERIC(i, 3) AS h FROM t", "HISTOGRAM_NUMERIC is .* 'HISTOGRAM'"),
        ("SELECT i, SOUNDEX(TRY_AVG(ABS(i))) AS h FROM t", "TRY_AVG is an aggregate of Spark's"),
        ("SELECT i FROM t WHERE TRY_SUM(i) > 1", "TRY_SUM is an aggregate of Spark's"),
        ("SELECT SUM(TRY_SUM(i)) AS s FROM t", "TRY_SUM is an aggregate of Spark's"),
    ],
)
def test_an_aggregate_that_only_spark_has_is_refused(spark: Any, query: str, said: str) -> None:
    with pytest.raises(UnsupportedSqlError, match=said) as raised:
        al.Harness.from_sql(query, {"t": DDL}, session=spark)
    assert "\nAt line 1" in str(raised.value)


@pytest.mark.spark
def test_a_type_that_python_does_not_know_is_to_be_cast(spark: Any) -> None:
    """Spark 4.3 has times of nanoseconds; before there is no such function."""
    with pytest.raises(AggloomError, match=r"CAST it|knows no such function"):
        al.Harness.from_sql(
            "SELECT TIMESTAMP_NANOS(a) AS x FROM t", {"t": "a BIGINT"}, session=spark
        )
