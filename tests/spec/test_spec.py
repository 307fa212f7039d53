"""A spec is checked when it is made, equal in every text form, and indifferent to hostile names."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from aggloom.codegen.spec.agg_spec import AggCall, AggSpec, Computed
from aggloom.codegen.spec.dtypes import parse_schema, parse_type, schema_ddl, type_name
from aggloom.errors import (
    AggloomError,
    DuplicateNameError,
    SpecError,
    TypeMismatchError,
    UnknownColumnError,
    UnknownFunctionError,
)

# The constructors take more forms than their fields' types say.
Spec: Any = AggSpec
Call: Any = AggCall
Column: Any = Computed

HOSTILE = ["x", "class", 'a"); import os; (', "größe", "'", "`", "a b", "1", "SELECT", "\\", "\n"]
TYPES = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(1,0)", "DECIMAL(38,38)", "ARRAY<INT>"),
    *("MAP<STRING,BIGINT>", "STRUCT<a INT, `b c` ARRAY<DATE>>"),
]


def seed(**changes: object) -> Any:
    content: dict[str, object] = {
        "schema": "name STRING, cnt INT",
        "group_by": ["name"],
        "calls": [Call("SUM", "cnt"), Call("MAX", "cnt")],
    }
    return Spec(**{**content, **changes})


@pytest.mark.parametrize("name", TYPES)
def test_a_type_name_is_read_back(name: str) -> None:
    assert type_name(parse_type(name)) == name


@pytest.mark.parametrize(
    ("text", "dialect", "dtype"),
    [
        ("timestamp(3)", "flink", pa.timestamp("us")),
        ("TIMESTAMP_LTZ(3)", "flink", pa.timestamp("us", "UTC")),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "flink", pa.timestamp("us", "UTC")),
        ("timestamp", "spark", pa.timestamp("us", "UTC")),
        ("VARCHAR(20)", "spark", pa.string()),
        ("decimal", "spark", pa.decimal128(10, 0)),
        ("Int", "spark", pa.int32()),
        ("time(3)", "flink", pa.time64("us")),
        ("INT NOT NULL ARRAY NOT NULL", "flink", pa.list_(pa.int32())),
        (
            "ROW(a INT, b DECIMAL(9,2)) ARRAY",
            "flink",
            parse_type("ARRAY<STRUCT<a INT, b DECIMAL(9,2)>>"),
        ),
        ("ROW<a TIMESTAMP(6) NOT NULL>", "flink", pa.struct([("a", pa.timestamp("us"))])),
        ("ARRAY<TIMESTAMP_LTZ(9)>", "flink", pa.list_(pa.timestamp("us", "UTC"))),
        ("MULTISET<STRING>", "flink", pa.map_(pa.string(), pa.int32())),
    ],
)
def test_spellings_of_types(text: str, dialect: str, dtype: pa.DataType) -> None:
    assert parse_type(text, dialect, is_cut=True) == dtype


@pytest.mark.parametrize(
    "text", ["TIME(1,2)", "INTT", "DECIMAL(39,2)", "DECIMAL(2,3)", "INT(3)", "", "("]
)
def test_a_wrong_type_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_type(text)


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    "text",
    [
        *("TIMESTAMP(0)", "timestamp( 2 )", "TIMESTAMP_LTZ(1)", "TIMESTAMP_NTZ(0) NOT NULL"),
        *("TIMESTAMP(5)", "TIMESTAMP(0) WITH LOCAL TIME ZONE", "TIME(3)"),
    ],
)
def test_a_time_that_would_cut_values_off_is_refused(text: str, dialect: str) -> None:
    with pytest.raises(SpecError, match=r"column 't': .*cut values off.*declare TIME[A-Z_]*\(6\)"):
        parse_schema(f"t {text}", dialect)
    assert parse_schema(f"t {text}", dialect, is_cut=True).names == ["t"]


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    "text",
    [
        *("ARRAY<TIMESTAMP(1)>", "ROW<a TIMESTAMP(3)>", "STRUCT<a: INT, b: ARRAY<TIME(0)>>"),
        *("MAP<STRING, TIMESTAMP_LTZ(3)>", "MAP<TIMESTAMP(3), INT>", "TIMESTAMP(3) ARRAY"),
        "MULTISET<TIME(5)>",
    ],
)
def test_a_time_in_another_type_is_never_cut(text: str, dialect: str) -> None:
    for is_cut in (False, True):
        with pytest.raises(SpecError, match=r"column 't': .*cut values off"):
            parse_schema(f"t {text}", dialect, is_cut=is_cut)


def test_a_wrong_type_names_its_column_and_the_nearest_type() -> None:
    with pytest.raises(SpecError, match=r"column 'cnt': 'INTT' .* 'INT'"):
        parse_schema("name STRING, cnt INTT")


def test_hostile_names_survive_ddl() -> None:
    schema = pa.schema([(name, pa.int32()) for name in HOSTILE])
    assert parse_schema(schema_ddl(schema)) == schema


def test_every_form_of_schema_is_the_same_spec() -> None:
    arrow = pa.schema([pa.field("name", pa.large_string(), nullable=False), ("cnt", pa.int32())])
    text, number = (SimpleNamespace(simpleString=name.__str__) for name in ("string", "int"))
    fields = [
        SimpleNamespace(name="name", dataType=text),
        SimpleNamespace(name="cnt", dataType=number),
    ]
    struct = SimpleNamespace(fields=fields)
    forms = [arrow, {"name": "string", "cnt": pa.int32()}, struct, SimpleNamespace(schema=struct)]
    assert {seed(schema=form) for form in forms} == {seed()}
    with pytest.raises(SpecError, match="DDL"):
        seed(schema=3)


def test_the_seed() -> None:
    spec = seed()
    assert spec.calls[0].args == ("cnt",)
    assert spec.aggregate_schema.names == ["name", "sum(cnt)", "max(cnt)"]
    assert spec.aggregate_schema.types == [pa.string(), pa.int64(), pa.int32()]
    assert spec.output_schema == spec.aggregate_schema
    assert len(spec.digest) == 16


def test_handler_columns_come_once_in_order_of_first_use() -> None:
    spec = Spec(
        "unused ARRAY<INT>, a INT, ok BOOLEAN, k STRING",
        "k",
        [AggCall("SUM", ("a",), filter="ok"), AggCall("MAX", ("a2",)), AggCall("COUNT", ("k",))],
        computed=(Computed("a2", "a * 2", pa.int32()),),
    )
    assert spec.handler_schema.names == ["k", "a", "ok", "a2"]


def test_count_star_in_every_spelling() -> None:
    assert AggCall("count") == AggCall("COUNT", ("*",)) == Call(" Count ", [])
    assert AggCall("COUNT").output_name == "count(1)"
    assert AggCall("SUM", ("cnt",), distinct=True).output_name == "sum(DISTINCT cnt)"
    assert AggCall("$SUM0", ("cnt",)).function == "SUM0"


def test_a_filter_may_be_a_predicate() -> None:
    spec = seed(calls=[AggCall("MAX", ("cnt",), filter="cnt > 0")])
    assert spec.computed == (Computed("cnt > 0", "cnt > 0", pa.bool_()),)
    assert AggSpec.from_json(spec.to_json()) == spec
    with pytest.raises(TypeMismatchError, match="BOOLEAN"):
        seed(calls=[AggCall("MAX", ("cnt",), filter="cnt + 1")])
    with pytest.raises(UnknownColumnError, match="'cnt'"):
        seed(calls=[AggCall("MAX", ("cnt",), filter="cmt > 0")])


def full() -> Any:
    return Spec(
        {**dict.fromkeys(HOSTILE, "INT"), "ts": "TIMESTAMP", "local": "TIMESTAMP_NTZ"},
        ["class", "local"],
        [AggCall("SUM", (name,), distinct=name == "x") for name in HOSTILE]
        + [AggCall("COUNT", alias="größte Zahl"), AggCall("MAX", ("ts",), filter="`'` > 0")],
        "append",
        "flink",
        [Column("c", "`größe` + 1", "INT")],
        where='`a"); import os; (` > 0',
        having="`größte Zahl` > 1",
        select=[("n", "`größte Zahl` + 1"), ("class", "`class`")],
    )


def test_json_and_yaml_round_trip() -> None:
    for spec in (seed(), full(), Spec("a INT", "a")):
        again = [
            AggSpec.from_json(spec.to_json()),
            AggSpec.from_yaml(spec.to_yaml()),
            pickle.loads(pickle.dumps(spec)),
        ]
        assert again == [spec] * 3
        assert {hash(each) for each in again} == {hash(spec)}
        assert {each.digest for each in again} == {spec.digest}


def test_json_is_canonical() -> None:
    text = full().to_json()
    assert text == json.dumps(
        json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    assert seed().digest != seed(input_changes="append").digest


def test_yaml_from_a_file_and_with_sql(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(
        "sql: SELECT name, SUM(cnt), MAX(cnt) FROM t GROUP BY name\n"
        "schema: {name: STRING, cnt: INT}\n",
        encoding="utf-8",
    )
    assert AggSpec.from_yaml(path) == AggSpec.from_yaml(str(path)) == seed()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("calls: []", "no `schema`"),
        ("- 1", "mapping"),
        ("schema: {a: INT}\ncals: []", "'cals'.*'calls'"),
        ("schema: {a: INT}\ncalls: [SUM]", "'SUM'.*mapping"),
        ("schema: {a: INT}\ncalls: [{functoin: SUM}]", "'functoin'.*'function'"),
        ("schema: {a: INT}\ncalls: [{args: a}]", "function"),
        ("a: [", "not YAML"),
        ("missing.yaml", "cannot be read"),
    ],
)
def test_wrong_yaml(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        AggSpec.from_yaml(text)


@pytest.mark.parametrize(("name", "said"), [("SUMM", "SUMM.*'SUM'"), ("lag", "LAG.*OVER")])
def test_a_call_checks_its_function_at_once(name: str, said: str) -> None:
    with pytest.raises(UnknownFunctionError, match=said):
        AggCall(name, ["cnt"])


def test_wrong_json() -> None:
    with pytest.raises(SpecError, match="not JSON"):
        AggSpec.from_json("{")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"group_by": ["nam"]}, UnknownColumnError, "group_by.*'nam'.*'name'"),
        ({"calls": [AggCall("SUM", ("ctn",))]}, UnknownColumnError, r"sum\(ctn\).*'cnt'"),
        ({"calls": [AggCall("SUM", ("name",))]}, TypeMismatchError, r"sum\(name\)"),
        ({"calls": [AggCall("SUM")]}, TypeMismatchError, "argument"),
        ({"calls": [AggCall("SUM", ("cnt",))] * 2}, DuplicateNameError, r"'sum\(cnt\)'.*alias"),
        ({"calls": [AggCall("SUM", ("cnt",), alias="name")]}, DuplicateNameError, "'name'"),
        ({"calls": [AggCall("SUM", ("cnt",), filter="cnt")]}, TypeMismatchError, "filter.*INT"),
        ({"group_by": ["name", "name"]}, DuplicateNameError, "twice"),
        ({"group_by": [], "calls": []}, SpecError, "neither keys nor calls"),
        ({"schema": "name STRING, name INT"}, DuplicateNameError, "'name'"),
        ({"schema": pa.schema([("a", "int8"), ("a", "int8")])}, DuplicateNameError, "twice"),
        ({"schema": "name MAP<INT,INT>, cnt INT"}, TypeMismatchError, "'name'.*MAP<INT,INT>"),
        ({"dialect": "sprak"}, SpecError, "'spark'"),
        ({"input_changes": "retracts"}, SpecError, "'retract'"),
        ({"where": "cnt"}, TypeMismatchError, "where.*BOOLEAN"),
        ({"where": "cmt > 1"}, UnknownColumnError, "where.*'cnt'"),
        ({"having": "total > 1"}, UnknownColumnError, "having"),
        ({"select": ()}, SpecError, "empty"),
        ({"select": [("a", "name"), ("a", "name")]}, DuplicateNameError, "'a'"),
        ({"select": [("a", "nmae")]}, UnknownColumnError, "'name'"),
        ({"computed": [Computed("cnt", "1", pa.int32())]}, DuplicateNameError, "'cnt'"),
        ({"computed": [Computed("c", "cmt", pa.int32())]}, UnknownColumnError, "'cnt'"),
    ],
)
def test_a_wrong_spec_says_what_where_and_nearest(
    changes: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        seed(**changes)
    assert isinstance(caught.value, AggloomError)
    assert isinstance(caught.value, ValueError)
