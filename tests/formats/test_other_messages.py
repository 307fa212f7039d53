"""Messages that have no row, and numbers that are structs."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aggloom as al
from aggloom.errors import InputFormatError
from aggloom.runtime.formats.base import Message, Messages
from aggloom.runtime.formats.decoder import decoder


def decode(format: str, body: Any) -> Any:
    made = decoder(format, "id BIGINT, d DECIMAL(10,2)")
    return made.decode([Message(json.dumps(body).encode())])


HEARTBEAT = {"ts_ms": 1_700_000_000_000}
NO_ROWS = [
    ("debezium-json", HEARTBEAT),
    ("debezium-json", {"schema": {"type": "struct"}, "payload": HEARTBEAT}),
    ("debezium-json", {"status": "BEGIN", "id": "1", "event_count": None, "ts_ms": 1}),
    ("debezium-json", {"status": "END", "id": "1", "event_count": 2, "data_collections": []}),
    (
        "debezium-json",
        {"source": {"db": "d"}, "databaseName": "d", "ddl": "CREATE TABLE t (i INT)"},
    ),
    (
        "canal-json",
        {"id": 0, "database": "", "table": "", "isDdl": False, "type": "TIDB_WATERMARK"},
    ),
]


@pytest.mark.parametrize(("format", "body"), NO_ROWS)
def test_messages_without_rows_are_skipped(format: str, body: Any) -> None:
    found = decode(format, body)
    assert not len(found.words) and not found.refused
    assert found.notices.tolist() == [True]


def test_only_messages_without_rows_are_counted() -> None:
    made = decoder("debezium-json", "id BIGINT", unreadable="drop", table="t|None")
    row, other = {"op": "c", "after": {"id": 1}}, {"op": "c", "source": {"table": "x"}, "after": {}}
    bodies = [*[row] * 300, HEARTBEAT, other, {"op": "x"}, *[row] * 300]
    values = [*(json.dumps(body).encode() for body in bodies), None, b" null"]
    found = made.decode(Messages(values, [None] * len(values), str))
    assert np.flatnonzero(found.notices).tolist() == [300, 301]
    assert len(found.words) == 600 and len(found.refused) == 1


def test_a_harness_counts_messages_without_rows(tmp_path: Path) -> None:
    bodies = [{"op": "c", "after": {"id": 1}}, HEARTBEAT, HEARTBEAT]
    (tmp_path / "a.json").write_text("\n".join(map(json.dumps, bodies)))
    query = "SELECT COUNT(*) AS n FROM t"
    with al.Harness.from_sql(query, {"t": "id BIGINT"}, backend="python") as harness:
        assert harness.read(tmp_path, "debezium-json") == 1
        assert harness.counts.notices == harness.counts.to_dict()["notices"] == 2
        assert "messages that are no rows: 2" in str(harness.counts)


@pytest.mark.parametrize("body", [{}, {"status": "BEGIN"}, {"ts_ms": 1, "id": 1}, {"ddl": "x"}])
def test_a_message_that_may_be_a_row_is_refused(body: Any) -> None:
    with pytest.raises(InputFormatError, match="`op` is not one of"):
        decode("debezium-json", body)


@pytest.mark.parametrize("ddl", ["DROP TABLE t", "truncate table t", " DROP DATABASE d"])
def test_a_table_that_is_dropped_is_no_mere_statement(ddl: str) -> None:
    with pytest.raises(InputFormatError, match="the table was emptied"):
        decode("debezium-json", {"source": {"db": "d"}, "ddl": ddl})


def test_a_number_with_its_scale() -> None:
    number = {"scale": 1, "value": "AfQ="}
    found = decode("debezium-json", {"op": "c", "after": {"id": 1, "d": number}})
    assert found.columns[1].to_pylist() == [Decimal("50.00")]
