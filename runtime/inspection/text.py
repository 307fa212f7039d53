"""Facts as text: lines, and tables of rich, wide enough for what is in them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from aggloom.display import fields_of, text_of
from aggloom.runtime.inspection.facts import (
    KeyBundle,
    KeyChange,
    KeyState,
    OperatorState,
    PartContents,
    Row,
    ViewSize,
)

_WIDTH = 150
_SIZES = ("keys", "snapshot", "log", "entries", "live")
NOT_THERE = "not there"


class Page(Protocol):
    """A page on which lines and tables are written."""

    def line(self, text: str) -> None:
        """A line as it is."""

    def table(self, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        """Rows under names."""


class TextPage:
    """Lines and tables on their way to text."""

    def __init__(self) -> None:
        # A worker imports this room, too, and never draws a table.
        from rich.console import Console

        self._out = io.StringIO()
        # A fixed width, so that the same state prints the same text in a pipe and in any terminal.
        self._console = Console(file=self._out, width=_WIDTH, color_system=None, highlight=False)

    @property
    def text(self) -> str:
        """All of it."""
        # Rich pads cells to the width of their column, which would leave blanks at the ends of lines.
        lines = self._out.getvalue().splitlines()
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def line(self, text: str) -> None:
        """A line as it is."""
        self._out.write(f"{text}\n")

    def table(self, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        """Rows under names, numbers to the right."""
        from rich import box
        from rich.table import Table

        listed = [list(row) for row in rows]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, name in enumerate(names):
            # Columns of numbers may have gaps, where an operator did not count.
            numbers = all(isinstance(row[place], int | float | None) for row in listed)
            table.add_column(
                _escape_text(name), justify="right" if numbers else "left", overflow="fold"
            )
        for row in listed:
            table.add_row(
                *(_escape_text(cell if isinstance(cell, str) else text_of(cell)) for cell in row)
            )
        self._console.print(table)


def write_operator(page: Page, state: OperatorState) -> None:
    """An operator: what it is, and its largest buckets or the one key that was asked for."""
    part = "" if state.part is None else f".{state.part}"
    page.line(f"operator {state.number}{part}: {state.name}")
    settings = ", ".join(f"{name}={value}" for name, value in state.settings.items())
    clock = [f"watermark {text_of(state.watermark)}"] if state.watermark else []
    clock += [f"clock {text_of(state.processing)}"] if state.processing else []
    facts = [
        ("keys", f"{', '.join(state.key_columns) or '()'}: {_format_count(state.keys)}"),
        *([("calls", ", ".join(state.calls))] if state.calls else []),
        *(
            [("windows", f"{state.windows}: {_format_count(state.held)} kept")]
            if state.windows
            else []
        ),
        ("batch", f"{state.batch} (of {state.first_batch} to {state.last_batch})"),
        ("state", f"spec {state.digest}, layout {state.layout}, {state.buckets} buckets"),
        ("bytes", _bytes_text(state)),
        *([("time", ", ".join(clock))] if clock else []),
        ("settings", settings),
        *([("note", state.note)] if state.note else []),
    ]
    for name, value in facts:
        page.line(f"  {name:<9} {value}")
    if state.key is None:
        # The local engine has no partitions: a column of dashes would ask for an explanation.
        in_partitions = any(each.partition is not None for each in state.largest)
        page.table(
            ("bucket", *(["partition"] if in_partitions else []), *_SIZES),
            (
                (
                    b.bucket,
                    *([b.partition] if in_partitions else []),
                    b.keys,
                    b.snapshot_bytes,
                    b.log_bytes,
                    b.log_entries,
                    b.live_bytes,
                )
                for b in state.largest
            ),
        )


def write_key(page: Page, key: KeyState, limit: int) -> None:
    """A key: its parts, their accumulators, and the first `limit` values of each view."""
    page.line("")
    page.line(f"{key_text(key.key)}, bucket {key.bucket}")
    if not key.parts:
        page.line(absent(key.nearest))
    for part in key.parts:
        page.line(f"  {part_text(part)}")
        if part.given is not None:
            page.line(f"  emitted: {fields_of(part.given)}")
        if part.written is not None:
            page.line(f"  written last: {text_of(part.written)}")
        accumulators = [
            (a.name, a.kind, text_of(a.value), ", ".join(a.calls)) for a in part.accumulators
        ]
        accumulators += [
            (v.name, v.kind, view_text(v, limit), ", ".join(v.calls)) for v in part.views
        ]
        if accumulators:
            page.table(("accumulator", "kind", "value", "of"), accumulators)


def write_bundle(page: Page, bundle: KeyBundle, changes: Iterable[KeyChange]) -> None:
    """Write the effect of a bundle on a key, with some of its changes."""
    time = bundle.watermark or bundle.processing
    word = "watermark" if bundle.watermark else "clock"
    when = f", {word} {text_of(time)}" if time else ""
    page.line("")
    page.line(f"entry {bundle.entry} of the log ({bundle.rows:,} rows of all keys{when})")
    if bundle.note:
        page.line(f"  {bundle.note}")
    rows = [line for change in changes for line in _lines(change)]
    if rows:
        # Only windowed operators have anything to show in the third column.
        windows = any(row[2] for row in rows)
        names = ("change", "row", "window", "before", "after")
        keep = [place for place in range(5) if windows or place != 2]
        page.table((names[place] for place in keep), ([row[p] for p in keep] for row in rows))
    for kind, row in bundle.emitted:
        page.line(f"  emitted {kind} {fields_of(row)}")
    if not bundle.agrees:
        page.line("  the key's changes one by one give another result than this bundle")


def _lines(change: KeyChange) -> Iterator[tuple[str, ...]]:
    """A change's lines of the table: one for each window that it did something to."""
    row_text = fields_of(change.row)
    if not change.effects:
        yield change.kind, row_text, "", "", change.note or "no change"
    for effect in change.effects:
        window = "" if effect.window is None else _window_text(effect.window)
        sides = zip((effect.before, effect.after), effect.records, strict=True)
        before, after = (
            (NOT_THERE if row is None else fields_of(row)) + records_text(count)
            for row, count in sides
        )
        yield change.kind, row_text, window, before, after


