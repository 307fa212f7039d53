"""A page of HTML in place of one of text: `state` and `why` in notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aggloom.display import html_block, html_table, html_text


class HtmlPage:
    """Lines and tables on their way to HTML."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._lines: list[str] = []

    @property
    def text(self) -> str:
        """All of it."""
        self._end_lines()
        return html_block(*self._parts)

    def line(self, text: str) -> None:
        """A line as it is."""
        self._lines.append(text)

    def table(self, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        """Rows under names."""
        self._end_lines()
        self._parts.append(html_table(list(names), [list(row) for row in rows], as_text=True))

    def _end_lines(self) -> None:
        if self._lines:
            self._parts.append(html_text("\n".join(self._lines)))
            self._lines = []
