"""FROM_JSON: texts as rows, arrays and maps of a type, as Spark's parser makes them.

What does not fit its type is NULL, and the rest of the row stays. A text without mistakes is decoded at once. One with
a mistake is read token by token, as what remains of it depends on where Jackson goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from aggloom.runtime.scalar.json_leaves import (
    JsonReading,
    Number,
    PartialValueError,
    leaf_reader,
    leaf_text,
    quote_halves,
    replace_halves,
    whole_or_partial,
)
from aggloom.runtime.scalar.json_tokens import (
    ENDS,
    FALSE,
    FLOAT,
    NAME,
    NULL,
    STARTS,
    TEXT,
    TRUE,
    WHOLE,
    JsonTokens,
)
from aggloom.runtime.scalar.json_trees import Read as ReadTree
from aggloom.runtime.scalar.json_trees import decode, tree_reader
from aggloom.runtime.scalar.values import Value, by_row

__all__ = ["JsonReading", "from_json"]
_WORDS: Final = {TRUE: True, FALSE: False, NULL: None}


def from_json(value: Value, dtype: pa.DataType, options: JsonReading, sql: str | None) -> Value:
    """FROM_JSON of each text as a row, an array or a map.

    sql: the expression that an error names; None if bad records give NULL in their fields.
    Raises InvalidCastError for a bad record if `sql` is there, and DataError for a time that only Spark reads.
    """
    read, read_tree = _root_reader(dtype, options), tree_reader(dtype, options)
    empty = {each.name: None for each in dtype} if pa.types.is_struct(dtype) else None

    def convert(text: str) -> Any:
        try:
            return _read_record(text, read, read_tree)
        except ValueError as error:
            if sql is not None:
                raise ValueError(f"the record cannot be read in mode FAILFAST ({error})") from None
            result: Any = error.value if isinstance(error, PartialValueError) else empty
            return result if options.corrupt is None else {**result, options.corrupt: text}

    return by_row(convert, dtype, value, sql=sql or "FROM_JSON")


def _read_record(text: str, read: _Reader, read_tree: ReadTree) -> Any:
    tree = decode(text)
    if tree is not None:
        return read_tree(tree)
    tokens = JsonTokens(text)
    # Nothing but spaces is no record at all.
    if tokens.advance() is None:
        return None
    result = read.read(tokens)
    if result is None:
        raise ValueError("null is no record")
    return result


class _Reader(ABC):
    """Reads a value of a type from tokens."""

    def read(self, tokens: JsonTokens) -> Any:
        """The value at the current token, or behind the name that it is.

        Raises ValueError, as `PartialValueError` if a part of the value could be read.
        """
        kind = tokens.advance() if tokens.kind == NAME else tokens.kind
        return None if kind is None or kind == NULL else self.convert(tokens, kind)

    @abstractmethod
    def convert(self, tokens: JsonTokens, kind: str) -> Any:
        """The value that begins with a token that is not null."""


class _LeafReader(_Reader):
    def __init__(self, dtype: pa.DataType, options: JsonReading) -> None:
        self._leaf = leaf_reader(dtype, options)
        self._takes_parts = dtype == pa.string()

    def convert(self, tokens: JsonTokens, kind: str) -> Any:
        if kind in STARTS and self._takes_parts:
            return _read_parts(tokens)
        if kind in STARTS or kind in ENDS:
            raise ValueError(f"{kind} is no value without parts")
        return self._leaf(_leaf_value(tokens))


class _RowReader(_Reader):
    def __init__(self, dtype: pa.DataType, options: JsonReading, corrupt: str | None) -> None:
        fields = ((each.name, each.type) for each in dtype if each.name != corrupt)
        self._fields: Mapping[str | None, _Reader] = {n: _reader(t, options) for n, t in fields}
        self._empty = {each.name: None for each in dtype}

    def convert(self, tokens: JsonTokens, kind: str) -> Any:
        _require(kind, "{")
        row: dict[str, Any] = dict(self._empty)
        first: ValueError | None = None
        while _is_before(tokens, "}"):
            name = tokens.name
            field = self._fields.get(name)
            if name is None or field is None:
                tokens.skip()
                continue
            try:
                row[name] = field.read(tokens)
            except PartialValueError as error:
                row[name] = error.value
                first = first or error
            except ValueError as error:
                first = first or error
                tokens.skip()
        return whole_or_partial(row, first)


class _ArrayReader(_Reader):
    def __init__(self, dtype: pa.DataType, options: JsonReading) -> None:
        self._item = _reader(dtype.value_type, options)

    def convert(self, tokens: JsonTokens, kind: str) -> Any:
        _require(kind, "[")
        values: list[Any] = []
        first: ValueError | None = None
        while _is_before(tokens, "]"):
            try:
                values.append(self._item.read(tokens))
            except PartialValueError as error:
                values.append(error.value)
                first = first or error
        return whole_or_partial(values, first)


class _RowsReader(_ArrayReader):
    """An array of rows at the root, where one object is an array of one row."""

    def convert(self, tokens: JsonTokens, kind: str) -> Any:
        if kind != "{":
            return super().convert(tokens, kind)
        try:
            return [self._item.convert(tokens, kind)]
        except PartialValueError as error:
            raise PartialValueError([error.value], error) from None


class _MapReader(_Reader):
    def __init__(self, dtype: pa.DataType, options: JsonReading) -> None:
        self._entry = _reader(dtype.item_type, options)

    def convert(self, tokens: JsonTokens, kind: str) -> Any:
        _require(kind, "{")
        keys: list[str | None] = []
        values: list[Any] = []
        first: ValueError | None = None
        while _is_before(tokens, "}"):
            keys.append(None if tokens.name is None else replace_halves(tokens.name))
            try:
                values.append(self._entry.read(tokens))
            except PartialValueError as error:
                values.append(error.value)
                first = first or error
            except ValueError as error:
                first = first or error
                tokens.skip()
        # A value that cannot be read takes the map with it: Spark then has a key too many.
        if len(keys) != len(values):
            raise ValueError(f"a value of the map cannot be read: {first}")
        return whole_or_partial(list(zip(keys, values, strict=True)), first)


def _root_reader(dtype: pa.DataType, options: JsonReading) -> _Reader:
    if pa.types.is_struct(dtype):
        return _RowReader(dtype, options, options.corrupt)
    if pa.types.is_list(dtype) and pa.types.is_struct(dtype.value_type):
        return _RowsReader(dtype, options)
    return _reader(dtype, options)


def _reader(dtype: pa.DataType, options: JsonReading) -> _Reader:
    if pa.types.is_struct(dtype):
        return _RowReader(dtype, options, None)
    if pa.types.is_list(dtype):
        return _ArrayReader(dtype, options)
    return (_MapReader if pa.types.is_map(dtype) else _LeafReader)(dtype, options)


def _require(kind: str, start: str) -> None:
    if kind != start:
        raise ValueError(f"{kind} is where {start} should be")


def _is_before(tokens: JsonTokens, end: str) -> bool:
    kind = tokens.advance()
    return kind is not None and kind != end


def _leaf_value(tokens: JsonTokens) -> Any:
    kind = tokens.kind
    if kind == TEXT:
        return tokens.text
    if kind == WHOLE:
        return int(tokens.text)
    return Number(tokens.text) if kind == FLOAT else _WORDS[str(kind)]


def _read_parts(tokens: JsonTokens) -> str:
    """The object or array that begins here as JSON."""
    pieces: list[str] = []
    depth, separator = 0, ""
    kind = tokens.kind
    while True:
        if kind in ENDS:
            pieces.append(str(kind))
            depth, separator = depth - 1, ","
        elif kind == NAME:
            pieces.append(f"{separator}{quote_halves(str(tokens.name))}:")
            separator = ""
        elif kind in STARTS:
            pieces.append(separator + str(kind))
            depth, separator = depth + 1, ""
        else:
            pieces.append(separator + leaf_text(_leaf_value(tokens)))
            separator = ","
        if not depth:
            return "".join(pieces)
        kind = tokens.advance()
