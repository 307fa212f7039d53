"""The part that all readers share: refusing a record with its place, and the names and words of change columns.

A source format reads records. What it cannot read, or would have to guess at, fails the query: a change that is
lost, or taken for another, makes every later number wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StructType

from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, SPELLINGS

CHANGE_COLUMN = CHANGE_COLUMNS["spark"]
RECORD_SHOWN = 300
"""Characters of a record in a message."""


@dataclass(frozen=True)
class Place:
    """The place of a record: its file, its text and its line's number where they are known."""

    file: Column
    text: Column | None = None
    line: Column | None = None

    def refuse(self, *why: str | Column) -> Column:
        """An error of the place, the parts of the cause, and the text as far as it fits."""
        number = () if self.line is None else (", line ", self.line.cast("string"))
        text = () if self.text is None else (": ", F.substring(self.text, 1, RECORD_SHOWN))
        parts = ("InputFormatError: ", self.file, *number, ": ", *why, *text)
        return F.raise_error(F.concat(*map(_text, parts)))

    def unless(self, condition: Column, why: Sequence[str | Column], rest: Column) -> Column:
        """`rest`, or where the condition holds the error."""
        return F.when(condition, self.refuse(*why)).otherwise(rest)

    def holds(
        self, value: Column, converted: Column, name: str, kind: DataType, advice: str = ""
    ) -> Column:
        """A value as its column's type; an error if it has none there, with what to do."""
        ending = f"' as {kind.simpleString().upper()}{advice}"
        why = (f"column {name!r} cannot hold '", value, ending)
        return F.coalesce(converted, F.when(value.isNotNull(), self.refuse(*why)))

    def change_type(self, word: Column, name: str, words: ChangeWords) -> Column:
        """A change type as it is, or as `words` say; an error for one that is not known."""
        known = words.known_words
        if words.column is not None:
            text = F.coalesce(word.cast("string"), F.lit(""))
            kinds = F.create_map(*(F.lit(part) for pair in words.kinds.items() for part in pair))
            fix = words.complaint_about("\0").split("\0")
            quoted = F.when(text == "", F.lit("NULL")).otherwise(
                F.concat(F.lit("'"), text, F.lit("'"))
            )
            return F.coalesce(F.try_element_at(kinds, text), self.refuse(fix[0], quoted, fix[1]))
        why = (
            "change type ",
            shown_word(word),
            f" in {name!r}; known are {known}. Insertions need no {name}",
        )
        return F.when(word.isin(*SPELLINGS), word).otherwise(self.refuse(*why))


def shown_word(word: Column) -> Column:
    """A change type as a message shows it."""
    return F.coalesce(F.concat(F.lit("'"), word, F.lit("'")), F.lit("NULL"))


def change_of(
    candidates: dict[str, tuple[Column, Column]], place: Place, words: ChangeWords
) -> Column:
    """The change type of a row; without one an insertion, unless `words` name the column.

    candidates: by name of the column whether it is there, and its word.
    """
    change: Column = F.lit("insert")
    if words.column is not None:
        change = place.change_type(F.lit(None).cast("string"), words.column, words)
    others: dict[str, Column] = {}
    for name, (there, word) in candidates.items():
        kind = place.change_type(word, name, words)
        for other, also in others.items():
            kind = place.unless(also, [f"both {other!r} and {name!r} are there; keep one"], kind)
        change = F.when(there, kind).otherwise(change)
        others[name] = there
    return change


PARTS = "_aggloom_parts"
"""A struct of the columns, c0, c1, .., that the directories of a row's file give (`day=1/`)."""


def part_columns(names: Sequence[str]) -> list[Column]:
    """Return the columns in PARTS under their names."""
    return [F.col(f"{PARTS}.c{at}").alias(name) for at, name in enumerate(names)]


def explode_rows(rows: DataFrame, columns: StructType, parts: Sequence[str] = ()) -> DataFrame:
    """A row for each struct of c0, c1, .. and change in the array `rows` (NULL: none), under the schema's names.

    parts: the names of the columns that directories give.
    """
    carried = [PARTS] if parts else []
    # Not a filter before parsing, nor a plain explode: the optimizer would move conditions across
    # the checks, and compute the array twice. Columns are numbered: a user's name must not meet the change column's.
    one = rows.select(*carried, F.explode_outer("rows").alias("row")).where(
        F.col("row").isNotNull()
    )
    fields = [
        F.col(f"row.c{place}").alias(f.name, metadata=f.metadata) for place, f in enumerate(columns)
    ]
    return one.select(*fields, *part_columns(parts), F.col("row.change").alias(CHANGE_COLUMN))


def texts(names: Sequence[str]) -> Column:
    """Names as an array."""
    return F.array(*map(F.lit, names)).cast("array<string>")


def any_of(conditions: Iterable[Column]) -> Column:
    """True where one of the conditions holds."""
    return reduce(or_, conditions, F.lit(False))


def _text(part: str | Column) -> Column:
    return F.lit(part) if isinstance(part, str) else part
