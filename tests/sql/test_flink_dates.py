"""TIMESTAMPADD of a DATE in the flink dialect: a DATE for whole days, a TIMESTAMP for hours and less."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import aggloom as al

DAY, NTZ = pa.date32(), pa.timestamp("us")


@pytest.mark.parametrize(
    ("expression", "dtype", "value"),
    [
        ("TIMESTAMPADD(DAY, 1, d)", DAY, dt.date(2020, 2, 1)),
        ("TIMESTAMPADD(MONTH, i - 1, d)", DAY, dt.date(2020, 2, 29)),
        ("TIMESTAMPADD(WEEK, -i, TIMESTAMPADD(YEAR, 1, t.d))", DAY, dt.date(2021, 1, 17)),
        ("TIMESTAMPADD(HOUR, 3, d)", NTZ, dt.datetime(2020, 1, 31, 3)),
        ("TIMESTAMPADD(DAY, 1, TIMESTAMPADD(SECOND, i, d))", NTZ, dt.datetime(2020, 2, 1, 0, 0, 2)),
        ("TIMESTAMPADD(DAY, 1, ts)", NTZ, dt.datetime(2020, 3, 2, 5)),
        ("TIMESTAMPDIFF(DAY, d, TIMESTAMPADD(MONTH, 1, d))", pa.int64(), 29),
    ],
)
def test_dates_stay_dates(expression: str, dtype: pa.DataType, value: object) -> None:
    tables = {"t": "i INT, d DATE, ts TIMESTAMP"}
    query = f"SELECT {expression} FROM t WHERE TIMESTAMPADD(DAY, 1, d) > DATE '2020-01-01'"
    with al.Harness.from_sql(query, tables, dialect="flink", backend="python") as harness:
        (field,) = harness.plan.schema
        assert field.type == dtype and "CAST" not in field.name
        harness.process([("+I", 2, dt.date(2020, 1, 31), dt.datetime(2020, 3, 1, 5))])
        harness.flush()
        assert harness.table() == [(value,)]
