"""Topics read by transactions on the local engine, on a real broker: joined tables never show a torn total."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bank_topics import TOTAL, TOTALS, Bank
from engine_jobs import changes_in

from aggloom.job import Job, complete
from aggloom.run_local import open_query
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.tables import table_source


def job(bank: Bank, checkpoint: Path, out: Path, **more: Any) -> Job:
    """The query that joins the tables."""
    told = {"connector": "kafka", "servers": bank.broker.servers, "format": "debezium-json"}
    told |= {"schema": "id INT, v INT", "keys": "id", "changes": "upsert"}
    told |= {"transaction_topic": bank.ends, **more}
    tables = tuple(
        table_source(name, {**told, "topic": bank.topic(name)}, "a test") for name in "ab"
    )
    entries = {"sql": TOTALS, "tables": tables, "sink": f"jsonl:{out}", "backend": "python"}
    return complete({**entries, "key": ["id"], "checkpoint": checkpoint}, "a test")


class Killed(Exception):
    """The end of a process, played."""


def run(bank: Bank, asked: Job) -> int:
    """Run a job until its input ends; how many batches it had."""
    assert asked.checkpoint is not None
    bank.flush()
    query = open_query(asked, asked.checkpoint)
    try:
        query.run()
        return query.counts.batches
    finally:
        query.close()


def totals(out: Path) -> list[int]:
    """The totals that a result has shown at any time."""
    return [each["total"] for each in changes_in(out)]


def test_joined_tables_show_no_torn_total(broker: Any, tmp_path: Path) -> None:
    """Small batches, kills before the commit, an open transaction at the end: each total is there once, and right."""
    bank = Bank(broker, "local.bank")
    for _ in range(25):
        bank.transfer()
    bank.transfer("a")
    asked = job(bank, tmp_path / "c", tmp_path / "out", max_messages_per_trigger=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalCheckpoint, "commit", _die)
        with pytest.raises(Killed):
            run(bank, asked)
    assert run(bank, asked) > 5
    assert set(totals(tmp_path / "out")) == {TOTAL}
    assert run(bank, asked) == 0, "half a transaction is no batch"
    bank.transfer("b")
    assert run(bank, asked) == 0, "its end is not there"
    bank.transfer("end")
    assert (run(bank, asked), run(bank, asked)) == (1, 0)
    assert set(totals(tmp_path / "out")) == {TOTAL}
    # The same topics without the option: a batch of each table by itself cuts transactions.
    torn = job(
        bank, tmp_path / "d", tmp_path / "torn", transaction_topic=None, max_messages_per_trigger=5
    )
    run(bank, torn)
    assert set(totals(tmp_path / "torn")) != {TOTAL}


def _die(*_: Any, **__: Any) -> None:
    raise Killed
