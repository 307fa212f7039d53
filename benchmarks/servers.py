"""Kafka and PostgreSQL: topics read and added up, a result written into a table, beside Spark and Flink SQL.

    python benchmarks/servers.py                 # some 25 minutes
    python benchmarks/servers.py --quick
    python benchmarks/servers.py --messages 20000 --rounds 1 --case counted     # a try
    python benchmarks/servers.py --case counted --width 1000                    # messages of 1 kB

The broker and the database are those of the tests, on this machine, and have a part of its cores.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from flink import VERSION, Flink, Setup, fold_table, interpreter
from matrix import BATCHES, FEW, LOOM, MINI, OWN
from measure import Contender, Run, Series, take_turns
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from results import publish_rows
from rows import AFTER, BEFORE, Rows
from streams import Stream, batch_seconds, start
from throughput import HEADER, Table, cells, compute_expected, differences

import aggloom as al
from aggloom import local
from aggloom.runtime.hosting.journal_files import read_progress

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))

import kafka  # noqa: E402
import postgres  # noqa: E402
from older_sparks import UnavailableError, fetch  # noqa: E402

JARS = ROOT / "build" / "peers" / "jars"
PARTITIONS = 4
MESSAGES = "Spark's own, messages as they are"
BY_CONNECTOR = f"{LOOM}, messages by Spark's connector"
LOCAL = f"{LOOM}, local engine"
BLACKHOLE = {"kind": "blackhole"}
COUNT = "SELECT 1 AS g, COUNT(*) AS n FROM t"
SUMS = "SELECT k, SUM(v) AS s, COUNT(*) AS n, MAX(v) AS m FROM t GROUP BY k"
FLINKS = (MINI, Setup("mini-batch", backend="rocksdb"))
NOTES = (
    "Messages come from a topic of {parts} partitions of a broker on the same machine, in {batches} batches. Medians "
    "(least..greatest) of {rounds} rounds, in which the contenders took turns; ratios are of "
    f"the same round. Before them all contenders read at most {FEW:,} rows, and had to give the table that DuckDB "
    "gives.\n\n"
    "Whole run: from the start to the end, with what starting costs. Under way: the messages of all batches but the "
    "first over their times; of Flink all messages over the net time of the job, from its first task on.\n\n"
    f"{LOOM} fetches messages in the workers that pack their rows; {BY_CONNECTOR[len(LOOM) + 2 :]}: as it did before. "
    f"{LOCAL}: without Spark and Java, in the process of the benchmark. {MESSAGES}: Spark's connector into the noop "
    f"sink, nothing is parsed. {OWN}: `from_json`, then its streaming "
    "aggregate in update mode, RocksDB with logs of changes; it reads insertions only. Flink SQL "
    f"{VERSION}: flink-sql-connector-kafka 5.0.0-2.2 and its JDBC connector 4.0.0-2.0, parallelism 2, bundles of "
    "a second or 100,000 rows, checkpoints every 2 s.\n\n"
    f"Into PostgreSQL: {LOOM} writes by the key, each batch in one transaction with its number; {OWN} appends what "
    "each batch updates by JDBC, so that a key is there several times, and after a kill a batch; Flink writes by the "
    "key, 5,000 rows at a time, at least once. The database does not wait for its disk (fsync is off)."
)


@dataclass(frozen=True)
class Topic:
    """Rows as the messages of a topic; width: the bytes that a row has at least."""

    rows: Rows
    servers: str
    changes: bool = False
    width: int = 0

    @property
    def schema(self) -> str:
        """The columns as DDL."""
        return f"{self.rows.schema}, w STRING" if self.width else self.rows.schema

    @property
    def name(self) -> str:
        """The topic's."""
        kind = "changes" if self.changes else "rows"
        return f"{kind}-{self.rows.rows}-{self.rows.keys}-{self.width}"

    @property
    def format(self) -> str:
        """As Flink calls it; ours is jsonl where it is json."""
        return "debezium-json" if self.changes else "json"

    def messages(self) -> Iterator[tuple[int, str]]:
        """Keys and values, an update in one message."""
        before, key = "null", 0
        for row in self.rows.table().to_pylist():
            key, value = row["k"], self._widen(f'{{"k":{row["k"]},"v":{row["v"]}')
            if not self.changes:
                yield key, value
            elif row["op"] == BEFORE:
                before = value
            else:
                op = "u" if row["op"] == AFTER else "c"
                yield key, f'{{"before":{before},"after":{value},"op":"{op}"}}'
                before = "null"
        if before != "null":
            # The rows end within an update.
            yield key, f'{{"before":{before},"after":null,"op":"d"}}'

    def _widen(self, row: str) -> str:
        """An object that is not closed, closed and as wide as rows are to be, by a text."""
        left = self.width - len(row) - len(',"w":""}')
        return f'{row},"w":"{"x" * left}"}}' if left > 0 else row + "}"

    def fill(self, broker: Any) -> int:
        """Write the messages, those of a key into one partition; how many there are."""
        from confluent_kafka import Producer

        broker.topic(self.name, PARTITIONS)
        config = {"bootstrap.servers": self.servers, "linger.ms": 50, "enable.idempotence": True}
        producer = Producer(config)
        count = 0
        for key, value in self.messages():
            while True:
                try:
                    producer.produce(self.name, value, str(key), key % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
            count += 1
        if producer.flush(120):
            raise click.ClickException(f"{self.name}: the broker does not take its messages")
        return count


@dataclass(frozen=True)
class Place:
    """The topic, with its number of messages, and the database that contenders read and write."""

    topic: Topic
    count: int
    database: Any

    @property
    def a_batch(self) -> int:
        """Number of messages in a batch."""
        return -(-self.count // BATCHES)

    def read(self, spark: SparkSession) -> DataFrame:
        """The messages as Spark's connector gives them."""
        reader = spark.readStream.format("kafka").option("subscribe", self.topic.name)
        reader = reader.option("kafka.bootstrap.servers", self.topic.servers)
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": self.a_batch}
        return reader.options(**options).load()

    def loom(self, sql: str, fetch: str = "auto") -> Stream:
        """A query through aggloom. fetch: of read_kafka."""

        def build(spark: SparkSession, _: Any, live: Path) -> DataFrame:
            format_ = "debezium-json" if self.topic.changes else "jsonl"
            about = (self.topic.servers, self.topic.name, format_, self.topic.schema)
            t = al.read_kafka(spark, *about, max_messages_per_trigger=self.a_batch, fetch=fetch)
            changes = "retract" if self.topic.changes else "append"
            return al.sql(sql, t=t, input_changes={"t": changes}, state_directory=live)

        return Stream(build, changelog=True)

    def local(self, sql: str) -> Any:
        """The same on the local engine."""
        format_ = "debezium-json" if self.topic.changes else "jsonl"
        about = (self.topic.servers, self.topic.name, format_, self.topic.schema)
        kinds = "retract" if self.topic.changes else "append"
        t = local.read_kafka(*about, changes=kinds, max_messages_per_trigger=self.a_batch)
        return local.sql(sql, t=t)

    def own(self, sql: str) -> Stream:
        """The same by Spark alone."""

        def build(spark: SparkSession, _: Any, live: Path) -> DataFrame:
            parsed = F.from_json(F.col("value").cast("string"), self.topic.schema)
            self.read(spark).select(parsed.alias("row")).select("row.*").createOrReplaceTempView(
                "t"
            )
            return spark.sql(sql)

        return Stream(build, "update", changelog=True)

    def alone(self) -> Stream:
        """The messages, and nothing else."""
        return Stream(lambda spark, _, live: self.read(spark))

    def statements(self) -> list[str]:
        """The topic and the table as Flink's tables."""
        columns = self.topic.schema
        about = {
            "connector": "kafka",
            "topic": self.topic.name,
            "properties.bootstrap.servers": self.topic.servers,
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
            "format": self.topic.format,
        }
        into = {
            "connector": "jdbc",
            "url": self.jdbc,
            "table-name": "totals",
            "sink.buffer-flush.max-rows": "5000",
        }
        totals = "k BIGINT, s BIGINT, n BIGINT, m INT, PRIMARY KEY (k) NOT ENFORCED"
        return [
            f"CREATE TABLE {name} ({listed}) WITH ({', '.join(f'{k!r} = {v!r}' for k, v in options.items())})"
            for name, listed, options in (("t", columns, about), ("totals", totals, into))
        ]

    @property
    def jdbc(self) -> str:
        """The database's URL for drivers of Java."""
        server = f"127.0.0.1:{self.database.port}"
        return f"jdbc:postgresql://{server}/postgres?user=tests&reWriteBatchedInserts=true"

    @property
    def sink(self) -> dict[str, Any]:
        """The table as a sink of aggloom's."""
        return {"kind": "database", "table": "totals", "connect": self.database.dsn}

    def empty_tables(self) -> None:
        """An empty table, and none that knows of earlier runs."""
        with self.database.connect() as db:
            db.execute("DROP TABLE IF EXISTS totals, appended, aggloom_batches")
            db.execute("CREATE TABLE totals (k BIGINT PRIMARY KEY, s BIGINT, n BIGINT, m INT)")

    def totals(self) -> Table:
        """The rows of the table."""
        with self.database.connect() as db:
            return Counter(db.execute("SELECT * FROM totals").fetchall())


def on_spark(stream: Stream, place: Place, spark: SparkSession) -> Run:
    """A run into the noop sink."""
    return _run(place, *stream.batches(spark, place))  # type: ignore[arg-type]


def on_local_engine(sql: str, place: Place, sink: Mapping[str, Any] = BLACKHOLE) -> Run:
    """A run on the local engine; sink: as of `local.write_changes`."""
    if sink is not BLACKHOLE:
        place.empty_tables()
    changes = place.local(sql)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        begin = time.perf_counter()
        query = local.write_changes(changes, sink, Path(scratch, "checkpoint"))
        local.await_end(query)
        seconds = time.perf_counter() - begin
        noted = read_progress(Path(scratch, "checkpoint")).batches.values()
    return _run(place, seconds, [each["took"] / 1000 for each in noted if each["rows"]])


def into_database(stream: Stream, place: Place, spark: SparkSession) -> Run:
    """A run of aggloom into the table, by its key."""
    place.empty_tables()
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        out = stream.build(spark, place, Path(scratch, "live"))  # type: ignore[arg-type]
        begin = time.perf_counter()
        query = al.write_changes(out, place.sink, Path(scratch, "checkpoint"))
        al.await_end(query)
        return _run(place, time.perf_counter() - begin, batch_seconds(query))


def append_rows(stream: Stream, place: Place, spark: SparkSession) -> Run:
    """A run of Spark's own, whose updates are appended by JDBC."""
    place.empty_tables()
    options = {"driver": "org.postgresql.Driver", "batchsize": "5000"}

    def append(batch: DataFrame, _: int) -> None:
        batch.write.jdbc(place.jdbc, "appended", mode="append", properties=options)

    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        out = stream.build(spark, place, Path(scratch, "live"))  # type: ignore[arg-type]
        begin = time.perf_counter()
        query = start(out.writeStream.foreachBatch(append).outputMode("update"), Path(scratch))
        return _run(place, time.perf_counter() - begin, batch_seconds(query))


def on_flink(
    flink: Flink, place: Place, sql: str, setup: Setup, sink: str = "", collect: bool = False
) -> Any:
    """A run of Flink into a black hole or the table; or, collected, the table that it makes."""
    jars = ";".join(f"file://{jar}" for jar in sorted(JARS.rglob("*.jar")))
    if sink:
        place.empty_tables()
    with tempfile.TemporaryDirectory(prefix="bench-flink-") as checkpoints:
        settings = {**setup.settings(checkpoints), "pipeline.jars": jars}
        answer = flink.ask(settings, place.statements(), sql, collect, sink)
    if collect:
        return fold_table(answer["changes"])
    return Run(place.count, answer["seconds"], place.count / answer["job"])


def _run(place: Place, seconds: float, batches: list[float]) -> Run:
    later = batches[1:]
    each = place.count / len(batches)
    return Run(place.count, seconds, each * len(later) / sum(later) if later else None)


@dataclass(frozen=True)
class Case:
    """A query over a topic, into the noop sink or the database."""

    name: str
    sql: str
    rows: Rows
    changes: bool = False
    database: bool = False

    def contenders(self, spark: SparkSession, flink: Flink, place: Place) -> dict[str, Contender]:
        """Name to what runs it, or to why nothing does."""
        ours, own = place.loom(self.sql), place.own(self.sql)
        by_connector = place.loom(self.sql, "connector")
        runs: dict[str, Contender] = {
            LOOM: partial(on_spark, ours, place, spark),
            BY_CONNECTOR: partial(on_spark, by_connector, place, spark),
            LOCAL: partial(on_local_engine, self.sql, place),
        }
        if self.database:
            runs = {
                LOOM: partial(into_database, ours, place, spark),
                BY_CONNECTOR: partial(into_database, by_connector, place, spark),
                LOCAL: partial(on_local_engine, self.sql, place, place.sink),
                f"{LOOM}, noop sink": partial(on_spark, ours, place, spark),
                f"{OWN}, append": partial(append_rows, own, place, spark),
            }
        elif self.changes:
            runs[OWN] = "reads insertions only"
        else:
            runs[OWN] = partial(on_spark, own, place, spark)
        runs[MESSAGES] = partial(on_spark, place.alone(), place, spark)
        sink = "totals" if self.database else ""
        for setup in FLINKS:
            able = partial(on_flink, flink, place, self.sql, setup, sink)
            runs[setup.name] = able if flink.version else "not installed, or its jars are not there"
        return runs

    def verify(self, spark: SparkSession, flink: Flink, place: Place) -> None:
        """Raise ClickException unless all contenders give the right table."""
        rows = place.topic.rows
        tables = {
            LOOM: place.loom(self.sql).table(spark, rows),
            BY_CONNECTOR: place.loom(self.sql, "connector").table(spark, rows),
        }
        rows_of_local = local.collect(place.local(self.sql)).to_pylist()
        tables[LOCAL] = Counter(tuple(row.values()) for row in rows_of_local)
        if not self.changes:
            tables[OWN] = place.own(self.sql).table(spark, rows)
        if flink.version:
            tables[VERSION] = on_flink(flink, place, self.sql, MINI, collect=True)
        if self.database:
            into_database(place.loom(self.sql), place, spark)
            tables[f"{LOOM}, the table"] = place.totals()
            on_local_engine(self.sql, place, place.sink)
            tables[f"{LOCAL}, the table"] = place.totals()
            if flink.version:
                on_flink(flink, place, self.sql, MINI, "totals")
                tables[f"{VERSION}, the table"] = place.totals()
        if wrong := differences(compute_expected(rows, self.sql), tables):
            raise click.ClickException("\n".join([f"{self.name}: wrong results", *wrong]))


def cases(quick: bool, messages: int | None = None) -> list[Case]:
    """List the cases to measure; messages: instead of what is usual."""
    many, few = (200_000, 100_000) if quick else (4_000_000, 1_000_000)
    many, few = messages or many, messages or few
    appends, changes = Rows(many, 10_000), Rows(many, 10_000, "retract")
    return [
        Case("read and counted, JSON", COUNT, appends),
        Case("SUM, COUNT, MAX by 10,000 keys, JSON", SUMS, appends),
        Case("SUM, COUNT, MAX by 10,000 keys, debezium-json, 30 % updates", SUMS, changes, True),
        Case(
            "SUM, COUNT, MAX by 100,000 keys, JSON, into PostgreSQL",
            SUMS,
            Rows(few, 100_000),
            database=True,
        ),
    ]


def measure(
    spark: SparkSession,
    flink: Flink,
    chosen: list[Case],
    rounds: int,
    broker: Any,
    database: Any,
    width: int = 0,
) -> list[Series]:
    """Every case: few rows compared, then the rounds; width: the bytes that a message has at least."""
    counts: dict[str, int] = {}

    def place_of(rows: Rows, changes: bool) -> Place:
        topic = Topic(rows, broker.servers, changes, width)
        if topic.name not in counts:
            counts[topic.name] = topic.fill(broker)
        return Place(topic, counts[topic.name], database)

    made: list[Series] = []
    for case in chosen:
        few = replace(case.rows, rows=min(case.rows.rows, FEW), keys=min(case.rows.keys, 1_000))
        case.verify(spark, flink, place_of(few, case.changes))
        click.echo(f"{case.name}: the contenders give the same table for few rows", err=True)
        place = place_of(case.rows, case.changes)
        title = f"{case.name}; {place.count:,} messages"
        made += take_turns(title, case.contenders(spark, flink, place), rounds)
    return made


@click.command()
@click.option("--quick", is_flag=True, help="Few messages, two rounds.")
@click.option("--rounds", type=int, help="Instead of 3, or of 2 with --quick.")
@click.option("--messages", type=int, help="Instead of 4,000,000, or 1,000,000 into PostgreSQL.")
@click.option("--width", default=0, help="Bytes that the rows in messages have at least.")
@click.option("--case", "part", default="", help="Only cases with this in their names.")
@click.option("--no-flink", is_flag=True, help="Leave Flink out; it is installed otherwise (once).")
@click.option(
    "--flink-python", type=Path, envvar="AGGLOOM_FLINK_PYTHON", help="A Python that has it."
)
def main(
    quick: bool,
    rounds: int | None,
    messages: int | None,
    width: int,
    part: str,
    no_flink: bool,
    flink_python: Path | None,
) -> None:
    """Measure, and write benchmarks/results."""
    rounds = rounds or (2 if quick else 3)
    try:
        if not JARS.exists():
            fetch(ROOT / ".ci" / "peers.xml", "flink", JARS)
    except UnavailableError as why:
        raise click.ClickException(f"no jars of Flink and of a driver: {why}") from None
    flink = Flink(None if no_flink else flink_python or interpreter())
    settings = kafka.connector_settings()
    driver = ",".join(str(jar) for jar in JARS.glob("postgresql-*.jar"))
    settings["spark.jars"] = f"{settings['spark.jars']},{driver}"
    with kafka.broker() as broker, postgres.server() as database:
        spark = al.session("aggloom-bench", **settings)
        spark.sparkContext.setLogLevel("ERROR")
        chosen = [case for case in cases(quick, messages) if part in case.name]
        made = measure(spark, flink, chosen, rounds, broker, database, width=width)
        spark.stop()
    flink.close()
    notes = NOTES.format(parts=PARTITIONS, batches=BATCHES, rounds=rounds)
    raw = [each.__dict__ for each in made]
    facts = {"flink": flink.version or "not installed"}
    page = "servers-quick" if quick or messages or width or part else "servers"
    publish_rows(page, HEADER, list(cells(made)), raw, notes, facts)


# Workers do not have this folder on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

if __name__ == "__main__":
    main()
