"""The change column of a table's rows: its name, and what its words mean.

Without options it is `_change_type` or `op`, with the spellings of Spark, Flink and Iceberg. Systems that have other
names and other words, such as the I, U and D of AWS DMS, are read by `change_column` and `change_values`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.errors import InputFormatError, SpecError, nearest
from aggloom.runtime.values.changelog import (
    CHANGE_COLUMNS,
    CHANGE_TYPES,
    KIND_NAMES,
    SPELLINGS,
    spellings,
)
from aggloom.runtime.values.markers import MARKERS

OPTIONS = ("change_column", "change_values", "markers")
"""The options of formats whose rows may say their changes themselves."""
MARKER_CHOICES = ("refuse", "data")
NEEDS_KEYS = (
    "its updates (update_after) come without the rows that they replace (update_before), so that it needs the columns "
    "of the key: keys=.., and changes=upsert where a table says what it sends"
)
"""The complaint about a table of such words without a key."""
_NAMES = ("insert", "update_before", "update_after", "delete")
# In small letters, since users write them in either; the words of a table's rows are compared as they are.
_KINDS = {
    word.lower(): CHANGE_TYPES[kind]
    for kind in range(len(KIND_NAMES))
    for word in (_NAMES[kind], *spellings(kind))
}
KIND_WORDS = tuple(_KINDS)
"""Spellings of kinds that change_values may use, in small letters."""
_SHOWN = 60


@dataclass(frozen=True)
class ChangeWords:
    """Words that say the change of a row.

    column: the name of the change column; None: those of CHANGE_COLUMNS, of which a row may have one. values: its
    words, and what they mean in the words of CHANGE_TYPES; none: all known spellings. The empty word stands for a row
    without a word. markers: whether columns by which other systems mark changes are a reason to "refuse" rows, or
    "data".
    """

    column: str | None = None
    values: tuple[tuple[str, str], ...] = ()
    markers: str = "refuse"

    @classmethod
    def of(cls, options: Mapping[str, Any], where: str) -> ChangeWords:
        """Read the options; raises SpecError."""
        column, markers = options.get("change_column"), options.get("markers") or "refuse"
        if column is not None and (not isinstance(column, str) or not column):
            raise SpecError(f"{where}: change_column is {column!r}; it is the name of a column")
        if markers not in MARKER_CHOICES:
            known = ", ".join(MARKER_CHOICES)
            raise SpecError(f"{where}: markers is {markers!r}; known are {known}")
        values = _values(options.get("change_values"), where)
        if values and column is None:
            raise SpecError(
                f"{where}: change_values are words of a column; name it: change_column=.."
            )
        return cls(column, values, str(markers))

    @property
    def lacks_before(self) -> bool:
        """True if its updates come without the rows that they replace, so that they are upserts."""
        kinds = {kind for _, kind in self.values}
        # 1 and 2 are -U and +U: updates of which only the second half comes cannot be retracted by their row.
        return CHANGE_TYPES[2] in kinds and CHANGE_TYPES[1] not in kinds

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The meaning of each word, in the words of CHANGE_TYPES."""
        return dict(self.values) or {word: _KINDS[word.lower()] for word in SPELLINGS}

    @property
    def absent(self) -> str | None:
        """The kind of a row without a word; None: one that has to have it."""
        return self.kinds.get("")

    @property
    def known_words(self) -> str:
        """The words that are known, as an error lists them."""
        return (
            ", ".join(map(repr, self.kinds))
            if self.values
            else ", ".join((*CHANGE_TYPES, *KIND_NAMES))
        )

    def names(self, declared: Iterable[str]) -> list[str]:
        """The names that a change column may have; a column that is declared is data."""
        if self.column is not None:
            # The data column wins: a schema that declares `op` says that it is one column like others.
            return [self.column]
        return [] if self.markers == "data" else _free(CHANGE_COLUMNS.values(), declared)

    def list_markers(self, declared: Iterable[str]) -> list[str]:
        """The markers, in small letters, that rows must not have."""
        own = () if self.column is None else (self.column,)
        return [] if self.markers == "data" else _free(MARKERS, (*declared, *own))

    def check_declared(self, declared: Sequence[str], where: str) -> None:
        """Raise SpecError where the change column is declared, too, as data."""
        if self.column is not None and self.column.lower() in map(str.lower, declared):
            raise SpecError(
                f"{where}: column {self.column!r} is the change column; leave it out of the schema"
            )

    def says_change(self, name: str) -> bool:
        """Tell whether a column that nobody declared is about changes."""
        lower = name.lower()
        if self.column is not None and lower == self.column.lower():
            return True
        usual = () if self.column is not None else CHANGE_COLUMNS.values()
        return self.markers != "data" and lower in (*usual, *MARKERS)

    def kind(self, value: Any) -> str | None:
        """Return the meaning of one value of the column; None if it is no known word."""
        word = _word(value)
        return None if word is None else self.kinds.get(word)

    def read_kinds(self, column: pa.Array, where: str) -> pa.Array:
        """The kinds of rows as words of CHANGE_TYPES; raises InputFormatError, naming a word that is unknown."""
        words = _texts(column, where)
        kinds = self.find_kinds(words)
        if kinds is None:
            # The rows are asked again only for the message, which names one of the unknown words.
            known = pa.array(list(self.kinds), pa.string())
            odd = words.filter(pc.invert(pc.is_in(words, known)))
            raise InputFormatError(f"{where}: {self.complaint(odd[0].as_py(), len(odd))}")
        return kinds

    def find_kinds(self, words: pa.Array) -> pa.Array | None:
        """The kinds of texts; None if one of them is unknown."""
        # A NULL counts as the empty word, which may have a meaning of its own.
        kinds = self.known_kinds(pc.fill_null(words, ""))
        return None if kinds.null_count else kinds

    def known_kinds(self, words: pa.Array) -> pa.Array:
        """The kinds of texts; NULL of those that are unknown, or NULL."""
        # By its place in the list of words, without a loop over rows; an unknown word has none, and becomes NULL.
        places = pc.index_in(words, pa.array(list(self.kinds), pa.string()))
        return pa.array(list(self.kinds.values()), pa.string()).take(places)

    def missing_column(self, where: str, names: Sequence[str]) -> InputFormatError:
        """The error of rows that lack the change column."""
        return InputFormatError(
            f"{where}: there is no change column {self.column!r}. {nearest(str(self.column), names)} "
            'If these rows are insertions, add the empty word to change_values: "=insert".'
        )

    def complaint(self, word: Any, count: int = 1) -> str:
        """Return the complaint about an unknown word."""
        rows = f" in {count:,} rows" if count > 1 else ""
        return self.complaint_about("NULL" if word in (None, "") else repr(word)[:_SHOWN], rows)

    def complaint_about(self, word: str, rows: str = "") -> str:
        """The same of a word as messages have it."""
        fix = "add it to change_values" if self.values else "say what it means with change_values"
        return f"change type {word} in {self.column!r}{rows}; known are {self.known_words}; {fix}"


