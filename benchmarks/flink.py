"""Flink SQL as a contender: an environment of its own, its plans, and the rows as it reads them.

Its pins clash with ours, so that it is installed apart, from PyPI, when it is first wanted. That package has no Parquet
format; the rows come as CSV, and what reading them costs is measured as a contender of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from measure import Run
from rows import DATA, Rows

VERSION = "2.3.0"
READS = "Flink SQL, reading alone"
_HOME = DATA.parent / "peers" / "flink"
_LATENCY, _SIZE = "1 s", "100000"
_BASE = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
}
_BUNDLES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": _LATENCY,
    "table.exec.mini-batch.size": _SIZE,
}
_PLANS = {
    "plain": {},
    "mini-batch": {**_BUNDLES, "table.optimizer.agg-phase-strategy": "ONE_PHASE"},
    "two-phase": {**_BUNDLES, "table.optimizer.agg-phase-strategy": "TWO_PHASE"},
}
_BACKENDS = {
    "heap": {"state.backend.type": "hashmap"},
    "rocksdb": {
        "state.backend.type": "rocksdb",
        "taskmanager.memory.managed.size": "1g",
        "execution.checkpointing.incremental": "true",
    },
}
_CHECKPOINTS = {
    "execution.checkpointing.interval": "2 s",
    # Or a job would wait for one more after its last row.
    "execution.checkpointing.checkpoints-after-tasks-finish": "false",
}
_KINDS = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}
_CHANGELOG = (
    "CREATE VIEW {} AS SELECT * FROM FROM_CHANGELOG(input => TABLE {}, op => DESCRIPTOR(op), op_mapping => "
    "MAP['+I', 'INSERT', '-U', 'UPDATE_BEFORE', '+U', 'UPDATE_AFTER', '-D', 'DELETE'])"
)
_WATERMARK = ", WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND"


@dataclass(frozen=True)
class Setup:
    """One of Flink's plans, a state backend, and whether it checkpoints."""

    plan: str
    backend: str = "heap"
    checkpoints: bool = True

    @property
    def name(self) -> str:
        """As it stands in the tables."""
        durable = "" if self.checkpoints else ", no checkpoints"
        return f"Flink SQL, {self.plan}, {self.backend}{durable}"

    def settings(self, checkpoints: str) -> dict[str, str]:
        """Flink's, with checkpoints in that directory."""
        directory = {"execution.checkpointing.dir": f"file://{checkpoints}"}
        durable = {**_CHECKPOINTS, **directory} if self.checkpoints else {}
        return {**_BASE, **_PLANS[self.plan], **_BACKENDS[self.backend], **durable}


def tables(rows: Rows) -> list[str]:
    """The statements that make the rows tables: of insertions, or of changes by the column `op`."""
    statements = []
    for name, each in rows.tables.items():
        files = f"{name}_files" if each.retracts else name
        columns = each.schema.replace("TIMESTAMP_NTZ", "TIMESTAMP(3)")
        columns += ", op STRING" if each.retracts else ""
        columns += _WATERMARK if "ts" in each.columns else ""
        statements.append(
            f"CREATE TABLE {files} ({columns}) WITH "
            f"('connector' = 'filesystem', 'path' = 'file://{each.csv}', 'format' = 'csv')"
        )
        if each.retracts:
            statements.append(_CHANGELOG.format(name, files))
    return statements


def interpreter() -> Path:
    """A Python that has Flink; made under build/ the first time, which takes some minutes."""
    python = _HOME / "bin" / "python"
    ready = _HOME / ".ready"
    if not ready.exists():
        click.echo(f"installing apache-flink {VERSION} into build/peers/flink (once)", err=True)
        subprocess.run([sys.executable, "-m", "venv", str(_HOME)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}"]
        subprocess.run(install, check=True)
        ready.touch()
    return python


def fold_table(changes: list[list[Any]]) -> Counter[tuple[Any, ...]]:
    """The table to which changes (kind, values...) fold."""
    if {kind for kind, *_ in changes} == {"+I", "+U"}:
        # Of a Top-1 only the new row comes, by its key.
        return Counter({row[1]: tuple(row[1:]) for row in changes}.values())
    table: Counter[tuple[Any, ...]] = Counter()
    for kind, *values in changes:
        table[tuple(values)] += _KINDS[kind]
    return Counter({row: count for row, count in table.items() if count})


class Flink:
    """A Python that has Flink, answering one query at a time; `version` is empty where there is none."""

    def __init__(self, python: str | Path | None) -> None:
        self.version = ""
        if not python:
            return
        DATA.mkdir(parents=True, exist_ok=True)
        self._log = (DATA / "flink.log").open("w")
        script = Path(__file__).with_name("flink_server.py")
        self._process = subprocess.Popen(
            [str(python), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.version = self._answer()["version"]

    @property
    def process(self) -> int:
        """The process of the Python, which has started Flink's Java."""
        return self._process.pid

    def ask(
        self,
        settings: dict[str, str],
        statements: list[str],
        query: str,
        collect: bool = False,
        sink: str = "",
    ) -> dict[str, Any]:
        """Run a query into a table or a black hole, or collect its changes: flink_server.py's answer.

        Raises ClickException where Flink refuses it.
        """
        asked = {
            "sink": sink,
            "settings": settings,
            "statements": statements,
            "query": query,
            "collect": collect,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise click.ClickException(str(answer["error"]))
        return answer

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._log.close()

    def run(self, rows: Rows, query: str, setup: Setup) -> Run:
        """The query over the rows; once under way: without what it takes to submit the job."""
        with tempfile.TemporaryDirectory(prefix="bench-flink-") as checkpoints:
            answer = self.ask(setup.settings(checkpoints), tables(rows), query)
        return Run(rows.of_all, answer["seconds"], rows.of_all / answer["job"])

    def table(self, rows: Rows, query: str, setup: Setup) -> Counter[tuple[Any, ...]]:
        """The table to which the changes of the query fold."""
        with tempfile.TemporaryDirectory(prefix="bench-flink-") as checkpoints:
            answer = self.ask(setup.settings(checkpoints), tables(rows), query, collect=True)
        return fold_table(answer["changes"])

    def close(self) -> None:
        """Let the process end."""
        if self.version:
            self._process.communicate()
            self._log.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith('{"'):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise click.ClickException(f"Flink gave up; see {self._log.name}")
