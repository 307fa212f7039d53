"""Shapes in which other systems write rows: files, the options that read them, and the changes in them."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from aggloom.codegen.operators import Scan
from aggloom.codegen.spec.absent_columns import without_absent
from aggloom.codegen.spec.dtypes import parse_schema
from aggloom.errors import AggloomError
from aggloom.runtime.local.file_reader import read_files
from aggloom.runtime.spark import explain_failure, read_changes
from aggloom.runtime.values.changelog import CHANGE_TYPES
from doors.texts import NAMES

SHAPE_DDL = "id DECIMAL(20,0), name STRING, at TIMESTAMP_NTZ, cnt INT"
SHAPE_COLUMNS = ("id", "name", "at", "cnt")
INSERT, BEFORE, AFTER, DELETE = CHANGE_TYPES
Values = dict[str, Any]
Change = tuple[str, Values]
IDS = (0, 7, 18446744073709551615, 10**19 + 1, 10**20 - 1, -(10**20 - 1))
TEXTS = (
    *(name for name in NAMES if name),
    "a\nb",
    'say "yes"',
    '"',
    "x,y;z|w\tv",
    " padded ",
    "\\N",
)
MOMENTS = (
    dt.datetime(2024, 3, 10, 2, 30, 0, 123456),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1999, 1, 1),
    dt.datetime(2023, 11, 14, 22, 13, 20, 1000),
)
COUNTS = (0, 1, -5, 2**31 - 1, -(2**31))


@dataclass
class Shape:
    """Files of a format by their names, the options that read them, and their changes in order; None: refused.

    keys: of a table of upserts. notices: how many messages have no row by their kind. unclear: another reading cannot
    say what is to come of damaged bytes, so that any rows or a refusal will do. by_spark: whether Spark's own reader,
    and not only workers that read files whole, knows it.
    """

    name: str
    format: str
    files: dict[str, bytes]
    options: dict[str, Any]
    changes: list[Change] | None
    schema: str = SHAPE_DDL
    keys: tuple[str, ...] = ()
    notices: int = 0
    unclear: bool = False
    by_spark: bool = True


@dataclass(frozen=True)
class System:
    """A column by which a system marks changes, and its words.

    values: words and what they mean. beside: further columns that it writes, which need `markers="data"` if any is a
    marker of its own.
    """

    name: str
    column: str
    values: tuple[tuple[Any, str], ...]
    keyed: bool = True
    beside: tuple[str, ...] = ()
    data: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The options that read it."""
        said = {
            str(word).lower() if word in (True, False) else str(word): kind
            for word, kind in self.values
        }
        own = {"change_column": self.column, "change_values": said}
        return own | ({"markers": "data"} if self.data else {})


SYSTEMS = (
    System("dms", "Op", (("I", "insert"), ("U", "update_after"), ("D", "delete"), ("", "insert"))),
    System("bigquery", "_CHANGE_TYPE", (("UPSERT", "update_after"), ("DELETE", "delete"))),
    System(
        *("bigquery changes", "_CHANGE_TYPE"),
        (("INSERT", "insert"), ("UPDATE", "update_after"), ("DELETE", "delete")),
        beside=("_CHANGE_TIMESTAMP",),
        data=True,
    ),
    System(
        *("sql server", "__$operation"),
        (("1", "delete"), ("2", "insert"), ("3", "update_before"), ("4", "update_after")),
        keyed=False,
    ),
    System(
        *("snowflake", "METADATA$ACTION", (("INSERT", "insert"), ("DELETE", "delete")), False),
        ("METADATA$ISUPDATE", "METADATA$ROW_ID"),
        data=True,
    ),
    System(
        *("flattened op", "__op"),
        (("c", "insert"), ("r", "insert"), ("u", "update_after"), ("d", "delete")),
    ),
    System("flattened deleted", "__deleted", (("false", "update_after"), ("true", "delete"))),
    System("fivetran", "_fivetran_deleted", ((False, "update_after"), (True, "delete"))),
    System("own", "what", (("new", "insert"), ("old", "delete")), keyed=False),
)
MEANS = {"insert": INSERT, "update_before": BEFORE, "update_after": AFTER, "delete": DELETE}


