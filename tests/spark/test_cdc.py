"""The whole line of examples/cdc.py on real servers, with a kill of aggloom in the middle; and one that is struck."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from server import until

import aggloom as al
from aggloom.errors import InputFormatError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the example importable; skips these tests where its servers cannot be installed."""
    kafka.need_jars()
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])


@pytest.fixture
def wanted() -> None:
    """Skips a test unless it is asked for."""
    if not os.environ.get("AGGLOOM_CDC"):
        pytest.skip(
            "a minute of four servers: AGGLOOM_CDC=1 runs it, and make chaos-cdc more of it"
        )


@pytest.mark.spark
@pytest.mark.thorough
def test_from_database_to_database(tmp_path: Path) -> None:
    import cdc

    said: list[str] = []
    cdc.play(["aggloom"], 10, said.append, tmp_path / "cdc")
    assert said[-2].startswith("results.largest: 9 rows")
    assert said[-1].startswith("lake/revenue, a Delta table: ")


@pytest.mark.spark
@pytest.mark.usefixtures("wanted")
def test_kills_at_random(tmp_path: Path) -> None:
    from chaos import servers

    said: list[str] = []
    assert servers.play(range(1, 3), tmp_path, said.append) == [], said


class Shop:
    """A table, and Debezium that tells of it, whose replication slot may be lost."""

    def __init__(self, database: Any, broker: Any, place: Path, name: str, **settings: str) -> None:
        import debezium

        self.name, self.topic, self.broker = name, f"{name}.public.{name}", broker
        told = {"slot_name": name, "publication_name": name, "topic_prefix": name, **settings}
        self.connect = debezium.Connect(broker, database, f"public.{name}", place / name, **told)
        self.db = database.connect(autocommit=True)
        self.change(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
        self.change(f"INSERT INTO {name} VALUES (1, 10), (2, 20)")
        self.connect.start(self.topic)
        self.change(f"INSERT INTO {name} VALUES (3, 30)")
        until(lambda: self.told() == 3, 60)

    def change(self, statement: str) -> None:
        """Run a statement."""
        self.db.execute(statement)

    def told(self) -> int:
        """Count the messages of the topic."""
        return len(self.broker.read(self.topic))

    def lose_the_slot(self) -> None:
        """Let the slot be dropped while Debezium is down, and rows change."""
        slot = f"pg_replication_slots WHERE slot_name = '{self.name}'"
        self.connect.stop()
        until(lambda: not self.db.execute(f"SELECT active FROM {slot}").fetchone()[0], 60)
        self.change(f"SELECT pg_drop_replication_slot(slot_name) FROM {slot}")
        self.change(f"DELETE FROM {self.name} WHERE id = 1")
        self.connect.start()


@pytest.fixture
def shop(wanted: None, tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    """Makes shops, whose servers end with the test."""
    import postgres

    made: list[Shop] = []
    with postgres.server() as database, kafka.broker() as broker:

        def make(name: str, **settings: str) -> Shop:
            made.append(Shop(database, broker, tmp_path, name, **settings))
            return made[-1]

        yield make
        for each in made:
            each.connect.stop()
            each.db.close()


@pytest.mark.usefixtures("wanted")
def test_debezium_does_not_go_on_without_its_slot(shop: Callable[..., Shop]) -> None:
    """Debezium's default, so that no change is passed over; nobody else would notice."""
    lost = shop("lost")
    lost.lose_the_slot()
    until(lambda: lost.connect.failed, 60)
    assert "is no longer available on the server" in lost.connect.failed
    assert lost.told() == 3


@pytest.mark.spark
@pytest.mark.usefixtures("wanted")
def test_a_table_that_debezium_reads_anew(
    spark: Any, shop: Callable[..., Shop], tmp_path: Path
) -> None:
    anew = shop("anew", snapshot_mode="when_needed")

    def run(place: Path, **options: str) -> list[tuple[Any, ...]]:
        told = {"schema": "id INT, v INT", "keys": "id", **options}
        df = al.read_kafka(spark, anew.broker.servers, anew.topic, "debezium-json", **told)
        out = al.sql("SELECT id, MAX(v) AS v FROM t GROUP BY id", t=df, backend="python")
        al.await_end(al.write_changes(out, "table", place))
        return sorted(tuple(each.values()) for each in al.read_table(place).to_pylist())

    # The policy may be given once the first snapshot is in.
    assert run(tmp_path / "refusing") == run(tmp_path / "reading") == [(1, 10), (2, 20), (3, 30)]
    run(tmp_path / "refusing", snapshot="error")
    anew.lose_the_slot()
    until(lambda: anew.told() == 5, 60)
    with pytest.raises(InputFormatError, match=r"anew\.public\.anew.*the table is read again"):
        run(tmp_path / "refusing", snapshot="error")
    # Row 1 is gone, which no message says.
    assert run(tmp_path / "reading") == [(1, 10), (2, 20), (3, 30)]
