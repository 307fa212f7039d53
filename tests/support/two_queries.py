"""Two queries over files of changes, by a driver in a process of its own: under another Spark, or on a cluster.

    python two_queries.py PLACE [MASTER [SETTING=VALUE ...]]

A join over an aggregate goes to files of JSON, windows to files of Parquet. What it ends with it says as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

HERE = Path(__file__).resolve()
FILES, ROWS, KEYS = 5, 60, 9
CHANGES = "k STRING, ts TIMESTAMP, v BIGINT, x DOUBLE"
NAMES = "k STRING, name STRING"
SUMS = """
    WITH sums AS (SELECT k, SUM(v) AS s, COUNT(*) AS n, MAX(x) AS top FROM t GROUP BY k)
    SELECT a.k, a.s, a.n, a.top, b.name FROM sums AS a JOIN names AS b ON a.k = b.k"""
WINDOWS = """
    SELECT k, CAST(window_start AS STRING) AS began, SUM(v) AS s, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"""
LATEST = "2020-02-01 00:00:00"
"""When the rows are that move the watermark past all others."""

Row = tuple[Any, ...]


def write(place: Path) -> None:
    """The files: changes, some of them deletes, and names of some keys; the last two files end the windows."""
    draw = random.Random(5)
    place.mkdir(parents=True, exist_ok=True)
    (place / "changes").mkdir()
    (place / "names").mkdir()
    there: list[dict[str, Any]] = []
    for number in range(FILES):
        lines = []
        for _ in range(ROWS):
            if there and draw.random() < 0.2:
                row = there.pop(draw.randrange(len(there)))
                if row["ts"] >= f"2020-01-01 00:{max(number - 1, 0):02d}":
                    lines.append({**row, "_change_type": "delete"})
                    continue
                there.append(row)
            time = f"2020-01-01 00:{number:02d}:{draw.randrange(60):02d}"
            row = {"k": f"k{draw.randrange(KEYS)}", "ts": time, "v": draw.randrange(100)}
            row["x"] = draw.choice(["NaN", 0.1, -2.5, 1e300])
            there.append(row)
            lines.append({**row, "_change_type": "insert"})
        _lines(place / "changes" / f"{number:02d}.jsonl", lines)
    for number in (FILES, FILES + 1):
        row = {"k": "late", "ts": LATEST, "v": number, "x": 0.0, "_change_type": "insert"}
        _lines(place / "changes" / f"{number:02d}.jsonl", [row])
    named = "\n".join(f"k{key},name {key}" for key in range(0, KEYS, 2))
    (place / "names" / "names.csv").write_text(f"k,name\n{named}\n")


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    # Spark reads them in the order in which they were written.
    stamp = 1_600_000_000 + int(path.stem)
    os.utime(path, (stamp, stamp))


def expected(place: Path) -> tuple[Counter[Row], Counter[Row]]:
    """The tables of the two queries, by DuckDB; of windows those that are closed."""
    net: Counter[str] = Counter()
    for path in sorted((place / "changes").iterdir()):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            kind = row.pop("_change_type")
            net[json.dumps(row)] += 1 if kind == "insert" else -1
    rows = [json.loads(row) for row in net.elements()]
    t = pa.Table.from_pylist([{**row, "x": float(row["x"])} for row in rows])
    names = place / "names" / "names.csv"
    with duckdb.connect() as database:
        database.register("t", t)
        database.execute(f"CREATE TABLE names AS FROM read_csv('{names}')")
        sums = database.execute(SUMS).fetchall()
        windows = database.execute(
            f"""SELECT k, strftime(time_bucket(INTERVAL '10 s', ts::TIMESTAMP), '%Y-%m-%d %H:%M:%S') AS began,
            SUM(v)::BIGINT, COUNT(*) FROM t WHERE ts < '{LATEST}' GROUP BY k, began"""
        ).fetchall()
    return _comparable_rows(sums), _comparable_rows(windows)


def _comparable_rows(rows: list[Any]) -> Counter[Row]:
    """Rows as they compare: NaN is one value, a sum of DuckDB's an integer."""
    return Counter(tuple("NaN" if value != value else value for value in row) for row in rows)


def folded(changes: list[list[Any]]) -> Counter[Row]:
    """The table that a changelog comes to."""
    table: Counter[Row] = Counter()
    for *row, kind in changes:
        told = next(iter(_comparable_rows([row])))
        table[told] += 1 if kind in ("insert", "update_postimage") else -1
    assert all(count > 0 for count in table.values() if count), table
    return +table


def command(python: Path | str, place: Path, *more: str) -> list[str]:
    """The command that starts the driver."""
    return [str(python), str(HERE), str(place), *more]


def struck(python: Path | str, place: Path, *more: str, environment: dict[str, str]) -> None:
    """Start the driver, and kill all of its processes in the middle of its batches."""
    with (place / "first.log").open("w") as log:
        driver = subprocess.Popen(
            command(python, place, *more),
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        commit, until = place / "sums.checkpoint" / "commits" / "2", time.monotonic() + 240
        while not commit.exists() and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert commit.exists(), (place / "first.log").read_text()[-4000:]


def ended(python: Path | str, place: Path, *more: str, environment: dict[str, str]) -> Any:
    """Start the driver, and wait for what it says in the end."""
    done = subprocess.run(
        command(python, place, *more), capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def main(place: Path, master: str = "local[2]", *settings: str) -> None:
    """Run both to their end."""
    import aggloom as al

    given = dict(each.split("=", 1) for each in settings)
    ships = given.pop("ship", "")
    given = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", **given}
    spark = al.session("two queries", master=master, **given)
    if ships:
        al.ship(spark)
    changes = al.read_changes(spark, place / "changes", "jsonl", CHANGES, max_files_per_trigger=1)
    names = al.read_changes(spark, place / "names", "csv", NAMES)
    watermarks = {"t": ("ts", "2 minutes")}
    running = [
        al.write_changes(out, f"{kind}:{place / name}", place / f"{name}.checkpoint")
        for name, kind, out in (
            ("sums", "jsonl", al.sql(SUMS, t=changes, names=names, buckets=2)),
            (
                "windows",
                "parquet",
                al.sql(WINDOWS, t=changes, watermarks=watermarks, buckets=2),
            ),
        )
    ]
    for query in running:
        al.await_end(query)
    sums = spark.read.schema(
        "k STRING, s BIGINT, n BIGINT, top DOUBLE, name STRING, _change_type STRING"
    )
    found = {
        "spark": spark.version,
        "sums": [list(row) for row in sums.json(str(place / "sums")).collect()],
        "windows": [list(row) for row in spark.read.parquet(str(place / "windows")).collect()],
        "keys": [each.keys for each in al.state(place / "sums.checkpoint", spark=spark).operators],
        "hosts": sorted({row[0] for row in _hosts(spark)}),
    }
    try:
        al.repartition(spark, place / "sums.checkpoint", 3)
        found["repartition"] = ""
    except al.errors.AggloomError as error:
        found["repartition"] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


def _hosts(spark: Any) -> Any:
    """Return the path of the package in each executor's Python."""

    def told(parts: Any) -> Any:
        import aggloom

        for _ in parts:
            yield [aggloom.__file__]

    return spark.sparkContext.parallelize(range(4), 4).mapPartitions(told).collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
