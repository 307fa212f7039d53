"""The whole line of examples/cdc.py on real servers, with a kill of aggloom in the middle; and one that is struck."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import kafka
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


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


@pytest.mark.usefixtures("wanted")
def test_a_slot_that_is_lost_is_told(tmp_path: Path) -> None:
    """Debezium, told to trust its own position, refuses to go on: what was written meanwhile is told by nobody."""
    import cdc

    with cdc.line(tmp_path / "cdc", "") as line:
        line.start()
        line.shop.trade(3)
        # A connector that has noted no position begins anew.
        debezium = tmp_path / "cdc" / "debezium"
        while not (debezium / "offsets").exists():
            time.sleep(0.1)
        settings = debezium / "connector.properties"
        settings.write_text(settings.read_text() + "offset.mismatch.strategy=trust_offset\n")
        line.connect.stop()
        with line.database.connect(autocommit=True) as db:
            slot = "FROM pg_replication_slots WHERE NOT active"
            while not db.execute(f"SELECT pg_drop_replication_slot(slot_name) {slot}").rowcount:
                time.sleep(0.1)
        line.shop.trade(3)
        line.connect.start()
        end = time.monotonic() + 60
        while not line.connect.failed and time.monotonic() < end:
            time.sleep(0.2)
        assert "no longer available on the server" in line.connect.failed
