"""The database sink in blocks: what many rows leave in a table is what each row leaves alone, of every type."""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from aggloom.errors import SinkError
from aggloom.runtime.connectors.database import sink as database
from aggloom.runtime.connectors.database.array_texts import array_text
from aggloom.runtime.connectors.database.dialects import DIALECTS
from aggloom.runtime.connectors.database.options import database_options
from aggloom.runtime.connectors.database.sink import DatabaseSink
from aggloom.runtime.sinks.net import net_rows
from aggloom.runtime.values.changelog import parse_kinds


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    from postgres import server

    with server() as made:
        yield made


TEXTS = (
    "",
    "NULL",
    "null",
    "{",
    "}",
    ",",
    '"',
    "\\",
    "\\\\",
    'a"b\\',
    " a ",
    "\t\n\r",
    "ü€🐍",
    "'",
    "%s",
    "$1",
)
NOON = dt.datetime(2020, 1, 2, 12, 0, 0, 123456)
ENDS = (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), NOON)
VALUES: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "b%": (pa.bool_(), (True, False)),
    "i8": (pa.int8(), (-128, 127, 0)),
    "i16": (pa.int16(), (-32768, 32767)),
    "i32": (pa.int32(), (-(1 << 31), (1 << 31) - 1)),
    "i64": (pa.int64(), (-(1 << 63), (1 << 63) - 1, 0)),
    "f32": (pa.float32(), (0.1, 1e30, float("nan"), -0.0, float("-inf"))),
    "f64": (pa.float64(), (0.1, 5e-324, 1e308, float("nan"), float("inf"), -0.0, 1 / 3)),
    "d": (pa.decimal128(38, 10), (Decimal("1e-10"), Decimal("0"), Decimal("-1234567890123456789.5"))),
    "d0": (pa.decimal128(38, 0), (Decimal(10**37), Decimal(-1))),
    't"x': (pa.string(), TEXTS),
    "large": (pa.large_string(), TEXTS),
    "y": (pa.binary(), (b"", b"\0", b"\xff\\x\"", bytes(range(256)))),
    "day": (pa.date32(), tuple(each.date() for each in ENDS)),
    "at": (pa.timestamp("us", "UTC"), tuple(each.replace(tzinfo=dt.UTC) for each in ENDS)),
    "wall": (pa.timestamp("us"), ENDS),
    "clock": (pa.time64("us"), (dt.time(0), dt.time(23, 59, 59, 999999))),
    "list": (pa.list_(pa.int32()), ([], [1, None], [None])),
    "texts": (pa.list_(pa.string()), ([], list(TEXTS), [None, "NULL"])),
    "bytes": (pa.list_(pa.binary()), ([b"\0\\", None],)),
    "times": (pa.list_(pa.timestamp("us", "UTC")), ([NOON.replace(tzinfo=dt.UTC), None],)),
    "sums": (pa.list_(pa.decimal128(10, 2)), ([Decimal("1.50"), None],)),
    "rows": (pa.list_(pa.struct([("a", pa.string())])), ([{"a": '"\\'}, None, {"a": None}],)),
    "map": (pa.map_(pa.string(), pa.int32()), ([], [('k"', 2), ("é", None)])),
    "row": (pa.struct([("a", pa.int32()), ("b", pa.string())]), ({"a": 1, "b": None}, {"a": None, "b": "\\\""})),
}  # fmt: skip
KEYS = {"k": (pa.string(), (*TEXTS, "a", "b")), "n": (pa.int64(), tuple(range(6)))}
SCHEMA = pa.schema([(name, dtype) for name, (dtype, _) in {**KEYS, **VALUES}.items()])


