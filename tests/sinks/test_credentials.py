"""Credentials stay where users put them: not in errors, `repr`, logs, checkpoints, pages, or what commands print."""

from __future__ import annotations

import logging
import sqlite3
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import aggloom as al
from aggloom.cli import main
from aggloom.errors import AggloomError
from aggloom.job import read_job
from aggloom.job_plan import explain_job, plan_of_job
from aggloom.runtime.connectors.registry import destination, made_sink

SECRET = "Xq7vSecretiveXq7v"
URL = f"postgresql://etl:{SECRET}@127.0.0.1:1/shop"
SUM = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
KAFKA = {"servers": "127.0.0.1:1", "topic": "a"}
PROPERTIES = {
    "sasl.password": SECRET,
    "ssl.key.password": SECRET,
    "ssl.key.pem": SECRET,
    "ssl.keystore.key": SECRET,
    "sasl.oauthbearer.client.secret": SECRET,
    "sasl.jaas.config": f'x.Plain required username="u" password="{SECRET}";',
}
STORE = {
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": SECRET,
    "azure_storage_account_key": SECRET,
    "azure_client_secret": SECRET,
    "connection_string": f"AccountName=a;AccountKey={SECRET};SharedAccessSignature={SECRET}",
}
CATALOG = {
    "uri": f"postgresql+psycopg2://u:{SECRET}@h/db",
    "s3.secret-access-key": SECRET,
    "token": SECRET,
    "credential": f"id:{SECRET}",
}
REGISTRIES: tuple[Any, ...] = (
    f"https://u:{SECRET}@127.0.0.1:1",
    {"url": "https://127.0.0.1:1", "token": SECRET},
    {"url": "https://127.0.0.1:1", "user_info": f"u:{SECRET}"},
    {"url": "https://127.0.0.1:1", "certificate_file": "a.pem", "certificate_password": SECRET},
)
SINKS: tuple[dict[str, Any], ...] = (
    *(
        {"kind": "database", "table": "x", "driver": "psycopg", "connect": connect}
        for connect in (
            URL,
            f"host=127.0.0.1 port=1 password={SECRET}",
            {"host": "127.0.0.1", "port": 1, "password": SECRET},
            f"host=127.0.0.1 password='{SECRET} nonsense",
        )
    ),
    {"kind": "kafka", **KAFKA, "properties": PROPERTIES},
    *({"kind": "kafka", **KAFKA, "format": "upsert-avro", "registry": each} for each in REGISTRIES),
    {"kind": "delta", "path": "s3://b/t", "storage": STORE},
    {"kind": "delta", "path": f"https://h/t?sig={SECRET}", "storage": STORE},
    {"kind": "iceberg", "table": "db.t", "connect": CATALOG},
)
TABLES: tuple[dict[str, Any], ...] = (
    {"connector": "kafka", **KAFKA, "format": "jsonl", "properties": PROPERTIES},
    *(
        {"connector": "kafka", **KAFKA, "format": "debezium-avro", "registry": each}
        for each in REGISTRIES
    ),
    {"path": f"s3a://key:{SECRET}@b/in", "format": "jsonl"},
    {"connector": "delta", "path": "s3://b/t", "storage": STORE},
    {"connector": "iceberg", "path": "db.t", "connect": CATALOG},
)
JDBC = (
    f"'connector'='jdbc','url'='jdbc:{URL}','table-name'='o','username'='u','password'='{SECRET}'"
)
FILES = "'connector'='filesystem','path'='in','format'='json'"
SCRIPTS = (
    f"CREATE TABLE t (k STRING, v INT) WITH ({FILES}); CREATE TABLE o (k STRING, s BIGINT, PRIMARY KEY (k) NOT "
    f"ENFORCED) WITH ({JDBC}); INSERT INTO o {SUM};",
    f"CREATE TABLE t (k STRING, v INT, p AS PROCTIME()) WITH ({FILES}); CREATE TABLE o (k STRING, n STRING) WITH "
    f"({JDBC}); SELECT t.k, o.n FROM t JOIN o FOR SYSTEM_TIME AS OF t.p ON t.k = o.k;",
    f"CREATE TABLE t (k STRING, v INT) WITH ('connector'='kafka','topic'='a','properties.bootstrap.servers'='h:1',"
    f"'format'='json','properties.sasl.jaas.config'='x password=\"{SECRET}\";','properties.ssl.key.password'="
    f"'{SECRET}'); {SUM};",
)


