"""`state` and `why` on real checkpoints: read while the query runs and after, at any batch, without touching it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import aggloom as al
from aggloom.cli import main
from aggloom.errors import CheckpointError, StateCorruptError, StateError

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

DDL = "op STRING, name STRING, n INT, cnt INT"
BATCHES = [
    [("+I", "a", 1, 3), ("+I", "größe", 2, 8), ("+I", None, 1, 7), ("+I", "a", 1, 9)],
    [("-D", "a", 1, 9), ("-U", None, 1, 7), ("+U", None, 1, 5), ("+I", "b", 1, 1)],
    [("+I", "a", 1, 4), ("-D", "b", 1, 1)],
]
SQL = "SELECT name, n, SUM(cnt) AS total, MAX(cnt) AS top FROM t GROUP BY name, n"


def write(directory: Path, number: int, rows: list[dict[str, Any]]) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / f"{number:04d}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def files(directory: Path) -> dict[str, tuple[int, int]]:
    """Every file under a directory, with its size and time."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def checkpoint(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query by two columns after three batches; in the second it was looked into as it ran."""
    root = tmp_path_factory.mktemp("inspection")
    names = ("op", "name", "n", "cnt")
    for number, batch in enumerate(BATCHES):
        write(root / "in", number, [dict(zip(names, row, strict=True)) for row in batch])
    source = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(root / "in"))
    seen: list[Any] = []

    def look(batch: Any, number: int) -> None:
        batch.collect()
        if number == 1:
            seen.append(al.why(root / "checkpoint", key={"name": "a", "n": 1}, spark=spark))

    out = al.sql(SQL, t=source, buckets=4)
    writer = out.writeStream.foreachBatch(look).trigger(availableNow=True)
    al.await_end(writer.option("checkpointLocation", str(root / "checkpoint")).start())
    # Batch 1 was not committed yet.
    assert [part.results for part in seen[0].now] == [{"total": 12, "top": 9}]
    return root / "checkpoint"


@pytest.fixture(autouse=True)
def untouched(checkpoint: Path) -> Iterator[None]:
    """No test changes a file of the checkpoint."""
    before = files(checkpoint)
    yield
    assert files(checkpoint) == before


def test_a_checkpoint_by_its_operators(checkpoint: Path, spark: Any) -> None:
    (operator,) = al.state(checkpoint, spark=spark).operators
    assert (operator.name, operator.key_columns) == ("GROUP BY name, n", ("name", "n"))
    assert operator.calls == ("SUM(cnt) AS total", "MAX(cnt) AS top")
    assert (operator.keys, operator.batch, operator.buckets) == (3, 2, 4)
    assert operator.log_bytes > 0
    assert operator.live_bytes
    assert not operator.note
    (earlier,) = al.state(checkpoint, batch=1, spark=spark).operators
    assert earlier.keys == 4


def test_how_keys_came_to_their_values(checkpoint: Path, spark: Any) -> None:
    told = al.why(checkpoint, key={"name": "a", "n": 1}, spark=spark)
    steps = [
        (c.kind, c.row["cnt"], e.after) for b in told.bundles for c in b.changes for e in c.effects
    ]
    assert steps == [
        ("+I", 3, {"total": 3, "top": 3}),
        ("+I", 9, {"total": 12, "top": 9}),
        ("-D", 9, {"total": 3, "top": 3}),
        ("+I", 4, {"total": 7, "top": 4}),
    ]
    assert told.agrees
    assert told.bundles[1].emitted == (
        ("-U", {"total": 12, "top": 9}),
        ("+U", {"total": 3, "top": 3}),
    )
    null = al.why(checkpoint, key={"name": None, "n": 1}, batch=0, spark=spark)
    assert [part.results for part in null.now] == [{"total": 7, "top": 7}]
    unicode = al.why(checkpoint, key={"name": "größe", "n": "2"}, spark=spark)
    assert [part.results for part in unicode.now] == [{"total": 8, "top": 8}]


