"""`aggloom ask` and `aggloom serve`: each answer is of one commit, for drivers too; hostile clients harm none."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from engine_jobs import job_over, random_changes, rows_of_table, run_to_end, write_files
from pyarrow import flight

from aggloom import local
from aggloom.cli import main
from aggloom.errors import (
    AggloomError,
    CheckpointError,
    OptionError,
    SqlError,
    UnknownTableError,
)
from aggloom.run_local import open_query
from aggloom.runtime.asking.credentials import Credentials
from aggloom.runtime.asking.database import ask
from aggloom.runtime.asking.flight_messages import write_message
from aggloom.runtime.asking.flight_server import FlightSqlServer
from aggloom.runtime.asking.snapshot import LiveSnapshots, Snapshot
from aggloom.runtime.connectors.files.table_file import TABLE_FILE
from aggloom.runtime.inspection import look as look_module

pytest.importorskip("duckdb")
BATCHES, ROWS = 25, 10


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ask")
    write_files(root / "in", random_changes(8, 200), 4)
    run_to_end(job_over(root / "in", "sums", root / "state"))
    return root / "state"


def answer(checkpoint: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    found = ask({"state": Snapshot(str(checkpoint))}, sql, parameters)
    return [tuple(row.values()) for row in found.to_pylist()]


def test_result_and_state_are_tables(checkpoint: Path) -> None:
    rows = rows_of_table(checkpoint)
    assert len(rows) == 4
    for table in ("result", "operator_0", "Result"):
        assert Counter(answer(checkpoint, f"FROM {table}")) == Counter(rows)
    assert answer(checkpoint, "SELECT sum(n) FROM result") == [(sum(row[1] for row in rows),)]
    joined = "SELECT count(*) FROM result r JOIN operator_0 o ON r.customer IS NOT DISTINCT FROM o.customer"
    assert answer(checkpoint, joined) == [(4,)]
    assert answer(checkpoint, "SELECT n FROM result WHERE customer = ?", "Ada") == [
        (row[1],) for row in rows if row[0] == "Ada"
    ]


@pytest.mark.parametrize("query", ["nested", "join", "rank", "windows"])
def test_operators_of_other_kinds_are_tables(query: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(8, 100, retracts=query != "windows"), 4)
    run_to_end(replace(job_over(tmp_path / "in", query, tmp_path / "state"), keep_open=True))
    snapshot = Snapshot(str(tmp_path / "state"))
    names = snapshot.names()
    assert names[0] == "result"
    assert len(names) == (3 if query == "nested" else 2)
    for name in names:
        found = ask({"state": snapshot}, f"SELECT * FROM {name}")
        assert found.num_columns == snapshot.table(name).num_columns
    if query in ("nested", "join"):
        assert Counter(answer(tmp_path / "state", "FROM operator_0")) == Counter(
            answer(tmp_path / "state", "FROM result")
        )


def test_a_point_look_up_reads_one_bucket(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilt: list[int] = []
    rebuild = look_module.Opened.rebuild

    def count(self: Any) -> Any:
        rebuilt.append(self._stored.bucket)
        return rebuild(self)

    monkeypatch.setattr(look_module.Opened, "rebuild", count)
    every = {row[0]: row for row in rows_of_table(checkpoint)}
    buckets = set()
    for customer, row in every.items():
        if customer is None:
            continue
        rebuilt.clear()
        sql = f"SELECT * FROM operator_0 WHERE n > 0 AND customer = '{customer}'"
        assert answer(checkpoint, sql) == [row]
        assert len(rebuilt) == 1
        buckets.add(rebuilt[0])
    rebuilt.clear()
    # A condition that is not of all rows is none by which others may be left out.
    sql = "SELECT count(*) FROM operator_0 WHERE customer = 'Ada' OR n > 0"
    assert answer(checkpoint, sql) == [(4,)]
    assert len(rebuilt) >= len(buckets)
    assert answer(checkpoint, "SELECT n FROM operator_0 WHERE customer = 'Nobody'") == []


def test_a_point_look_up_in_an_over_with_aggregates(tmp_path: Path) -> None:
    """Its rows have columns of their own, beside those of its handler."""
    sales = local.from_rows(
        [("+I", "Ada", 1), ("+I", "Ada", 2), ("+I", "Bob", 3)], "k STRING, x INT"
    )
    sql = "SELECT k, x, SUM(x) OVER (PARTITION BY k ORDER BY x) AS s FROM sales"
    sums = local.sql(sql, sales=sales, backend="python")
    local.await_end(local.write_changes(sums, "table", str(tmp_path / "state")))
    point = "SELECT x FROM operator_0 WHERE k = 'Ada' ORDER BY x"
    assert answer(tmp_path / "state", point) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("SELECT * FROM reslt", UnknownTableError, "Did you mean 'result'"),
        ("SELEC 1", SqlError, "syntax error"),
        ("SELECT nope FROM result", SqlError, "nope"),
        ("", SqlError, "0 statements"),
        ("SELECT 1; SELECT 2", SqlError, "2 statements"),
        ("DELETE FROM result", SqlError, "only read"),
        ("COPY (SELECT 1) TO 'x.csv'", SqlError, "only read"),
        ("ATTACH 'x.db'", SqlError, "only read"),
        ("INSTALL httpfs", SqlError, "only read"),
        ("SET memory_limit='9GB'", SqlError, "only read"),
        ("SELECT * FROM read_csv('/etc/passwd')", SqlError, "file system"),
        ("SELECT * FROM '/etc/passwd'", AggloomError, "no table"),
        ("SELECT * FROM names", UnknownTableError, "no table"),
        ("SELECT ?", SqlError, "parameter"),
    ],
)
def test_what_is_no_query_over_the_tables_is_refused(
    sql: str, error: type[Exception], words: str, checkpoint: Path
) -> None:
    names = pa.table({"a": [1]})
    with pytest.raises(error, match=words):
        answer(checkpoint, sql)
    assert names.num_rows == 1


def test_a_query_that_takes_too_long_or_too_much_ends(checkpoint: Path) -> None:
    snapshots = {"state": Snapshot(str(checkpoint))}
    with pytest.raises(AggloomError, match="longer than"):
        ask(snapshots, "SELECT count(*) FROM range(1000000000000)", seconds=0.2)
    with pytest.raises(AggloomError, match="memory"):
        ask(snapshots, "SELECT list(r.range) FROM range(100000000) r", memory="20MB")


@pytest.mark.parametrize("memory", ["lots", "1'; SELECT 1"])
def test_memory_that_is_no_size_is_refused(memory: str, checkpoint: Path) -> None:
    with pytest.raises(OptionError, match="must be a size"):
        ask({"state": Snapshot(str(checkpoint))}, "SELECT 1", memory=memory)


def test_what_is_not_there_is_named(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match="no such directory"):
        Snapshot(str(tmp_path / "nowhere"))
    (tmp_path / "in").mkdir()
    write_files(tmp_path / "in", random_changes(1, 10), 1)
    open_query(job_over(tmp_path / "in", "sums", tmp_path / "new"), tmp_path / "new").close()
    with pytest.raises(CheckpointError, match="no batch is committed"):
        Snapshot(str(tmp_path / "new"))


def test_a_batch_that_never_came_to_its_commit_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "in", random_changes(1, 30), 3)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    (tmp_path / "state" / "commits" / "2").unlink()
    monkeypatch.setattr("aggloom.runtime.asking.snapshot._COMMIT_SECONDS", 0.05)
    with pytest.raises(CheckpointError, match="batch 2, which is not committed"):
        Snapshot(str(tmp_path / "state"))
    (tmp_path / "state" / TABLE_FILE).unlink()
    assert Snapshot(str(tmp_path / "state")).names() == ["operator_0"]


def test_the_command(checkpoint: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["ask", str(checkpoint), *arguments])

    listed = run("--tables", "--format", "json")
    assert [json.loads(line)["table"] for line in listed.output.splitlines()] == [
        "result",
        "operator_0",
    ]
    found = run("SELECT customer, n FROM result WHERE customer = 'Ada'", "--format", "csv")
    (ada,) = [row for row in rows_of_table(checkpoint) if row[0] == "Ada"]
    assert found.output == f"customer,n\nAda,{ada[1]}\n"
    assert "│ Ada" in run("SELECT customer FROM result WHERE customer = 'Ada'").output
    same = run("SELECT 1 AS a, 2 AS a", "--format", "json")
    assert json.loads(same.output) == {"a": 1, "a_2": 2}
    for arguments in ((), ("SELECT 1", "--tables"), ("SELECT 1", "--seconds", "0")):
        assert run(*arguments).exit_code == 2


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Path, Any]]:
    """A query whose every batch has ten rows of each of ten customers, not yet begun."""
    folder = tmp_path / "in"
    for number in range(BATCHES):
        rows = [
            (number * 100 + n, f"c{n % 10}", n, "2026-01-01 00:00:00") for n in range(10 * ROWS)
        ]
        write_files(folder, [("insert", row) for row in rows], 1, start=number)
    query = open_query(job_over(folder, "sums", tmp_path / "state"), tmp_path / "state")
    query.run_batch()
    try:
        yield tmp_path / "state", query
    finally:
        query.close()


INVARIANT = (
    "SELECT count(*), min(n), max(n), (SELECT count(*) FROM (FROM result EXCEPT FROM operator_0)),"
    " (SELECT sum(n) FROM operator_0) FROM result"
)


def check_answer(row: Any) -> int:
    """Hold an answer to INVARIANT to be one of a single commit; the rows of each customer."""
    customers, least, most, apart, total = row
    assert (customers, least, apart) == (10, most, 0)
    assert total == 10 * most
    assert most % ROWS == 0
    return int(most)


def ask_by_adbc(address: str, asked: threading.Event, seen: list[int]) -> None:
    dbapi = import_module("adbc_driver_flightsql.dbapi")
    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        while not asked.is_set():
            cursor.execute(INVARIANT)
            seen.append(check_answer(cursor.fetchone()))


def ask_by_influx(address: str, asked: threading.Event, seen: list[int]) -> None:
    flightsql = import_module("flightsql")
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    client = flightsql.FlightSQLClient(host=host, port=int(port), insecure=True)
    while not asked.is_set():
        info = client.execute(INVARIANT)
        table = client.do_get(info.endpoints[0].ticket).read_all()
        seen.append(check_answer(tuple(table.to_pylist()[0].values())))


@pytest.mark.parametrize(
    ("module", "ask_driver"),
    # The second wants an SQLAlchemy older than other packages do, so that the environment does not have it.
    [("adbc_driver_flightsql.dbapi", ask_by_adbc), ("flightsql", ask_by_influx)],
)
def test_drivers_read_one_commit_while_batches_commit(
    module: str, ask_driver: Any, live: Any
) -> None:
    pytest.importorskip(module)
    checkpoint, query = live
    server = FlightSqlServer(LiveSnapshots({"state": str(checkpoint)}), version="1")
    ended, seen, failures = threading.Event(), list[int](), list[BaseException]()
    draw = random.Random(4)

    def follow() -> None:
        try:
            ask_driver(server.address, ended, seen)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        while query.run_batch():
            # Some batches commit between two answers, and some answers come between two batches.
            waits, asked, late = draw.random() < 0.3, len(seen), time.monotonic() + 10
            while waits and len(seen) == asked and not failures and time.monotonic() < late:
                ended.wait(0.01)
        # The last commit is seen, too.
        while not failures and (not seen or seen[-1] < BATCHES * ROWS):
            ended.wait(0.01)
    finally:
        ended.set()
        thread.join()
        server.shutdown()
    assert failures == []
    assert seen == sorted(seen)
    assert len(set(seen)) > 3


def test_drivers_list_tables_and_bind_parameters(checkpoint: Path) -> None:
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
    server = FlightSqlServer(LiveSnapshots({"state": str(checkpoint)}), version="1")
    with dbapi.connect(server.address, autocommit=True) as connection:
        (catalogue,) = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        (schema,) = catalogue["catalog_db_schemas"]
        assert [t["table_name"] for t in schema["db_schema_tables"]] == ["result", "operator_0"]
        assert connection.adbc_get_table_schema("result").names == ["customer", "n", "s", "m"]
        assert connection.adbc_get_info()["vendor_name"] == "aggloom"
        assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
        with connection.cursor() as cursor:
            rows = {row[0]: row for row in rows_of_table(checkpoint)}
            for customer in ("Ada", "Zoë"):
                cursor.execute("SELECT * FROM result WHERE customer = ?", (customer,))
                assert cursor.fetchall() == [rows[customer]]
            with pytest.raises(Exception, match="Did you mean 'result'"):
                cursor.execute("SELECT * FROM resul")
            cursor.execute("SELECT count(*) FROM result")
            assert cursor.fetchone() == (4,)
    server.shutdown()


def test_several_checkpoints_are_schemas(checkpoint: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(3, 50), 2)
    run_to_end(job_over(tmp_path / "in", "global", tmp_path / "other"))
    snapshots = LiveSnapshots(
        {"state": str(checkpoint), "other": str(tmp_path / "other")}
    ).current()
    found = ask(snapshots, "SELECT count(*) AS c FROM state.result, other.result")
    assert found.to_pylist() == [{"c": 4}]


def hostile_messages(draw: random.Random, count: int) -> Iterator[bytes]:
    """Random bytes, and messages of drivers in which some bytes are others."""
    whole = [
        write_message("CommandStatementQuery", query="SELECT * FROM result"),
        write_message("TicketStatementQuery", statement_handle=b'["SELECT 1", ""]'),
        write_message("CommandGetTables", include_schema=True, table_types=["TABLE"]),
        write_message(
            "CommandPreparedStatementQuery", prepared_statement_handle=b'["SELECT ?", "AAAA"]'
        ),
    ]
    for _ in range(count):
        if draw.random() < 0.3:
            yield draw.randbytes(draw.randrange(200))
            continue
        data = bytearray(draw.choice(whole))
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        yield bytes(data[: draw.randrange(1, len(data) + 1)])


def test_hostile_clients_end_only_their_own_connection(checkpoint: Path) -> None:
    server = FlightSqlServer(LiveSnapshots({"state": str(checkpoint)}), version="1")
    host, _, port = server.address.removeprefix("grpc://").rpartition(":")
    draw = random.Random(5)
    query = flight.FlightDescriptor.for_command(
        write_message("CommandStatementQuery", query="SELECT count(*) AS c FROM result")
    )
    refused = 0
    with flight.connect(server.address) as client, flight.connect(server.address) as honest:
        for number, message in enumerate(hostile_messages(draw, 10_000)):
            call = (client.get_flight_info, client.do_get, client.do_action)[number % 3]
            given: Any = flight.Ticket(message)
            if number % 3 == 0:
                given = flight.FlightDescriptor.for_command(message)
            elif number % 3 == 2:
                given = flight.Action(draw.choice(["CreatePreparedStatement", "x"]), message)
            try:
                found = call(given)
                if number % 3 == 1:
                    found.read_all()
                elif number % 3 == 2:
                    list(found)
            except (pa.ArrowException, flight.FlightError) as error:
                refused += 1
                assert "Traceback" not in str(error)
            if number % 500 == 0:
                with socket.create_connection((host, int(port))) as raw:
                    raw.sendall(draw.randbytes(2_000))
                info = honest.get_flight_info(query)
                table = honest.do_get(info.endpoints[0].ticket).read_all()
                assert table.to_pylist() == [{"c": 4}]
    server.shutdown()
    assert refused > 5_000


def test_a_server_with_credentials_admits_who_has_them(checkpoint: Path) -> None:
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
    credentials = Credentials("ada", "s3cret")
    assert "s3cret" not in repr(credentials)
    server = FlightSqlServer(
        LiveSnapshots({"state": str(checkpoint)}), version="1", credentials=credentials
    )

    def count_rows(**options: str) -> Any:
        with (
            dbapi.connect(server.address, db_kwargs=options, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT count(*) FROM result")
            return cursor.fetchone()

    assert count_rows(username="ada", password="s3cret") == (4,)
    for wrong in ({}, {"username": "ada", "password": "secret"}, {"username": "", "password": ""}):
        with pytest.raises(Exception, match="UNAUTHENTICATED"):
            count_rows(**wrong)
    server.shutdown()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of this machine that it has signed itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    place = tmp_path_factory.mktemp("certificate")
    made, key = place / "cert.pem", place / "key.pem"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"),
            *("-addext", names, "-days", "2", "-out", str(made), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    return made, key


def test_an_encrypted_server_is_read_by_who_knows_its_certificate(
    checkpoint: Path, certificate: tuple[Path, Path]
) -> None:
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
    made, key = certificate
    tls = made.read_bytes(), key.read_bytes()
    server = FlightSqlServer(LiveSnapshots({"state": str(checkpoint)}), version="1", tls=tls)

    def count_rows(address: str, **options: str) -> Any:
        with (
            dbapi.connect(address, db_kwargs=options, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT count(*) FROM result")
            return cursor.fetchone()

    root = "adbc.flight.sql.client_option.tls_root_certs"
    assert server.address.startswith("grpc+tls://")
    assert count_rows(server.address, **{root: made.read_text()}) == (4,)
    with pytest.raises(Exception, match="certificate"):
        count_rows(server.address)
    with pytest.raises(Exception, match=r"UNAVAILABLE|connection"):
        count_rows(server.address.replace("grpc+tls", "grpc"))
    server.shutdown()


def test_a_file_that_is_no_certificate_is_refused(
    checkpoint: Path, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    made, key = certificate
    (tmp_path / "text").write_text("no certificate")
    for wrong in ((tmp_path / "text", key), (made, tmp_path / "text"), (key, made)):
        files = ["--tls-cert", str(wrong[0]), "--tls-key", str(wrong[1])]
        result = CliRunner().invoke(main, ["serve", str(checkpoint), *files])
        assert result.exit_code == 2, result.output
        assert "--tls-cert" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument"),
        (["nowhere"], "no such directory"),
        (["state", "--host", "0.0.0.0"], "open to others"),
        (["state", "--user", "ada"], "AGGLOOM_PASSWORD"),
        (["state", "--tls-cert", "state/aggloom-local.json"], "come together"),
        (["state", "state/"], "one name"),
    ],
)
def test_misuse_of_the_server_is_said_in_a_line(
    arguments: list[str], words: str, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkpoint.parent)
    monkeypatch.delenv("AGGLOOM_PASSWORD", raising=False)
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code == 2
    assert words in result.output
