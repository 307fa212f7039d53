"""A state and a key as values of the templates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from aggloom.runtime.inspection import KeyState, OperatorState, Why
from aggloom.runtime.inspection.facts import KeyBundle, PartContents
from aggloom.runtime.inspection.heaviest import KeyWeight, KeyWindow
from aggloom.runtime.inspection.text import records_text, view_text
from aggloom.runtime.inspection.weight import KeyFinding, WeighedOperator
from aggloom.runtime.page.charts import windows
from aggloom.runtime.page.formatting import count, moment, row, size, value
from aggloom.runtime.page.operator_rows import draw_share, name_anchor
from aggloom.runtime.page.sources import OperatorProgress

_NUMBER = "number"
_MAX_VALUES = 20
_MAX_CHANGES = 100
_MAX_QUERY = 4000


def state_of(
    weighed: WeighedOperator, number: int | None, known: Mapping[str, OperatorProgress]
) -> dict[str, Any]:
    """An operator's sizes and heaviest keys; number: of the checkpoint, for links to the keys."""
    state, heaviest = weighed.state, weighed.heaviest
    in_windows = any(key.windows for key in heaviest.keys)
    counted = any(key.rows is not None for key in heaviest.keys)
    columns = [(name, "") for name in state.key_columns or ("key",)]
    columns += [("rows", _NUMBER), ("share of the rows", "")] if counted else []
    columns += [("windows or slices", _NUMBER)] if in_windows else []
    caption = f"The heaviest {len(heaviest.keys)} of {heaviest.known:,} keys, by "
    caption += "rows kept" if counted else "what is kept; its rows are not counted"
    operator = known.get(weighed.place)
    # A partition is Spark's; the local engine has only buckets.
    partition = ["partition"] if any(b.partition is not None for b in state.largest) else []
    rows = []
    for key in heaviest.keys:
        cells = [_cell(each) for each in key.key.values()] or [Markup("<em>all rows</em>")]
        query = format_key_query(weighed.place, list(key.key.values()))
        # The key is a part of the address, and the server refuses a line that is too long: a link that fails is worse
        # than none.
        if number is not None and operator is not None and len(query) < _MAX_QUERY:
            cells[0] = Markup('<a href="/c/{}/key?{}">{}</a>').format(number, query, cells[0])
        if counted:
            share = heaviest.share_of(key)
            hot = Markup(' <span class="pill warn">hot</span>') if heaviest.is_hot(key) else ""
            cells += [count(key.rows), Markup("{}{}").format(draw_share(share), hot)]
        rows.append([*cells, *([count(key.held)] if in_windows else [])])
    return {
        "id": f"state-{name_anchor(weighed.place)}",
        "title": f"{weighed.place}: {state.name}",
        "facts": _facts(state),
        "sampled": _describe_share(weighed),
        "hot": [row(key.key) for key in heaviest.keys if heaviest.is_hot(key)],
        "caption": caption,
        "columns": columns,
        "keys": rows,
        "timeline": Markup(windows(heaviest.keys, state.watermark)),
        "bucket_columns": [
            (name, _NUMBER)
            for name in ("bucket", *partition, "keys", "snapshot", "log", "entries", "live")
        ],
        "buckets": [
            [
                str(each.bucket),
                *([str(each.partition)] if partition else []),
                count(each.keys),
                *(size(each.snapshot_bytes), size(each.log_bytes), count(each.log_entries)),
                size(each.live_bytes),
            ]
            for each in state.largest
        ],
    }


def format_key_query(place: str, values: Sequence[Any]) -> str:
    """The parameters of the address of a key's page."""
    pairs = [("operator", place)]
    for at, each in enumerate(values):
        pairs.append((f"n{at}", "1") if each is None else (f"v{at}", _format_input(each)))
    return urlencode(pairs)


def _format_input(item: Any) -> str:
    """A value of a key as a user types it, so that it is parsed as the same."""
    if isinstance(item, bytes):
        return item.hex()
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, dict | list):
        return json.dumps(item, default=str, ensure_ascii=False)
    return str(item)


def key_of(finding: KeyFinding, operator: OperatorProgress, place: int = 0) -> dict[str, Any]:
    """A key, its state, and the changes that led to it."""
    state, why = finding.state, finding.why
    key: KeyState = state.key or KeyState(why.key, why.bucket, ())
    near = f" Did you mean {' or '.join(map(repr, key.nearest))}?" if key.nearest else ""
    weight = KeyWeight(key.key, key.bucket, len(key.parts), None, tuple(_list_windows(key.parts)))
    if not why.snapshot and not why.bundles:
        begins = "The log of its bucket has no change of this key."
    elif why.has_snapshot:
        state_text = "; ".join(map(part_text, why.snapshot)) or "not there"
        begins = f"In its bucket's snapshot: {state_text}. Which rows that was made of is not kept."
    else:
        begins = "There is no snapshot yet: the log holds every change."
    total = sum(len(bundle.changes) for bundle in why.bundles)
    if total > _MAX_CHANGES:
        begins += f" The last {_MAX_CHANGES} of {total:,} changes are shown."
    return {
        "id": f"key{place}",
        "title": f"{operator.place}: {state.name}",
        "about": f"{row(key.key) or 'The only group'}; batch {state.batch}, bucket {key.bucket}",
        "absent": "" if key.parts else f"There is no such key.{near}",
        "parts": [_part(part) for part in key.parts],
        "timeline": Markup(windows([weight], state.watermark)),
        "begins": begins,
        "bundles": _bundles(why, max(0, total - _MAX_CHANGES)),
        "now": "; ".join(map(part_text, why.now)) or "not there",
        "disagrees": (
            ""
            if why.agrees
            else "The key's changes one by one do not give what the bundles gave: please report it."
        ),
    }


