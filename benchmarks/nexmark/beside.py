"""Flink SQL on the same events: its tables over files, its best plan of those it has, and what it refuses."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.csv
import pyspark
from flink import Flink, Setup
from rows import DATA

from nexmark.catalogue import Query
from nexmark.events import Events
from nexmark.processes import descendants, forget_peak, peak_mb

_ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.append(str(_ROOT / "tests" / "support"))

from older_sparks import UnavailableError, fetch  # noqa: E402

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
_READY_TIMES: Final = _TIMES.removeprefix("date_time AS TO_TIMESTAMP_LTZ(at_ms, 3), ")
_CHANGELOG: Final = (
    "CREATE VIEW {name} AS SELECT *, PROCTIME() AS seen FROM FROM_CHANGELOG(input => TABLE {name}_files, "
    "op => DESCRIPTOR(op), op_mapping => "
    "MAP['+I', 'INSERT', '-U', 'UPDATE_BEFORE', '+U', 'UPDATE_AFTER', '-D', 'DELETE'])"
)
_CSV: Final = "WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')"
_PARQUET: Final = (
    "WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'parquet')"
)
_JARS: Final = DATA.parent / "peers" / "parquet"
_NEEDED: Final = ("hadoop-client-api", "hadoop-client-runtime", "aircompressor")
FORMATS: Final = ("csv", "parquet")
format_option: Final = click.option(
    "--format", "form", type=click.Choice(FORMATS), default="csv", help="What Flink reads."
)
python_option: Final = click.option(
    "--flink-python", type=Path, envvar="AGGLOOM_FLINK_PYTHON", help="A Python that has it."
)
"""Options of the commands that run Flink beside an engine."""
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
    """Flink's seconds, and the plan by which it was fastest."""

    plan: str
    seconds: float
    job: float
    peak_mb: float = 0.0
    """The most memory that a process of Flink's had while it ran."""


class Beside:
    """A Flink that is started anew where it fails or takes too long."""

    def __init__(self, python: Path | None, form: str = "csv") -> None:
        self._python, self._form = python, form
        self._flink: Flink | None = None

    @property
    def version(self) -> str:
        """Flink's; empty where there is none."""
        return self._start_flink().version if self._python else ""

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
        asked = self._start_flink().process
        for process in descendants(asked):
            forget_peak(process)
        answer = self._ask(query, events, limit, plan)
        # Java is a child of the Python that asks it, and started by the first query.
        peak = max(map(peak_mb, descendants(asked)))
        return Flinks(plan, answer["seconds"], answer["job"], peak)

    def _ask(self, query: Query, events: Events, limit: float, plan: str) -> dict[str, Any]:
        flink = self._start_flink()
        over = threading.Event()

        def end() -> None:
            over.set()
            flink.kill()

        timer = threading.Timer(limit, end)
        timer.start()
        with tempfile.TemporaryDirectory(prefix="nexmark-flink-") as made:
            settings = {**Setup("two-phase").settings(f"{made}/checkpoints"), **PLANS[plan]}
            if self._form == "parquet":
                settings["pipeline.jars"] = ";".join(f"file://{jar}" for jar in parquet_jars())
            statements = tables(query, events, self._form)
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

    def _start_flink(self) -> Flink:
        if self._flink is None:
            self._flink = Flink(self._python)
        return self._flink


def parquet_jars() -> list[Path]:
    """Flink's Parquet format, fetched when it is first wanted, and what it needs and Spark has: Hadoop, and LZ4."""
    if not _JARS.exists():
        try:
            fetch(_ROOT / ".ci" / "peers.xml", "parquet", _JARS)
        except UnavailableError as why:
            raise click.ClickException(f"no Parquet format for Flink: {why}") from None
    spark = Path(pyspark.__file__).parent / "jars"
    needed = (jar for name in _NEEDED for jar in spark.glob(f"{name}-*.jar"))
    return sorted([*_JARS.glob("*.jar"), *needed])


def tables(query: Query, events: Events, form: str = "csv") -> list[str]:
    """The statements that make the tables which a query reads."""
    made = [statement for table in query.streams for statement in _stream(table, events, form)]
    if "side" in query.tables:
        columns = "`key` BIGINT, `value` STRING"
        made.append(f"CREATE TABLE side ({columns}) {_CSV.format(path=_side(events))}")
    return made


def _stream(table: str, events: Events, form: str) -> list[str]:
    columns, times, expires = _TYPES[table], _TIMES, f", {_EXPIRES}" if table == "auction" else ""
    path = _CSV.format(path=events.csv / table) if form == "csv" else ""
    if form == "parquet":
        path = _PARQUET.format(path=events.halves / table)
        for name, ms in (("date_time", "at_ms"), ("expires", "expires_ms")):
            columns = columns.replace(f"{ms} BIGINT", f"{name} TIMESTAMP_LTZ(3)")
        times, expires = _READY_TIMES, ""
    own = "id BIGINT, " if events.corrections and table == "bid" else ""
    if not events.changes(table):
        return [f"CREATE TABLE {table} ({own}{columns}{expires}, {times}) {path}"]
    computed = times.replace("seen AS PROCTIME(), ", "") + expires
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
    errors = [line for line in lines if "TableException" in line or "ValidationException" in line]
    chosen = (errors or lines or ["no reason given"])[-1 if errors else 0]
    return chosen.rpartition("Exception: ")[2][:240]
