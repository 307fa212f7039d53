"""METADATA columns: facts of files, topics, envelopes and keys, beside what the broker and the file system say."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from engine_jobs import rows_of_table, run_to_end

from aggloom import local
from aggloom.errors import AggloomError, InputFormatError, SpecError
from aggloom.job import Job
from aggloom.script import jobs_of

FILE_FACTS = """`file.path` STRING NOT NULL METADATA, named STRING METADATA FROM 'file.name' VIRTUAL,
  `file.size` BIGINT NOT NULL METADATA, at TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'file.modification-time'"""
TOPIC = "'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}'"


def job_of(text: str, folder: Path, name: str = "state") -> Job:
    base = Job(text, (), checkpoint=folder / name, sink="table", backend="python", dialect="flink")
    (job,), _ = jobs_of(base, folder)
    return job


def table_of(text: str, folder: Path, name: str = "state") -> list[tuple[Any, ...]]:
    """The table of a script on the local engine."""
    run_to_end(job_of(text, folder, name))
    return rows_of_table(folder / name)


def write_ids(folder: Path, format: str, ids: list[int], at_ms: int) -> Path:
    """A file of the column id, written at a time."""
    folder.mkdir(exist_ok=True)
    file, table = folder / f"{ids[0]}.{format}", pa.table({"id": pa.array(ids, pa.int32())})
    if format == "json":
        file.write_text("".join(json.dumps({"id": each}) + "\n" for each in ids))
    elif format == "csv":
        pa_csv.write_csv(table, file)
    else:
        pq.write_table(table, file)
    os.utime(file, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
    return file


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_facts_of_files(format: str, tmp_path: Path) -> None:
    changes = "" if format == "json" else ", 'changes' = 'append'"
    text = f"""CREATE TABLE t (id INT, {FILE_FACTS})
      WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = '{format}'{changes}); SELECT * FROM t"""
    expected = []
    for batch in range(2):
        for number in range(2):
            ids = [10 * batch + 3 * number, 10 * batch + 3 * number + 1]
            ms = 1_700_000_000_123 + 1000 * ids[0]
            file = write_ids(tmp_path / "in", format, ids, ms)
            at = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)
            row = (str(file), file.name, file.stat().st_size, at)
            expected += [(each, *row) for each in ids]
        # The second time with a checkpoint, over files that are new.
        assert sorted(table_of(text, tmp_path)) == sorted(expected)


def test_windows_by_the_time_of_files(tmp_path: Path) -> None:
    for number in range(4):
        write_ids(tmp_path / "in", "json", [number], 1_700_000_000_000 + 40_000 * number)
    text = """CREATE TABLE t (id INT, at TIMESTAMP_LTZ(3) METADATA FROM 'file.modification-time',
        WATERMARK FOR at AS at - INTERVAL '1' SECOND)
      WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
      SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE))
      GROUP BY window_start, window_end"""
    assert sorted(n for _, n in table_of(text, tmp_path)) == [1, 1, 2]


def envelope(op: str, before: Any, after: Any, ts: int) -> str:
    source = {"db": "shop", "schema": "public", "table": "orders", "ts_ms": ts - 5, "lsn": 17}
    body = {"op": op, "before": before, "after": after, "source": source, "ts_ms": ts}
    return json.dumps({"schema": None, "payload": body} if ts % 2 else body) + "\n"


def test_facts_of_envelopes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [
        envelope("c", None, {"id": 1, "v": 5}, 1_700_000_000_000),
        envelope("c", None, {"id": 2, "v": 6}, 1_700_000_000_001),
        envelope("u", {"id": 1, "v": 5}, {"id": 1, "v": 7}, 1_700_000_000_002),
    ]
    (tmp_path / "in" / "a.json").write_text("".join(lines))
    columns = """id INT, v INT, sent TIMESTAMP(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL,
      was TIMESTAMP_LTZ(3) METADATA FROM 'value.source.timestamp' VIRTUAL,
      db STRING METADATA FROM 'value.source.database' VIRTUAL, of STRING METADATA FROM 'value.source.table' VIRTUAL"""
    given = "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'debezium-json'"
    keyed = (
        f"CREATE TABLE t ({columns}, PRIMARY KEY (id) NOT ENFORCED) {given}, 'changes' = 'upsert');"
    )
    query = "SELECT id, v, sent, was, db, of FROM t"
    base = dt.datetime(2023, 11, 14, 22, 13, 20)
    assert sorted(table_of(keyed + query, tmp_path)) == [
        (
            *(id, v, base + dt.timedelta(milliseconds=ms)),
            (base + dt.timedelta(milliseconds=ms - 5)).replace(tzinfo=dt.UTC),
            *("shop", "orders"),
        )
        for id, v, ms in ((1, 7, 2), (2, 6, 1))
    ]
    # Without a key a deletion would say another time than its row; what is the same in all changes may be read.
    plain = f"CREATE TABLE t ({columns}) {given});"
    with pytest.raises(
        SpecError, match=r"column 'sent' is METADATA 'value.ingestion-timestamp'.*PRIMARY KEY"
    ):
        job = job_of(plain + query, tmp_path, "other")
        run_to_end(job)
    counted = "SELECT of, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY of"
    assert table_of(plain + counted, tmp_path, "counted") == [("orders", 2, 13)]
    (tmp_path / "in" / "a.json").write_text(lines[1])
    added = f"""CREATE TABLE t (id INT, more MAP<STRING, STRING> METADATA FROM 'value.source.properties' VIRTUAL)
      {given}, 'changes' = 'append'); SELECT id, more['lsn'] AS lsn, more['db'] AS db FROM t"""
    assert table_of(added, tmp_path, "added") == [(2, "17", "shop")]


def send(broker: Any, topic: str, messages: list[tuple[Any, Any, int, int, list[Any]]]) -> None:
    """Write (key, value, partition, time, headers)."""
    producer = broker.producer()
    for key, value, partition, time, headers in messages:
        producer.produce(topic, value, key, partition=partition, timestamp=time, headers=headers)
    assert producer.flush(120) == 0


FACTS = """at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', `partition` BIGINT METADATA VIRTUAL,
  `offset` BIGINT METADATA VIRTUAL, topic STRING NOT NULL METADATA VIRTUAL,
  kind STRING METADATA FROM 'timestamp-type', h MAP<STRING, BYTES> METADATA FROM 'headers'"""


def sent_messages(first: int) -> list[tuple[Any, Any, int, int, list[Any]]]:
    found = []
    for number in range(first, first + 6):
        key = json.dumps({"id": number, "shop": f"s{number % 2}"}) if number % 5 else None
        value, time = json.dumps({"v": number * 10}), 1_700_000_000_000 + number * 7_000
        headers: list[Any] = [("a", b"1"), ("a", str(number).encode())] if number % 3 else []
        found.append((key, value, number % 2, time, headers))
    return found


def expected_of(messages: list[Any], topic: str) -> list[tuple[Any, ...]]:
    """The rows of the messages, as the broker says them."""
    seen = {0: 0, 1: 0}
    rows = []
    for key, value, partition, time, headers in messages:
        own = json.loads(key) if key else {}
        at = dt.datetime.fromtimestamp(time / 1000, dt.UTC)
        row = (
            own.get("id"),
            own.get("shop"),
            json.loads(value)["v"],
            at,
            partition,
            seen[partition],
        )
        seen[partition] += 1
        rows.append((*row, topic, "CreateTime", dict(headers).get("a")))
    return rows


def topic_script(broker: Any, topic: str) -> str:
    place = TOPIC.format(topic=topic, servers=broker.servers)
    return f"""CREATE TABLE t (k_id INT, k_shop STRING, v INT, {FACTS}) WITH ({place}, 'key.format' = 'json',
      'key.fields' = 'k_id;k_shop', 'key.fields-prefix' = 'k_', 'value.format' = 'json',
      'value.fields-include' = 'EXCEPT_KEY');"""


ALL = "SELECT k_id, k_shop, v, at, `partition`, `offset`, topic, kind, h['a'] AS h FROM t"
WINDOWS = """SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '20' SECOND))
  GROUP BY window_start, window_end"""


def by_value(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: row[2])


def test_facts_and_keys_of_a_topic(broker: Any, tmp_path: Path) -> None:
    topic = "metadata.local"
    broker.topic(topic, 2)
    text, sent = topic_script(broker, topic) + ALL, sent_messages(0)
    send(broker, topic, sent)
    assert by_value(table_of(text, tmp_path)) == expected_of(sent, topic)
    more = sent_messages(6)
    send(broker, topic, more)
    assert by_value(table_of(text, tmp_path)) == expected_of(sent + more, topic)
    timed = topic_script(broker, topic).replace(
        "at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',",
        "at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR at AS at - INTERVAL '0' SECOND,",
    )
    job = job_of(timed + WINDOWS, tmp_path, "windows")
    run_to_end(job)
    # Topics have no end: windows that the watermark has not passed stay open. It moves behind a batch.
    newest = max(time for *_, time, _ in sent + more)
    last = [(b'{"id": 99}', b'{"v": 990}', 1, newest, [])]
    send(broker, topic, last)
    run_to_end(job)
    counts: dict[int, int] = {}
    for *_, time, _ in sent + more:
        counts[time // 20_000] = counts.get(time // 20_000, 0) + 1
    closed = sorted(n for start, n in counts.items() if (start + 1) * 20_000 <= newest)
    assert sorted(n for _, n in rows_of_table(tmp_path / "windows")) == closed and len(closed) > 2
    more += last
    send(broker, topic, [(b"[1]", b'{"v": 1}', 0, 1_700_000_000_000, [])])
    with pytest.raises(InputFormatError, match=r"metadata.local, partition 0, offset 6: the key"):
        table_of(text, tmp_path)
    dropped = text.replace("'key.format'", "'unreadable' = 'drop', 'key.format'")
    assert by_value(table_of(dropped, tmp_path, "dropped")) == expected_of(sent + more, topic)


def test_the_python_door_has_them(tmp_path: Path) -> None:
    file = write_ids(tmp_path / "in", "json", [1, 2], 1_700_000_000_000)
    rows = local.read_changes(
        file.parent, "jsonl", "id INT, p STRING", changes="append", metadata={"p": "file.name"}
    )
    found = local.collect(local.sql("SELECT p, COUNT(*) AS n FROM t GROUP BY p", t=rows))
    assert found.to_pylist() == [{"p": "1.json", "n": 2}]


KAFKA = TOPIC.format(topic="t", servers="h:1") + ", 'format' = 'json'"
FILES = "'connector' = 'filesystem', 'path' = 'in', 'format' = 'json'"


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("a INT METADATA FROM 'offest'", KAFKA, "no METADATA 'offest'. Did you mean 'offset'?"),
        ("a INT METADATA FROM 'offset'", KAFKA, "is INT, and METADATA 'offset' is BIGINT"),
        ("a BIGINT METADATA FROM 'timestamp'", KAFKA, "'timestamp' is TIMESTAMP_LTZ(3)"),
        ("a STRING METADATA FROM 'value.source.table'", KAFKA, "no METADATA 'value.source.table'"),
        ("a STRING METADATA FROM 'file.path'", KAFKA, "there is no METADATA 'file.path'"),
        ("a STRING METADATA FROM 'topic'", FILES, "which files do not say; they say file.path"),
        ("a STRING METADATA FROM 'file.pth'", FILES, "Did you mean 'file.path'?"),
        ("a STRING METADATA FROM", FILES, "METADATA FROM is not supported"),
        ("a STRING METADATA VIRTUEL", FILES, "METADATA VIRTUEL is not supported"),
        (
            "a STRING METADATA",
            "'connector' = 'delta', 'table-path' = 'x'",
            "'delta' has none; one of 'filesystem', 'kafka', 'upsert-kafka' has",
        ),
        ("a INT", f"{KAFKA}, 'key.format' = 'csv'", "'key.format' is 'csv'; known is 'json'"),
        ("a INT", f"{KAFKA}, 'key.format' = 'json'", "'key.fields' is missing"),
        (
            "a INT",
            f"{KAFKA}, 'key.format' = 'json', 'key.fields' = 'b'",
            "'key.fields' names 'b', which is no column.",
        ),
        (
            "a INT",
            f"{KAFKA}, 'key.format' = 'json', 'key.fields' = 'a', 'key.fields-prefix' = 'k_'",
            "needs 'value.fields-include' = 'EXCEPT_KEY'",
        ),
        (
            "a INT",
            f"{KAFKA}, 'key.format' = 'json', 'key.fields' = 'a', 'key.fields-prefix' = 'k_', "
            "'value.fields-include' = 'EXCEPT_KEY'",
            "names 'a', which is no column with 'k_' before it",
        ),
    ],
)
def test_what_is_no_source_is_refused(columns: str, options: str, said: str) -> None:
    with pytest.raises(AggloomError) as raised:
        jobs_of(Job(f"CREATE TABLE t ({columns}) WITH ({options}); SELECT * FROM t", ()))
    assert said in str(raised.value)


def test_a_sink_writes_no_metadata(tmp_path: Path) -> None:
    into = (
        "CREATE TABLE o (a INT, twice AS a * 2, m STRING METADATA{}) WITH ('connector' = 'print');"
    )
    text = into.format(" VIRTUAL") + "INSERT INTO o SELECT 1"
    (job,), _ = jobs_of(Job(text, (), dialect="flink"), tmp_path, alone=True)
    assert job.into == "o"
    with pytest.raises(AggloomError, match="which no sink writes; declare it VIRTUAL"):
        jobs, _ = jobs_of(Job(into.format("") + "INSERT INTO o SELECT 1", ()), alone=True)
        from aggloom.job_plan import plan_of_job

        plan_of_job(jobs[0])
