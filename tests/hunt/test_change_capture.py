"""Public reports about changes captured from databases, rebuilt: Debezium, Canal, Maxwell, GoldenGate, upserts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aggloom.errors import AggloomError
from aggloom.runtime.local.harness import Harness

DDL = "id INT, a STRING, b INT"
Found = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Capture:
    """A report: messages of a format, and the table that they leave, or a part of the refusal."""

    name: str
    source: str
    format: str
    messages: Sequence[str]
    expected: Found | None = None
    refused: str | None = None
    keys: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


def row(id: Any, a: Any, b: Any) -> dict[str, Any]:
    """A row's image."""
    return {"id": id, "a": a, "b": b}


def debezium(op: str, before: Any, after: Any) -> str:
    """An envelope of Debezium."""
    return json.dumps({"op": op, "before": before, "after": after})


def canal(kind: str, data: Any, old: Any = None, **more: Any) -> str:
    """A message of Canal."""
    return json.dumps(
        {"data": data, "old": old, "type": kind, "database": "d", "table": "t", **more}
    )


def maxwell(kind: str, data: Any, **more: Any) -> str:
    """A message of Maxwell."""
    return json.dumps({"database": "d", "table": "t", "type": kind, "ts": 1, "data": data, **more})


def goldengate(op: str, before: Any, after: Any) -> str:
    """A message of Oracle GoldenGate."""
    return json.dumps({"table": "T", "op_type": op, "pos": "1", "before": before, "after": after})


def upsert(id: int, value: Any) -> str:
    """A key and its row, as a line."""
    return json.dumps({"id": id}) + "\t" + json.dumps(value)