def part_text(part: PartContents) -> str:
    """Describe the state of a key in one line."""
    window = "" if part.window is None else f"{_window(part.window)} "
    result = "no result" if part.results is None else row(part.results)
    return f"{window}{result}{records_text(part.records)}"


def _part(part: PartContents) -> dict[str, Any]:
    accumulators = [[a.name, a.kind, value(a.value), ", ".join(a.calls)] for a in part.accumulators]
    accumulators += [
        [v.name, v.kind, view_text(v, _MAX_VALUES, value), ", ".join(v.calls)] for v in part.views
    ]
    where = "" if part.window is None else f" of {_window(part.window)}"
    return {
        "text": part_text(part),
        "contents": accumulators,
        "caption": f"Accumulators and views{where}",
    }


def _bundles(why: Why, skip: int) -> list[dict[str, Any]]:
    bundles = []
    for bundle in why.bundles:
        changes = bundle.changes[skip:]
        skip = max(0, skip - len(bundle.changes))
        if changes or bundle.emitted:
            bundles.append(_bundle(bundle, changes))
    return bundles


def _bundle(bundle: KeyBundle, changes: Sequence[Any]) -> dict[str, Any]:
    time = bundle.watermark or bundle.processing
    when = f", {'watermark' if bundle.watermark else 'clock'} {value(time)}" if time else ""
    rows = []
    for change in changes:
        # A change without effect is shown as well: its reader wants to know why a row did nothing.
        for effect in change.effects or (None,):
            if effect is None:
                rows.append([change.kind, row(change.row), "", "", change.note or "no change"])
                continue
            sides = zip((effect.before, effect.after), effect.records, strict=True)
            before, after = (row(each) + records_text(number) for each, number in sides)
            window = "" if effect.window is None else _window(effect.window)
            rows.append([change.kind, row(change.row), window, before, after])
    columns = [(name, "") for name in ("change", "row", "window", "before", "after")]
    # Most operators have no windows; an empty column would look like a fault.
    if not any(each[2] for each in rows):
        columns.pop(2)
        rows = [[*each[:2], *each[3:]] for each in rows]
    return {
        "caption": f"Entry {bundle.entry} of the log, {bundle.rows:,} rows of all keys{when}",
        "columns": columns,
        "changes": rows,
        "emitted": [f"{kind} {row(each)}" for kind, each in bundle.emitted],
        "note": bundle.note,
    }


def _facts(state: OperatorState) -> list[tuple[str, str]]:
    facts = [
        ("keys", count(state.keys)),
        *([("windows or slices", count(state.held))] if state.windows else []),
        ("batch", str(state.batch)),
        ("buckets", count(state.buckets)),
        ("snapshots", size(state.snapshot_bytes)),
        ("log", f"{size(state.log_bytes)}, {count(state.log_entries)} entries"),
        ("live", size(state.live_bytes)),
    ]
    if state.watermark:
        facts.append(("watermark", moment(round(state.watermark.timestamp() * 1000))))
    return facts


def _describe_share(weighed: WeighedOperator) -> str:
    """Describe the share of the state that was read; empty if it was read whole."""
    heaviest = weighed.heaviest
    if heaviest.is_complete:
        return ""
    if weighed.state.note and heaviest.buckets[0] == 0:
        return weighed.state.note
    share = 100 * heaviest.bytes[0] // max(1, heaviest.bytes[1])
    return (
        f"Keys are counted in {heaviest.buckets[0]} of {heaviest.buckets[1]} buckets, the largest, with {share} % "
        f"of the bytes, since {heaviest.stopped}: these are {heaviest.known:,} keys. `aggloom state` reads all."
    )


def _list_windows(parts: Sequence[PartContents]) -> list[KeyWindow]:
    return [KeyWindow(*part.window, part.records) for part in parts if part.window is not None]


def _window(window: tuple[Any, Any]) -> str:
    return f"[{value(window[0])}, {value(window[1])})"


def _cell(item: Any) -> Any:
    """A value of a key; NULL looks different from the text "NULL"."""
    if item is None:
        return Markup('<span class="null">NULL</span>')
    return value(item) if item != "" else Markup('<span class="null">empty text</span>')
