"""Rows that leave columns out: never filled with NULL where the value was known; rows in Kafka Connect's wrapper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aggloom import Harness
from aggloom.cli import main
from aggloom.errors import InputFormatError, SpecError
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder

DDL = "id BIGINT, a STRING, b BIGINT"
WHOLE = {"id": 1, "a": "x", "b": 2}
PART = {"id": 1, "b": 2}
MAXWELL = {"database": "d", "table": "t"}
CANAL = MAXWELL | {"isDdl": False}


def decode(format: str, body: Any, key: bytes | None = None, **options: Any) -> list[Any]:
    message = Message(None if body is None else json.dumps(body).encode(), key)
    found = decoder(format, DDL, **options).decode([message])
    return [
        (word, *row)
        for word, *row in zip(
            found.words.to_pylist(), *(c.to_pylist() for c in found.columns), strict=True
        )
    ]


UPDATES = [
    ("debezium-json", {"op": "u", "before": WHOLE, "after": PART}),
    ("maxwell-json", MAXWELL | {"type": "update", "data": PART, "old": {"b": 1}}),
    ("canal-json", CANAL | {"type": "UPDATE", "data": [PART], "old": [{"b": 1}]}),
    ("ogg-json", {"table": "d.t", "op_type": "U", "before": {"id": 1}, "after": PART}),
]
DELETIONS = [
    ("debezium-json", {"op": "d", "before": PART}),
    ("maxwell-json", MAXWELL | {"type": "delete", "data": PART}),
    ("canal-json", CANAL | {"type": "DELETE", "data": [PART]}),
    ("ogg-json", {"table": "d.t", "op_type": "D", "before": PART}),
]


@pytest.mark.parametrize("missing", ["error", "null"])
@pytest.mark.parametrize("keys", [None, "id"])
@pytest.mark.parametrize(("format", "body"), UPDATES)
def test_a_partial_update_is_never_filled(format: str, body: Any, keys: Any, missing: str) -> None:
    with pytest.raises(InputFormatError, match="lacks 'a'") as raised:
        decode(format, body, keys=keys, missing=missing)
    text = str(raised.value)
    assert "REPLICA IDENTITY FULL" in text or "ALLCOLS" in text
    assert "missing=" not in text


@pytest.mark.parametrize("missing", ["error", "null"])
@pytest.mark.parametrize(("format", "body"), DELETIONS)
def test_a_partial_deletion_needs_the_key_alone(format: str, body: Any, missing: str) -> None:
    with pytest.raises(InputFormatError, match="lacks 'a'"):
        decode(format, body, missing=missing)
    ((word, number, *_),) = decode(format, body, keys="id", missing=missing)
    assert (word, number) == ("delete", 1)


def test_a_compressed_update_with_the_row_before_is_whole() -> None:
    body = {"table": "d.t", "op_type": "U", "before": WHOLE, "after": {"id": 1, "b": 3}}
    assert [row[1:] for row in decode("ogg-json", body)] == [(1, "x", 2), (1, "x", 3)]


CONNECT = {
    "type": "struct",
    "fields": [{"field": name, "type": kind} for name, kind in (("id", "int64"), ("a", "string"))],
}


@pytest.mark.parametrize("missing", ["error", "null"])
def test_rows_in_a_schema_and_payload_are_read(missing: str) -> None:
    body = {"schema": CONNECT, "payload": WHOLE}
    assert decode("jsonl", body, missing=missing) == [("insert", 1, "x", 2)]
    key = json.dumps({"schema": {}, "payload": {"id": 1}}).encode()
    (row,) = decode("upsert-json", body, key, keys="id", missing=missing)
    assert row[1:] == (1, "x", 2)
    gone = {"schema": CONNECT, "payload": None}
    assert decode("upsert-json", gone, key, keys="id", missing=missing)[0][:2] == ("delete", 1)
    with pytest.raises(InputFormatError, match="a tombstone names no row"):
        decode("jsonl", gone, missing=missing)


AFTER = {"id": 1, "b": 3}
KEY = json.dumps({"id": 1}).encode()
COMPLETED = [
    ("debezium-json", {"op": "u", "before": None, "after": AFTER}, None),
    ("debezium-json", {"op": "u", "before": {"id": 1, "a": None, "b": None}, "after": AFTER}, None),
    ("debezium-json", {"op": "u", "before": {"id": 1}, "after": {"b": 3}}, None),
    ("debezium-json", {"op": "u", "before": None, "after": {"b": 3}}, KEY),
    (
        "debezium-json",
        {"op": "u", "before": None, "after": AFTER | {"a": "__debezium_unavailable_value"}},
        None,
    ),
    ("maxwell-json", MAXWELL | {"type": "update", "data": AFTER, "old": {"b": 1}}, None),
    ("maxwell-json", MAXWELL | {"type": "update", "data": {"b": 3}, "old": {"id": 1}}, None),
    ("canal-json", CANAL | {"type": "UPDATE", "data": [AFTER], "old": [{"b": 1}]}, None),
    ("ogg-json", {"table": "d.t", "op_type": "U", "before": {"id": 1}, "after": AFTER}, None),
    ("ogg-json", {"table": "d.t", "op_type": "U", "after": AFTER}, None),
    ("upsert-json", AFTER, KEY),
    ("upsert-json", {"b": 3}, KEY),
]


@pytest.mark.parametrize(("format", "body", "key"), COMPLETED)
def test_a_partial_update_names_what_it_leaves_out(format: str, body: Any, key: Any) -> None:
    assert decode(format, body, key, keys="id", images="partial") == [
        ("update_postimage", 1, None, 3, '["a"]')
    ]


@pytest.mark.parametrize(("format", "body"), [*UPDATES, ("upsert-json", PART)])
@pytest.mark.parametrize("options", [{}, {"keys": "id"}])
def test_a_partial_update_says_how_it_could_be_kept(format: str, body: Any, options: Any) -> None:
    if format == "upsert-json":
        options = {"keys": "id"}
    with pytest.raises(InputFormatError, match=r"lacks 'a'; .*images=\"partial\"") as raised:
        decode(format, body, KEY, **options)
    assert "missing=" not in str(raised.value)


CHANGED_KEYS = [
    ("debezium-json", {"op": "u", "before": {"id": 2}, "after": AFTER}),
    ("maxwell-json", MAXWELL | {"type": "update", "data": AFTER, "old": {"id": 2}}),
    ("canal-json", CANAL | {"type": "UPDATE", "data": [AFTER], "old": [{"id": 2}]}),
    ("ogg-json", {"table": "d.t", "op_type": "U", "before": {"id": 2}, "after": AFTER}),
]


@pytest.mark.parametrize(("format", "body"), CHANGED_KEYS)
def test_an_update_of_the_key_has_to_tell_the_whole_row(format: str, body: Any) -> None:
    with pytest.raises(InputFormatError, match=r'leaves out \["a"\], which no row of the new key'):
        decode(format, body, keys="id", images="partial")
    text = json.dumps(body).replace('"b": 3', '"b": 3, "a": "y"')
    found = decode(format, json.loads(text), keys="id", images="partial")
    assert [row[:2] for row in found] == [("delete", 2), ("update_postimage", 1)]
    assert found[1] == ("update_postimage", 1, "y", 3, None)


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("debezium-json", {"op": "c", "after": PART}),
        ("maxwell-json", MAXWELL | {"type": "insert", "data": PART}),
        ("canal-json", CANAL | {"type": "INSERT", "data": [PART]}),
        ("ogg-json", {"table": "d.t", "op_type": "I", "after": PART}),
    ],
)
def test_an_insertion_has_nothing_to_be_completed_by(format: str, body: Any) -> None:
    with pytest.raises(InputFormatError, match="lacks 'a'"):
        decode(format, body, keys="id", images="partial")


@pytest.mark.parametrize(
    ("format", "body"), [(f, b) for f, b, k in COMPLETED if k is None and "b" in str(b)]
)
def test_a_partial_update_without_its_key_is_refused(format: str, body: Any) -> None:
    without = json.loads(json.dumps(body).replace('"id"', '"other"'))
    with pytest.raises(InputFormatError, match="lacks 'id' of the key"):
        decode(format, without, keys="id", images="partial")


def test_whole_and_partial_messages_of_a_block() -> None:
    whole = [{"op": "c", "after": {"id": n, "a": "x", "b": n}} for n in range(300)]
    parts = [{"op": "u", "before": None, "after": {"id": n, "b": -n}} for n in range(0, 300, 7)]
    gone = [{"op": "d", "before": {"id": 5}}]
    messages = [Message(json.dumps(each).encode()) for each in [*whole, *parts, *gone]]
    found = decoder("debezium-json", DDL, keys="id", images="partial").decode(messages)
    rows = list(zip(*(c.to_pylist() for c in found.columns), strict=True))
    assert rows[:300] == [(n, "x", n, None) for n in range(300)]
    assert rows[300:-1] == [(n, None, -n, '["a"]') for n in range(0, 300, 7)]
    assert rows[-1] == (5, None, None, None)


@pytest.mark.parametrize("format", sorted({format for format, *_ in UPDATES}))
def test_partial_images_need_the_key(format: str) -> None:
    with pytest.raises(SpecError, match=r"needs the key of the table.*REPLICA IDENTITY FULL"):
        decoder(format, DDL, images="partial")


def test_what_is_left_out_is_kept_or_null_but_not_both() -> None:
    with pytest.raises(SpecError, match='missing="null" reads as NULL what images="partial"'):
        decoder("upsert-json", DDL, keys="id", images="partial", missing="null")
    with pytest.raises(SpecError, match="jsonl has no option 'images'"):
        decoder("jsonl", DDL, images="partial")


LINES = [
    {"op": "c", "after": {"id": 1, "a": "x", "b": 2}},
    {"op": "u", "before": None, "after": {"id": 1, "b": 3}},
    {"op": "u", "before": None, "after": {"id": 2, "b": 3}},
]


def test_a_harness_completes_what_it_reads(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("\n".join(map(json.dumps, LINES)))
    ddl = f"{DDL}, _absent_columns STRING, PRIMARY KEY (id) NOT ENFORCED"
    with Harness.from_sql("SELECT * FROM t", {"t": ddl}, input_changes="upsert") as t:
        t.read(tmp_path, "debezium-json")
        t.flush()
        assert t.table() == [(1, "x", 3)] and t.counters["orphans_dropped"] == 1
    with (
        Harness.from_sql("SELECT * FROM t", {"t": DDL}) as t,
        pytest.raises(SpecError, match="a last column _absent_columns STRING"),
    ):
        t.read(tmp_path, "debezium-json", images="partial")


SCRIPT = """
CREATE TABLE t (id BIGINT, a STRING, b BIGINT, c AS b + 1, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'debezium-json', 'images' = 'partial');
SELECT * FROM t;
"""


def test_the_shell_completes_what_it_reads(tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text("\n".join(map(json.dumps, LINES)))
    script = tmp_path / "q.sql"
    script.write_text(SCRIPT.format(folder))
    main(["sql", str(script)], standalone_mode=False)
    shown = capsys.readouterr()
    assert "│ 1 │ x │ 3 │ 4 │" in " ".join(shown.out.split())
    assert "1 orphan" in shown.err


@pytest.mark.spark
def test_a_stream_completes_what_it_reads_over_restarts(spark: Any, tmp_path: Path) -> None:
    import aggloom as al

    folder = tmp_path / "in"
    folder.mkdir()
    batches = [
        [{"op": "c", "after": {"id": n, "a": f"a{n % 3}", "b": n}} for n in range(20)],
        [{"op": "u", "before": None, "after": {"id": n, "b": 100 + n}} for n in range(0, 25, 2)],
        [{"op": "d", "before": {"id": 4}}]
        + [{"op": "u", "before": None, "after": {"id": n, "a": "y"}} for n in range(0, 8, 2)],
    ]
    rows: dict[int, tuple[str, int]] = {}
    for number, batch in enumerate(batches):
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, batch)))
        for change in batch:
            image: dict[str, Any] = change.get("after") or change["before"]  # type: ignore[assignment]
            key = image["id"]
            if change["op"] == "d":
                rows.pop(key)
            elif key in rows or change["op"] == "c":
                a, b = rows.get(key, ("", 0))
                rows[key] = (image.get("a", a), image.get("b", b))
        t = al.read_changes(spark, folder, "debezium-json", DDL, keys="id", images="partial")
        out = al.sql("SELECT id, a, b FROM t WHERE b > 1", t=t, buckets=3)
        al.await_end(al.write_changes(out, "table", tmp_path / "state"))
        found = {r["id"]: (r["a"], r["b"]) for r in al.read_table(tmp_path / "state").to_pylist()}
        assert found == {key: row for key, row in rows.items() if row[1] > 1}
    with pytest.raises(SpecError, match=r"read by its keys|leave out columns"):
        al.group_aggregate(t, "SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    for call in (
        lambda: al.deduplicate(t, "id", input_changes="upsert"),
        lambda: al.write_changes(t, "table", tmp_path / "other"),
    ):
        with pytest.raises(SpecError, match="leave out columns"):
            call()
    with pytest.raises(SpecError, match="which only upserts may"):
        al.sql("SELECT id FROM t", t=t.where("id > 0"))
    texts = spark.createDataFrame(
        [(json.dumps(each),) for each in batches[0] + batches[1]], "value STRING"
    )
    messages = al.read_messages(texts.coalesce(1), "debezium-json", DDL, "id", images="partial")
    whole = al.sql("SELECT a, SUM(b) AS s FROM t GROUP BY a", t=messages, buckets=2)
    totals: dict[str, int] = {}
    for n in range(20):
        totals[f"a{n % 3}"] = totals.get(f"a{n % 3}", 0) + n + 100 * (n % 2 == 0)
    assert {row.a: row.s for row in whole.collect()} == totals


@pytest.mark.spark
def test_a_job_completes_what_it_reads(spark: Any, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text("\n".join(map(json.dumps, LINES)))
    table = f"t={folder},format=debezium-json,schema={DDL},keys=id,images=partial"
    main(
        ["run", "--sql", "SELECT * FROM t", "--table", table, "--sink", "table"],
        standalone_mode=False,
    )
    shown = capsys.readouterr()
    assert "│ 1 │ x │ 3 │" in " ".join(shown.out.split())
    assert "1 orphan" in shown.err + shown.out
