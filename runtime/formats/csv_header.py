"""The header of a CSV file, and the policy where the names in its first line are not the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aggloom.errors import UnknownColumnError, nearest
from aggloom.runtime.formats.partitions import missing_advice

_ROW_ADVICE = "If the first line is a row, header=false reads columns by position."
# A number, a date or nothing is a value of a row, and _c0 what Spark calls a column without a name.
_NAME = re.compile(r"(?!_c\d+$)[^\W\d][\w .$#%()/-]*")


def check_header(
    path: str,
    file: str,
    names: Sequence[str],
    columns: Sequence[str],
    lenient: bool = False,
    hint: str = "",
) -> None:
    """Raise UnknownColumnError unless the names of a file's first line are the columns, in any case.

    file: the one that has the line, if that is known. lenient: one of them is enough. A line that names none is a row,
    which must not be lost. hint: what else the line suggests.
    """
    lower = {name.lower() for name in names}
    lacks = [name for name in columns if name.lower() not in lower]
    if len(lacks) == len(columns) and lacks:
        raise UnknownColumnError(
            f"{path}: the first line of a CSV file must name its columns, {', '.join(columns)}; it is "
            f"{','.join(names)[:200]!r}{hint}. Add that line to every file, or say header=false to read columns by "
            "position."
        )
    if lacks and not lenient:
        is_header = all(map(_NAME.fullmatch, names))
        advice = missing_advice(lacks[0], file) if is_header else _ROW_ADVICE
        raise UnknownColumnError(
            f"{path}: the first line does not name the column {lacks[0]!r}{hint}. {nearest(lacks[0], names)} {advice}"
        )