TAB = {"key_separator": "\t"}
X = row(1, "x", 1)
CAPTURES = [
    Capture(
        "tombstone_after_a_deletion",
        "apache/flink#13019",
        "debezium-json",
        [
            debezium("c", None, X),
            debezium("d", X, None),
            "null",
            "",
            debezium("c", None, row(2, "y", 2)),
        ],
        [(2, "y", 2)],
    ),
    Capture(
        "update_of_a_table_without_full_identity",
        "apache/flink#13019",
        "debezium-json",
        [debezium("c", None, X), debezium("u", None, row(1, "x", 2))],
        refused="REPLICA IDENTITY FULL), or give its keys to read upserts",
    ),
    Capture(
        "updates_without_before_by_key",
        "apache/flink-cdc#4437",
        "debezium-json",
        [
            debezium("r", None, X),
            debezium("u", None, row(1, "x", 2)),
            debezium("u", None, row(1, "z", 3)),
        ],
        [(1, "z", 3)],
        keys="id",
    ),
    Capture(
        "update_and_then_deletion_by_key",
        "apache/flink#26159",
        "debezium-json",
        [
            debezium("c", None, X),
            debezium("u", X, row(1, "x", 2)),
            debezium("d", row(1, None, None), None),
        ],
        [],
        keys="id",
    ),
    Capture(
        "before_is_null_from_scylla",
        "scylladb/scylla-cdc-source-connector#31",
        "debezium-json",
        [
            json.dumps(
                {"schema": {"type": "struct"}, "payload": {"op": "u", "before": None, "after": X}}
            )
        ],
        [(1, "x", 1)],
        keys="id",
    ),
    Capture(
        "deletion_and_tombstone_under_one_key",
        "spring-attic/cdc-debezium#6",
        "debezium-json",
        [
            debezium("c", None, X),
            debezium("c", None, row(5, "q", 5)),
            debezium("d", X, None),
            "null",
        ],
        [(5, "q", 5)],
        keys="id",
    ),
    Capture(
        "tombstone_of_a_flattened_record",
        "confluentinc/kafka-connect-jdbc#1421",
        "upsert-json",
        [upsert(1, X), upsert(2, row(2, "y", 2)), upsert(1, None)],
        [(2, "y", 2)],
        keys="id",
        options=TAB,
    ),
    Capture(
        "flattened_record_that_marks_its_deletion",
        "debezium/debezium#4995",
        "upsert-json",
        [upsert(1, X), upsert(1, {**X, "__deleted": "true"})],
        refused="'__deleted' marks what became of a row",
        keys="id",
        options=TAB,
    ),
    Capture(
        "null_becomes_a_value",
        "apache/flink#14693",
        "canal-json",
        [
            canal("INSERT", [row("1", None, "1")]),
            canal("UPDATE", [row("1", "x", "1")], [{"a": None}]),
        ],
        [(1, "x", 1)],
    ),
    Capture(
        "deleted_row_in_old",
        "apache/flink-cdc#3788",
        "canal-json",
        [canal("INSERT", [row("1", "p", "1")]), canal("DELETE", None, [row("1", "p", "1")])],
        refused="its rows are in `old`",
    ),
    Capture(
        "statement_between_changes",
        "apache/flink#13872",
        "canal-json",
        [
            canal("INSERT", [row("1", "p", "1")]),
            canal("ALTER", None, isDdl=True, sql="ALTER TABLE t ADD c INT"),
            canal("DELETE", [row("1", "p", "1")]),
        ],
        [],
    ),
    Capture(
        "update_without_old",
        "apache/inlong#6272",
        "canal-json",
        [canal("INSERT", [row("1", "p", "1")]), canal("UPDATE", [row("1", "x", "1")])],
        refused="`old` is missing, which has what the update changed",
    ),
    Capture(
        "old_has_the_changed_columns_of_each_row",
        "apache/inlong#6312",
        "canal-json",
        [
            canal("INSERT", [row("1", "p", "1"), row("2", "q", "2")]),
            canal("UPDATE", [row("1", "p", "5"), row("2", "z", "2")], [{"b": "1"}, {"a": "q"}]),
        ],
        [(1, "p", 5), (2, "z", 2)],
    ),
    Capture(
        "empty_before",
        "apache/flink#23102",
        "ogg-json",
        [goldengate("I", None, X), goldengate("U", {}, row(1, "y", 1))],
        refused="give the table's keys to read upserts",
    ),
    Capture(
        "empty_before_by_key",
        "apache/flink#23102",
        "ogg-json",
        [goldengate("I", None, X), goldengate("U", {}, row(1, "y", 1))],
        [(1, "y", 1)],
        keys="id",
    ),
    Capture(
        "null_column_is_left_out",
        "zendesk/maxwell#391",
        "maxwell-json",
        [maxwell("insert", X), maxwell("update", {"id": 1, "b": 4}, old={"a": "x", "b": 1})],
        refused="NULL is not what was left out",
    ),
    Capture(
        "insert_without_its_null_columns",
        "zendesk/maxwell#444",
        "maxwell-json",
        [maxwell("bootstrap-insert", {"id": 1, "b": 3})],
        [(1, None, 3)],
        options={"missing": "null"},
    ),
    Capture(
        "rows_of_a_bootstrap",
        "zendesk/maxwell#1125",
        "maxwell-json",
        [
            maxwell("bootstrap-start", {}),
            *(maxwell("bootstrap-insert", row(id, "s", b)) for id, b in ((1, 9), (2, 9), (3, 4))),
            maxwell("bootstrap-complete", {}),
            maxwell("delete", row(2, "s", 9)),
        ],
        [(1, "s", 9), (3, "s", 4)],
    ),
    Capture(
        "bootstrap_without_columns",
        "zendesk/maxwell#1354",
        "maxwell-json",
        [maxwell("bootstrap-insert", {}, primary_key=[])],
        refused="`data` lacks 'id', 'a', 'b'",
    ),
    Capture(
        "old_lacks_what_was_null",
        "zendesk/maxwell#708",
        "maxwell-json",
        [
            maxwell("insert", row(1, None, 3)),
            maxwell("update", row(1, "NR", 4), old={"a": None, "b": 3}),
        ],
        [(1, "NR", 4)],
    ),
]


@pytest.mark.parametrize("capture", CAPTURES, ids=[capture.name for capture in CAPTURES])
def test_report_of_captured_changes(capture: Capture, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("\n".join(capture.messages))
    how: dict[str, Any] = (
        {"input_changes": "upsert", "keys": {"t": capture.keys}} if capture.keys else {}
    )
    sql = "SELECT id, a, SUM(b) AS b FROM t GROUP BY id, a"
    with Harness.from_sql(sql, {"t": DDL}, backend="python", **how) as harness:
        if capture.refused is not None:
            with pytest.raises(AggloomError) as caught:
                harness.read(tmp_path, capture.format, **capture.options)
            assert capture.refused in str(caught.value)
            return
        harness.read(tmp_path, capture.format, **capture.options)
        harness.flush()
        assert sorted(harness.table()) == capture.expected
        assert not harness.counters.get("orphans_dropped")