def spoiled(entries: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Options as they are, and with each mistake that a message may quote."""
    yield dict(entries)
    yield {**entries, "nonsense": SECRET}
    for name, value in entries.items():
        yield {**{key: each for key, each in entries.items() if key != name}, f"{name}x": value}
        if not isinstance(value, str):
            yield {**entries, name: str(value)}
            yield {**entries, name: [value]}


def written(folder: Path, sink: Any = "table", table: Any = None) -> Path:
    """A job file."""
    table = {"path": "in", "format": "jsonl"} if table is None else table
    tables = {"t": {"schema": "k STRING, v INT", **table}}
    job = folder / "job.yaml"
    job.write_text(yaml.safe_dump({"sql": SUM, "tables": tables, "sink": sink, "checkpoint": "ck"}))
    return job


def looked_at(path: Path) -> list[str]:
    """All that Python shows of a job, of what is made from it, and of its errors."""
    shown: list[str] = []
    try:
        job = read_job(path)
        kind, place, options = destination(job.sink)
        shown += [repr(job), repr(job.tables), repr(options), str(options), kind, place]
        shown += [explain_job(job), repr(plan_of_job(job))]
        if options is not None:
            sink, where = made_sink(options, ("k",), True)
            shown += [repr(sink), where]
    except AggloomError as error:
        shown += [
            str(error),
            repr(error),
            *map(str, error.args),
            "".join(traceback.format_exception(error)),
        ]
    except Exception as error:
        shown += [f"{type(error).__name__}: {error}"]
    return shown


@pytest.mark.parametrize("entries", SINKS, ids=lambda each: each["kind"])
def test_nothing_shows_the_secrets_of_a_sink(tmp_path: Path, entries: dict[str, Any]) -> None:
    for sink in spoiled(entries):
        assert SECRET not in "\n".join(looked_at(written(tmp_path, sink))), sink


@pytest.mark.parametrize("entries", TABLES, ids=lambda each: each.get("connector", "files"))
def test_nothing_shows_the_secrets_of_a_table(tmp_path: Path, entries: dict[str, Any]) -> None:
    for table in spoiled(entries):
        path = written(tmp_path, table=table)
        assert SECRET not in "\n".join(looked_at(path)), table


@pytest.mark.parametrize("debug", [(), ("--debug",)], ids=["in short", "with traces"])
@pytest.mark.parametrize("script", SCRIPTS, ids=["sink", "lookup", "topic"])
def test_commands_print_no_secrets_of_a_script(
    tmp_path: Path, script: str, debug: tuple[str, ...]
) -> None:
    path = tmp_path / "job.sql"
    wrong = script.replace("'format'='json'", "'format'='jsn'")
    for text in (script, wrong, script.replace("SUM(v)", "SUM(x)").replace("o.n", "o.x")):
        path.write_text(text)
        calls = [["explain", "--sql", text], ["sql", str(path)]]
        # What is wrong with a table is said before Spark starts.
        calls += [["run", str(path), "--checkpoint", str(tmp_path / "ck")]] if text == wrong else []
        for call in calls:
            result = CliRunner().invoke(main, [*call, *debug])
            assert result.output, call
            assert SECRET not in result.output + repr(result.exception), call


def test_the_log_masks_messages_and_traces(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("aggloom", "aggloom.lookup"):
        try:
            raise ValueError(URL)
        except ValueError:
            logging.getLogger(name).exception("cannot reach %s", URL)
    assert "etl:***@" in caplog.text and SECRET not in caplog.text
    # Spark's formatter writes the exception of a record as JSON, and not its text.
    assert all(SECRET not in str(each.exc_info) for each in caplog.records)


def test_a_lookup_table_shows_no_secret() -> None:
    table = al.lookup_table("k STRING, n STRING", connect=lambda: URL, table="o")
    assert SECRET not in repr(table)


@pytest.mark.spark
def test_a_run_leaves_no_secret_anywhere(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    (Path("in") / "a.json").write_text('{"k":"a","v":1}\n')
    with sqlite3.connect("out.db"):
        pass
    sqlite = JDBC.replace(URL, "sqlite:out.db")
    runs = {"good": SCRIPTS[0].replace(JDBC, sqlite), "bad": SCRIPTS[0], "lookup": SCRIPTS[1]}
    printed = []
    for name, script in runs.items():
        path = Path(f"{name}.sql")
        path.write_text(script)
        printed.append(CliRunner().invoke(main, ["run", str(path), "--checkpoint", f"ck-{name}"]))
        path.unlink()
    assert printed[0].exit_code == 0, printed[0].output
    assert printed[1].exit_code == 2
    for name in runs:
        report = ["report", f"ck-{name}", "--no-state", "-o", f"{name}.html"]
        printed.append(CliRunner().invoke(main, report))
    for result in printed:
        assert SECRET not in result.output + repr(result.exception)
    places = [place for place in tmp_path.rglob("*") if place.is_file()]
    assert len(places) > 20
    for place in places:
        assert SECRET.encode() not in place.read_bytes(), place
        assert SECRET not in str(place)
