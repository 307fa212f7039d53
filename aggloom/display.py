"""Values, tables and texts for display: as text, and as HTML in which users' data is never markup."""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any, Literal

Form = Literal["table", "csv", "json"]
FORMS = ("table", "csv", "json")
"""Forms in which rows are printed."""
NULL = "NULL"
ROWS = 100
"""The number of rows of a table that are shown."""
_LETTERS = 1_000
_RIGHT = ' style="text-align:right"'
_LEFT = ' style="text-align:left"'


def text_of(value: Any) -> str:
    """A value as text. A text that could be taken for NULL, or that has what cannot be seen, is in quotes."""
    if value is None:
        return NULL
    if isinstance(value, str):
        return repr(value) if is_odd(value) else value
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, Mapping):
        return f"({fields_of(value)})"
    if isinstance(value, list | tuple):
        inner = ", ".join(repr(each) if isinstance(each, str) else text_of(each) for each in value)
        # Texts within a list are quoted, because a comma in one would look like the end of it.
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return str(value)


def fields_of(row: Mapping[str, Any]) -> str:
    """A row's values by name, on a line."""
    return ", ".join(f"{name}={text_of(value)}" for name, value in row.items())


def is_odd(text: str) -> bool:
    """Tell whether a text, printed as it is, would be taken for another: it has hidden characters, or looks like
    NULL or quoted.
    """
    is_plain = text.isprintable() and text.strip() == text and text not in ("", NULL)
    return not is_plain or text[0] in "'\""


def html_table(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    total: int | None = None,
    *,
    as_text: bool = False,
) -> str:
    """Rows under names, the first ROWS of them; total: how many there are, if that is known.

    as_text: texts are words about values, and no values themselves.
    """
    # One more than is shown tells that there are more; counting them all would read the whole result.
    listed = [list(row) for row in islice(rows, ROWS + 1)]
    more = len(listed) > ROWS
    listed = listed[:ROWS]
    sides = [_side(row[place] for row in listed) for place in range(len(names))]
    head = "".join(
        f"<th{side}>{_cell(n, False)}</th>" for n, side in zip(names, sides, strict=True)
    )
    parts = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    for row in listed:
        cells = (f"<td{side}>{_cell(v, as_text)}</td>" for v, side in zip(row, sides, strict=True))
        parts.append(f"<tr>{''.join(cells)}</tr>")
    parts.append("</tbody></table>")
    if more or (total or 0) > len(listed):
        of = f" of {total:,}" if total else ""
        parts.append(html_line(f"the first {len(listed):,}{of} rows are shown"))
    return "".join(parts)


def html_line(text: str) -> str:
    """A line of words."""
    return f"<div>{_safe(text)}</div>"


def html_text(text: str) -> str:
    """A text as it is, line by line."""
    return f'<pre style="white-space:pre;overflow-x:auto">{_safe(text)}</pre>'


def html_plan(svg: str) -> str:
    """The picture of a plan; as an image, its styles stay its own."""
    data = b64encode(svg.encode("utf-8", "replace")).decode("ascii")
    return (
        f'<img src="data:image/svg+xml;base64,{data}" alt="A query plan" style="max-width:100%"/>'
    )


def html_fold(title: str, *parts: str, is_open: bool = False) -> str:
    """HTML under a title that opens and closes."""
    return (
        f"<details{' open' * is_open}><summary>{_safe(title)}</summary>{''.join(parts)}</details>"
    )


def html_block(*parts: str) -> str:
    """Parts of HTML as one."""
    return f"<div>{''.join(parts)}</div>"


def _side(values: Iterable[Any]) -> str:
    """Numbers to the right."""
    kinds = [
        isinstance(v, int | float) and not isinstance(v, bool) for v in values if v is not None
    ]
    return _RIGHT if kinds and all(kinds) else _LEFT


def _cell(value: Any, as_text: bool) -> str:
    if as_text and isinstance(value, str):
        return _safe(_cut(value))
    text = _safe(_cut(text_of(value)))
    if value is None:
        return f"<i>{text}</i>"
    return f"<code>{text}</code>" if isinstance(value, str) and is_odd(value) else text


def _cut(text: str) -> str:
    if len(text) <= _LETTERS:
        return text
    return f"{text[:_LETTERS]}… ({len(text):,} characters)"


def _safe(text: str) -> str:
    """The text as HTML can hold it, in any encoding that a page is kept in."""
    return escape(text.encode("utf-8", "backslashreplace").decode("utf-8"), quote=True)