def test_the_command_line(checkpoint: Path, spark: Any) -> None:
    def run(*words: str) -> str:
        done = CliRunner().invoke(main, [*words])
        assert done.exit_code == 0, done.output
        return done.output

    text = run("state", str(checkpoint), "--key", "name=NULL", "--key", "n=1")
    assert "key name=NULL, n=1" in text
    assert "total=5, top=5 (1 record)" in text
    told = json.loads(
        run(
            "why",
            str(checkpoint),
            "--key",
            "name=a",
            "--key",
            "n=1",
            "--batch",
            "1",
            "--format",
            "json",
        )
    )
    assert told["now"][0]["results"] == {"total": 3, "top": 3}
    absent = run("why", str(checkpoint), "--key", "name=grösse", "--key", "n=2")
    assert "there is no such key" in absent
    wrong = CliRunner().invoke(main, ["state", str(checkpoint), "--key", "nam=a"])
    assert wrong.exit_code == 2
    assert "'nam' is no column of the key. Did you mean 'name'?" in wrong.output


@pytest.mark.thorough
def test_windows_in_two_phases(spark: Any, tmp_path: Path) -> None:
    rows = [{"name": "a", "ts": f"2020-01-01T00:00:{s:02d}Z", "cnt": s} for s in range(0, 40, 4)]
    for number in range(2):
        write(tmp_path / "in", number, rows[number * 5 : number * 5 + 5])
    source = spark.readStream.schema("name STRING, ts TIMESTAMP, cnt INT")
    source = source.option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    out = al.sql(
        "SELECT name, window_start, window_end, SUM(cnt) AS total FROM "
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY name, window_start, window_end",
        t=source,
        watermarks={"t": ("ts", "0 s")},
        agg_phase_strategy="TWO_PHASE",
    )
    writer = out.writeStream.format("noop").trigger(availableNow=True)
    al.await_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    told = al.why(tmp_path / "checkpoint", key={"name": "a"}, spark=spark)
    assert told.agrees
    emitted = [row["total"] for b in told.bundles for kind, row in b.emitted if kind == "+I"]
    totals = [sum(range(start, start + 10)[-start % 4 :: 4]) for start in range(0, 40, 10)]
    # What the watermark has passed has left, the rest is still open.
    left = [part.results["total"] for part in told.now if part.results]
    assert sorted(emitted) == sorted(totals[: len(emitted)])
    assert left == totals[len(emitted) :]
    assert emitted
    state = al.state(tmp_path / "checkpoint", spark=spark)
    assert "watermark" in state.text()
    assert "TUMBLE" in (state.operators[0].windows or "")


def test_what_is_no_checkpoint_of_ours(checkpoint: Path, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no such directory"):
        al.state(tmp_path / "nowhere", spark=spark)
    with pytest.raises(CheckpointError, match="no state of a stateful query"):
        al.state(tmp_path, spark=spark)
    with pytest.raises(CheckpointError, match="batch 9 of operator 0 cannot be read; 0 to 2 can"):
        al.state(checkpoint, batch=9, spark=spark)
    with pytest.raises(CheckpointError, match="there is no operator 3 of aggloom; there is 0"):
        al.why(checkpoint, key={}, operator=3, spark=spark)
    foreign = spark.readStream.schema("name STRING").json(str(checkpoint.parent / "in"))
    writer = foreign.groupBy("name").count().writeStream.format("noop").outputMode("update")
    path = tmp_path / "foreign"
    al.await_end(writer.trigger(availableNow=True).option("checkpointLocation", str(path)).start())
    with pytest.raises(CheckpointError, match="that of stateStoreSave, not of aggloom"):
        al.state(path, spark=spark)


def test_damage_is_a_short_typed_error(checkpoint: Path, spark: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    kept = [*(copy / "state").rglob("*.zip"), *(copy / "state").rglob("*.changelog")]
    for path in kept:
        path.write_bytes(path.read_bytes()[:-40])
        for checksum in path.parent.glob(f".{path.name}.crc"):
            checksum.unlink()
    with pytest.raises(StateError) as raised:
        al.state(copy, spark=spark)
    assert isinstance(raised.value, StateCorruptError | CheckpointError)
    assert len(str(raised.value).splitlines()) < 4
