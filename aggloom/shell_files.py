"""Files that a query names in place of a table, as in DuckDB: FROM 'orders.csv'."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from aggloom.codegen import tables_read
from aggloom.errors import AggloomError
from aggloom.tables import TableSource, table_source

_LIKE_FILE = re.compile(r"[./\\*?\[]")


def is_file_name(name: str) -> bool:
    """Tell whether a name in FROM is that of a file, a directory or a pattern rather than of a table."""
    return bool(_LIKE_FILE.search(name))


def file_table(name: str, folder: Path | None = None) -> TableSource:
    """Return the table of a file, a directory or a pattern, with the columns and the format that it has.

    folder: to what a relative path is relative. Raises SpecError.
    """
    return table_source(name, {"path": name}, f"FROM '{name}'", folder)


def files_read(sql: str, known: Iterable[str]) -> list[str]:
    """List the files that a query names where a table stands; known: names of tables, which come first."""
    names = {name.casefold() for name in known}
    try:
        read = tables_read(sql)
    except AggloomError:
        # The planner says what is wrong with the text, with its place.
        return []
    return [name for name in read if is_file_name(name) and name.casefold() not in names]
