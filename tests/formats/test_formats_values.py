"""Values in messages: by the schema that comes with them, as texts, and those that a column cannot hold."""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest

from aggloom.errors import InputFormatError, SpecError
from tests.formats.test_formats import canal, debezium, read


def b64(number: int) -> str:
    width = number.bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(width, "big", signed=True)).decode()


NOON = dt.datetime(2020, 1, 2, 12, 0, 0, 123456)
MICROS = (NOON - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
UTC = NOON.replace(tzinfo=dt.UTC)
TIME = "io.debezium.time."
CONNECT = "org.apache.kafka.connect.data."
DECIMAL = {"name": CONNECT + "Decimal", "parameters": {"scale": "2"}}
VARIABLE = {"name": "io.debezium.data.VariableScaleDecimal"}
ENCODED: list[tuple[str, dict[str, Any] | None, Any, Any]] = [
    ("DECIMAL(10,2)", DECIMAL, b64(-12345), Decimal("-123.45")),
    ("DECIMAL(10,2)", DECIMAL, b64(0), Decimal("0.00")),
    ("DECIMAL(10,2)", DECIMAL, 1.5, Decimal("1.50")),
    ("STRING", DECIMAL, b64(100), "1.00"),
    ("DOUBLE", DECIMAL, b64(150), 1.5),
    ("BIGINT", DECIMAL | {"parameters": {"scale": "0"}}, b64(2**62), 2**62),
    ("DECIMAL(12,4)", VARIABLE, {"scale": 1, "value": b64(15)}, Decimal("1.5000")),
    ("DECIMAL(10,2)", {"type": "string"}, "12.50", Decimal("12.50")),
    ("DECIMAL(10,2)", {"type": "double"}, 12.5, Decimal("12.50")),
    ("TIMESTAMP", {"name": TIME + "MicroTimestamp"}, MICROS, UTC),
    ("TIMESTAMP_NTZ", {"name": TIME + "Timestamp"}, MICROS // 1000, NOON.replace(microsecond=123000)),
    ("TIMESTAMP_NTZ", {"name": TIME + "NanoTimestamp"}, MICROS * 1000 + 7, NOON),
    ("TIMESTAMP_NTZ", {"name": CONNECT + "Timestamp"}, 5, dt.datetime(1970, 1, 1, 0, 0, 0, 5000)),
    ("TIMESTAMP", {"name": TIME + "ZonedTimestamp"}, "2020-01-02T14:00:00.123456+02:00", UTC),
    ("STRING", {"name": TIME + "ZonedTimestamp"}, "2020-01-02T12:00:00.123456Z", "2020-01-02 12:00:00.123456Z"),
    ("STRING", {"name": TIME + "MicroTimestamp"}, MICROS, "2020-01-02 12:00:00.123456"),
    ("BIGINT", {"name": TIME + "MicroTimestamp"}, MICROS, MICROS),
    ("DATE", {"name": TIME + "Date"}, 18263, dt.date(2020, 1, 2)),
    ("DATE", {"name": CONNECT + "Date"}, -1, dt.date(1969, 12, 31)),
    ("DATE", {"name": TIME + "IsoDate"}, "2020-01-02Z", dt.date(2020, 1, 2)),
    ("DATE", {"name": TIME + "MicroTimestamp"}, 86_400_000_000, dt.date(1970, 1, 2)),
    ("STRING", {"name": TIME + "Date"}, 18263, "2020-01-02"),
    ("TIMESTAMP_NTZ", {"name": TIME + "Date"}, 1, dt.datetime(1970, 1, 2)),
    ("TIME", {"name": TIME + "MicroTime"}, 3_600_000_001, dt.time(1, 0, 0, 1)),
    ("TIME", {"name": TIME + "Time"}, 3_600_000, dt.time(1)),
    ("TIME", {"name": TIME + "ZonedTime"}, "01:00:00Z", dt.time(1)),
    ("STRING", {"name": TIME + "NanoTime"}, 3_600_000_000_000, "01:00:00"),
    ("ARRAY<DATE>", {"type": "array", "items": {"name": TIME + "Date"}}, [1, None], [dt.date(1970, 1, 2), None]),
    ("BINARY", {"type": "bytes"}, base64.b64encode(b"\0\xff").decode(), b"\0\xff"),
    ("BOOLEAN", {"type": "int16"}, 1, True),
    ("STRING", {"name": "io.debezium.data.Json"}, '{"a":1}', '{"a":1}'),
    # Without a schema.
    ("DECIMAL(10,2)", None, "12.50", Decimal("12.50")),
    ("DECIMAL(10,2)", None, b64(12345), Decimal("123.45")),
    ("TIMESTAMP", None, MICROS, UTC),
    ("TIMESTAMP", None, MICROS * 1000, UTC),
    ("TIMESTAMP_NTZ", None, MICROS // 1000, NOON.replace(microsecond=123000)),
    ("TIMESTAMP", None, "2020-01-02T12:00:00.123456Z", UTC),
    ("DATE", None, 18263, dt.date(2020, 1, 2)),
    ("DATE", None, "2020-01-02 00:00:00", dt.date(2020, 1, 2)),
    ("TIME", None, "12:00:00.5", dt.time(12, 0, 0, 500000)),
    ("DOUBLE", None, "NaN", None),
    ("STRING", None, {"a": [1.50, True, None]}, '{"a":[1.5,true,null]}'),
    ("MAP<INT,STRING>", None, {"1": "a"}, [(1, "a")]),
    ("STRUCT<a: INT, b: STRING>", None, {"a": 1}, {"a": 1, "b": None}),
    ("STRUCT<a: INT, B: STRING>", None, {"A": 1, "b": "x", "c": 2}, {"a": 1, "B": "x"}),
    ("ARRAY<STRUCT<a: INT>>", None, [{"A": 1, "a": 2}, {"A": None}], [{"a": 2}, {"a": None}]),
    ("FLOAT", None, 3.4028234663852886e38, 3.4028234663852886e38),
    ("FLOAT", None, math.inf, math.inf),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "field", "value", "wanted"), ENCODED)
def test_values_by_the_schema_that_comes_with_them(
    kind: str, field: dict[str, Any] | None, value: Any, wanted: Any
) -> None:
    given: Any = debezium("c", None, {"v": value})
    if field is not None:
        images = [{"field": i, "fields": [{"field": "v", **field}]} for i in ("before", "after")]
        given = {"schema": {"type": "struct", "fields": images}, "payload": given}
    ((_, found),) = read("debezium-json", given, ddl=f"v {kind}")
    assert found == wanted or (value == "NaN" and found != found)


WRONG: list[tuple[str, dict[str, Any] | None, Any, str]] = [
    ("DECIMAL(4,2)", DECIMAL, b64(12345), "cannot hold"),
    ("DECIMAL(10,1)", None, 1.25, "cannot hold '1.25' as DECIMAL"),
    ("DECIMAL(10,0)", None, "1234", 'say decimals="text".* or decimals="base64"'),
    ("DATE", DECIMAL, b64(1), "cannot hold"),
    ("BIGINT", DECIMAL, b64(150), "cannot hold"),
    ("TIMESTAMP_NTZ", {"name": TIME + "ZonedTimestamp"}, "2020-01-02T12:00:00Z", "cannot hold"),
    ("TIMESTAMP_NTZ", None, "2020-01-02T12:00:00Z", "cannot hold .* as TIMESTAMP_NTZ"),
    ("TIMESTAMP", {"name": TIME + "MicroTimestamp"}, 9223372036825200000, "cannot hold"),
    ("DATE", {"name": TIME + "MicroTimestamp"}, MICROS, "cannot hold"),
    ("TIME", {"name": TIME + "MicroTime"}, 86_400_000_000, "cannot hold"),
    ("TIME", None, 5, "give time_unit"),
    ("DATE", None, "2020-02-30", "cannot hold '2020-02-30' as DATE"),
    ("INT", None, True, "cannot hold 'true' as INT"),
    ("INT", None, 1.0, "cannot hold '1.0' as INT"),
    ("DOUBLE", None, 10**400, "malformed|cannot hold"),
    ("BINARY", None, "?", "cannot hold"),
    ("FLOAT", None, 1e39, "cannot hold"),
    ("FLOAT", {"type": "double"}, -1e39, "cannot hold"),
    ("FLOAT", DECIMAL, b64(10**41), "cannot hold"),
    ("STRUCT<abc: INT>", None, {"ABC": 1, "Abc": 2}, "cannot hold"),
    ("TIMESTAMP", None, "0001-01-01T00:00:00+14:00", "cannot hold"),
    ("TIMESTAMP", None, "9999-12-31T23:59:59-14:00", "cannot hold"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "field", "value", "why"), WRONG)
def test_values_that_a_column_cannot_hold(
    kind: str, field: dict[str, Any] | None, value: Any, why: str
) -> None:
    with pytest.raises(InputFormatError, match=why):
        test_values_by_the_schema_that_comes_with_them(kind, field, value, None)


def test_canals_texts_are_values_of_every_type() -> None:
    ddl = "b BOOLEAN, d DECIMAL(8,2), f DOUBLE, t TIMESTAMP_NTZ, y DATE, x BINARY, c TIME"
    data = {"b": "1", "d": "1000", "f": "1e3", "t": "2020-01-02 12:00:00.123456", "y": "2020-01-02"}
    given = canal("INSERT", [data | {"x": "\u00ff", "c": "10:00:00"}])
    assert read("canal-json", given, ddl=ddl) == [
        ("+I", True, Decimal("1000.00"), 1000.0, NOON, NOON.date(), b"\xff", dt.time(10))
    ]
    with pytest.raises(
        InputFormatError, match="'t' has '0000-00-00 00:00:00', a date that does not exist"
    ):
        read("canal-json", canal("INSERT", [{"t": "0000-00-00 00:00:00"}]), ddl="t TIMESTAMP")


def test_times_in_texts_are_of_the_zone_that_is_given() -> None:
    given = {"t": "2020-07-01 12:00:00"}
    ((_, found),) = read("jsonl", given, ddl="t TIMESTAMP", zone="Europe/Berlin")
    assert found == dt.datetime(2020, 7, 1, 10, tzinfo=dt.UTC)
    with pytest.raises(SpecError, match="no time zone 'Nowhere'"):
        read("jsonl", given, ddl="t TIMESTAMP", zone="Nowhere")
