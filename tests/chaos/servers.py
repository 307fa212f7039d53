"""Kill runs of the line with its servers: `make chaos-cdc RUNS=50 SEED=0`, or with ENGINE=local on that one.

A writer inserts, updates and deletes in a PostgreSQL, Debezium tells a Kafka, and four queries write what comes of it
into PostgreSQL, Delta and two topics. Each run draws by its seed what is killed, and when: the broker, the database,
Debezium, the driver, Python workers, several of them together. On the local engine the driver is all of the job. Then
all sinks must be what PostgreSQL computes from its own tables, and in the changelog no change may come twice. Some runs
share their servers and their checkpoints.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for place in (HERE.parent, HERE.parent / "support", HERE.parents[1] / "examples"):
    sys.path.insert(0, str(place))

import cdc  # noqa: E402
from chaos.command import command  # noqa: E402
from chaos.processes import Process, application, kill_all  # noqa: E402
from chaos.run import Failure  # noqa: E402

PARTS = {
    "spark": ("broker", "database", "connector", "driver", "worker"),
    "local": ("broker", "database", "connector", "driver"),
}
"""Parts that may be killed, by engine: the local one has no workers."""
SHARED = 10
"""Number of runs, one after the other, with the same servers, tables and checkpoints."""
WRITES, STRIKES, DOWN = 6.0, 9.0, 3.0
"""For how many seconds a run writes, within how many it strikes, and how long a server is away at most."""
_FIRST_LIMIT, _LIMIT = 600.0, 240.0
"""Seconds until the first tables are right, for which kernels may have to be compiled, and until later ones are."""
_VICTIM = 10.0
"""For how many seconds a strike waits for a worker to kill."""
_INTO = """
CREATE TABLE told (country STRING, orders BIGINT, total DECIMAL(20, 2), PRIMARY KEY (country) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = 'told', 'properties.bootstrap.servers' = '${servers}', 'format' = 'debezium-json');
CREATE TABLE latest (id INT, name STRING, amount DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'latest', 'properties.bootstrap.servers' = '${servers}',
  'key.format' = 'json', 'value.format' = 'json');
