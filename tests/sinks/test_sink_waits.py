"""The waits of a database sink: locks of others, a database that is away, and the stop of the run."""

from __future__ import annotations

import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from database_batches import KEY, A, B, batch, content, into

from aggloom.errors import SinkError, SinkTimeoutError, SpecError
from aggloom.runtime.connectors.database.options import database_options
from aggloom.runtime.connectors.database.sink import DatabaseSink
from aggloom.runtime.sinks.stop import STOP


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    from postgres import server

    with server() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def locked(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Callable[..., DatabaseSink], Callable[[], None]]]:
    """Two functions: one makes a sink into a table with one batch that another connection has locked; one ends the
    lock.
    """
    if request.param == "sqlite":
        made = lambda **options: into(tmp_path / "db", **options)  # noqa: E731
        made().write(*batch(("+I", *A)), 0, "id")
        other = sqlite3.connect(tmp_path / "db", check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
    else:
        server = request.getfixturevalue("postgres")
        name = f"locked_{time.monotonic_ns()}"

        def made(**options: Any) -> DatabaseSink:
            told = {"table": name, "connect": server.dsn, **options}
            return DatabaseSink(database_options(told), KEY, True)

        made().write(*batch(("+I", *A)), 0, "id")
        other = server.connect()
        other.execute(f"LOCK TABLE {name}")
    yield made, other.rollback
    other.close()


NEXT = batch(("-U", *A), ("+U", *B))


def test_a_lock_is_waited_for_within_a_limit(locked: Any) -> None:
    made, release = locked
    sink, begun = made(lock_timeout=1), time.monotonic()
    with pytest.raises(SinkTimeoutError, match=r"table .*: another connection .*\(lock_timeout\)"):
        sink.write(*NEXT, 1, "id")
    assert 0.9 < time.monotonic() - begun < 10
    threading.Timer(0.7, release).start()
    assert made().write(*NEXT, 1, "id")
    assert not sink.write(*NEXT, 1, "id")


def test_a_stop_ends_the_wait_for_a_lock(locked: Any) -> None:
    made, release = locked
    threading.Timer(0.5, STOP.ask).start()
    begun = time.monotonic()
    try:
        with pytest.raises(SinkError):
            made().write(*NEXT, 1, "id")
        assert time.monotonic() - begun < 5
    finally:
        STOP.reset()
    release()
    assert made().write(*NEXT, 1, "id")


class Failing:
    """A driver over SQLite whose connections are lost as often, and where, as is said."""

    def __init__(self, file: Path, where: str, times: int) -> None:
        self.file, self.where, self.left, self.connections = file, where, times, 0
        self.module: Any = ModuleType("failing_driver")
        self.module.__dict__.update(
            paramstyle="qmark",
            Error=sqlite3.Error,
            OperationalError=sqlite3.OperationalError,
            InterfaceError=sqlite3.InterfaceError,
            connect=self.connect,
        )

    def connect(self, _: str) -> Any:
        self.connections += 1
        self.fail("connect")
        return FailingConnection(self, sqlite3.connect(self.file))

    def fail(self, where: str) -> None:
        if self.where == where and self.left:
            self.left -= 1
            error = sqlite3.OperationalError("terminating connection due to administrator command")
            error.sqlstate = "57P01"  # type: ignore[attr-defined]
            raise error


class FailingConnection:
    def __init__(self, driver: Failing, connection: sqlite3.Connection) -> None:
        self._driver, self._connection = driver, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def cursor(self) -> Any:
        self._driver.fail("cursor")
        return self._connection.cursor()

    def commit(self) -> None:
        self._driver.fail("commit")
        self._connection.commit()
        self._driver.fail("committed")


@pytest.mark.parametrize("where", ["connect", "cursor", "commit", "committed"])
@pytest.mark.parametrize(("times", "limit"), [(1, 60), (3, 60), (1, 0), (99, 1)])
def test_a_database_that_is_away_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, times: int, limit: int
) -> None:
    """Each batch is there once, wherever a connection is lost: no batch is lost, none is written twice."""
    driver = Failing(tmp_path / "db", where, 0)
    monkeypatch.setitem(sys.modules, "failing_driver", driver.module)
    options = {"driver": "failing_driver", "dialect": "sqlite", "retry_timeout": limit}
    sink = into(tmp_path / "db", **options)
    assert sink.write(*batch(("+I", *A)), 0, "id")
    driver.left = times
    after = [("a", 1, "2.00")]
    if limit > 1:
        sink.write(*NEXT, 1, "id")
        assert driver.left == 0
        assert content(tmp_path / "db") == after
    else:
        with pytest.raises(SinkError, match="administrator command") as raised:
            sink.write(*NEXT, 1, "id")
        assert ("(retry_timeout)" in str(raised.value)) == (limit > 0)
        in_doubt = where in ("commit", "committed")
        assert ("the next run finds it" in str(raised.value)) == in_doubt
        assert (content(tmp_path / "db") == after) == (where == "committed")
    driver.left = 0
    into(tmp_path / "db", **options).write(*NEXT, 1, "id")
    assert content(tmp_path / "db") == after


def test_a_database_that_was_never_there_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Failing(tmp_path / "db", "connect", 99)
    monkeypatch.setitem(sys.modules, "failing_driver", driver.module)
    with pytest.raises(
        SinkError, match=r"administrator command\. Nothing of the batch was written"
    ):
        into(tmp_path / "db", driver="failing_driver", dialect="sqlite").write(*NEXT, 0, "id")
    assert driver.connections == 1


@pytest.mark.parametrize("moment", ["before", "within"])
def test_a_server_that_is_away_for_seconds(postgres: Any, moment: str) -> None:
    told = {"table": f"away_{moment}", "connect": postgres.dsn}
    sink = DatabaseSink(database_options(told), KEY, True)
    sink.write(*batch(("+I", *A)), 0, "id")
    write, many = sink._write, batch(*(("+I", f"k{n}", n, Decimal(n)) for n in range(500)))
    stopped = threading.Event()

    def stop() -> None:
        if not stopped.is_set():
            stopped.set()
            postgres.stop(signal.SIGQUIT)
            threading.Timer(1.5, postgres.start).start()

    def interrupted(*given: Any) -> None:
        write(*given)
        stop()

    if moment == "before":
        stop()
    else:
        sink._write = interrupted  # type: ignore[method-assign]
    sink.write(*many, 1, "id")
    assert stopped.is_set()
    with closing(postgres.connect()) as connection:
        found = connection.execute(f"SELECT COUNT(*) FROM away_{moment}").fetchone()
    assert found == (501,)


def test_a_connection_that_commits_each_statement_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Committing:
        autocommit = True

        def close(self) -> None:
            pass

    driver: Any = ModuleType("committing_driver")
    driver.__dict__.update(paramstyle="format", Error=sqlite3.Error)
    monkeypatch.setitem(sys.modules, "committing_driver", driver)
    given = {"table": "t", "driver": "committing_driver", "dialect": "postgresql"}
    sink = DatabaseSink(database_options(given | {"connect": Committing}), KEY, True)
    with pytest.raises(SpecError, match=r"autocommit on.* Leave autocommit off"):
        sink.write(*batch(("+I", *A)), 0, "id")
