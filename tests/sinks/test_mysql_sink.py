"""The database sink in MySQL or MariaDB: its types, its unique indexes, what the server would do without an error."""

from __future__ import annotations

import datetime as dt
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from database_batches import KEY, SCHEMA, A, B, C, batch, one_row

import aggloom as al
from aggloom.codegen.spec.database_url import DatabaseUrl
from aggloom.errors import CheckpointError, SinkError, SinkTimeoutError
from aggloom.runtime.connectors.database import row_blocks
from aggloom.runtime.connectors.database.options import database_options
from aggloom.runtime.connectors.database.sink import DatabaseSink
from aggloom.runtime.lookup.request import Request, Times
from aggloom.runtime.lookup.tables import OpenTable, close_all
from aggloom.runtime.sinks.stop import STOP


@pytest.fixture(scope="module")
def mysql() -> Iterator[Any]:
    from mysql_server import server

    with server() as made:
        yield made


def into(mysql: Any, name: str, key: tuple[str, ...] = KEY, **options: Any) -> DatabaseSink:
    told = {"table": name, "connect": mysql.url, "driver": "pymysql", **options}
    return DatabaseSink(database_options(told), key, True)


EVERY = pa.schema(
    [
        ("id", pa.int64()),
        ("b%s", pa.bool_()),
        ("i8", pa.int8()),
        ("f32", pa.float32()),
        ("f", pa.float64()),
        ("d", pa.decimal128(38, 10)),
        ("t`x", pa.string()),
        ("y", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("clock", pa.time64("us")),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("row", pa.struct([("a", pa.decimal128(4, 2)), ("b", pa.string())])),
        ("document", pa.json_(pa.string())),
    ]
)


def test_every_type_in_mysql(mysql: Any) -> None:
    noon = dt.datetime(2020, 1, 2, 12, 0, 0, 123456)
    number, early = Decimal("-1234567890123456789012345678.0123456789"), dt.datetime(1, 1, 1)
    single = pa.scalar(0.1, pa.float32()).as_py()
    full = (
        *(1, True, -5, single, 5e-324, number, "ü🐍\0'\\\"%s \n ", bytes(range(256)), noon.date()),
        *(noon.replace(tzinfo=dt.UTC), early, dt.time(23, 59, 59, 999999), [1, None], [("k%", 2)]),
        *({"a": Decimal("1.50"), "b": None}, '{"a":[1.5,"\\"🐍"]}'),
    )
    empty = (2, *([None] * 15))
    late = (3, False, 5, -1e30, 1 / 3, Decimal(0), "", b"", dt.date.max, None, dt.datetime.max)
    rows = [
        ("+I", *full),
        ("+I", *empty),
        ("+I", *late, dt.time(0), [], [], {"a": None, "b": '"'}, "7"),
    ]
    sink = into(mysql, "every", ("id",))
    assert sink.write(*batch(*rows, schema=EVERY), 0, "id")
    assert not sink.write(*batch(*rows, schema=EVERY), 0, "id")
    changed = (1, False, *full[2:])
    assert sink.write(*batch(("-U", *full), ("+U", *changed), schema=EVERY), 1, "id")
    expected = batch(("+I", *changed), *rows[1:], schema=EVERY)[0]
    assert sink.read(EVERY).sort_by("id").equals(expected)
    assert mysql.ask("SELECT `at`, wall FROM every WHERE id = 1") == [(noon, early)], "all in UTC"
    assert (sink.last_batch("id"), sink.last_batch("another")) == (1, None)


KEYS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "t": (pa.string(), ("a", "A", "a ", "a  ", "ä", "", "\0", "a\\", "%s")),
    "y": (pa.binary(), (b"", b"\0", b"\0\0", b"a")),
    "d": (pa.decimal128(38, 2), (Decimal("1.50"), Decimal("90071992547409930000.01"))),
    "w": (pa.timestamp("us"), (dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 2, 0, 0, 0, 1))),
    "f": (pa.float64(), (0.1, 1e22, -1.0)),
    "b": (pa.bool_(), (True, False)),
    "i": (pa.int64(), (2**53, 2**53 + 1)),
    "c": (pa.time64("us"), (dt.time(1), dt.time(1, 0, 0, 1))),
    "day": (pa.date32(), (dt.date(2020, 1, 2), dt.date(2020, 1, 3))),
}