"""
_MOVED = {"revenue": "told", "details": "latest"}
"""Queries of the example that go into topics here."""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Strike:
    """The part to kill, the second of it, the way, and the seconds until it is started again."""

    at: float
    part: str
    how: str
    down: float


def script() -> str:
    """The tables and the queries of the example, of which two go into topics."""
    tables, _, queries = cdc.SCRIPT.read_text().partition("EXECUTE STATEMENT SET BEGIN\n")
    for name, place in _MOVED.items():
        queries = queries.replace(f"INSERT INTO {name}\n", f"INSERT INTO {place}\n")
    return f"{tables}{_INTO}EXECUTE STATEMENT SET BEGIN\n{queries}"


def plan(seed: int, engine: str = "spark") -> list[Strike]:
    """The strikes of a run: neighbouring seeds have other parts, any five of them all."""
    draw = random.Random(f"servers {seed}")
    able = PARTS[engine]
    parts = [able[seed % len(able)], *(draw.choice(able) for _ in range(draw.randint(0, 2)))]
    ways = {
        "database": ("SIGQUIT", "SIGKILL"),
        "driver": ("application", "jvm", "driver") if engine == "spark" else ("application",),
        "worker": ("worker", "worker", "daemon"),
    }
    return [
        Strike(
            draw.uniform(0, STRIKES),
            part,
            draw.choice(ways.get(part, ("SIGKILL",))),
            draw.uniform(0, DOWN),
        )
        for part in parts
    ]


class Siege:
    """A line under fire, for several runs; engine: of its job."""

    def __init__(self, line: Any, engine: str) -> None:
        self.line, self.engine = line, engine
        self.struck: Counter[str] = Counter()
        self.ends: list[str] = []
        self._down: set[str] = set()
        self._excused = False
        self._draw = random.Random()
        self._limit = _FIRST_LIMIT

    def start(self) -> None:
        """All of it, up to the first right tables."""
        self.line.start()
        self.line.job.start()
        # A busy machine is as slow at a later start of the job.
        self._limit = _LIMIT + self._await_equal("the first tables")

    def run(self, seed: int) -> str:
        """One run; says in a few words what happened. Raises Failure."""
        self._draw = random.Random(f"victims {seed}")
        self.struck.clear()
        self.ends.clear()
        began = time.monotonic()
        stop = threading.Event()
        written: list[int] = [0]
        writer = threading.Thread(target=self._write, args=(stop, written), daemon=True)
        writer.start()
        try:
            self._strike_all(plan(seed, self.engine), began)
        finally:
            stop.set()
            writer.join()
        took = self._await_equal(f"seed {seed}")
        struck = ", ".join(f"{count} {what}" for what, count in sorted(self.struck.items()))
        return (
            f"seed {seed}: {struck}; {written[0]} transactions; equal {took:.0f} s after the last; "
            + "".join(f"the job ended: {_last_words(told)}; " for told in self.ends)
            + f"{time.monotonic() - began:.0f} s"
        )

    def _write(self, stop: threading.Event, written: list[int]) -> None:
        """Trade, as long as it is told to, with a database that is not always there."""
        psycopg: Any = import_module("psycopg")
        end = time.monotonic() + WRITES
        while time.monotonic() < end and not stop.is_set():
            try:
                self.line.shop.trade(1)
                written[0] += 1
            except psycopg.OperationalError:
                end += 0.1
            time.sleep(0.1)

    def _strike_all(self, strikes: list[Strike], began: float) -> None:
        """Strike, and start again what was struck, each at its time."""
        events: list[tuple[float, int, Callable[[], None]]] = []
        for number, strike in enumerate(strikes):
            events.append((strike.at, number, lambda strike=strike: self._strike(strike)))
            back = strike.at + strike.down
            events.append((back, number, lambda strike=strike: self._start(strike.part)))
        for when, _, happens in sorted(events, key=lambda event: event[:2]):
            while (left := began + when - time.monotonic()) > 0:
                self._tend()
                time.sleep(min(left, 0.2))
            happens()
        while time.monotonic() < began + WRITES:
            self._tend()
            time.sleep(0.2)

    def _strike(self, strike: Strike) -> None:
        line, part = self.line, strike.part
        if part in ("driver", "worker"):
            victims = self._victims(strike.how)
            for victim in victims:
                victim.kill()
        else:
            self._down.add(part)
            servers = {"broker": line.broker, "database": line.database, "connector": line.connect}
            servers[part].stop(signal.Signals[strike.how])
            victims = [part]
        if victims:
            self._excused |= part != "connector"
            how = "" if strike.how in ("SIGKILL", part) else f" ({strike.how})"
            self.struck[f"{part}{how}"] += 1

    def _victims(self, role: str) -> list[Process]:
        """Who is to die of the job's processes: all, or one of a role, which it may have only in some seconds."""
        end = time.monotonic() + _VICTIM
        found: list[Process] = []
        while not found and time.monotonic() < end:
            self._tend()
            every = application(self.line.job.session)
            found = [each for each in every if role in (each.role, "application")]
            time.sleep(0.05)
        return found if role == "application" else [self._draw.choice(found)] if found else []

    def _start(self, part: str) -> None:
        """Start a server again; what the job is of is tended."""
        line = self.line
        if part == "connector":
            line.connect.start()
        elif part in self._down:
            server = line.broker if part == "broker" else line.database
            _patiently(server.start)
        self._down.discard(part)

    def _tend(self) -> None:
        """Start what has ended by itself, as a service manager does; raises Failure where nothing was struck."""
        line = self.line
        if "connector" not in self._down:
            if line.connect.failed:
                line.connect.stop()
            if not line.connect.runs:
                line.connect.stop()
                line.connect.start()
        if line.job.has_ended:
            self.ends.append(line.job.output_end)
            if not self._excused:
                raise Failure(f"the job ended by itself: {line.job.output_end}")
            kill_all(line.job.session)
            self._excused = bool(self._down)
            line.job.start()

    def _await_equal(self, what: str) -> float:
        """Wait until all sinks are right; how many seconds that took."""
        psycopg: Any = import_module("psycopg")
        began = time.monotonic()
        left: object = None
        while left != {}:
            if time.monotonic() - began > self._limit:
                raise Failure(f"{what}: the sinks are not what PostgreSQL computes: {left}")
            self._tend()
            time.sleep(0.3)
            try:
                left = self.line.compare_tables()
            except psycopg.OperationalError as failure:
                left = failure
        while left := self._topics():
            if time.monotonic() - began > self._limit:
                raise Failure(f"{what}: the topics are not what PostgreSQL computes: {left}")
            self._tend()
            time.sleep(0.3)
        return time.monotonic() - began

    def _topics(self) -> str:
        """Describe what is wrong with the topics, "" if nothing is; raises Failure for a changelog that cannot be."""
        there = self.line.broker.admin().list_topics(timeout=30).topics
        if not {"told", "latest"} <= there.keys():
            return "they are not there"
        with self.line.database.connect() as db:
            for name, truth, rows in (
                ("told", cdc.TRUTH["revenue"], changelog(self.line.broker.read("told"))),
                ("latest", cdc.TRUTH["details"], upserts(self.line.broker.read("latest"))),
            ):
                wanted = Counter(db.execute(truth).fetchall())
                if rows != wanted:
                    return f"{name}: {dict(rows - wanted)} too many, {dict(wanted - rows)} missing"
        return ""