def table(rows: list[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> tuple[pa.Table, Any]:
    columns = list(zip(*(row[1:] for row in rows), strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema), parse_kinds(
        pa.array([row[0] for row in rows], pa.string()), "test"
    )


def sink(postgres: Any, name: str, key: tuple[str, ...] = ("k", "n"), **told: Any) -> DatabaseSink:
    about = {"table": name, "connect": postgres.dsn, **told}
    return DatabaseSink(database_options(about), key, True)


def content(postgres: Any, name: str) -> list[Any]:
    with postgres.connect() as connection:
        rows = connection.execute(f"SELECT x::text FROM {name} AS x").fetchall()
    return sorted(row[0] for row in rows)


class Told:
    """A changelog of keys with NULL, a batch at a time."""

    def __init__(self, seed: int) -> None:
        self.draw, self.live = random.Random(seed), dict[Any, Any]()

    def value(self, values: tuple[Any, ...]) -> Any:
        return None if self.draw.random() < 0.15 else self.draw.choice(values)

    def batch(self, count: int, deletes: float) -> list[tuple[Any, ...]]:
        made: dict[Any, list[Any]] = {}
        for _ in range(count):
            key = tuple(self.value(values) for _, values in KEYS.values())
            if key in made:
                continue
            old = self.live.pop(key, None)
            told = [] if old is None else [("-U", *old)]
            if self.draw.random() > deletes:
                self.live[key] = (*key, *(self.value(values) for _, values in VALUES.values()))
                told.append(("+U" if told else "+I", *self.live[key]))
            made[key] = told
        rows = [change for changes in made.values() for change in changes]
        self.draw.shuffle(rows)
        return rows


def test_blocks_leave_what_single_rows_leave(
    postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.connect() as connection:
        connection.execute('CREATE SCHEMA "s p"')
    many, each, told = sink(postgres, "s p.m%"), sink(postgres, "each"), Told(5)
    monkeypatch.setattr(many, "_write_each", None)
    for number, deletes in enumerate((0.0, 0.0, 0.5, 0.2, 1.0, 0.3)):
        rows, kinds = table(told.batch(90, deletes))
        monkeypatch.setattr(database, "FEWEST", 1)
        many.write(rows, kinds, number, "id")
        monkeypatch.setattr(database, "FEWEST", 1 << 30)
        each.write(rows, kinds, number, "id")
        assert content(postgres, '"s p"."m%"') == content(postgres, "each")
        assert len(content(postgres, "each")) == len(told.live)
    assert len(told.live) > 30


OWN = pa.schema([("k", pa.string()), ("n", pa.int32()), ("v", pa.decimal128(10, 2))])


def own(count: int, word: str = "+I", value: Any = Decimal("1.50")) -> tuple[pa.Table, Any]:
    return table([(word, f"k{n:03}", n, value) for n in range(count)], OWN)


@pytest.mark.parametrize(
    ("columns", "blocks"),
    [
        ("k TEXT, n INT, v NUMERIC", True),
        ("k VARCHAR(9), n BIGINT, v NUMERIC(12, 3)", True),
        ("k TEXT, n NUMERIC, v NUMERIC, twice INT GENERATED ALWAYS AS (n * 2) STORED", True),
        ("id INT GENERATED ALWAYS AS IDENTITY, k TEXT, n INT, v NUMERIC, note TEXT DEFAULT 'x'", True),
        # What a single parameter becomes there, an array's value does not, or otherwise.
        ("k NAME, n INT, v NUMERIC", False),
        ("k TEXT, n INT, v DOUBLE PRECISION", False),
        ("k TEXT, n INT, v INT", False),
    ],
)  # fmt: skip
def test_tables_of_ones_own(
    postgres: Any, monkeypatch: pytest.MonkeyPatch, columns: str, blocks: bool
) -> None:
    with postgres.connect() as connection:
        connection.execute(f"DROP TABLE IF EXISTS mine; CREATE TABLE mine ({columns}, UNIQUE (n))")
    made = sink(postgres, "mine", ("n",), existing="replace", cast=True)
    monkeypatch.setattr(made, "_write_each" if blocks else "_may_block", False)
    made.write(*own(40), 0, columns)
    with postgres.connect() as connection:
        rows = connection.execute("SELECT * FROM mine ORDER BY n").fetchall()
        names = [each[0] for each in connection.execute("SELECT * FROM mine").description]
    told = dict(zip(names, rows[3], strict=True))
    assert len(rows) == 40
    assert (told["k"], told["n"], told.get("twice", 6), told.get("note", "x")) == (
        "k003",
        3,
        6,
        "x",
    )
    assert told["v"] == (2 if "v INT" in columns else 1.5)
    assert made._fits_blocks == blocks


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("k VARCHAR(3), n INT UNIQUE, v NUMERIC", "value too long for type character varying"),
        (
            "k TEXT, n INT UNIQUE, v NUMERIC CHECK (v > 2)",
            'violates check constraint "bad_v_check"',
        ),
        ("k TEXT UNIQUE, n INT, v NUMERIC", r"needs a unique index of the result's key \(n\)"),
        ("k TEXT, n SMALLINT UNIQUE, v NUMERIC(2, 1)", "out of range|overflow"),
        ("k TEXT, n INT UNIQUE, v NUMERIC, w INT NOT NULL", 'null value in column "w"'),
        ("k TEXT GENERATED ALWAYS AS ('x') STORED, n INT UNIQUE, v NUMERIC", "non-DEFAULT value"),
    ],
)
def test_what_the_database_does_not_take(
    postgres: Any, monkeypatch: pytest.MonkeyPatch, columns: str, why: str
) -> None:
    with postgres.connect() as connection:
        connection.execute(f"DROP TABLE IF EXISTS bad; CREATE TABLE bad ({columns})")
    rows = own(40, value=Decimal("99.50") if "NUMERIC(2, 1)" in columns else Decimal("1.50"))
    for fewest in (1, 1 << 30):
        monkeypatch.setattr(database, "FEWEST", fewest)
        with pytest.raises(SinkError, match=rf"table bad: .*({why}).*Nothing of the batch"):
            sink(postgres, "bad", ("n",), create="false", cast="true").write(*rows, 0, "id")
        assert content(postgres, "bad") == []


@pytest.mark.parametrize(
    "column", ["k TEXT COLLATE loose UNIQUE", "k inexact UNIQUE", "k TEXT", "k public.CITEXT"]
)
def test_keys_that_are_one_to_the_table(postgres: Any, column: str) -> None:
    """A column by which two keys are one is refused, but not elsewhere than in the key."""
    with postgres.connect() as connection:
        if "CITEXT" in column and not _has_citext(connection):
            pytest.skip("there is no extension citext here")
        connection.execute(
            "DROP TABLE IF EXISTS loose; DROP DOMAIN IF EXISTS inexact; DROP COLLATION IF EXISTS loose; "
            "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false); "
            "CREATE DOMAIN inexact AS TEXT COLLATE loose; "
            f"CREATE TABLE loose ({column}, n INT UNIQUE, v NUMERIC)"
        )
        if "UNIQUE" not in column:
            collation = "" if "CITEXT" in column else "COLLATE loose"
            connection.execute(f"CREATE UNIQUE INDEX ON loose (k {collation})")
    rows = table([("+I", "A", 0, None), ("+I", "a", 1, None)], OWN)
    for cast in (False, True):
        with pytest.raises(
            SinkError, match=r"column 'k' of the key .* one of the table. ALTER TABLE"
        ):
            sink(postgres, "loose", ("k",), cast=cast).write(*rows, 0, "id")
    assert content(postgres, "loose") == []
    rows = table([("+I", "A", 0, None), ("+I", "b", 1, None)], OWN)
    assert sink(postgres, "loose", ("n",)).write(*rows, 0, column)
    assert len(content(postgres, "loose")) == 2


def _has_citext(connection: Any) -> bool:
    found = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'citext'")
    if found.fetchone() is None:
        return False
    connection.execute("CREATE EXTENSION IF NOT EXISTS citext")
    return True


@pytest.mark.parametrize("column", ["CHAR(3)", "padded", "bpchar"])
@pytest.mark.parametrize("count", [1, 30])
def test_keys_that_are_padded(postgres: Any, column: str, count: int) -> None:
    """Blanks at the end do not count in CHAR(n): such a key is refused, others are found again."""
    with postgres.connect() as connection:
        connection.execute(
            "DROP TABLE IF EXISTS padded_keys; DROP DOMAIN IF EXISTS padded; CREATE DOMAIN padded AS CHAR(3); "
            f"CREATE TABLE padded_keys (k {column} UNIQUE, n INT, v NUMERIC)"
        )
    keys = [("+I", f"{n:02d}", n, None) for n in range(count)]
    made, own_id = sink(postgres, "padded_keys", ("k",), cast=True), f"{column} {count}"
    assert made.write(*table(keys, OWN), 0, own_id)
    for wrong in ("a ", "a  ", " "):
        for kind in ("+I", "-D"):
            with pytest.raises(SinkError, match=rf"column 'k' has {wrong!r}, and is .*RTRIM\(k\)"):
                made.write(*table([*keys, (kind, wrong, 7, None)], OWN), 1, own_id)
    gone = [("-D", key, n, None) for _, key, n, _ in keys[1:]]
    assert made.write(*table([("+I", " a", 7, None), *gone], OWN), 1, own_id)
    with postgres.connect() as connection:
        found = connection.execute("SELECT k, n FROM padded_keys ORDER BY n").fetchall()
    assert [(key.rstrip(" "), n) for key, n in found] == [("00", 0), (" a", 7)]


def test_values_that_are_padded(postgres: Any) -> None:
    with postgres.connect() as connection:
        connection.execute(
            "DROP TABLE IF EXISTS padded_values; CREATE TABLE padded_values (k CHAR(3), n INT UNIQUE, v NUMERIC)"
        )
    rows = table([("+I", "a ", 1, None)], OWN)
    with pytest.raises(SinkError, match=r"'k' has 'a ', and is character\(3\) .*cast=true"):
        sink(postgres, "padded_values", ("n",)).write(*rows, 0, "id")
    assert sink(postgres, "padded_values", ("n",)).write(
        *table([("+I", "b", 2, None)], OWN), 0, "a"
    )
    made = sink(postgres, "padded_values", ("n",), cast=True, existing="keep")
    assert made.write(*rows, 0, "id")


@pytest.mark.parametrize(
    ("column", "kind", "key"),
    [
        ("INT", pa.float64(), 1.4),
        ("NUMERIC(9, 1)", pa.decimal128(9, 2), Decimal("1.44")),
        ("DATE", pa.timestamp("us"), NOON),
        ("NAME", pa.string(), "a"),
    ],
)
def test_keys_are_not_rounded(postgres: Any, column: str, kind: pa.DataType, key: Any) -> None:
    """Cast is for values: two keys that are rounded would be one row."""
    with postgres.connect() as connection:
        connection.execute(
            f"DROP TABLE IF EXISTS rounded; CREATE TABLE rounded (k {column} UNIQUE, v DATE)"
        )
    rows = table([("+I", key, NOON)], pa.schema([("k", kind), ("v", pa.timestamp("us"))]))
    with pytest.raises(
        SinkError, match="cast=true does not hold for 'k', of the key, in which two"
    ):
        sink(postgres, "rounded", ("k",), cast=True).write(*rows, 0, "id")
    assert content(postgres, "rounded") == []


def test_years_and_characters_that_no_driver_takes(postgres: Any) -> None:
    schema = pa.schema([("n", pa.int32()), ("at", pa.timestamp("us")), ("t", pa.string())])
    far = pa.array([0] * 29 + [1 << 62], pa.timestamp("us"))
    with pytest.raises(ValueError, match="before 1 or after 9999"):
        array_text(far, DIALECTS["postgresql"])
    rows = [("+I", n, None, "\0" if n == 7 else "") for n in range(30)]
    with pytest.raises(SinkError, match="NUL"):
        sink(postgres, "zero", ("n",)).write(*table(rows, schema), 0, "id")


def test_two_queries_that_write_the_same_keys_wait_for_one_another(postgres: Any) -> None:
    """Each deletes some keys and writes others, in blocks and a few; without an order they would wait for ever."""
    sinks = [sink(postgres, "shared", ("n",), existing="keep") for _ in range(2)]
    sinks[0].write(*own(0), 0, "both")
    wrong: list[Exception] = []

    def run(number: int) -> None:
        draw = random.Random(number)
        try:
            for at in range(25):
                chosen = draw.sample(range(300), draw.choice([10, 200]))
                rows = [(draw.choice(["+I", "-D"]), f"{number}", n, Decimal(at)) for n in chosen]
                sinks[number].write(*table(rows, OWN), at, f"id {number}")
        except SinkError as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_first_batches_of_several_queries_make_their_tables_at_once(postgres: Any) -> None:
    """The catalogue refuses a table that another transaction makes, even with IF NOT EXISTS."""
    wrong: list[Exception] = []

    def run(number: int, log: str, start: threading.Barrier) -> None:
        made = sink(postgres, f"{log}_{number % 2}", ("n",), existing="keep", log_table=log)
        start.wait()
        try:
            made.write(*own(number), 0, f"id {number}")
        except SinkError as error:
            wrong.append(error)

    for each in range(20):
        start = threading.Barrier(4)
        given = [(number, f"log_{each}", start) for number in range(4)]
        threads = [threading.Thread(target=run, args=own_given) for own_given in given]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_digest_tells_rows_and_not_how_they_lie() -> None:
    told = Told(9)
    told.batch(60, 0.0)
    rows, kinds = table(told.batch(60, 0.3))
    whole = net_rows(rows, kinds, ("k", "n"), True, "t")
    order = list(range(len(kinds)))
    random.Random(1).shuffle(order)
    cut = pa.concat_tables([rows.take(order).slice(0, 7), rows.take(order).slice(7)])
    assert net_rows(cut, kinds[order], ("k", "n"), True, "t").digest == whole.digest
    for change in (
        lambda t: t.set_column(2, "b%", pa.array([True] * len(t))),
        lambda t: t.rename_columns(["x", *t.column_names[1:]]),
    ):
        other = change(whole.rows)
        key = ("x" if "x" in other.column_names else "k", "n")
        assert type(whole)(other, whole.gone, key).digest != whole.digest
    assert type(whole)(whole.rows, ~whole.gone, whole.key).digest != whole.digest
