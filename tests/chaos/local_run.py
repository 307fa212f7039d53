"""Kill runs on the local engine: `make chaos ENGINE=local RUNS=50 SEED=0`.

Each run draws a query, files or messages of changes, and a sink by its seed. A process that runs the query is killed
with SIGKILL at random moments and started again. In the end the sink must have each batch once: what the harness gives
where it keeps changes, DuckDB's table where it keeps rows.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "support")]

import kafka  # noqa: E402
import postgres  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import pytest  # noqa: E402
from chaos import local_life  # noqa: E402
from chaos.command import command  # noqa: E402
from chaos.local_life import Life  # noqa: E402
from chaos.run import Failure, difference  # noqa: E402
from chaos.workload import Batch, Workload, by_duckdb, folded, plain  # noqa: E402

from aggloom.job_plan import plan_of_job  # noqa: E402
from aggloom.runtime.connectors.files.discovery import files_at  # noqa: E402
from aggloom.runtime.connectors.files.table_file import read_table  # noqa: E402
from aggloom.runtime.values.changelog import CHANGE_TYPES, KIND_NAMES  # noqa: E402

SINKS = ("table", "jsonl", "parquet", "sqlite", "postgres", "delta", "kafka")
_LIMIT = 120.0
_KINDS = dict(zip(CHANGE_TYPES, KIND_NAMES, strict=True))
_KEYLESS = "over"
"""The query whose result has no key, by which a table's rows could be told apart."""
_CHANGELOGS = ("jsonl", "parquet", "kafka")
_ROUNDS = 8
"""A life is killed at most so often."""


