"""Texts of accumulators and handlers for a debugger: the values of a few slots, without running a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from aggloom.codegen import describe_call
from aggloom.runtime.handlers.lent_rows import count_records

SLOTS = 3
"""The number of slots whose values are shown."""
_LONG = 200


def describe_handler(handler: Any) -> str:
    """Describe a handler: its keys and calls, its backend, and the accumulators that are set."""
    spec = handler.spec()
    calls = ", ".join(map(describe_call, spec.calls))
    by = f" by {', '.join(spec.group_by)}" if spec.group_by else ""
    slots = len(handler._slots)
    status = (
        f"{slots} slot{'s' * (slots != 1)} set" if handler.accumulators is not None else "not set"
    )
    return f"{type(handler).__name__}({calls}{by}; {handler.BACKEND}, {status})"


def describe_slots(handler: Any, arrays: Mapping[str, Any], slots: int, name: str) -> str:
    """Describe the fields and views of the first slots that hold rows; without any, of the first.

    handler: the handler class. arrays: the values of each field, and of plain views, by name.
    """
    kinds = {field.name: field.kind for field in handler.FIELDS}
    views = [view.name for view in handler.VIEWS]
    used = [int(slot) for slot in np.flatnonzero(arrays["records"])] or list(range(slots))
    texts = []
    for slot in used[:SLOTS]:
        parts = [
            f"{attr}={_decode(attr, kind, arrays[attr], slot)}" for attr, kind in kinds.items()
        ]
        parts += [f"{attr}={_view(arrays.get(attr), slot)}" for attr in views]
        texts.append(f"[{slot}] {', '.join(parts)}")
    more = [f"{len(used) - SLOTS:,} more"] if len(used) > SLOTS else []
    return f"{name}({'; '.join([*texts, *more]) or 'no slots'})"


def _decode(attr: str, kind: str, values: Any, slot: int) -> str:
    """The value of a field at a slot, as text."""
    value = values[slot]
    if attr == "records":
        return str(count_records(int(value)))
    if kind == "wide" and isinstance(value, np.ndarray):
        *lower, highest = (int(limb) for limb in value)
        whole = sum(limb % 2**64 << 64 * place for place, limb in enumerate(lower))
        return str(whole + (highest << 64 * len(lower)))
    if kind == "float":
        if isinstance(value, np.ndarray):
            return "(an exact sum)"
        total = value[0] if isinstance(value, tuple | list) else value
        return repr(float(total) if isinstance(total, Fraction) else total)
    if kind == "word" and isinstance(value, np.integer):
        return f"encoded 0x{int(value) % 2**64:016x}"
    return _cut(repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value))


def _view(values: Any, slot: int) -> str:
    return "(a view)" if values is None else _cut(repr(values[slot]))


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}.."
