"""From PostgreSQL through Debezium and Kafka to aggloom on Spark and back: examples/cdc.sql on real servers.

    python examples/cdc.py                # a minute or two
    python examples/cdc.py --kill         # aggloom, Debezium and the broker are killed on the way

It starts a PostgreSQL, a Kafka broker and Kafka Connect of its own on free ports, writes orders and customers, changes
and deletes them while the queries run, and compares three tables, and one of Delta's, with what PostgreSQL computes.
All is gone afterwards but .demo/cdc/, which has the logs.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa

ROOT = Path(__file__).parent.parent
DEMO = ROOT / ".demo" / "cdc"
SCRIPT = ROOT / "examples" / "cdc.sql"
sys.path.insert(0, str(ROOT / "tests" / "support"))

SCHEMA = """
CREATE TABLE customers (id INT PRIMARY KEY, name TEXT, country TEXT);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, status TEXT, amount NUMERIC(10, 2));
CREATE SCHEMA results;
"""
TRUTH = {
    "details": "SELECT o.id, c.name, o.amount FROM orders AS o JOIN customers AS c ON o.customer = c.id",
    "revenue": """SELECT c.country, COUNT(*), SUM(o.amount) FROM orders AS o JOIN customers AS c ON o.customer = c.id
        GROUP BY c.country""",
    "largest": """SELECT status, place, id, amount FROM (SELECT *, ROW_NUMBER() OVER (
        PARTITION BY status ORDER BY amount DESC, id) AS place FROM orders) AS ranked WHERE place <= 3""",
}
TOPICS = ("shop.public.orders", "shop.public.customers")
PARTS = ("aggloom", "Debezium", "the broker")
"""Parts of the line that may be killed."""
COUNTRIES, STATUSES = ("CH", "DE", "FR", "IT"), ("open", "paid", "sent")
WITHIN = 300.0


class Shop:
    """Writes orders and customers: what a shop does to its database."""

    def __init__(self, postgres: Any, seed: int = 7) -> None:
        self._postgres, self._draw = postgres, random.Random(seed)
        self._next, self._customers = 1, 0

    def open(self, customers: int, orders: int) -> None:
        """Make the tables, with some rows."""
        with self._postgres.connect() as db:
            db.execute(SCHEMA)
            self._customers = customers
            for number in range(1, customers + 1):
                self._customer(db, number)
            for _ in range(orders):
                self._order(db)

    def trade(self, transactions: int) -> None:
        """Some transactions of some changes each."""
        draw = self._draw
        for _ in range(transactions):
            with self._postgres.connect() as db:
                for _ in range(draw.randint(1, 12)):
                    self._change(db)

    def _change(self, db: Any) -> None:
        draw = self._draw
        order, kind = draw.randint(1, self._next), draw.random()
        if kind < 0.4:
            self._order(db)
        elif kind < 0.6:
            values = (draw.choice(STATUSES), draw.randint(1, 99_999) / 100, order)
            db.execute("UPDATE orders SET status = %s, amount = %s WHERE id = %s", values)
        elif kind < 0.75:
            db.execute("DELETE FROM orders WHERE id = %s", (order,))
        elif kind < 0.85:
            # A change of key.
            db.execute("UPDATE orders SET id = %s WHERE id = %s", (self._next, order))
            self._next += 1
        elif kind < 0.95:
            moved = (draw.choice(COUNTRIES), draw.randint(1, self._customers))
            db.execute("UPDATE customers SET country = %s WHERE id = %s", moved)
        else:
            number = draw.randint(1, self._customers)
            db.execute("DELETE FROM customers WHERE id = %s", (number,))
            self._customer(db, number)

    def _customer(self, db: Any, number: int) -> None:
        values = (number, f"customer {number}", self._draw.choice(COUNTRIES))
        db.execute("INSERT INTO customers VALUES (%s, %s, %s)", values)

    def _order(self, db: Any) -> None:
        draw = self._draw
        # Some are of customers that are not there.
        about = (draw.randint(1, self._customers + 2), draw.choice(STATUSES))
        values = (self._next, *about, draw.randint(1, 99_999) / 100)
        db.execute("INSERT INTO orders VALUES (%s, %s, %s, %s)", values)
        self._next += 1


class Job:
    """The process of `aggloom run`, whose checkpoint and log lie beside the script; engine: "spark" or "local"."""

    def __init__(self, script: Path, environment: dict[str, str], engine: str = "spark") -> None:
        self._script, self._environment, self._engine = script, environment, engine
        self._process: subprocess.Popen[bytes] | None = None
        self._log, self._begun = script.parent / "aggloom.log", 0

    def start(self) -> None:
        """Start it, or start it again."""
        place = self._script.parent
        arguments = ["run", str(self._script), "--checkpoint", str(place / "state"), "--continuous"]
        arguments += ["--engine", self._engine]
        with self._log.open("ab") as log:
            self._begun = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "aggloom", *arguments],
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def session(self) -> int:
        """The number of the session that it leads, and all that it has started is of."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Tell whether the process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    @property
    def output_end(self) -> str:
        """Return the end of its output since it was started: at most 3000 characters."""
        return self._log.read_bytes()[self._begun :].decode(errors="replace")[-3000:]

    def kill(self) -> None:
        """End it, and all that it has started, with SIGKILL."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)


class Line:
    """All of it between two databases, in a directory: a shop, its database, Debezium, a broker, and a job."""

    def __init__(
        self,
        home: Path,
        database: Any,
        broker: Any,
        script: str,
        *,
        tables: Sequence[str],
        engine: str,
    ) -> None:
        # The servers of the tests: no package of this one's.
        kafka: Any = import_module("kafka")
        debezium: Any = import_module("debezium")
        self.home, self.database, self.broker, self._tables = home, database, broker, tables
        self.shop = Shop(database)
        tables = "public.orders,public.customers"
        self.connect = debezium.Connect(broker, database, tables, home / "debezium")
        about = {"servers": broker.servers, "url": f"jdbc:{database.url}"}
        (home / "job.sql").write_text(Template(script).substitute(about))
        jars = kafka.connector_settings()["spark.jars"]
        settings = {"PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
        settings["SPARK_LOCAL_DIRS"] = str(home / "scratch")
        self.job = Job(home / "job.sql", {**os.environ, **settings}, engine)

    def start(self) -> None:
        """Make the tables of the shop, with some rows, and tell Kafka of them."""
        self.shop.open(customers=20, orders=200)
        self.connect.start(*TOPICS)

    def compare_tables(self) -> dict[str, str]:
        """Compare each table of results with PostgreSQL's answer; return the number of rows that differ, by table."""
        found = {}
        with self.database.connect() as db:
            for name in self._tables:
                truth, there = TRUTH[name], f"to_regclass('results.{name}')"
                if db.execute(f"SELECT {there}").fetchone()[0] is None:
                    found[name] = "not there"
                    continue
                rows = f"SELECT * FROM results.{name}"
                both = f"(({truth}) EXCEPT ALL ({rows})) UNION ALL (({rows}) EXCEPT ALL ({truth}))"
                count = db.execute(f"SELECT COUNT(*) FROM ({both}) AS d").fetchone()[0]
                if count:
                    found[name] = f"{count} rows differ"
            wanted = sorted(map(repr, db.execute(TRUTH["revenue"]).fetchall()))
            if sorted(map(repr, self.lake())) != wanted:
                found["lake"] = "rows differ"
        return found

    def lake(self) -> list[tuple[Any, ...]]:
        """The rows of the Delta table; none if it is not there."""
        deltalake: Any = import_module("deltalake")
        path = str(self.home / "lake" / "revenue")
        if not deltalake.DeltaTable.is_deltatable(path):
            return []
        reader = deltalake.DeltaTable(path).scan(["country", "orders", "total"])
        columns = [column.to_pylist() for column in pa.table(reader.read_all()).columns]
        return list(zip(*columns, strict=True))

    def await_equal(self) -> float:
        """Wait until all tables are right; how many seconds that took. Raises RuntimeError."""
        began = time.monotonic()
        while left := self.compare_tables():
            if self.job.has_ended:
                raise RuntimeError(f"aggloom ended: {self.job.output_end}")
            if time.monotonic() - began > WITHIN:
                raise RuntimeError(f"the tables are not what PostgreSQL computes: {left}")
            time.sleep(0.2)
        return time.monotonic() - began


