"""The database sink: rows by key and the batch in one transaction, killed, repeated, put back, started anew."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from database_batches import KEY, ONE, A, B, C, batch, content, into, one_row

from aggloom.errors import CheckpointError, SinkError, SpecError
from aggloom.runtime.connectors.database.options import database_options
from aggloom.runtime.connectors.database.sink import DatabaseSink
from aggloom.runtime.connectors.registry import sink_options
from aggloom.runtime.sinks.net import has_old_rows, net_by_key
from aggloom.runtime.values.changelog import ChangelogLawError, fold
from tests.sinks.test_delta_sink import EVERY, ROWS


def test_rows_by_key_each_batch_once(tmp_path: Path) -> None:
    file = tmp_path / "db"
    sink = into(file)
    assert sink.write(*batch(("+I", *A), ("+I", *C)), 0, "id")
    assert content(file) == [("a", 1, "1.50"), ("b", None, None)]
    assert not sink.write(*batch(("+I", *A), ("+I", *C)), 0, "id")
    # A key with NULL in it is one key, too.
    assert sink.write(
        *batch(("-U", *A), ("+U", *B), ("-D", *C), ("+I", "b", None, Decimal(3))), 1, "id"
    )
    assert content(file) == [("a", 1, "2.00"), ("b", None, "3.00")]
    assert sink.write(*batch(("-D", "b", None, Decimal(3)), ("-D", *B)), 2, "id")
    assert content(file) == []
    assert [row[:3] for row in content(file, "aggloom_batches")] == [("id", "t", 2)]
    assert sink.write(*batch(), 3, "id")
    with pytest.raises(
        CheckpointError, match=r"it has batch 3 .* batch 5 is next: those in between"
    ):
        sink.write(*batch(("+I", *A)), 5, "id")


def test_what_comes_first_does_not_count_where_each_row_is_told() -> None:
    changes = [("+I", *B), ("-D", *A), ("+I", *C), ("-D", *C)]
    rows, kinds = batch(*changes)
    assert net_by_key(rows, kinds, KEY, True, "t") == [(("a", 1), B)]
    lone = batch(("+U", *A), ("+U", *B), ("-D", *C), ("+I", "z", 0, None))
    found = net_by_key(*lone, KEY, False, "t")
    assert found == [(("a", 1), B), (("b", None), None), (("z", 0), ("z", 0, None))]
    # A filter over the changes leaves one of a pair: the row is gone, or is there now.
    assert [has_old_rows(batch(*rows)[1]) for rows in ([("-U", *A)], [("+U", *A)], [])] == [
        True,
        False,
        True,
    ]
    assert net_by_key(*batch(("-U", *A)), KEY, True, "t") == [(("a", 1), None)]
    with pytest.raises(ChangelogLawError, match="has several rows"):
        net_by_key(*batch(("+I", *A), ("+I", *B)), KEY, True, "t")


def test_any_changelog_in_any_cuts_is_the_folded_table(tmp_path: Path) -> None:
    r = random.Random(7)
    for round_ in range(8):
        file, live, changes = tmp_path / f"{round_}", dict[Any, Any](), []
        for _ in range(60):
            key = r.choice(["a", "b", None]), r.choice([1, 2, None])
            new = (*key, r.choice([None, Decimal(1), Decimal("2.50")]))
            if key not in live:
                changes.append(("+I", *new))
            elif r.random() < 0.4:
                changes.append(("-D", *live.pop(key)))
                continue
            else:
                changes += [("-U", *live[key]), ("+U", *new)]
            live[key] = new
        has_old_rows = r.random() < 0.5
        told = changes if has_old_rows else [c for c in changes if c[0] != "-U"]
        at = number = 0
        while at < len(told):
            size = r.randrange(1, 20)
            part = batch(*told[at : at + size])
            for _ in range(r.choice([1, 1, 2])):
                # A new object is a new run.
                into(file, has_old_rows=has_old_rows).write(*part, number, "id")
            at, number = at + size, number + 1
        wanted = [(k, n, None if v is None else f"{v:.2f}") for k, n, v in fold(changes)]
        assert content(file) == sorted(wanted, key=repr)


def test_a_batch_that_fails_has_written_nothing(tmp_path: Path) -> None:
    file = tmp_path / "db"
    into(file).write(*batch(("+I", *A)), 0, "id")
    connection = sqlite3.connect(file)
    connection.execute(
        "CREATE TRIGGER no BEFORE INSERT ON t WHEN NEW.k = 'z' BEGIN SELECT RAISE(ABORT, 'not z'); END"
    )
    connection.commit()
    bad = batch(("+I", "c", 1, None), ("+I", "z", 1, None))
    with pytest.raises(SinkError, match=r"table t: not z\. Nothing of the batch was written"):
        into(file).write(*bad, 1, "id")
    assert content(file) == [("a", 1, "1.50")]
    connection.execute("DROP TRIGGER no")
    connection.commit()
    assert into(file).write(*bad, 1, "id")
    assert len(content(file)) == 3


def test_a_new_checkpoint_drops_no_write(tmp_path: Path) -> None:
    file = tmp_path / "db"
    for number in range(4):
        into(file).write(*batch(("+I", f"k{number}", 1, None)), number, "old")
    with pytest.raises(
        SinkError, match=r"rows that this checkpoint did not write.*existing=replace"
    ):
        into(file).write(*batch(("+I", *A)), 0, "new")
    assert len(content(file)) == 4
    assert into(file, existing="keep").write(*batch(("+I", *A)), 0, "new")
    assert len(content(file)) == 5
    assert into(file, existing="replace").write(*batch(("+I", *B)), 0, "newest")
    assert content(file) == [("a", 1, "2.00")]
    # Only the first batch replaces.
    assert into(file, existing="replace").write(*batch(("+I", *C)), 1, "newest")
    assert len(content(file)) == 2
    # The others are strangers now.
    with pytest.raises(
        CheckpointError, match=r"no batch of this checkpoint, .* batch 4 .*existing=keep"
    ):
        into(file).write(*batch(("+I", *A)), 4, "old")
    assert into(file, existing="keep").write(*batch(("+I", *A)), 4, "old")


def test_a_checkpoint_that_was_put_back(tmp_path: Path) -> None:
    file = tmp_path / "db"
    for number in range(3):
        into(file).write(*batch(("+I", f"k{number}", 1, None)), number, "id")
    with pytest.raises(CheckpointError, match=r"it has batch 2 .* runs batch 1 again.*replay=true"):
        into(file).write(*batch(("+I", "k1", 1, None)), 1, "id")
    assert into(file, replay=True).write(*batch(("+I", "k1", 1, Decimal(5))), 1, "id")
    assert ("k1", 1, "5.00") in content(file)
    # The last batch again, with other rows: written, not passed over.
    assert into(file).write(*batch(("+I", "k1", 1, Decimal(6))), 1, "id")


def test_a_table_that_was_dropped_is_not_made_again(tmp_path: Path) -> None:
    """It would lack what earlier batches had written."""
    file = tmp_path / "db"
    into(file).write(*batch(("+I", *A)), 0, "id")
    connection = sqlite3.connect(file)
    connection.execute("DROP TABLE t")
    connection.commit()
    with pytest.raises(SinkError, match=r"no such table.*would be missing.*existing=replace"):
        into(file).write(*batch(("+I", *B)), 1, "id")
    assert into(file).write(*batch(("+I", *B)), 0, "new")
    assert len(content(file)) == 1


def test_one_row_without_a_key(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    sink = into(tmp_path / "db", key=())
    sink.write(*batch(("+I", 1), schema=schema), 0, "id")
    sink.write(*batch(("-U", 1), ("+U", 2), schema=schema), 1, "id")
    assert content(tmp_path / "db") == [(2,)]
    sink.write(*batch(("-D", 2), schema=schema), 2, "id")
    assert content(tmp_path / "db") == []


def test_a_table_that_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "db"
    connection = sqlite3.connect(file)
    connection.execute('CREATE TABLE t ("k" TEXT, "n" INTEGER)')
    with pytest.raises(SinkError, match=r"no column .v.\. ALTER TABLE .t. ADD COLUMN .v. TEXT"):
        into(file).write(*batch(("+I", *A)), 0, "id")
    connection.execute('ALTER TABLE t ADD COLUMN "v" TEXT')
    connection.commit()
    with pytest.raises(SinkError, match=r"needs a unique index of the result's key \(k, n\)"):
        into(file).write(*batch(("+I", *A)), 0, "id")
    connection.execute("CREATE UNIQUE INDEX u ON t (k, n)")
    connection.commit()
    assert into(file).write(*batch(("+I", *A)), 0, "id")
    with pytest.raises(SinkError, match="no such table"):
        into(file, table="other", create=False).write(*batch(("+I", *A)), 0, "id")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"kind": "databse"}, "Did you mean 'database'"),
        ({}, "give its kind"),
        ({"kind": "table", "path": "x", "y": 1}, "no option 'y'"),
        ({"kind": "database"}, "give it table, as in"),
        ({"kind": "database", "table": "t"}, "give it connect, as in"),
        ({"kind": "database", "table": "t", "connect": "x", "tabel": 1}, "Did you mean 'table'"),
        ({"kind": "database", "table": "t", "connect": "x", "existing": "y"}, "known are error, keep"),
        ({"kind": "database", "table": "t", "connect": "x", "create": "y"}, "must be true or false"),
        ({"kind": "database", "table": "t", "connect": "x", "driver": "y"}, "give dialect="),
        ({"kind": "database", "table": "t", "connect": "x", "dialect": "y"}, "no dialect 'y'"),
        ({"kind": "database", "table": "t", "connect": "x", "lock_timeout": "soon"}, "lock_timeout is 'soon'"),
        ({"kind": "database", "table": "t", "connect": "x", "lock_timeout": 0}, "lock_timeout is 0 .* at least 1"),
        ({"kind": "database", "table": "t", "connect": "jdbc:postgresql://h/d?user=u"}, "URL of Java's .*postgresql://USER"),
    ],
)  # fmt: skip
def test_options_that_nobody_reads(given: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        sink_options(given)


def test_options_of_a_command_line() -> None:
    told = {"kind": "database", "table": "t", "connect": "x", "create": "false", "replay": "true"}
    kind, options = sink_options(told)
    assert (kind, options.create, options.replay) == ("database", False, True)
    assert sink_options({"kind": "jsonl", "path": "out"}) == ("jsonl:out", None)
    told = {"table": "t", "connect": "x", "driver": "no_such", "dialect": "sqlite"}
    with pytest.raises(SpecError, match="cannot be imported"):
        DatabaseSink(database_options(told), KEY, True).write(*batch(("+I", *A)), 0, "id")


@pytest.mark.parametrize(
    ("column", "refused", "fits"),
    [
        ("DECIMAL(20,4)", ("decimal", "text"), ("avg", "money", "big", "at")),
        ("STRING", ("text", "decimal"), ("day", "money")),
        ("INTEGER", ("decimal", "text"), ("avg", "int", "big")),
        ("REAL", ("big", "decimal", "text"), ("avg", "single", "int", "money")),
        ("VARCHAR(3)", ("avg", "single"), ("text", "decimal", "big", "at")),
        ("", (), tuple(ONE)),
    ],
)
def test_types_of_a_table_in_sqlite(
    tmp_path: Path, column: str, refused: tuple[str, ...], fits: tuple[str, ...]
) -> None:
    for name in (*refused, *fits):
        file = tmp_path / name
        connection = sqlite3.connect(file)
        connection.execute(f"CREATE TABLE t (id INTEGER UNIQUE, v {column})")
        connection.close()
        made = into(file, ("id",), table="main.t")
        if name in refused:
            with pytest.raises(SinkError, match=r"t: .*column 'v' is .* in the result.*cast=true"):
                made.write(*one_row(name), 0, "id")
            made = into(file, ("id",), cast="true")
        assert made.write(*one_row(name), 0, "id")


@pytest.mark.parametrize("collation", ["NOCASE", "RTRIM"])
@pytest.mark.parametrize("index", ["", "BINARY", "NOCASE"])
def test_collations_in_sqlite(tmp_path: Path, collation: str, index: str) -> None:
    """Keys that differ are rows of their own, or the table is refused."""
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    names = ("a", "A", "a ")
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute(f"CREATE TABLE t (k TEXT COLLATE {collation}, v INTEGER)")
    connection.execute(f"CREATE UNIQUE INDEX i ON t (k {index and f'COLLATE {index}'})")
    connection.close()
    made = into(tmp_path / "db", ("k",), cast=True)
    rows = batch(*(("+I", name, place) for place, name in enumerate(names)), schema=schema)
    if index != "BINARY":
        with pytest.raises(
            SinkError, match=r"column 'k' of the key .*COLLATE BINARY, as its index"
        ):
            made.write(*rows, 0, "id")
        return
    assert made.write(*rows, 0, "id")
    gone = batch(("-D", "A", 1), schema=schema)
    assert made.write(*gone, 1, "id")
    assert sorted(content(tmp_path / "db")) == [("a", 0), ("a ", 2)]


def test_nan_in_sqlite(tmp_path: Path) -> None:
    """It would be NULL there, and as a key never be found again."""
    schema = pa.schema([("k", pa.float64()), ("v", pa.float64())])
    nan = float("nan")
    for key, value, column in ((nan, 1.0, "k"), (1.0, nan, "v")):
        rows = batch(("+I", key, value), schema=schema)
        with pytest.raises(SinkError, match=f"column '{column}' has NaN"):
            into(tmp_path / column, ("k",)).write(*rows, 0, "id")
    with pytest.raises(SinkError, match="column 'k' has NaN"):
        into(tmp_path / "db", ("k",), cast=True).write(
            *batch(("+I", nan, 1.0), schema=schema), 0, "id"
        )
    assert into(tmp_path / "db", ("k",), cast=True).write(*rows, 0, "id")
    assert content(tmp_path / "db") == [(1.0, None)]
    # What a row was does not count where it goes.
    assert into(tmp_path / "db", ("k",)).write(*batch(("-D", 1.0, nan), schema=schema), 1, "id")


def test_every_type_is_read_as_it_was_written(tmp_path: Path) -> None:
    """SQLite has few types: texts of decimals, times and documents come back as the values that they were."""
    made = into(tmp_path / "db", ("k",))
    zone = EVERY.get_field_index("z")
    schema = EVERY.set(zone, pa.field("z", pa.timestamp("us", "UTC")))
    rows, kinds = batch(*(("+I", *row) for row in ROWS), schema=schema)
    assert made.write(rows, kinds, 0, "id")
    stored = made.read(schema)
    assert stored.sort_by("k").to_pylist() == rows.sort_by("k").to_pylist()
    assert made.last_batch("id") == 0
    with closing(sqlite3.connect(tmp_path / "db")) as connection:
        connection.execute("UPDATE t SET d = 'much' WHERE k = -1")
        connection.commit()
    with pytest.raises(SinkError, match="no result of this query"):
        made.read(schema)
