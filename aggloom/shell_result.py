"""The results that the shell prints: a table, with the number of rows and the types of columns below it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click
import pyarrow as pa

from aggloom.codegen import type_name
from aggloom.codegen.planner import ResultOrder
from aggloom.display import Form, text_of
from aggloom.runtime.values.changelog import sort_key
from aggloom.terminal_table import show_rows

Row = tuple[Any, ...]


def sort_rows(rows: Sequence[Row], names: Sequence[str], order: ResultOrder) -> list[Row]:
    """Sort rows by an ORDER BY; rows that are the same by it stay in their order."""
    sorted_rows = list(rows)
    for item in reversed(order.items):
        place = names.index(item.column)
        known = [row for row in sorted_rows if row[place] is not None]
        nulls = [row for row in sorted_rows if row[place] is None]
        known.sort(key=partial(_value_key, place), reverse=item.descending)
        sorted_rows = nulls + known if item.nulls_first else known + nulls
    return sorted_rows


def _value_key(place: int, row: Row) -> Any:
    return sort_key(row[place])


def show_result(schema: pa.Schema, rows: Sequence[Row], form: Form, hidden: int = 0) -> None:
    """Print rows, a table with a line of its columns' types and its number of rows.

    hidden: how many of the last columns are not shown.
    """
    names = schema.names[: len(schema) - hidden]
    visible = [row[: len(names)] for row in rows] if hidden else rows
    show_rows(names, visible, form)
    if form == "table":
        types = ", ".join(f"{text_of(n)} {type_name(schema.field(n).type)}" for n in names)
        click.echo(f"{len(rows):,} row{'s' * (len(rows) != 1)}: {types}")
