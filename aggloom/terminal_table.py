"""Tables in a terminal, or in a pipe: rows in the order of their key, the first of many, NULL unlike any text."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click
import pyarrow as pa

from aggloom.display import Form, is_odd, text_of
from aggloom.runtime.values.changelog import sort_key
from aggloom.runtime.values.columns import to_python

ROWS = 1_000
"""The number of rows that are drawn."""
_WIDE = 100_000


def in_order(table: pa.Table, key: Sequence[str] | None) -> pa.Table:
    """The rows by the columns of a key, then by all; nulls first and NaN last. Raises DataError."""
    names = table.column_names
    places = [names.index(name) for name in key or () if name in names]
    rows = list(zip(*to_python(table), strict=True))

    def by(place: int) -> list[Any]:
        row = rows[place]
        return [sort_key(value) for value in (*(row[at] for at in places), *row)]

    return table.take(pa.array(sorted(range(len(rows)), key=by), pa.int64()))


def show_table(table: pa.Table, rest: str = "") -> None:
    """Draw a table; rest: where all of it is, if it has more than ROWS rows."""
    rows = list(zip(*to_python(table.slice(0, ROWS)), strict=True))
    _draw(table.column_names, rows)
    _tell_more(table.num_rows, rest)


def show_rows(names: Sequence[str], rows: Sequence[Sequence[Any]], form: Form = "table") -> None:
    """Print rows in a form; of a drawn table the first ROWS."""
    if form == "csv":
        click.echo(_as_csv(names, rows), nl=False)
    elif form == "json":
        for row in rows:
            line = dict(zip(names, row, strict=True))
            click.echo(json.dumps(line, ensure_ascii=False, default=text_of))
    else:
        _draw(names, rows[:ROWS])
        _tell_more(len(rows))


def _tell_more(rows: int, rest: str = "") -> None:
    if rows > ROWS:
        more = f"the first {ROWS:,} of {rows:,} rows are shown{rest and '; ' + rest}"
        click.echo(more, err=True)


def _draw(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table_shown = Table()
    for name in names:
        table_shown.add_column(Text(text_of(name)), overflow="fold")
    for row in rows:
        cells = (Text(text_of(value), style=_style(value)) for value in row)
        table_shown.add_row(*cells)
    # Nothing of a value is cut off where nobody looks at the width.
    width = None if sys.stdout.isatty() else _WIDE
    Console(width=width).print(table_shown)


def _style(value: Any) -> str:
    return "dim italic" if value is None or (isinstance(value, str) and is_odd(value)) else ""


def _as_csv(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows as CSV, where NULL is empty, and the empty text is in quotes."""
    lines = [names, *rows]
    return "".join(",".join(map(_csv_cell, line)) + "\n" for line in lines)


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else text_of(value)
    if text and not any(sign in text for sign in ',"\r\n') and text.strip() == text:
        return text
    return '"' + text.replace('"', '""') + '"'
