"""The Delta source: what it reads folds to the table, whatever the cuts; what it cannot read it says."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pytest
from lakes import batch, raised, read, sound

from aggloom.errors import CheckpointError, InputFormatError, MissingFileError, SpecError
from aggloom.runtime.connectors.delta.changes import DeltaLake
from aggloom.runtime.connectors.delta.options import DeltaSource, delta_options
from aggloom.runtime.connectors.delta.sink import DeltaSink

deltalake = pytest.importorskip("deltalake")

FEED = {"delta.enableChangeDataFeed": "true"}


def source(path: str | Path, **more: Any) -> DeltaLake:
    return DeltaLake.of(DeltaSource(path=path, **more))


def changes(path: Path, most: int | None = None, **more: Any) -> list[tuple[str, lakes.Row]]:
    """All changes that there are."""
    made = source(path, **more)
    at, found = made.first(), []
    while (end := made.latest(at, most)) != at:
        found += read(made, at, end)
        at = end
    return found


@pytest.mark.parametrize("seed", range(4))
def test_what_it_reads_folds_to_the_table(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "t"
    parts = "v" if seed % 2 else ""
    sink = DeltaSink(
        delta_options({"path": path, "properties": FEED, "partition_by": [parts] if parts else []}),
        ("k", "f"),
        True,
    )
    made = None
    at: Any = None
    told: list[tuple[str, lakes.Row]] = []
    for number, (some, wanted) in enumerate(lakes.random_batches(seed, 14)):
        if parts:
            some = [(word, (*row[:2], row[2] or "-")) for word, row in some]
            wanted = [(*row[:2], row[2] or "-") for row in wanted]
        sink.write(*batch(some), number, "c")
        if number and rng.random() < 0.2:
            deltalake.DeltaTable(path).optimize.compact()
        if rng.random() < 0.5:
            if made is None:
                made = source(path, start="snapshot" if seed < 2 else 0)
                at = made.first()
            while (end := made.latest(at, rng.choice((None, 1, 2)))) != at:
                told += read(made, at, end)
                # A batch that runs again is the same.
                assert str(read(made, at, end)) == str(read(source(path), at, end))
                at = end
            sound(told)
            assert lakes.folded(told) == lakes.in_words(wanted)
    assert len(told) > 10


def test_every_type(tmp_path: Path) -> None:
    import tests.sinks.test_delta_sink as own

    path = tmp_path / "t"
    table, kinds = batch([("+I", row) for row in own.ROWS], own.EVERY)
    for number, key in enumerate(("feed", "files")):
        place = path / key
        sink = DeltaSink(delta_options({"path": place, "properties": FEED}), ("k",), True)
        sink.write(table, kinds, 0, "c")
        if number:
            sink.write(table, kinds + 1, 1, "c")
            sink.write(table, kinds, 2, "c")
        told = changes(place, start=0)
        assert lakes.folded(told) == lakes.in_words(own.ROWS)


@pytest.mark.parametrize("name", ["i", "d", "day", "z", "n", "b", "t", "e"])
def test_every_type_of_partition(name: str, tmp_path: Path) -> None:
    types = {
        "i": (pa.int16(), -5),
        "d": (pa.decimal128(10, 2), Decimal("1.50")),
        "day": (pa.date32(), dt.date(2026, 2, 28)),
        "z": (pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 2, 3, 4, 5, 600000, dt.UTC)),
        "n": (pa.timestamp("us"), dt.datetime(2026, 1, 2, 3, 4, 5, 6)),
        "b": (pa.bool_(), True),
        "t": (pa.string(), "a b/ü=%"),
        "e": (pa.float64(), 1.5),
    }
    kind, value = types[name]
    table = pa.table({"k": [1, 2], "p": pa.array([value, None], kind)})
    deltalake.write_deltalake(tmp_path / "t", table, partition_by="p")
    deltalake.write_deltalake(tmp_path / "t", table.slice(0, 1), mode="append")
    wanted = [(1, value), (1, value), (2, None)]
    assert lakes.folded(changes(tmp_path / "t")) == lakes.in_words(wanted)
    assert lakes.folded(changes(tmp_path / "t", start=0)) == lakes.in_words(wanted)


def test_where_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for k in range(4):
        deltalake.write_deltalake(path, pa.table({"k": [k]}), mode="append")
    assert changes(path, start="latest") == []
    assert [row for _, row in changes(path, start=2)] == [(2,), (3,)]
    assert [row for _, row in changes(path, start="3", most=1)] == [(3,)]
    times = {e["version"]: e["timestamp"] for e in deltalake.DeltaTable(path).history()}
    moment = dt.datetime.fromtimestamp(times[1] / 1000, dt.UTC)
    first = min(version for version, time in times.items() if time >= times[1])
    told = [row for _, row in changes(path, start=moment.isoformat())]
    assert told == [(k,) for k in range(first, 4)]
    for start, said in (
        (9, "start is version 9, and the last one is 3"),
        (-1, "start is version -1; the first one is 0"),
        ("2999-01-01", "since when there is no version"),
        ("soon", "it must be snapshot, latest, a version"),
    ):
        with pytest.raises(SpecError, match=said):
            source(path, start=start).first()
    with pytest.raises(SpecError, match="there is no Delta table"):
        source(tmp_path / "none")
    made = source(path, metadata=True, start=2)
    rows = [row for _, row in read(made, made.first(), made.latest(made.first(), None))]
    assert [row[:2] for row in rows] == [(2, 2), (3, 3)]
    assert rows[0][2] == dt.datetime.fromtimestamp(times[2] / 1000, dt.UTC)


def test_a_table_without_a_feed_that_takes_back(tmp_path: Path) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(path, pa.table({"k": [1, 2]}))
    made = source(path)
    at = made.latest(made.first(), None)
    deltalake.write_deltalake(path, pa.table({"k": [3]}), mode="append")
    deltalake.DeltaTable(path).optimize.compact()
    end = made.latest(at, None)
    assert read(made, at, end) == [("+I", (3,))]
    deltalake.DeltaTable(path).delete("k = 1")
    with pytest.raises(
        InputFormatError,
        match=r"version 3 \(DELETE\) deletes or updates rows, .* no change data feed",
    ):
        made.pieces(end, made.latest(end, None))
    assert lakes.folded(changes(path)) == ["(2,)", "(3,)"]
    deltalake.DeltaTable(path).alter.set_table_properties(FEED)
    now = made.latest(end, None)
    deltalake.DeltaTable(path).delete("k = 2")
    assert read(made, now, made.latest(now, None)) == [("-D", (2,))]
    at_last = source(path, metadata=True, start="latest")
    last = at_last.first()
    deltalake.DeltaTable(path).delete("k = 3")
    with pytest.raises(InputFormatError, match=r"version and time .* are lost"):
        read(at_last, last, at_last.latest(last, None))


def test_schema_changes_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "t"
    one = pa.table({"k": [1], "v": ["a"]})
    deltalake.write_deltalake(path, one)
    made = source(path)
    at = made.latest(made.first(), None)
    wider = pa.table({"k": [2], "v": ["b"], "new": [1.5]})
    deltalake.write_deltalake(path, wider, mode="append", schema_mode="merge")
    end = made.latest(at, None)
    # A column that is added is not read before the query starts anew; rows from before it have NULL then.
    assert read(made, at, end) == [("+I", (2, "b"))]
    assert lakes.folded(changes(path, start=0)) == ["(1, 'a', None)", "(2, 'b', 1.5)"]
    other = pa.table({"k": ["x"], "new": [1.5]})
    deltalake.write_deltalake(path, other, mode="overwrite", schema_mode="overwrite")
    for name, said in (("k", "is string, not int64"), ("v", "is gone")):
        narrow = DeltaLake(made.place, pa.schema([made.columns.field(name)]))
        with pytest.raises(InputFormatError, match=f"since version 2 column '{name}' {said}"):
            narrow.pieces(end, made.latest(end, None))


def test_versions_that_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = DeltaSink(delta_options({"path": path, "properties": FEED}), ("k", "f"), True)
    sink.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    made = source(path)
    at = made.latest(made.first(), None)
    pieces = made.pieces(made.first(), at)
    sink.write(*batch([("-U", (1, 1.0, "a")), ("+U", (1, 1.0, "b"))]), 1, "c")
    end = made.latest(at, None)
    feed = made.pieces(at, end)
    deltalake.DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    for file in (path / "_change_data").glob("*"):
        file.unlink()
    for gone in (*pieces, feed[0]):
        with pytest.raises(
            MissingFileError, match=f"version {gone.version}.* start with an empty checkpoint"
        ):
            list(made.rows(gone))
    deltalake.DeltaTable(path).create_checkpoint()
    (path / "_delta_log" / "00000000000000000002.json").unlink()
    error = raised(lambda: made.pieces(at, end))
    assert isinstance(error, MissingFileError)
    assert "version 2 is not in its log any more" in str(error)
    shutil.rmtree(path)
    deltalake.write_deltalake(path, pa.table({"k": [1], "f": [1.0], "v": ["a"]}))
    with pytest.raises(CheckpointError, match="is not the table that the checkpoint has read"):
        made.latest(at, None)


def test_a_changelog_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = DeltaSink(delta_options({"path": path, "form": "changelog"}), None, True)
    for number, (some, _) in enumerate(lakes.random_batches(3, 8)):
        sink.write(*batch(some), number, "c")
    told = changes(path, most=3)
    assert [repr(one) for one in told] == [
        repr(one) for some, _ in lakes.random_batches(3, 8) for one in some
    ]


def test_files_of_an_object_store_are_read_through_the_library(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1, None], "v": ["a", None]}))
    made = source(f"file://{tmp_path}/t")
    told = read(made, made.first(), made.latest(made.first(), None))
    assert lakes.folded(told) == ["(1, 'a')", "(None, None)"]
