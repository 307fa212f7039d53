"""The database sink in PostgreSQL: its types, its unique indexes, two runs of a checkpoint, a server that dies."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from database_batches import KEY, A, B, C, batch, one_row

from aggloom.errors import CheckpointError, SinkError
from aggloom.runtime.connectors.database.options import database_options
from aggloom.runtime.connectors.database.sink import DatabaseSink


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    from postgres import server

    with server() as made:
        yield made


EVERY = pa.schema(
    [
        ("id", pa.int64()),
        ("b%", pa.bool_()),
        ("i8", pa.int8()),
        ("f", pa.float64()),
        ("d", pa.decimal128(20, 4)),
        ('t"x', pa.string()),
        ("y", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("row", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("document", pa.json_(pa.string())),
    ]
)


def test_every_type_in_postgresql(postgres: Any) -> None:
    noon = dt.datetime(2020, 1, 2, 12, 0, 0, 123456)
    full = (
        *(1, True, -5, float("inf"), Decimal("-1.2500"), "ü'\"", b"\0\xff", noon.date()),
        *(noon.replace(tzinfo=dt.UTC), noon, [1, None], [("k", 2)], {"a": 1, "b": None}),
        '{"a":[1.5,"x"]}',
    )
    empty = (2, *([None] * 9), [], [], {"a": None, "b": None}, '"x"')
    told = {"table": "every", "connect": postgres.dsn}
    sink = DatabaseSink(database_options(told), ("id",), True)
    assert sink.write(*batch(("+I", *full), ("+I", *empty), schema=EVERY), 0, "id")
    assert not sink.write(*batch(("+I", *full), ("+I", *empty), schema=EVERY), 0, "id")
    assert sink.write(
        *batch(("-U", *full), ("+U", *full[:1], False, *full[2:]), schema=EVERY), 1, "id"
    )
    with postgres.connect() as connection:
        found = connection.execute("SELECT * FROM every ORDER BY id").fetchall()
    assert found[0] == (1, False, *full[2:11], {"k": 2}, {"a": 1, "b": None}, {"a": [1.5, "x"]})
    assert found[1] == (2, *([None] * 9), [], {}, {"a": None, "b": None}, "x")
    read = sink.read(EVERY).sort_by("id")
    assert read.equals(batch(("+I", 1, False, *full[2:]), ("+I", *empty), schema=EVERY)[0])
    assert (sink.last_batch("id"), sink.last_batch("another")) == (1, None)


@pytest.mark.parametrize(
    ("column", "refused", "fits"),
    [
        ("INTEGER", ("avg", "single", "decimal", "money"), ("int",)),
        ("whole", ("avg", "decimal"), ("int",)),
        ("NUMERIC", ("avg", "single"), ("decimal", "big", "int")),
        ("NUMERIC(20,2)", ("avg", "decimal", "text"), ("money", "big")),
        ("NUMERIC(20)", ("money",), ("int",)),
        ("MONEY", ("decimal",), ("money",)),
        ("REAL", ("avg", "int", "big", "money", "text"), ("single",)),
        ("DOUBLE PRECISION", ("big", "decimal", "text"), ("avg", "single", "int", "money")),
        ("DATE", ("at", "wall", "text"), ("day",)),
        ("TIMESTAMPTZ(3)", ("at", "wall", "text"), ("day",)),
        ("TIMESTAMP(0)", ("at", "wall"), ("day",)),
        ("TIMESTAMP", ("text",), ("at", "wall", "day")),
        ("TIME(3)", ("at", "clock"), ()),
        ("TIME", ("wall",), ("clock",)),
        ("INTEGER[]", ("list",), ()),
        ("REAL[]", ("list",), ()),
        ("DOUBLE PRECISION[]", (), ("list",)),
        ("NAME", ("text",), ()),
        ("TEXT", (), ("text", "avg", "decimal", "big", "at")),
        ("VARCHAR(20)", (), ("text",)),
    ],
)
def test_types_of_a_table(
    postgres: Any, column: str, refused: tuple[str, ...], fits: tuple[str, ...]
) -> None:
    with postgres.connect() as connection:
        connection.execute("DROP DOMAIN IF EXISTS whole CASCADE; CREATE DOMAIN whole AS INTEGER")
        for name in (*refused, *fits):
            connection.execute(f"DROP TABLE IF EXISTS typed_{name}")
            connection.execute(f"CREATE TABLE typed_{name} (id BIGINT UNIQUE, v {column})")
    for name in (*refused, *fits):
        told = {"table": f"typed_{name}", "connect": postgres.dsn, "existing": "replace"}
        made = DatabaseSink(database_options(told), ("id",), True)
        if name not in refused:
            assert made.write(*one_row(name), 0, column)
            continue
        with pytest.raises(SinkError) as error:
            made.write(*one_row(name), 0, column)
        assert "column 'v' is " in str(error.value) and "cast=true" in str(error.value)
        assert f'ALTER TABLE "typed_{name}" ALTER COLUMN "v" TYPE ' in str(error.value)
        with postgres.connect() as connection:
            assert connection.execute(f"SELECT * FROM typed_{name}").fetchall() == []
    if refused and refused != ("text",):
        name = refused[0]
        told = {
            "table": f"typed_{name}",
            "connect": postgres.dsn,
            "existing": "replace",
            "cast": True,
        }
        assert DatabaseSink(database_options(told), ("id",), True).write(*one_row(name), 0, column)


@pytest.mark.parametrize("count", [1, 40])
def test_times_in_a_session_of_another_zone(postgres: Any, count: int) -> None:
    noon = dt.datetime(2020, 1, 2, 12, 0, 0, 123456)
    schema = pa.schema(
        [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("wall", pa.timestamp("us"))]
    )
    rows = [("+I", n, noon.replace(tzinfo=dt.UTC), noon) for n in range(count)]
    with postgres.connect() as connection:
        connection.execute(
            "DROP TABLE IF EXISTS zoned; CREATE TABLE zoned (id BIGINT UNIQUE, at TIMESTAMP, wall TIMESTAMPTZ)"
        )
    url = f"{postgres.dsn} options='-c timezone=America/New_York'"
    told = {"table": "zoned", "connect": url, "existing": "replace"}
    assert DatabaseSink(database_options(told), ("id",), True).write(
        *batch(*rows, schema=schema), 0, f"{count}"
    )
    with postgres.connect() as connection:
        found = connection.execute("SELECT at, wall FROM zoned").fetchall()
    assert found == [(noon, noon.replace(tzinfo=dt.UTC))] * count


def test_keys_with_nulls_and_a_table_of_ones_own(postgres: Any) -> None:
    with postgres.connect() as connection:
        connection.execute(
            "CREATE SCHEMA s; CREATE TABLE s.t (k TEXT, n INT, v NUMERIC, note TEXT)"
        )
    told = {"table": "s.t", "connect": postgres.url, "create": "false"}
    sink = DatabaseSink(database_options(told), KEY, True)
    with pytest.raises(SinkError, match=r"needs a unique index of the result's key \(k, n\)"):
        sink.write(*batch(("+I", *A)), 0, "id")
    with postgres.connect() as connection:
        connection.execute("CREATE UNIQUE INDEX ON s.t (k, n)")
    sink.write(*batch(("+I", *A), ("+I", *C)), 0, "id")
    sink.write(*batch(("-U", *C), ("+U", "b", None, Decimal(3)), ("-D", *A)), 1, "id")
    with postgres.connect() as connection:
        assert connection.execute("SELECT k, n, v FROM s.t").fetchall() == [("b", None, 3)]
        connection.execute("DROP TABLE s.t")
    with pytest.raises(SinkError, match=r"does not exist.*would be missing.*existing=replace"):
        DatabaseSink(database_options(told), KEY, True).write(*batch(("+I", *A)), 2, "id")


def test_two_runs_of_a_checkpoint_do_not_mix(postgres: Any) -> None:
    """The older one, which has stood still since it asked what is there, may not write over the newer one."""
    sink = DatabaseSink(database_options({"table": "zombie", "connect": postgres.dsn}), KEY, True)
    sink.write(*batch(("+I", *A)), 0, "id")
    slow = DatabaseSink(database_options({"table": "zombie", "connect": postgres.dsn}), KEY, True)
    asked = slow._last

    def overtaken(*given: Any) -> Any:
        found = asked(*given)
        sink.write(*batch(("-U", *A), ("+U", *B)), 1, "id")
        sink.write(*batch(("-U", *B), ("+U", "a", 1, Decimal(9))), 2, "id")
        return found

    slow._last = overtaken  # type: ignore[method-assign]
    with pytest.raises(CheckpointError, match="another run of this checkpoint"):
        slow.write(*batch(("-U", *A), ("+U", *B)), 1, "id")
    with postgres.connect() as connection:
        assert connection.execute("SELECT v FROM zombie").fetchall() == [(9,)]


def test_a_server_that_dies_in_the_middle(postgres: Any) -> None:
    import signal

    told = {"table": "dying", "connect": postgres.dsn, "retry_timeout": 0}
    sink = DatabaseSink(database_options(told), KEY, True)
    sink.write(*batch(("+I", *A)), 0, "id")
    write, many = sink._write, batch(*(("+I", f"k{n}", n, None) for n in range(500)))

    def killed(*given: Any) -> None:
        write(*given)
        postgres.stop(signal.SIGQUIT)

    sink._write = killed  # type: ignore[method-assign]
    with pytest.raises(SinkError, match="the next run finds it and passes over it"):
        sink.write(*many, 1, "id")
    postgres.start()
    with postgres.connect() as connection:
        assert connection.execute("SELECT COUNT(*) FROM dying").fetchone() == (1,)
    again = DatabaseSink(database_options(told), KEY, True)
    assert again.write(*many, 1, "id")
    assert not again.write(*many, 1, "id")
    with postgres.connect() as connection:
        assert connection.execute("SELECT COUNT(*) FROM dying").fetchone() == (501,)
