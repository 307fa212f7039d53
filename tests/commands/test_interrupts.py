"""Ctrl-C ends `aggloom run` within seconds in every state, and the next run loses and repeats nothing.

A run that waits for rows is ended in `test_cli.py`.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from aggloom.cli import main
from aggloom.interrupts import Interrupts

pytest.importorskip("pyspark")

# A second on a quiet machine; a batch that were waited for would take minutes.
WITHIN_SECONDS = 30.0
SQL = "SELECT name, SUM(cnt) AS total FROM t GROUP BY name"
DRIVER = """
import os, sqlite3, time
from pathlib import Path
from sqlite3 import *

state, here = os.environ["STATE"], Path(__file__).parent
opened = 0

class Lost(OperationalError):
    sqlstate = "57P01"

class Ours(Connection):
    def commit(self):
        if state != "away":
            (here / "in-state").touch()
        if state == "deaf":
            while True:
                time.sleep(1)
        if state == "away":
            raise Lost("the server goes")
        super().commit()

def connect(file):
    global opened
    opened += 1
    if state == "away" and opened > 1:
        (here / "in-state").touch()
        raise Lost("the server is away")
    if state == "lock":
        (here / "in-state").touch()
    return sqlite3.connect(file, factory=Ours)
"""


def put(directory: Path, number: int, *rows: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / f"{number}.jsonl").write_text("\n".join(rows))


@pytest.mark.spark
@pytest.mark.parametrize("state", ["starting", "lock", "deaf", "away"])
@pytest.mark.sampled(1)
def test_ctrl_c_ends_a_run_in_every_state(tmp_path: Path, state: str) -> None:
    source, file, mark = tmp_path / "in", tmp_path / "db", tmp_path / "in-state"
    put(source, 0, '{"name": "a", "cnt": 3}')
    (tmp_path / "slow_driver.py").write_text(DRIVER)
    common = [
        *("run", "--sql", SQL, "--backend", "python"),
        *("--table", f"t={source},format=jsonl,schema=name STRING, cnt INT"),
        *("--checkpoint", str(tmp_path / "checkpoint"), "--sink"),
    ]
    sink = f"database,table=totals,connect={file},lock_timeout=600,retry_timeout=600,driver="
    lock = sqlite3.connect(file, check_same_thread=False)
    if state == "lock":
        lock.execute("BEGIN EXCLUSIVE")
    command = [sys.executable, "-m", "aggloom", *common, f"{sink}slow_driver,dialect=sqlite"]
    with subprocess.Popen(
        [*command, "--continuous"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ
        | {"STATE": state, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    ) as process:
        try:
            if state == "starting":
                time.sleep(3)
            else:
                _wait_for(mark, process)
                time.sleep(1)
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
            took = time.monotonic() - begun
        finally:
            process.kill()
    assert took < WITHIN_SECONDS, said
    assert process.returncode in (0, 130), said
    assert "Traceback" not in said, said
    lock.rollback()
    put(source, 1, '{"name": "a", "cnt": 4}', '{"name": "b", "cnt": 1}')
    done = CliRunner().invoke(main, [*common, f"{sink}sqlite3"])
    assert done.exit_code == 0, done.output
    assert lock.execute("SELECT * FROM totals ORDER BY 1").fetchall() == [("a", 7), ("b", 1)]
    lock.close()


def _wait_for(mark: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 240
    while not mark.exists():
        assert process.poll() is None and time.monotonic() < until, "the run has not begun"
        time.sleep(0.1)


def test_a_run_that_stops_by_itself_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr("aggloom.interrupts.PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr("os._exit", ended.append)
    with Interrupts(lambda: None) as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.pressed.is_set()
    time.sleep(0.5)
    assert ended == []
    gave_up = threading.Event()
    with Interrupts(gave_up.set):
        signal.raise_signal(signal.SIGINT)
        assert gave_up.wait(5)
        time.sleep(0.2)
        assert ended == [130]
