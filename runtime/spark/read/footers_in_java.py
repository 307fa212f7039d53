"""The class by which Java looks at the footer of each Parquet file whose rows it reads, ahead of its first row."""

from __future__ import annotations

from typing import Final

from aggloom.runtime.spark.read.file_names import CAUSE, IN_URIS
from aggloom.runtime.values.markers import MARKER_HINT

DAMAGED: Final = (
    "cannot be read as Parquet: its footer is damaged, and Spark would pass over rows. "
    "Remove the file, or write it again."
)
LENIENT: Final = 'missing="null" reads missing values as NULL.'
CLASS: Final = "AggloomFooters"
# The function is called for each row, which must cost next to nothing: it takes no arguments, and knows by the address
# of the path's object whether a row is of the file of the row before. Spark makes a new one for each part of a file.
SOURCE: Final = "footers.java.j2"
"""The template of its text."""
TEXTS: Final = {
    "in_uris": IN_URIS,
    "cause": CAUSE,
    "damaged": DAMAGED,
    "marker_hint": MARKER_HINT,
    "lenient": LENIENT,
}
"""The texts in it."""
