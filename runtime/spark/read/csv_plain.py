"""Plain CSV files, read by Arrow: those of which every reader says the same. The others are cut line by line.

A file is plain if its header names every column once, its lines have as many values, its quotes stand around whole
values, and each value is one of its column's type in the plainest spelling. What is odd or wrong is left to
`csv_text`, which knows Spark's ways, and says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.csv as pc_csv

from aggloom.runtime.formats.inferred_values import first_misfit
from aggloom.runtime.formats.plain_texts import spelling, typed
from aggloom.runtime.spark.plan.expressions import spark_arrow
from aggloom.runtime.values.change_words import ChangeWords

_LARGEST = 512 << 20
_ODD = re.compile(rb'[\\\0]|""|\r(?!\n)')
_QUOTED = re.compile(rb'(?:(?<=[,\n])|\A)"[^"\n]*"(?=[,\r\n]|\Z)')


class _OddError(Exception):
    """The file is not plain."""


@dataclass(frozen=True)
class PlainFiles:
    """The function of whole files, as bytes, that gives the rows of those that are plain, and NULL for the others.

    changes: the names under which a header may have a change column. refused: names that no header may have. lenient: a
    column that is missing is NULL. zone: where times are that name none. words: what a change column says. inferred:
    whether values of other rows suggested the types.
    """

    schema: pa.Schema
    changes: tuple[str, ...]
    refused: tuple[str, ...]
    lenient: bool
    zone: str
    words: ChangeWords
    inferred: bool = False

    def is_able(self) -> bool:
        """Whether there is a plainest spelling for the types of all columns."""
        return all(spelling(field.type, self.zone) is not None for field in self.schema)

    def __call__(self, files: pa.Array) -> pa.Array:
        """A list of rows for each file: the columns, c0, c1, .., and the change."""
        found = [self._rows(file) for file in files]
        kinds = self._struct()
        parts = [rows for rows in found if rows is not None]
        rows = pa.concat_arrays(parts) if parts else pa.array([], kinds)
        ends = accumulate((0 if rows is None else len(rows) for rows in found), initial=0)
        gone = pa.array([rows is None for rows in found], pa.bool_())
        return pa.ListArray.from_arrays(pa.array(list(ends), pa.int32()), rows, mask=gone)

    def _struct(self) -> pa.StructType:
        types = spark_arrow(self.schema).types
        fields = [pa.field(f"c{place}", kind) for place, kind in enumerate(types)]
        return pa.struct([*fields, pa.field("change", pa.string())])

    def _rows(self, file: pa.BinaryScalar) -> pa.StructArray | None:
        if not file.is_valid or not 0 < len(file.as_buffer()) < _LARGEST:
            return None
        try:
            return self._read(file.as_py().removeprefix(b"\xef\xbb\xbf"))
        except (_OddError, pa.ArrowException, UnicodeDecodeError):
            return None

    def _read(self, text: bytes) -> pa.StructArray:
        quotes = text.count(b'"')
        if _ODD.search(text) or (quotes and 2 * len(_QUOTED.findall(text)) != quotes):
            raise _OddError
        text.decode()
        header, _, rest = text.partition(b"\n")
        places = self._places(header.removesuffix(b"\r"))
        width = header.count(b",") + 1
        table = _cut(rest, width, sorted({place for place in places if place is not None}))
        columns = []
        for field, kind, place in zip(
            self.schema, spark_arrow(self.schema).types, places, strict=False
        ):
            if place is None:
                columns.append(pa.nulls(len(table), kind))
            else:
                columns.append(self._typed(table[f"v{place}"], field.type).cast(kind))
        change = places[-1]
        words = pa.array(["insert"], pa.string()).take(pa.array([0] * len(table), pa.int8()))
        if change is not None:
            words = self.words.known_kinds(table[f"v{change}"].combine_chunks())
        if words.null_count or (change is None and self.words.column is not None):
            raise _OddError
        kind = self._struct()
        return pa.StructArray.from_arrays([*columns, words], fields=list(kind))

    def _places(self, header: bytes) -> list[int | None]:
        """Where each column is in the header, and the change column last, if there is one."""
        names = header.decode("ascii").split(",")
        if len(names) < 2 or '"' in header.decode():
            raise _OddError
        declared = self.schema.names
        places = [_place(names, name, declared) for name in declared]
        if None in places and not self.lenient:
            raise _OddError
        if places and set(places) == {None}:
            raise _OddError
        changes = [_place(names, name, ()) for name in self.changes]
        if any(_place(names, name, ()) is not None for name in self.refused):
            raise _OddError
        there = [place for place in changes if place is not None]
        if len(there) > 1:
            raise _OddError
        return [*places, there[0] if there else None]

    def _typed(self, texts: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
        values = texts.combine_chunks()
        if self.inferred and first_misfit(values, kind) is not None:
            raise _OddError
        made = typed(values, kind, self.zone)
        if made is None:
            raise _OddError
        return made


def _place(names: Sequence[str], name: str, declared: Sequence[str]) -> int | None:
    """Where a name is, in its case or else in another; raises _OddError where that is not one place."""
    same = [at for at, other in enumerate(names) if other.lower() == name.lower()]
    if len(same) > 1 or sum(other.lower() == name.lower() for other in declared) > 1:
        raise _OddError
    return same[0] if same else None


def _cut(lines: bytes, width: int, wanted: Sequence[int]) -> pa.Table:
    """The values of lines as texts, of some columns; raises ArrowInvalid where a line has more or fewer."""
    names = [f"v{place}" for place in range(width)]
    if not lines.strip():
        return pa.table({f"v{place}": pa.array([], pa.string()) for place in wanted})
    return pc_csv.read_csv(
        pa.BufferReader(lines),
        read_options=pc_csv.ReadOptions(
            use_threads=False, block_size=max(len(lines) + 1, 1 << 10), column_names=names
        ),
        parse_options=pc_csv.ParseOptions(double_quote=False, ignore_empty_lines=True),
        convert_options=pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            include_columns=[f"v{place}" for place in wanted],
        ),
    )
