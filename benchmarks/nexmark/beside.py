"""Flink SQL on the same events: its tables over CSV, its best plan of those it has, and what it refuses."""

from __future__ import annotations

import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.csv
from flink import Flink, Setup

from nexmark.catalogue import Query
from nexmark.events import DATA, Events

_TYPES: Final = {
    "person": "id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, `state` STRING, "
    "at_ms BIGINT, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, at_ms BIGINT, "
    "expires_ms BIGINT, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, at_ms BIGINT, extra STRING",
}
_TIMES: Final = (
    "date_time AS TO_TIMESTAMP_LTZ(at_ms, 3), seen AS PROCTIME(), "
    "WATERMARK FOR date_time AS date_time - INTERVAL '2' SECOND"
)
_EXPIRES: Final = "expires AS TO_TIMESTAMP_LTZ(expires_ms, 3)"
_CHANGELOG: Final = (
    "CREATE VIEW {name} AS SELECT *, PROCTIME() AS seen FROM FROM_CHANGELOG(input => TABLE {name}_files, "
    "op => DESCRIPTOR(op), op_mapping => "
    "MAP['+I', 'INSERT', '-U', 'UPDATE_BEFORE', '+U', 'UPDATE_AFTER', '-D', 'DELETE'])"
)
_CSV: Final = "WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')"
_FILES: Final = (
    "CREATE TABLE filed (auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP_LTZ(3), extra STRING, "
    "`day` STRING, `minute` STRING) PARTITIONED BY (`day`, `minute`) "
)
_SPLIT: Final = {"table.optimizer.distinct-agg.split.enabled": "true"}
PLANS: Final[dict[str, dict[str, str]]] = {
    "two-phase": {},
    "two-phase, split DISTINCT": _SPLIT,
    "mini-batch": {"table.optimizer.agg-phase-strategy": "ONE_PHASE"},
    "plain": {"table.exec.mini-batch.enabled": "false"},
}


@dataclass(frozen=True)
class Flinks:
    """What Flink took, and by which plan it was fastest."""

    plan: str
    seconds: float
    job: float


class Beside:
    """A Flink that is started anew where it fails or takes too long."""

    def __init__(self, python: Path | None) -> None:
        self._python = python
        self._flink: Flink | None = None

    @property
    def version(self) -> str:
        """Flink's; empty where there is none."""
        return self._running().version if self._python else ""

    def measure(self, query: Query, events: Events, limit: float) -> Flinks:
        """The fastest of the plans that may win. Raises ClickException where it refuses the query."""
        made = [self._measure(query, events, limit, plan) for plan in query.flink_plans]
        return min(made, key=lambda each: each.job)

    def close(self) -> None:
        """Let it end."""
        if self._flink is not None:
            self._flink.close()
            self._flink = None

    def _measure(self, query: Query, events: Events, limit: float, plan: str) -> Flinks:
        answer = self._ask(query, events, limit, plan)
        return Flinks(plan, answer["seconds"], answer["job"])

    def _ask(self, query: Query, events: Events, limit: float, plan: str) -> dict[str, Any]:
        flink = self._running()
        over = threading.Event()

        def end() -> None:
            over.set()
            flink.kill()

        timer = threading.Timer(limit, end)
        timer.start()
        with tempfile.TemporaryDirectory(prefix="nexmark-flink-") as made:
            settings = {**Setup("two-phase").settings(f"{made}/checkpoints"), **PLANS[plan]}
            statements = tables(query, events)
            sink = "filed" if query.files else ""
            if sink:
                statements.append(_FILES + _CSV.format(path=f"{made}/filed"))
            try:
                return flink.ask(settings, statements, query.text("flink"), sink=sink)
            except (click.ClickException, OSError) as error:
                if over.is_set():
                    self._flink = None
                    raise click.ClickException(f"longer than {limit:.0f} s") from error
                raise click.ClickException(_reason(str(error))) from error
            finally:
                timer.cancel()

    def _running(self) -> Flink:
        if self._flink is None:
            self._flink = Flink(self._python)
        return self._flink


def tables(query: Query, events: Events) -> list[str]:
    """The statements that make the tables which a query reads."""
    made = [statement for table in query.streams for statement in _stream(table, events)]
    if "side" in query.tables:
        columns = "`key` BIGINT, `value` STRING"
        made.append(f"CREATE TABLE side ({columns}) {_CSV.format(path=_side(events))}")
    return made


def _stream(table: str, events: Events) -> list[str]:
    columns = _TYPES[table]
    if table == "auction":
        columns += f", {_EXPIRES}" if not events.changes(table) else ""
    path = _CSV.format(path=events.csv / table)
    if not events.changes(table):
        own = "id BIGINT, " if events.corrections and table == "bid" else ""
        return [f"CREATE TABLE {table} ({own}{columns}, {_TIMES}) {path}"]
    own = "id BIGINT, " if table == "bid" else ""
    computed = _TIMES.replace("seen AS PROCTIME(), ", "")
    computed += f", {_EXPIRES}" if table == "auction" else ""
    files = f"CREATE TABLE {table}_files ({own}{columns}, op STRING, {computed}) {path}"
    return [files, _CHANGELOG.format(name=table)]


def _side(events: Events) -> Path:
    folder = DATA / "nexmark-side"
    if not folder.exists():
        draft = folder.with_name("nexmark-side.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        bare = pa.csv.WriteOptions(include_header=False, quoting_style="none")
        pa.csv.write_csv(events.side(), draft / "part-0.csv", bare)
        draft.rename(folder)
    return folder


def _reason(text: str) -> str:
    """The line of Flink's long message that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "TableException" in line or "ValidationException" in line]
    chosen = (told or lines or ["no reason given"])[-1 if told else 0]
    return chosen.rpartition("Exception: ")[2][:240]
