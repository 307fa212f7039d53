"""Tables by chance, as Parquet files and as DataFrames: columns missing, doubled, misspelt, of other types."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from doors.example import BAD, DAMAGED, Example, Row, damaged
from doors.oracle import CHANGES, COLUMNS, FLATTENED, ONE_WORD
from doors.texts import BAD_WORDS, NAMES, WORDS

CHECKED = "has checksums"
_INTS = (pa.int8(), pa.int16(), pa.int32())
_TEXTS = (pa.string(), pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))


def _case(r: random.Random, name: str) -> str:
    return r.choice([name] * 4 + [name.upper(), name.title()])


def _columns(r: random.Random, rows: int, exact: bool) -> tuple[dict[str, pa.Array], list[Row]]:
    """The columns of a good table, in order, and its rows; exact: under the names and types of the schema."""
    names: list[str | None] = [r.choice([*NAMES, None]) for _ in range(rows)]
    kind = pa.int32() if exact else r.choice(_INTS)
    text = pa.string() if exact else r.choice(_TEXTS)
    top = 2 ** (kind.bit_width - 1)
    counts = [r.choice([0, 1, -5, top - 1, -top, None]) for _ in range(rows)]
    made = {
        "name" if exact else _case(r, "name"): pa.array(names, pa.string()).cast(text),
        "cnt" if exact else _case(r, "cnt"): pa.array(counts, kind),
    }
    for other in r.sample(["other", "third"], r.randrange(3)):
        made[other] = pa.array([r.choice([1.5, None]) for _ in range(rows)], pa.float64())
    words: list[str] = ["insert"] * rows
    if r.random() < 0.6:
        words = [r.choice(WORDS) for _ in range(rows)]
        made[r.choice(["op", "_change_type", "OP"])] = pa.array(words, pa.string())
    keys = list(made)
    r.shuffle(keys)
    return {key: made[key] for key in keys}, list(zip(names, counts, words, strict=True))


def _spoilt(r: random.Random, columns: dict[str, Any], rows: int) -> tuple[list[str], list[Any]]:
    """The names and columns of a table that has to be refused; a row at least."""
    plain = {key: value for key, value in columns.items() if key.lower() not in CHANGES}
    cnt = next(key for key in plain if key.lower() == "cnt")
    name = next(key for key in plain if key.lower() == "name")
    bad = pa.array([r.choice(BAD_WORDS)] + ["insert"] * (rows - 1), pa.string())
    spoilt: dict[str, Any] = dict(plain)
    what = r.randrange(8)
    if what == 0:
        spoilt[r.choice(["op", "_change_type", "OP"])] = bad
    elif what == 1:
        spoilt = {"cmt" if key == cnt else key: value for key, value in plain.items()}
    elif what == 2:
        spoilt.pop(r.choice([cnt, name]))
    elif what == 3:
        kinds: list[Any] = [pa.array(["x"] * rows), pa.array([1.5] * rows)]
        kinds += [pa.array([2**40] * rows), pa.array([True] * rows), pa.array([[1]] * rows)]
        spoilt[cnt] = r.choice(kinds)
    elif what == 4:
        spoilt[name] = r.choice([pa.array([1] * rows), pa.array([[b"x"]] * rows)])
    elif what == 5:
        spoilt |= {key: pa.array(["+I"] * rows) for key in CHANGES}
    elif what == 6:
        spoilt[r.choice(FLATTENED)] = pa.array(["d"] * rows)
    else:
        spoilt[r.choice(["op", "OP"])] = r.choice([pa.array([1] * rows), pa.array([None] * rows)])
    return list(spoilt), list(spoilt.values())


def table(r: random.Random, exact: bool = False) -> tuple[pa.Table, list[Row] | None]:
    """A table of 0 to 5 rows, and its rows; None: it has to be refused. exact: as the schema has it."""
    bad = r.random() < BAD
    rows = r.randrange(1 if bad else 0, 6)
    columns, expected = _columns(r, rows, exact)
    if not bad:
        return pa.table(columns), expected
    names, arrays = _spoilt(r, columns, rows)
    if r.random() < 0.15:
        # A column twice, in one case or in two that nobody has declared.
        names, arrays = ["NAME", "Name", "cnt"], [pa.array(["a"] * rows)] * 2 + [
            pa.array([1] * rows, pa.int32())
        ]
    return pa.table(arrays, names=names), None


def parquet_example(r: random.Random) -> Example:
    """A Parquet file."""
    made, rows = table(r)
    sink = pa.BufferOutputStream()
    checked = r.random() < 0.5
    pq.write_table(
        made,
        sink,
        row_group_size=r.choice([1, 2, 100]),
        compression=r.choice(["none", "snappy", "gzip", "zstd"]),
        use_dictionary=r.random() < 0.5,
        data_page_version=r.choice(["1.0", "2.0"]),
        write_page_checksum=checked,
        store_schema=r.random() < 0.7,
    )
    content = sink.getvalue().to_pybytes()
    about = CHECKED if checked else ""
    if rows is not None and r.random() < DAMAGED:
        return Example(damaged(r, content), rows, damaged=True, about=about)
    return Example(content, rows, about=about)


def told(found: pa.Table) -> list[Row] | None:
    """The rows of a table as it was read, by the rules of the doors; None where it is bad."""
    names = {n: n.lower() for n in found.column_names}
    wanted = (*COLUMNS, *CHANGES)
    place = {lower: name for name, lower in names.items() if lower in wanted}
    if not set(COLUMNS) <= place.keys() or set(FLATTENED) & set(names.values()):
        return None
    try:
        texts = found[place["name"]].cast(pa.string()).to_pylist()
        counts = found[place["cnt"]].cast(pa.int32()).to_pylist()
        changes = [place[change] for change in CHANGES if change in place]
        words = (
            found[changes[0]].cast(pa.string()).to_pylist() if changes else ["insert"] * len(found)
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    good = len(changes) < 2 and set(words) <= ONE_WORD.keys()
    return list(zip(texts, counts, words, strict=True)) if good else None


def by_arrow(content: bytes, checked: bool) -> list[Row] | None:
    """The rows of a Parquet file as Arrow reads it, with page checksums or without."""
    try:
        reader = pa.BufferReader(content)
        return told(pq.ParquetFile(reader, page_checksum_verification=checked).read())
    except (pa.ArrowException, OSError, ValueError):
        return None


def by_duckdb(path: str) -> list[Row] | None:
    """The rows of a Parquet file as DuckDB reads it."""
    try:
        with duckdb.connect() as connection:
            return told(connection.sql(f"SELECT * FROM read_parquet('{path}')").arrow().read_all())
    except (duckdb.Error, pa.ArrowException, UnicodeDecodeError, AttributeError):
        return None