@dataclass
class Servers:
    """The servers that runs share, where they can be had, and processes in which lives begin."""

    broker: Any = None
    database: Any = None
    processes: Any = None
    lengths: dict[str, float] = field(default_factory=dict)

    @classmethod
    def start(cls, closing: ExitStack) -> Servers:
        """All that can be had."""
        made = cls()
        for name, start in (("broker", kafka.broker), ("database", postgres.server)):
            try:
                setattr(made, name, closing.enter_context(start()))
            except pytest.skip.Exception as reason:
                print(f"without {name}: {reason}", flush=True)
        os.environ |= {local_life.WARM: "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        made.open_processes("__main__")
        return made

    def open_processes(self, *modules: str) -> None:
        """Have lives forked from a process that has imported their module and these, for which PYTHONPATH is set."""
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload([*modules, "chaos.local_life"])

    def sinks(self) -> list[str]:
        """The kinds of sinks that there are."""
        missing = {"kafka": self.broker, "postgres": self.database}
        return [name for name in SINKS if missing.get(name, True) is not None]


class LocalRun:
    """One workload under fire, in a directory of its own."""

    def __init__(self, seed: int, directory: Path, servers: Servers) -> None:
        self.seed, self.directory, self._servers = seed, directory, servers
        self.workload = Workload.of_seed(seed)
        self._draw = random.Random(f"kills {seed}")
        kinds = [k for k in servers.sinks() if k in _CHANGELOGS or self.workload.name != _KEYLESS]
        self.kind = self._draw.choice(kinds)
        is_topic = servers.broker is not None and not self.workload.query.windowed
        self.source = self._draw.choice(["files", "files", "topic"] if is_topic else ["files"])
        self.kills = self.lives = 0
        name = f"kills_{seed}_{time.time_ns()}"
        self._life = Life(seed, directory, self._make_source(name), self._sink(name))
        self._name = name

    def _make_source(self, name: str) -> Mapping[str, Any]:
        """Write the changes to where the query reads them; the entries of its table."""
        if self.source == "files":
            self.workload.write(self.directory / "in")
            options = {"maxFilesPerTrigger": 1}
            place = {"path": str(self.directory / "in"), "format": self.workload.format}
            return {**place, "options": options}
        broker = self._servers.broker
        broker.topic(name, 1)
        words = {"+I": "c", "+U": "c", "-U": "d", "-D": "d"}
        for changes in self.workload.changes():
            broker.send(name, *(_debezium(words[kind], row) for kind, *row in changes))
        most = max(100, sum(map(len, self.workload.changes())) // 7)
        place = {"connector": "kafka", "servers": broker.servers, "topic": name}
        return {**place, "format": "debezium-json", "max_messages_per_trigger": most}

    def _sink(self, name: str) -> Any:
        """The sink as a job names it."""
        out = str(self.directory / "out")
        if self.kind == "table":
            return "table"
        if self.kind in ("jsonl", "parquet"):
            return f"{self.kind}:{out}"
        if self.kind == "sqlite":
            return {"kind": "database", "table": name, "connect": out, "driver": "sqlite3"}
        if self.kind == "postgres":
            return {"kind": "database", "table": name, "connect": self._servers.database.dsn}
        if self.kind == "delta":
            return {"kind": "delta", "path": out}
        servers = self._servers.broker.servers
        return {
            "kind": "kafka",
            "servers": servers,
            "topic": f"{name}.out",
            "format": "debezium-json",
        }

    def run(self) -> str:
        """Play it and check it; says in a few words what happened."""
        began, wanted = time.monotonic(), self._draw.randint(1, _ROUNDS)
        while not (self.directory / "done").exists():
            if time.monotonic() - began > _LIMIT:
                raise Failure(f"not done after {_LIMIT:.0f} s")
            self._live(self.kills < wanted)
        self.check()
        return (
            f"seed {self.seed}: {self.workload.name}, {self.source} to {self.kind}; {self.kills} kills, "
            f"{self.lives} lives; {time.monotonic() - began:.0f} s"
        )

    def _live(self, kill: bool) -> None:
        """One life, killed at a random moment of the time that one takes."""
        lengths, what = self._servers.lengths, f"{self.kind} {self.source} {self.workload.name}"
        process = self._servers.processes.Process(target=local_life.live, args=(self._life,))
        began = time.monotonic()
        process.start()
        process.join(self._draw.uniform(0, lengths.get(what, 0.5)) if kill else _LIMIT)
        self.lives += 1
        if process.exitcode is None:
            process.kill()
            process.join()
            self.kills += kill
            # One that lives longer than was known may be killed later the next time.
            lengths[what] = 1.2 * lengths.get(what, 0.5)
            return
        if process.exitcode == 0 and self.lives == 1:
            lengths[what] = time.monotonic() - began
        if process.exitcode:
            raise Failure(f"life {self.lives} failed: {self._failures()[-1:]}")

    def _failures(self) -> list[str]:
        files = sorted((self.directory / "failures").glob("*"))
        return [file.read_text()[:2000] for file in files]

    def check(self) -> None:
        """Hold the contents of the sink against the harness and DuckDB; raises Failure."""
        changes = [row for batch in self.workload.changes() for row in batch]
        wanted = by_duckdb(self.workload.query.oracle, changes)
        if self.kind in _CHANGELOGS:
            batches = list(self._changes())
            table = folded(batches)
            if self.source == "files" and self.kind != "kafka":
                self.check_batches(batches)
        else:
            schema = plan_of_job(self._life.job()).schema
            rows = (dict(zip(schema.names, row, strict=True)) for row in self._rows())
            table = Counter(tuple(_values(row, schema)) for row in rows)
        if table != wanted:
            raise Failure(f"the table: {difference(table, wanted)}")

    def check_batches(self, batches: list[Batch]) -> None:
        """Raise Failure unless each batch is that of the harness; batches without changes may follow."""
        expected = self.workload.expected()
        for number, wanted in enumerate(expected):
            if number >= len(batches) or batches[number] != wanted:
                got = batches[number] if number < len(batches) else Counter[Any]()
                raise Failure(f"batch {number}: {difference(got, wanted)}")
        if any(batches[len(expected) :]):
            raise Failure(f"{len(batches)} batches with changes, and {len(expected)} were sent")

    def _changes(self) -> Iterator[Batch]:
        """Yield the changes of each batch; those of a topic at once."""
        schema = plan_of_job(self._life.job()).schema
        if self.kind == "kafka":
            found: Batch = Counter()
            for _, value in self._servers.broker.read(f"{self._name}.out"):
                envelope = json.loads(value)
                is_new = envelope["op"] == "c"
                image = envelope["after"] if is_new else envelope["before"]
                found["+I" if is_new else "-D", *_values(image, schema)] += 1
            yield found
            return
        files = {int(file.name.split("-")[1]): file for file in files_at(self.directory / "out")}
        names = (*schema.names, "_change_type")
        for _, file in sorted(files.items()):
            if self.kind == "parquet":
                rows = pq.read_table(file).to_pylist()
            else:
                rows = [json.loads(line) for line in file.read_text().splitlines()]
            yield Counter((_KINDS[row.get(names[-1])], *_values(row, schema)) for row in rows)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the table that the sink keeps."""
        names = plan_of_job(self._life.job()).schema.names
        columns = ", ".join(f'"{name}"' for name in names)
        if self.kind == "table":
            for row in read_table(self.directory / "checkpoint").to_pylist():
                yield tuple(row.values())
        elif self.kind == "sqlite":
            with closing(sqlite3.connect(self.directory / "out")) as db:
                yield from db.execute(f"SELECT {columns} FROM {self._name}").fetchall()
        elif self.kind == "postgres":
            with self._servers.database.connect() as db:
                yield from db.execute(f"SELECT {columns} FROM {self._name}").fetchall()
        else:
            import deltalake

            table = pa.table(deltalake.DeltaTable(str(self.directory / "out")).to_pyarrow_table())
            for row in table.select(names).to_pylist():
                yield tuple(row.values())


def _debezium(op: str, row: list[Any]) -> str:
    """A change as a message of Debezium."""
    image = dict(zip(("id", "a", "b", "v", "ts"), row, strict=True))
    image["ts"] = image["ts"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    sides = {"before": None, "after": image} if op == "c" else {"before": image, "after": None}
    return json.dumps({**sides, "op": op})


def _values(image: Mapping[str, Any], schema: pa.Schema) -> Iterator[Any]:
    """The values of a row in the order of a schema; times are milliseconds."""
    for each in schema:
        value = image.get(each.name)
        if pa.types.is_timestamp(each.type) and isinstance(value, str):
            value = datetime.fromisoformat(value)
        yield plain(value)


def play_all(seeds: range, root: Path, say: Callable[[str], None]) -> list[int]:
    """Run seeds one by one; those that failed."""
    failed, kills = [], 0
    with ExitStack() as closing:
        servers = Servers.start(closing)
        for seed in seeds:
            directory = root / str(seed)
            directory.mkdir(parents=True)
            run = LocalRun(seed, directory, servers)
            try:
                say(run.run())
                shutil.rmtree(directory)
            except Failure as failure:
                failed.append(seed)
                say(
                    f"seed {seed} ({run.workload.name}, {run.source} to {run.kind}) FAILED: {failure}"
                )
                say(f"  again: make chaos ENGINE=local RUNS=1 SEED={seed}; its files: {directory}")
            kills += run.kills
    say(f"{kills} kills")
    return failed


if __name__ == "__main__":
    command("Kill runs on the local engine.", play_all)