def draw_values(r: random.Random, texts: tuple[str, ...] = TEXTS) -> Values:
    """A row by chance; its id is never NULL."""
    return {
        "id": Decimal(r.choice(IDS)),
        "name": r.choice([*texts, None]),
        "at": r.choice([*MOMENTS, None]),
        "cnt": r.choice([*COUNTS, None]),
    }


def draw_word(r: random.Random, system: System | None) -> tuple[Any, str]:
    """A word of a system and its change; without a system none, an insertion."""
    if system is None:
        return None, INSERT
    word, kind = r.choice(system.values)
    return word, MEANS[kind]


def cased(r: random.Random, name: str) -> str:
    """A name as it is declared, or in another case."""
    return r.choice([name] * 5 + [name.upper(), name.title()])


def found_changes(shape: Shape, path: Path) -> tuple[list[Change] | None, int, str]:
    """The changes of files as the harness reads them, how many messages have no row; or None and the error."""
    upsert = bool(shape.keys)
    scan = Scan("t", parse_schema(shape.schema), "upsert" if upsert else "retract", shape.keys)
    got: list[Change] = []
    notices = 0
    try:
        for batch, kinds, refused, odd in read_files(path, shape.format, scan, dict(shape.options)):
            assert not refused
            rows = batch.to_pylist()
            got += [(CHANGE_TYPES[kind], row) for kind, row in zip(kinds, rows, strict=True)]
            notices += odd
    except AggloomError as error:
        assert type(error) is not AggloomError and str(path) in str(error), repr(error)
        return None, 0, str(error)
    return got, notices, ""


def spark_changes(spark: Any, shape: Shape, path: Path) -> tuple[list[Change] | None, int, str]:
    """The changes of files as a DataFrame of Spark has them; or None and the error. It counts no messages."""
    schema = without_absent(parse_schema(shape.schema))
    try:
        keys = shape.keys or None
        df = read_changes(
            spark, str(path), shape.format, schema, streaming=False, keys=keys, **shape.options
        )
        found = df.toArrow().to_pylist()
    except Exception as failure:
        said = explain_failure(failure)
        assert type(said) is not AggloomError and isinstance(said, AggloomError), repr(failure)
        assert path.name in str(said), (path, str(said))
        return None, 0, str(said)
    return [(row.pop("_change_type"), row) for row in found], shape.notices, ""


def check_shape(shape: Shape, directory: Path, done: Counter[str], spark: Any = None) -> None:
    """Write the files of a shape and hold what is read to what they were made of; raises AssertionError.

    spark: a session that reads them, instead of the harness.
    """
    for name, content in shape.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    if spark is None:
        found, notices, said = found_changes(shape, directory)
    else:
        found, notices, said = spark_changes(spark, shape, directory)
    by = "by Spark, " if spark is not None else ""
    if shape.unclear:
        done[f"{by}{shape.name}, unclear"] += 1
        return
    if shape.changes is None:
        assert found is None, ("a bad file was read", shape, found)
        done[f"{by}{shape.name}, refused"] += 1
        return
    assert found is not None, ("a good file was refused", said, shape)
    assert notices == shape.notices, ("messages without rows", notices, shape)
    got, wanted = ([_counted(shape, change) for change in some] for some in (found, shape.changes))
    if len(shape.files) > 1 or spark is not None:
        got, wanted = sorted(got, key=repr), sorted(wanted, key=repr)
    assert got == wanted, ("another table", got, wanted, shape)
    done[f"{by}{shape.name}, read"] += 1


def _counted(shape: Shape, change: Change) -> Change:
    """A change as it counts, with its columns in order: of what is gone by key no more than the key."""
    kind, row = change
    gone = bool(shape.keys) and kind == DELETE
    return kind, {name: row[name] for name in sorted(row) if not gone or name in shape.keys}