@contextmanager
def line(
    home: Path, script: str, tables: Sequence[str] = tuple(TRUTH), engine: str = "spark"
) -> Iterator[Line]:
    """A line whose servers run, in a directory that is emptied; all of it ends with the block.

    tables: those of results that the script writes. engine: of the job, "spark" or "local".
    """
    kafka: Any = import_module("kafka")
    postgres: Any = import_module("postgres")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with postgres.server() as database, kafka.broker() as broker:
        made = Line(home, database, broker, script, tables=tables, engine=engine)
        try:
            yield made
        finally:
            made.job.kill()
            made.connect.stop()


def play(
    kills: Sequence[str], transactions: int, say: Callable[[str], None], home: Path = DEMO
) -> None:
    """The whole line, in a round for each of `kills`, which of PARTS is killed on the way ("": none).

    Raises RuntimeError if a table is not what PostgreSQL computes.
    """
    with line(home, SCRIPT.read_text()) as made:
        shop, job, connect, broker = made.shop, made.job, made.connect, made.broker
        say(f"PostgreSQL on port {made.database.port}, Kafka on port {broker.port}")
        made.start()
        say("Debezium has written 220 rows to Kafka")
        job.start()
        say(f"four queries have the first tables after {made.await_equal():.0f} s")
        strikes: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "aggloom": (job.kill, job.start),
            "Debezium": (connect.stop, partial(connect.start, *TOPICS)),
            "the broker": (broker.stop, broker.start),
        }
        for round_, name in enumerate(kills):
            shop.trade(transactions // 2)
            if name:
                say(f"kill -9 of {name}")
                for step in strikes[name]:
                    step()
            shop.trade(transactions - transactions // 2)
            took = made.await_equal()
            say(
                f"round {round_ + 1}: {transactions} transactions; all tables equal after {took:.1f} s"
            )
        with made.database.connect() as db:
            for name in TRUTH:
                (count,) = db.execute(f"SELECT COUNT(*) FROM results.{name}").fetchone()
                say(f"results.{name}: {count} rows, as PostgreSQL computes them")
        say(f"lake/revenue, a Delta table: {len(made.lake())} rows, the same")


def main() -> None:
    """Play it, and tell of it."""
    began = time.monotonic()
    kills = PARTS if "--kill" in sys.argv else ("",) * 3

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", flush=True)

    play(kills, 40, say)


if __name__ == "__main__":
    main()
