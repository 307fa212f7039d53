"""The footprint of an aggregate in windows, beside the accumulators of each window or slice."""

from __future__ import annotations

from typing import Any

from aggloom.codegen.operators.footprint import CELL, WORD, index_bytes, state_of
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.durations import format_duration
from aggloom.codegen.windows import GlobalWindow, Rolling, Session, Windowing

# Start, end, three links, a mark, and the first session of the key.
_SESSION = 2 * WORD + 3 * CELL + 1 + CELL


def state_of_windows(
    spec: AggSpec, keys: tuple[str, ...], windowing: Windowing, backend: str
) -> dict[str, Any]:
    """The state of an aggregate in windows, as data; `per` is what takes the bytes of a key."""
    # No TTL: windows are forgotten when they are over.
    footprint = state_of(spec, backend, 0)
    # Sessions over changes keep accumulators by time, so that a session can be split (decision 113).
    splits = spec.input_changes == "retract" and windowing.can_split
    per = "key and time" if splits else _per(windowing)
    inside = [each.replace("per key", f"per {per}", 1) for each in footprint["bounded_by"][1:]]
    if windowing.evictor is not None or windowing.function is not None:
        # Evictors and window functions look at rows, so that accumulators alone do not serve them.
        inside = [f"per {per}, every row that stays"]
    footprint |= {"bounded_by": [_describe_bound(keys, windowing), *inside], "per": per}
    if not splits:
        _add_parts(footprint, keys, windowing)
    if not windowing.is_vectorised:
        # Triggers and evictors remember what they like.
        footprint |= {"compiled": False, "bytes_per_key": None}
    return footprint


def _add_parts(footprint: dict[str, Any], keys: tuple[str, ...], windowing: Windowing) -> None:
    """Add what windows remember besides accumulators: the bounds of sessions, and what was emitted and may change."""
    if footprint["bytes_per_key"] is None:
        return
    key, *rest = footprint["parts"]
    # A result that may change is kept as accumulators once more, with the bounds of its window.
    again = sum(part["bytes_per_key"] for part in rest) + 2 * WORD
    if isinstance(windowing.assigner, Session):
        # A session is found by its key: its end, the last group key of the spec, is no part of the index.
        key = {**key, "bytes_per_key": index_bytes(len(keys))}
        rest.append({"name": "session", "kind": "bounds", "bytes_per_key": _SESSION})
    else:
        again += key["bytes_per_key"]
    if windowing.updates and not isinstance(windowing.assigner, Rolling):
        rest.append({"name": "emitted", "kind": "results", "bytes_per_key": again})
    footprint["parts"] = [key, *rest]
    footprint["bytes_per_key"] = sum(part["bytes_per_key"] for part in footprint["parts"])


def _per(windowing: Windowing) -> str:
    if isinstance(windowing.assigner, GlobalWindow):
        return "key"
    if isinstance(windowing.assigner, Session):
        return "key and session"
    return "key and slice" if windowing.is_vectorised else "key and window"


def _describe_bound(keys: tuple[str, ...], windowing: Windowing) -> str:
    """Return the bound of the number of windows, in words."""
    assigner = windowing.assigner
    if isinstance(assigner, GlobalWindow):
        return "the number of keys" if keys else "one key"
    if isinstance(assigner, Rolling):
        by = f"the watermark on `{assigner.on}`" if assigner.event_time else "the clock"
        # Results are of the key, not of each slice, so that no part of a slice says it.
        results = f"{len(assigner.horizons)} results a key"
        return f"{results}, the slices of {format_duration(assigner.size_ms)} before {by}"
    if not assigner.event_time:
        return "the open windows, by the clock"
    late = windowing.allowed_lateness
    later = f" less {format_duration(late)}" if late else ""
    return f"the open windows, by the watermark on `{assigner.columns[0]}`{later}"