def _last_words(told: str) -> str:
    """The last line of what a job said, cut short."""
    lines = [line for line in told.strip().splitlines() if not line.startswith("Picked up ")]
    return (lines or ["without a word"])[-1][:200]


def _patiently(start: Callable[[], None]) -> None:
    """Start a server; one that was killed may still have processes that have not noticed."""
    for attempt in range(20):
        try:
            start()
            return
        except RuntimeError:
            if attempt == 19:
                raise
            time.sleep(0.5)


def changelog(messages: list[tuple[Any, Any]]) -> Counter[Row]:
    """The rows that are left of a topic of changes; raises Failure for one that comes twice, or is taken back twice."""
    rows: dict[Any, Row] = {}
    for number, (_, value) in enumerate(messages):
        message = json.loads(value, parse_float=Decimal)
        gone = message["op"] == "d"
        row = tuple(message["before" if gone else "after"].values())
        if (rows.pop(row[0], None) != row) if gone else row[0] in rows:
            raise Failure(f"told, message {number}: {message} of {messages[max(number - 5, 0):]}")
        if not gone:
            rows[row[0]] = row
    return Counter(rows.values())


def upserts(messages: list[tuple[Any, Any]]) -> Counter[Row]:
    """The rows that are left of a topic of what becomes of keys."""
    rows = dict(messages)
    whole = [json.loads(value, parse_float=Decimal) for value in rows.values() if value is not None]
    return Counter(tuple(each.values()) for each in whole)


def play(seeds: range, root: Path, say: Callable[[str], None], engine: str = "spark") -> list[int]:
    """Play some runs on lines of their own; the seeds that failed, of which the line's directory is kept."""
    failed: list[int] = []
    left = list(seeds)
    while left:
        home, own = root / str(left[0]), left[:SHARED]
        with cdc.line(home, script(), ("largest",), engine) as line:
            siege = Siege(line, engine)
            siege.start()
            for seed in own:
                left.remove(seed)
                try:
                    say(siege.run(seed))
                except (Failure, RuntimeError) as failure:
                    failed.append(seed)
                    say(f"seed {seed} FAILED: {failure}")
                    say(
                        f"  again: make chaos-cdc ENGINE={engine} RUNS=1 SEED={seed}; its files: {home}"
                    )
                    break
        if not {*failed} & {*own}:
            shutil.rmtree(home)
    return failed


if __name__ == "__main__":
    # Drivers live for less time than Java takes to compile them well.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    plays = {engine: partial(play, engine=engine) for engine in PARTS}
    command("Kill runs of the line with its servers.", plays)
