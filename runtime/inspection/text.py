"""Reports as text: tables of rich, wide enough for what is in them."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from aggloom.runtime.inspection.report import (
    Bundle,
    Change,
    KeyState,
    OperatorState,
    Part,
    Row,
    State,
    View,
    Why,
)

_WIDTH = 150
_NOT_THERE = "not there"


def state_text(state: State, limit: int) -> str:
    """A state as text; views are cut after `limit` values."""
    page = _Page()
    for number, operator in enumerate(state.operators):
        if number:
            page.line("")
        _operator(page, operator)
        if operator.key is not None:
            _key(page, operator.key, limit)
    return page.text


def why_text(why: Why, limit: int) -> str:
    """A key's story as text, with its last `limit` changes."""
    page = _Page()
    page.line(f"operator {why.operator}: {why.name}, batch {why.batch}, bucket {why.bucket}")
    page.line(_key_words(why.key))
    if not why.snapshot and not why.bundles:
        page.line(_absent(why.nearest))
        return page.text
    if why.has_snapshot:
        held = "; ".join(map(_part_words, why.snapshot)) or _NOT_THERE
        page.line(f"in the snapshot: {held}. Which rows it was made of is not kept")
    else:
        page.line("there is no snapshot yet: the log holds every change")
    total = sum(len(bundle.changes) for bundle in why.bundles)
    if total > limit:
        page.line(f"the last {limit} of {total} changes are shown (--limit)")
    skip = max(0, total - limit)
    for bundle in why.bundles:
        shown = bundle.changes[skip:]
        skip = max(0, skip - len(bundle.changes))
        if shown or not total:
            _bundle(page, bundle, shown)
    now = "; ".join(map(_part_words, why.now)) or _NOT_THERE
    page.line(f"now: {now}")
    if not why.agrees:
        page.line(
            "The key's changes one by one do not come to what the bundles came to where it says so: "
            "please report it."
        )
    return page.text


