"""The footprint of a stateful node: the parts of its state, their bounds, and the bytes of a key.

The numbers are those of the arrays in `runtime/` with some 100,000 keys or more, in memory: what arrays have reserved
beyond what they hold is not touched. Tables and trees are fuller or emptier as they grow and count with what lies in
the middle. Tests compare all of them with running operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aggloom.codegen.handler.class_notes import note_functions
from aggloom.codegen.handler.plan import plan_of
from aggloom.codegen.handler.plan_parts import CallBlock, HandlerPlan, StateView
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.views.room import CELL as CELL
from aggloom.codegen.views.room import TABLE as TABLE
from aggloom.codegen.views.room import WORD as WORD
from aggloom.type_layout import is_pooled

KEY_TABLE = 14
"""Those of a key in the table of keys: in live state on Spark it has 3/2 to 15/8, of a word."""
# Offset, hash, length, references, a mark, and a place in the list of what nothing refers to yet.
TEXT = 2 * WORD + 3 * CELL + 1 + TABLE


def state_of(spec: AggSpec, backend: str, ttl: int) -> dict[str, Any]:
    """The state of an operator with this spec, as data.

    bytes_per_key is room for one key without the entries of its views and without texts, None for Python objects;
    bytes_per_text, for each different text of keys and accumulators in a bucket, comes to the bytes of the text. The
    texts of remembered rows take their bytes alone: `has_texts` says of entries that they have some.
    """
    # The handler's own plan is asked, so that the figures follow what is generated.
    plan = plan_of(spec, backend)
    parts = list(_parts(plan, ttl))
    sizes = [part["bytes_per_key"] for part in parts]
    # One part that cannot be measured makes the sum unknown; a sum of the others would be taken for the whole.
    whole = None if None in sizes or not plan.is_compiled else sum(sizes)
    entries = [part["entries"] for part in parts if "entries" in part]
    # Calls with one argument share a view, which bounds the state once.
    grows = list(dict.fromkeys([*entries, *_live_rows(plan)]))
    keys = "the number of keys" if spec.group_by else "one key"
    footprint = {
        "bounded_by": [keys, *(f"per key, {what}" for what in grows)],
        "ttl_ms": ttl,
        "compiled": plan.is_compiled,
        "bytes_per_key": whole,
        "parts": parts,
        "texts": _holds_texts(plan),
    }
    notes = note_functions(plan)
    footprint |= {"functions": notes} if notes else {}
    return footprint | ({"bytes_per_text": TEXT} if footprint["texts"] else {})


def bounds(state: dict[str, Any]) -> str:
    """Return the bounds of a state, as a phrase."""
    first, *rest = state["bounded_by"]
    per = f"per {state.get('per', 'key')}, "
    within = " and ".join(each.removeprefix(per) for each in rest)
    if not rest:
        return str(first)
    return f"{first} and, {per}{within}" if first != "one key" else f"one key and {within}"


def size(state: dict[str, Any]) -> str:
    """The bytes that a key takes, as a phrase."""
    if state["bytes_per_key"] is None:
        return "Python objects"
    entries = {part["bytes_per_entry"] for part in state["parts"] if "entries" in part}
    more = "".join(f" and {each} an entry" for each in [_range(entries)] if each)
    return f"{state['bytes_per_key']} bytes a {state.get('per', 'key')}{more}"


def _range(sizes: set[int]) -> str:
    least, most = min(sizes, default=0), max(sizes, default=0)
    return f"{least} to {most}" if least != most else str(least or "")


def _parts(plan: HandlerPlan, ttl: int) -> Iterator[dict[str, Any]]:
    index = index_bytes(len(plan.spec.group_by))
    yield {"name": "key", "kind": "index", "bytes_per_key": index}
    for each in plan.fields:
        room = int(each.dtype[1:]) * max(1, each.columns) if each.kind != "object" else None
        yield {"name": each.attr, "kind": each.kind, "bytes_per_key": room}
    columns_by_view = _columns_of_views(plan)
    for view in plan.views:
        yield {
            "name": view.attr,
            "kind": view.kind.name,
            **_view(view, columns_by_view.get(view.attr, ())),
        }
    if ttl:
        yield {"name": "written", "kind": "time", "bytes_per_key": WORD}


def index_bytes(columns: int) -> int:
    """The room that a key of so many columns takes."""
    mask = 1 if columns <= 8 else 8
    return WORD * max(columns, 1) + mask + 1 + KEY_TABLE


def _view(view: StateView, columns: tuple[str, ...]) -> dict[str, Any]:
    """The room that a view takes by key and, if it grows with the values, by entry and what an entry is."""
    what = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    room = view.kind.room(view.width, what)
    grows = {"entries": room.entries, "bytes_per_entry": room.entry} if room.entries else {}
    return {"bytes_per_key": room.key, **grows}


def _live_rows(plan: HandlerPlan) -> Iterator[str]:
    """The live rows that are kept for classes without `retract`."""
    texts = {text for text, retraction in plan.retractions if retraction.why}
    for call in plan.spec.calls:
        if call.text in texts:
            what = call.args[0] if len(call.args) == 1 else f"({', '.join(call.args)})"
            yield f"the different values of {what}"


def _columns_of_views(plan: HandlerPlan) -> dict[str, tuple[str, ...]]:
    """The columns of which each view keeps values."""
    columns_by_view = {}
    blocks = [*plan.blocks, *(block for each in plan.distincts for block in each.blocks)]
    for block in blocks:
        for step in block.views:
            columns_by_view[step.view.attr] = _columns(block)
    for each in plan.distincts:
        columns_by_view[each.view.attr] = _columns(each.blocks[0])
    return columns_by_view


def _columns(block: CallBlock) -> tuple[str, ...]:
    return () if block.operand is None else block.operand.columns


def _holds_texts(plan: HandlerPlan) -> bool:
    """Tell whether keys or values do not fit into a word, so that the bucket keeps each different one once."""
    keys = [plan.spec.input_schema.field(name).type for name in plan.spec.group_by]
    pooled = [each.pooled for each in plan.fields] + [each.pooled for each in plan.views]
    return any(pooled) or any(map(is_pooled, keys))