def records_text(count: int | None) -> str:
    """The number of records that a state is of, as it follows the state."""
    # No text for zero rows either: `not there` says it already.
    return f" ({count:,} record{'' if count == 1 else 's'})" if count else ""


def _bytes_text(state: OperatorState) -> str:
    live = "" if state.live_bytes is None else f", live {state.live_bytes:,}"
    entries = f"{state.log_entries:,} entries since the snapshots"
    return f"snapshots {state.snapshot_bytes:,}, log {state.log_bytes:,} ({entries}){live}"


def _format_count(number: int | None) -> str:
    return "not counted" if number is None else f"{number:,}"


def absent(nearest: tuple[str, ...]) -> str:
    """Say that a key is not there, and which ones read alike."""
    more = f" Did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
    return f"  there is no such key.{more}"


def key_text(key: Row) -> str:
    """A key by the names of its columns."""
    return (
        "key " + ", ".join(f"{n}={text_of(v)}" for n, v in key.items()) if key else "the only group"
    )


def part_text(part: PartContents) -> str:
    """Describe the state of a key in one line."""
    window = "" if part.window is None else f"{_window_text(part.window)} "
    result = "no result" if part.results is None else fields_of(part.results)
    return f"{window}{result}{records_text(part.records)}"


def _window_text(window: tuple[Any, Any]) -> str:
    return f"[{text_of(window[0])}, {text_of(window[1])})"


def view_text(view: ViewSize, limit: int, shown_as: Callable[[Any], str] = text_of) -> str:
    """The entries of a view, the first `limit` of them, each as often as it is there."""
    if not view.entries:
        return f"{view.size:,} entries" if view.size else "empty"
    entry_texts = [
        # Most values are there once. A count that is not one is shown, also a negative one.
        shown_as(value) + ("" if counts == (1,) else f" x {', '.join(map(str, counts))}")
        for value, counts in view.entries[:limit]
    ]
    more = view.size - len(entry_texts)
    return "; ".join(entry_texts) + (f"; {more:,} more" if more else "")


def _escape_text(text: str) -> str:
    # Rich would take a bracket for markup, and swallow the text in it.
    return text.replace("[", "\\[")