class _Page:
    """Lines and tables on their way to text."""

    def __init__(self) -> None:
        self._out = io.StringIO()
        self._console = Console(file=self._out, width=_WIDTH, color_system=None, highlight=False)

    @property
    def text(self) -> str:
        """All of it."""
        lines = self._out.getvalue().splitlines()
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def line(self, text: str) -> None:
        """A line as it is."""
        self._out.write(f"{text}\n")

    def table(self, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        """Rows under names, numbers to the right."""
        listed = [list(row) for row in rows]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, name in enumerate(names):
            numbers = all(isinstance(row[place], int | float | None) for row in listed)
            table.add_column(
                _escaped(name), justify="right" if numbers else "left", overflow="fold"
            )
        for row in listed:
            table.add_row(
                *(_escaped(cell if isinstance(cell, str) else _shown(cell)) for cell in row)
            )
        self._console.print(table)


def _operator(page: _Page, state: OperatorState) -> None:
    part = "" if state.part is None else f".{state.part}"
    page.line(f"operator {state.number}{part}: {state.name}")
    settings = ", ".join(f"{name}={value}" for name, value in state.settings.items())
    clock = [f"watermark {_shown(state.watermark)}"] if state.watermark else []
    clock += [f"clock {_shown(state.processing)}"] if state.processing else []
    facts = [
        ("keys", f"{', '.join(state.key_columns) or '()'}: {_counted(state.keys)}"),
        ("calls", ", ".join(state.calls)),
        *([("windows", f"{state.windows}: {_counted(state.held)} held")] if state.windows else []),
        ("batch", f"{state.batch} (of {state.first_batch} to {state.last_batch})"),
        ("state", f"spec {state.digest}, layout {state.layout}, {state.buckets} buckets"),
        ("bytes", _bytes_words(state)),
        *([("time", ", ".join(clock))] if clock else []),
        ("settings", settings),
        *([("note", state.note)] if state.note else []),
    ]
    for name, value in facts:
        page.line(f"  {name:<9} {value}")
    if state.key is None:
        names = ("bucket", "partition", "keys", "snapshot", "log", "entries", "live")
        page.table(
            names,
            (
                (
                    b.bucket,
                    b.partition,
                    b.keys,
                    b.snapshot_bytes,
                    b.log_bytes,
                    b.log_entries,
                    b.live_bytes,
                )
                for b in state.largest
            ),
        )


def _key(page: _Page, key: KeyState, limit: int) -> None:
    page.line("")
    page.line(f"{_key_words(key.key)}, bucket {key.bucket}")
    if not key.parts:
        page.line(_absent(key.nearest))
    for part in key.parts:
        page.line(f"  {_part_words(part)}")
        if part.given is not None:
            page.line(f"  given out: {_row_words(part.given)}")
        if part.written is not None:
            page.line(f"  written last: {_shown(part.written)}")
        held = [(a.name, a.kind, _shown(a.value), ", ".join(a.calls)) for a in part.accumulators]
        held += [(v.name, v.kind, _view_words(v, limit), ", ".join(v.calls)) for v in part.views]
        if held:
            page.table(("accumulator", "kind", "value", "of"), held)


def _bundle(page: _Page, bundle: Bundle, changes: Iterable[Change]) -> None:
    time = bundle.watermark or bundle.processing
    word = "watermark" if bundle.watermark else "clock"
    when = f", {word} {_shown(time)}" if time else ""
    page.line("")
    page.line(f"entry {bundle.entry} of the log ({bundle.rows:,} rows of all keys{when})")
    if bundle.note:
        page.line(f"  {bundle.note}")
    rows = [line for change in changes for line in _lines(change)]
    if rows:
        windows = any(row[2] for row in rows)
        names = ("change", "row", "window", "before", "after")
        keep = [place for place in range(5) if windows or place != 2]
        page.table((names[place] for place in keep), ([row[p] for p in keep] for row in rows))
    for kind, row in bundle.emitted:
        page.line(f"  emitted {kind} {_row_words(row)}")
    if not bundle.agrees:
        page.line("  the key's changes one by one come to something else than this bundle")


def _lines(change: Change) -> Iterator[tuple[str, ...]]:
    """A change's lines of the table: one for each window that it did something to."""
    told = _row_words(change.row)
    if not change.effects:
        yield change.kind, told, "", "", change.note or "no change"
    for effect in change.effects:
        window = "" if effect.window is None else _window_words(effect.window)
        sides = zip((effect.before, effect.after), effect.records, strict=True)
        before, after = (
            (_NOT_THERE if row is None else _row_words(row)) + _records_words(count)
            for row, count in sides
        )
        yield change.kind, told, window, before, after


def _records_words(count: int | None) -> str:
    return f" ({count:,} record{'' if count == 1 else 's'})" if count else ""


def _bytes_words(state: OperatorState) -> str:
    live = "" if state.live_bytes is None else f", live {state.live_bytes:,}"
    entries = f"{state.log_entries:,} entries since the snapshots"
    return f"snapshots {state.snapshot_bytes:,}, log {state.log_bytes:,} ({entries}){live}"


def _counted(number: int | None) -> str:
    return "not counted" if number is None else f"{number:,}"


def _absent(nearest: tuple[str, ...]) -> str:
    more = f" Did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
    return f"  there is no such key.{more}"


def _key_words(key: Row) -> str:
    return (
        "key " + ", ".join(f"{n}={_shown(v)}" for n, v in key.items()) if key else "the only group"
    )


def _part_words(part: Part) -> str:
    window = "" if part.window is None else f"{_window_words(part.window)} "
    held = "no result" if part.results is None else _row_words(part.results)
    return f"{window}{held}{_records_words(part.records)}"


def _window_words(window: tuple[Any, Any]) -> str:
    return f"[{_shown(window[0])}, {_shown(window[1])})"


def _row_words(row: Row) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in row.items())


def _view_words(view: View, limit: int) -> str:
    if not view.entries:
        return f"{view.size:,} entries" if view.size else "empty"
    shown = [
        _shown(value) + ("" if counts == (1,) else f" x {', '.join(map(str, counts))}")
        for value, counts in view.entries[:limit]
    ]
    more = view.size - len(shown)
    return "; ".join(shown) + (f"; {more:,} more" if more else "")


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, str):
        return value if value.isprintable() and value.strip() == value and value else repr(value)
    if isinstance(value, dict):
        return f"({_row_words(value)})"
    return str(value)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