def _free(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    columns_in_use = {name.lower() for name in columns}
    return [name for name in names if name.lower() not in columns_in_use]


def _values(option: Any, where: str) -> tuple[tuple[str, str], ...]:
    """The words of a mapping, or of a text such as "I=insert,D=delete"; raises SpecError."""
    if option is None:
        return ()
    form = f'{where}: change_values is {option!r}; it is {{"I": "insert", ..}}, or a text such as I=insert,D=delete'
    if isinstance(option, str):
        # From the last equals sign: a word may have one in it, a kind of change has none.
        pairs = [part.rpartition("=") for part in option.split(",")]
        if not all(equals for _, equals, _ in pairs):
            raise SpecError(form)
        meanings = [(word.strip(), kind.strip()) for word, _, kind in pairs]
    elif isinstance(option, Mapping):
        meanings = [(_word(word) or "", kind) for word, kind in option.items()]
    else:
        raise SpecError(form)
    if not meanings or len(dict(meanings)) < len(meanings):
        raise SpecError(f"{form}, each word once")
    for word, kind in meanings:
        if not isinstance(kind, str) or kind.lower() not in _KINDS:
            raise SpecError(
                f"{where}: change_values says that {word!r} is {kind!r}. {nearest(str(kind), _NAMES)}"
            )
    return tuple((word, _KINDS[kind.lower()]) for word, kind in meanings)


def _word(value: Any) -> str | None:
    """A value of the column as a word: numbers and truth values as they are written."""
    if value is None:
        return ""
    # Before the test for numbers: to Python, True is the integer 1.
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | Decimal) else None


def _texts(column: pa.Array, where: str) -> pa.Array:
    """A column as words."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pt.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    texts = (pt.is_string, pt.is_large_string, pt.is_string_view)
    if not any(test(kind) for test in (*texts, pt.is_integer, pt.is_boolean, pt.is_null)):
        raise InputFormatError(f"{where}: the change column has type {kind}; it holds texts")
    return column.cast(pa.string())
