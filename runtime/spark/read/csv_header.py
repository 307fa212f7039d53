"""The header of a CSV file: the names that its first line has, and what to do where these are not the columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from aggloom.errors import UnknownColumnError, nearest
from aggloom.runtime.formats.partitions import ABOVE, missing_advice

NAME = r"^[\p{L}_][\p{L}\p{N}_ .$#%()/-]*$"
"""What a name looks like, as Java writes it; a number, a date or nothing is a value of a row."""
ROW_ADVICE = "if the first line is a row, header=false reads columns by position"
ABOVE_ADVICE = f"the name of a directory says it: {ABOVE}"
NULL_ADVICE = 'missing="null" takes a column for NULL'
_NAME = re.compile(r"(?!_c\d+$)[^\W\d][\w .$#%()/-]*")


def separator_of(given: Mapping[str, Any]) -> str:
    """What is between two values, by the options in small letters."""
    return str(given.get("sep", given.get("delimiter", ",")))


def header_names(line: str, options: Mapping[str, Any]) -> list[str]:
    """The names in a file's first line."""
    given = {key.lower(): str(value) for key, value in options.items()}
    quote = given.get("quote", '"')
    names = line.lstrip("\ufeff").split(separator_of(given))
    return [name.strip().strip(quote) for name in names]


def check_header(
    path: str, file: str, found: Sequence[str], columns: StructType, lenient: bool = False
) -> None:
    """Raise UnknownColumnError unless the names of a file's first line are the columns, in any case.

    file: the one that has the line, if that is known. lenient: one of them is enough. A line that names none is a row,
    which must not be lost.
    """
    lower = {name.lower() for name in found}
    lacks = [name for name in columns.names if name.lower() not in lower]
    if len(lacks) == len(columns.names) and lacks:
        raise UnknownColumnError(
            f"{path}: the first line of a CSV file must name its columns, {', '.join(columns.names)}; it is "
            f"{','.join(found)[:200]!r}. Add that line to every file, or say header=false to read columns by position."
        )
    if lacks and not lenient:
        is_header = all(map(_NAME.fullmatch, found))
        advice = missing_advice(lacks[0], file) if is_header else f"{ROW_ADVICE.capitalize()}."
        raise UnknownColumnError(
            f"{path}: the first line does not name the column {lacks[0]!r}. {nearest(lacks[0], found)} {advice}"
        )