@pytest.mark.parametrize("seed", [1, 2])
def test_random_changes_leave_the_table(
    mysql: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Keys of all types, with NULL; each batch ends before its commit, then again between sink and Spark's commit."""
    draw = random.Random(seed)
    monkeypatch.setattr(row_blocks, "_ROWS", 7)
    monkeypatch.setattr(row_blocks, "_DELETIONS", 3)
    names = draw.sample(list(KEYS), 3)
    schema = pa.schema(
        [*((name, KEYS[name][0]) for name in names), ("v", pa.int32()), ("s", pa.string())]
    )
    live: dict[Any, Any] = {}
    for number in range(8):
        changes = []
        for _ in range(30):
            key = tuple(draw.choice([*KEYS[name][1], None]) for name in names)
            if key in live:
                changes.append(("-U", *live.pop(key)))
            if draw.random() < 0.6:
                live[key] = (
                    *key,
                    draw.choice([None, number, -number]),
                    draw.choice(["x ", "X", None]),
                )
                changes.append(("+I", *live[key]))
        made = into(mysql, f"random_{seed}", tuple(names))
        write = made._write

        def killed(*given: Any, write: Any = write) -> None:
            write(*given)
            raise KeyboardInterrupt

        made._write = killed  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            made.write(*batch(*changes, schema=schema), number, "id")
        made._write = write  # type: ignore[method-assign]
        assert made.write(*batch(*changes, schema=schema), number, "id")
        assert not into(mysql, f"random_{seed}", tuple(names)).write(
            *batch(*changes, schema=schema), number, "id"
        )
        table = sorted(map(repr, zip(*made.read(schema).to_pydict().values(), strict=True)))
        assert table == sorted(map(repr, live.values()))


def test_a_result_of_one_row_and_keys_alone(mysql: Any) -> None:
    schema = pa.schema([("n", pa.int64())])
    made = into(mysql, "total", ())
    assert made.write(*batch(("+I", 1), schema=schema), 0, "id")
    assert made.write(*batch(("-U", 1), ("+U", 2), schema=schema), 1, "id")
    assert mysql.ask("SELECT * FROM total") == [(2,)]
    made = into(mysql, "alone", ("n",))
    assert made.write(*batch(("+I", 1), ("+I", None), schema=schema), 0, "id")
    assert made.write(*batch(("-U", 1), ("+U", 1), ("-D", None), schema=schema), 1, "id")
    assert mysql.ask("SELECT * FROM alone") == [(1,)]


@pytest.mark.parametrize(
    ("column", "refused", "fits"),
    [
        ("INT", ("avg", "single", "decimal", "money", "text"), ("int",)),
        ("DECIMAL(20, 2)", ("avg", "decimal", "text", "day"), ("money", "big")),
        ("FLOAT", ("avg", "int", "big", "money"), ("single",)),
        ("DOUBLE", ("big", "decimal", "text"), ("avg", "single", "int", "money")),
        ("DOUBLE(10, 2)", ("avg", "int"), ()),
        ("DATETIME", ("at", "wall", "text"), ()),
        ("DATETIME(6)", ("text", "day"), ("at", "wall")),
        ("TIMESTAMP(6) NULL", (), ("at", "wall")),
        ("DATE", ("at", "wall"), ("day",)),
        ("TIME", ("clock",), ()),
        ("TIME(6)", ("wall",), ("clock",)),
        ("ENUM('0123456789.555')", ("text",), ()),
        ("YEAR", ("int",), ()),
        ("VARCHAR(20)", ("avg", "int", "at"), ("text",)),
        ("LONGTEXT", ("avg",), ("text", "list")),
        ("BLOB", ("text",), ()),
    ],
)  # fmt: skip
def test_types_of_a_table(
    mysql: Any, column: str, refused: tuple[str, ...], fits: tuple[str, ...]
) -> None:
    mysql.ask("DROP TABLE IF EXISTS typed", f"CREATE TABLE typed (id BIGINT UNIQUE, v {column})")
    for name in (*refused, *fits):
        made = into(mysql, "typed", ("id",), existing="replace")
        rows, kinds = one_row(name)
        if name in fits:
            assert made.write(rows, kinds, 0, f"{column} {name}")
            assert made.read(rows.schema).equals(rows)
            continue
        with pytest.raises(SinkError, match=r"column 'v' is .*ALTER TABLE `typed` MODIFY `v` "):
            made.write(rows, kinds, 0, f"{column} {name}")


TEXT = pa.schema([("k", pa.string()), ("y", pa.binary()), ("n", pa.int32())])


@pytest.mark.parametrize(
    ("columns", "row", "why"),
    [
        ("k VARCHAR(3) COLLATE utf8mb4_bin, y BLOB, n INT UNIQUE", ("abc ", None, 1), "a text of 4 characters"),
        ("k TINYTEXT, y BLOB, n INT UNIQUE", ("ü" * 128, None, 1), "a text of 256 bytes"),
        ("k CHAR(3), y BLOB, n INT UNIQUE", ("a ", None, 1), "blanks at the end do not count"),
        ("k TEXT, y BINARY(3), n INT UNIQUE", (None, b"ab", 1), "fills shorter values up with zeros"),
        ("k TEXT, y VARBINARY(3), n INT UNIQUE", (None, b"abcd", 1), "has 4 bytes, and is varbinary"),
        ("k TEXT, y BLOB, n INT PRIMARY KEY AUTO_INCREMENT", (None, None, None), "'n' has NULL, and is NOT NULL"),
        ("k TEXT, y BLOB, n TINYINT UNIQUE", (None, None, 1000), "Out of range value"),
        ("k TEXT CHARACTER SET latin1, y BLOB, n INT UNIQUE", ("🐍", None, 1), "Incorrect string value"),
        ("k TEXT, y BLOB, n INT UNIQUE, CHECK (n > 5)", (None, None, 1), "CONSTRAINT|constraint"),
        ("k TEXT, y BLOB, n INT", (None, None, 1), r"needs a unique index of the result's key \(n\)"),
        ("k TEXT, y BLOB, n INT, UNIQUE (n, k(9))", (None, None, 1), "another unique index"),
        ("k VARCHAR(9) UNIQUE, y BLOB, n INT UNIQUE", (None, None, 1), "another unique index, k, by which"),
        ("k TEXT, y BLOB, n INT UNIQUE, code INT DEFAULT 0 UNIQUE", (None, None, 1), "unique index, code, by"),
        ("k TEXT, y BLOB, n INT UNIQUE) ENGINE = MyISAM --", (None, None, 1), "is stored by MyISAM.*ENGINE = InnoDB"),
    ],
)  # fmt: skip
def test_tables_and_values_that_the_server_would_change(
    mysql: Any, columns: str, row: tuple[Any, ...], why: str
) -> None:
    mysql.ask("DROP TABLE IF EXISTS bad", f"CREATE TABLE bad ({columns}\n)" if "--" not in columns else
              f"CREATE TABLE bad ({columns.removesuffix(' --')}")  # fmt: skip
    good = [("+I", None, b"abc", 7)] if "BINARY(3)" in columns else []
    with pytest.raises(SinkError, match=why):
        into(mysql, "bad", ("n",)).write(*batch(*good, ("+I", *row), schema=TEXT), 0, "id")
    assert mysql.ask("SELECT * FROM bad") == []


def test_a_table_of_ones_own(mysql: Any) -> None:
    """Other columns keep what they have; a counted number may be unique, and so may more than the key."""
    mysql.ask(
        "CREATE TABLE own (id INT PRIMARY KEY AUTO_INCREMENT, k VARCHAR(9) COLLATE utf8mb4_bin, n INT NOT NULL, "
        "y BINARY(1), note VARCHAR(9) DEFAULT 'x', UNIQUE (n), UNIQUE (n, k))"
    )
    made = into(mysql, "own", ("n",))
    assert made.write(*batch(("+I", "a", b"a", 0), ("+I", "b", None, 2), schema=TEXT), 0, "id")
    mysql.ask("UPDATE own SET note = 'mine' WHERE n = 0")
    changes = batch(("-U", "a", b"a", 0), ("+U", "A", b"b", 0), ("-D", "b", None, 2), schema=TEXT)
    assert made.write(*changes, 1, "id")
    assert mysql.ask("SELECT k, n, y, note FROM own") == [("A", 0, b"b", "mine")]
    mysql.ask("ALTER TABLE own DROP INDEX n")
    with pytest.raises(SinkError, match="needs a unique index"):
        made.write(*batch(("-U", "A", b"b", 0), ("+U", "B", b"b", 0), schema=TEXT), 2, "id")


def test_keys_that_are_one_to_the_table(mysql: Any) -> None:
    mysql.ask(
        "CREATE TABLE loose (k VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci UNIQUE, y BLOB, n INT)",
        "CREATE TABLE blanks (k VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin UNIQUE, y BLOB, n INT)",
        "CREATE TABLE nothing (k VARCHAR(9))",
        "CREATE VIEW seen AS SELECT * FROM blanks",
    )
    rows = batch(("+I", "A", None, 0), ("+I", "a", None, 1), schema=TEXT)
    with pytest.raises(
        SinkError, match=r"'k' of the key texts that differ may be equal.*utf8mb4_bin"
    ):
        into(mysql, "loose", ("k",)).write(*rows, 0, "id")
    assert into(mysql, "blanks", ("k",)).write(*rows, 0, "id")
    for kind in ("+I", "-D"):
        with pytest.raises(SinkError, match=r"'k' has 'a ', .*blanks at the end.*RTRIM\(k\)"):
            into(mysql, "blanks", ("k",)).write(*batch((kind, "a ", None, 1), schema=TEXT), 1, "id")
    with pytest.raises(
        SinkError, match=r"no column 'y', 'n'. ALTER TABLE `nothing` ADD COLUMN `y`"
    ):
        into(mysql, "nothing", ("k",)).write(*rows, 0, "id")
    with pytest.raises(SinkError, match="seen is no table of its own"):
        into(mysql, "seen", ("k",), existing="keep").write(*rows, 0, "id")
    with pytest.raises(SinkError, match=r"a text of 769 characters, and is .*digest"):
        into(mysql, "long", ("k",)).write(*batch(("+I", "a" * 769, None, 0), schema=TEXT), 0, "id")
    assert into(mysql, "long", ("k",)).write(
        *batch(("+I", "🐍" * 768, None, 0), schema=TEXT), 0, "i"
    )


def test_values_that_there_are_none_of(mysql: Any) -> None:
    schema = pa.schema([("k", pa.int32()), ("v", pa.float64()), ("t", pa.string())])
    for value in (float("nan"), float("-inf")):
        with pytest.raises(SinkError, match=r"'v' has NaN or an infinite number.*cast=true"):
            into(mysql, "finite", ("k",)).write(
                *batch(("+I", 1, value, ""), schema=schema), 0, "id"
            )
        with pytest.raises(SinkError, match="'v' has NaN"):
            into(mysql, "inf", ("v",), cast=True).write(
                *batch(("+I", 1, value, ""), schema=schema), 0, "id"
            )
    rows = batch(("+I", 1, float("nan"), ""), schema=schema)
    assert into(mysql, "finite", ("k",), cast=True).write(*rows, 0, "id")
    assert mysql.ask("SELECT v FROM finite") == [(None,)]
    packet = mysql.ask("SELECT @@max_allowed_packet")[0][0]
    long = batch(("+I", 2, None, "x" * packet), ("+I", 3, None, ""), schema=schema)
    with pytest.raises(SinkError, match=r"a row takes .*max_allowed_packet"):
        into(mysql, "finite", ("k",)).write(*long, 1, "id")
    long = batch(("+I", 2, None, "x" * (packet - 1000)), ("+I", 3, None, ""), schema=schema)
    assert into(mysql, "finite", ("k",)).write(*long, 1, "id")


def test_two_runs_of_a_checkpoint_do_not_mix(mysql: Any) -> None:
    sink = into(mysql, "zombie")
    sink.write(*batch(("+I", *A)), 0, "id")
    slow = into(mysql, "zombie")
    asked = slow._last

    def overtaken(*given: Any) -> Any:
        found = asked(*given)
        sink.write(*batch(("-U", *A), ("+U", *B)), 1, "id")
        sink.write(*batch(("-U", *B), ("+U", "a", 1, Decimal(9))), 2, "id")
        return found

    slow._last = overtaken  # type: ignore[method-assign]
    with pytest.raises(CheckpointError, match="another run of this checkpoint"):
        slow.write(*batch(("-U", *A), ("+U", *B)), 1, "id")
    assert mysql.ask("SELECT v FROM zombie") == [(9,)]
    mysql.ask("DROP TABLE zombie")
    with pytest.raises(SinkError, match=r"doesn't exist.*would be missing.*existing=replace"):
        into(mysql, "zombie").write(*batch(("+I", *C)), 3, "id")


def test_a_lock_is_waited_for_until_its_limit_or_the_stop(mysql: Any) -> None:
    into(mysql, "locked").write(*batch(("+I", *A)), 0, "id")
    change = batch(("-U", *A), ("+U", *B))
    with closing(mysql.connect(autocommit=False)) as other, other.cursor() as cursor:
        cursor.execute("SELECT * FROM locked FOR UPDATE")
        with pytest.raises(SinkTimeoutError, match=r"another connection .*\(lock_timeout\)"):
            into(mysql, "locked", lock_timeout=1).write(*change, 1, "id")
        threading.Timer(0.5, STOP.ask).start()
        try:
            with pytest.raises(SinkError, match="interrupted"):
                into(mysql, "locked").write(*change, 1, "id")
        finally:
            STOP.reset()
        threading.Timer(0.5, other.rollback).start()
        assert into(mysql, "locked").write(*change, 1, "id")


def test_two_queries_that_write_the_same_keys(mysql: Any) -> None:
    sinks = [into(mysql, "shared", ("n",), existing="keep") for _ in range(2)]
    sinks[0].write(*batch(), 0, "both")
    wrong: list[Exception] = []

    def run(number: int) -> None:
        draw = random.Random(number)
        try:
            for at in range(12):
                chosen = draw.sample(range(300), draw.choice([10, 200]))
                rows = [(draw.choice(["+I", "-D"]), f"{number}", n, Decimal(at)) for n in chosen]
                sinks[number].write(*batch(*rows, schema=SCHEMA), at, f"id {number}")
        except SinkError as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.parametrize("moment", ["before", "within"])
def test_a_server_that_is_away_for_seconds(mysql: Any, moment: str) -> None:
    sink = into(mysql, f"away_{moment}")
    sink.write(*batch(("+I", *A)), 0, "id")
    write, many = sink._write, batch(*(("+I", f"k{n}", n, Decimal(n)) for n in range(500)))
    stopped = threading.Event()

    def stop() -> None:
        if not stopped.is_set():
            stopped.set()
            mysql.stop(signal.SIGKILL)
            threading.Timer(0.5, mysql.start).start()

    def interrupted(*given: Any) -> None:
        write(*given)
        stop()

    if moment == "before":
        stop()
    else:
        sink._write = interrupted  # type: ignore[method-assign]
    sink.write(*many, 1, "id")
    assert stopped.is_set()
    assert mysql.ask(f"SELECT COUNT(*) FROM away_{moment}") == [(501,)]


def test_a_lookup_table(mysql: Any) -> None:
    mysql.ask(
        "CREATE TABLE dim (k INT PRIMARY KEY, price DECIMAL(10, 2), at TIMESTAMP(6) NULL, `name ``%s` VARCHAR(9)) "
        "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "SET time_zone = '+00:00'",
        "INSERT INTO dim VALUES (1, 1.25, '2026-01-01', 'a'), (2, 2.25, NULL, 'A')",
    )
    url = DatabaseUrl(f"jdbc:{mysql.url}", "root")
    columns = "k INT, price DECIMAL(10, 2), at TIMESTAMP"
    table = al.lookup_table(columns, connect=url, table="tests.dim", quote=url.quote)
    first = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    opened = OpenTable(Request("dim", table, ("k",), table.columns), Times())
    assert opened.answers([(1,), (3,)]) == [[(1, Decimal("1.25"), first)], []]
    named = al.lookup_table("k INT, `name ``%s` STRING", connect=url, table="dim", quote="`")
    opened = OpenTable(Request("dim", named, ("name `%s",), named.columns), Times())
    exact = opened.answers([("a",), ("b",)])
    assert exact == [[(1, "a")], []], "texts are compared exactly"
    close_all()
