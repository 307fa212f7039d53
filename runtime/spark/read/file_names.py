"""Files whose names Spark's streams take for patterns.

A stream reads the files of a batch by their paths. For each path that has a character of patterns in it, Spark reads
all files of the batch once more (`DataSource.checkAndGlobPathIfNecessary`; seen in 4.3), and says nothing.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from aggloom.errors import InputFormatError

_PATTERNS: Final = frozenset("{}[]*?\\")
# In the paths of `_metadata`, which are URIs, most of them are escaped.
IN_URIS: Final = r"[{}\[\]*?\\]|%(7B|7D|5B|5D|3F|5C)"
CAUSE: Final = (
    r"its path has one of {}[]*?\ in it, and for each such file Spark reads the others of a batch once more. Rename it."
)


def check_name(path: str) -> None:
    """Raise InputFormatError for the path of a file that Spark takes for a pattern."""
    if not _PATTERNS.isdisjoint(path):
        raise InputFormatError(f"{path}: {CAUSE}")


def well_named(value: Column, file: Column) -> Column:
    """A column, or an error where the file that it comes from, a path of `_metadata`, is taken for a pattern."""
    refused = F.raise_error(F.concat(F.lit("InputFormatError: "), file, F.lit(f": {CAUSE}")))
    return F.when(file.rlike(IN_URIS), refused).otherwise(value)
