"""Python values as literals that `ast.literal_eval` reads back, for state that users' functions keep.

Numbers, texts, bytes, None and lists stand for themselves; everything else is a tuple that begins with its kind.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from aggloom.errors import DataError

_KINDS: tuple[tuple[str, type[Any], Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    ("decimal", Decimal, str, Decimal),
    ("datetime", dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    ("date", dt.date, dt.date.isoformat, dt.date.fromisoformat),
    ("time", dt.time, dt.time.isoformat, dt.time.fromisoformat),
    (
        "span",
        dt.timedelta,
        lambda v: (v.days, v.seconds, v.microseconds),
        lambda v: dt.timedelta(*v),
    ),
)
_READ = {kind: read for kind, _, _, read in _KINDS}


def pack(value: Any) -> Any:
    """A value as a literal; raises DataError if it is none of those that a state may hold."""
    if isinstance(value, np.generic):
        # NumPy's numbers print with the name of their type, which `literal_eval` does not read.
        value = value.item()
    # The exact types, here and below: a subclass would come back as its base, and its user would not notice.
    if value is None or type(value) in (bool, int, str, bytes):
        return value
    if isinstance(value, float):
        # Infinity minus itself, as NaN, is NaN: neither is a literal of Python.
        finite = value - value == 0
        return float(value) if finite else ("float", str(float(value)))
    if type(value) is list:
        return [pack(item) for item in value]
    if type(value) is tuple:
        return ("tuple", *(pack(item) for item in value))
    if type(value) is dict:
        return ("dict", [(pack(k), pack(v)) for k, v in value.items()])
    if type(value) in (set, frozenset):
        # In one order, so that equal states are equal bytes.
        return (type(value).__name__, sorted((pack(item) for item in value), key=repr))
    for kind, known, write, _ in _KINDS:
        if isinstance(value, known):
            return kind, write(value)
    raise DataError(
        f"a state holds a {type(value).__name__}, which cannot be saved; keep numbers, texts, bytes, dates, Decimals, "
        "tuples, lists, dicts and sets"
    )


def unpack(literal: Any) -> Any:
    """The value that `pack` made a literal of."""
    if isinstance(literal, list):
        return [unpack(item) for item in literal]
    if not isinstance(literal, tuple):
        return literal
    kind, *rest = literal
    if kind == "tuple":
        return tuple(unpack(item) for item in rest)
    if kind == "dict":
        return {unpack(k): unpack(v) for k, v in rest[0]}
    if kind in ("set", "frozenset"):
        return (set if kind == "set" else frozenset)(unpack(item) for item in rest[0])
    return float(rest[0]) if kind == "float" else _READ[kind](rest[0])
