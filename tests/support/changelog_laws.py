"""The laws of a complete changelog with a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from aggloom.runtime.values.changelog import ChangelogLawError, same_value

Row = tuple[Any, ...]


def check_laws(rows: Iterable[Sequence[Any]], key_width: int, one_net_change: bool) -> None:
    """Raise ChangelogLawError unless a complete keyed changelog obeys the laws.

    A -U or -D names the row last emitted for its key, a -U is followed by its +U, nothing but +I
    follows a -D, and with `one_net_change` a key changes at most once in these rows.
    """
    live: dict[Row, Row] = {}
    open_updates: set[Row] = set()
    changes: Counter[Row] = Counter()
    for kind, *values in rows:
        row = tuple(map(same_value, values))
        key = row[:key_width]
        if kind != "-U":
            changes[key] += 1
        if one_net_change and changes[key] > 1:
            raise ChangelogLawError(f"key {key!r} changes more than once: {kind} {row!r}")
        _apply_change(kind, key, row, live, open_updates)
    if open_updates:
        raise ChangelogLawError(f"-U without its +U for key {min(open_updates, key=repr)!r}")


def _apply_change(
    kind: str, key: Row, row: Row, live: dict[Row, Row], open_updates: set[Row]
) -> None:
    """Apply one row to the live table, or say which law it breaks."""
    if kind in ("-U", "-D") and live.get(key) != row:
        raise ChangelogLawError(f"{kind} {row!r} is not the row last emitted: {live.get(key)!r}")
    if kind == "+I" and key in live:
        raise ChangelogLawError(f"+I {row!r} for a key that is there already: {live[key]!r}")
    if (kind == "+U") != (key in open_updates):
        raise ChangelogLawError(f"{kind} {row!r} is out of place: -U and +U come in pairs")
    if kind == "-U":
        open_updates.add(key)
    elif kind == "-D":
        del live[key]
    else:
        live[key] = row
        open_updates.discard(key)
