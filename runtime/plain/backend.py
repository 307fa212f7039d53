"""The backend of handlers in plain Python: accumulators in lists and dicts, bound columns, results.

Integers are Python's, float sums are fractions: slow, simple to step through, and an independent check of the
compiled backend.
"""

from __future__ import annotations

import ast
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.errors import DataError
from aggloom.runtime.handlers.debug_text import describe_slots
from aggloom.runtime.handlers.handler import HandlerBase
from aggloom.runtime.handlers.namespaced import Namespaced
from aggloom.runtime.plain.encoded_values import from_python_words as _from_python_words
from aggloom.runtime.plain.encoded_values import python_words as _python_words
from aggloom.runtime.plain.floats import ZERO_SUM
from aggloom.runtime.plain.kinds import VIEW_TYPES
from aggloom.runtime.plain.views import (
    PlainLists,
    concatenate_lists,
    lists_differ,
    new_list_out,
    rows_of,
)
from aggloom.runtime.storage.arena import Arena, Array, NumberArray, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.values import columns, scalars
from aggloom.runtime.values.literals import pack, unpack

_PACKED = ("double", "object")
"""Kinds of fields with values that `repr` does not preserve."""


class PlainAccumulators:
    """n accumulators as Python lists; `sync` writes them into the arena as text, for snapshots."""

    def __init__(self, handler: type[HandlerBase], arena: Arena, slots: int) -> None:
        self.handler, self.arena = handler, arena
        self.slots = slots
        self.fields: dict[str, list[Any]] = {
            field.name: _new_field(field.kind, slots, field.initial) for field in handler.FIELDS
        }
        self.views: dict[str, Any] = {
            view.name: VIEW_TYPES[view.kind](slots, view.width) for view in handler.VIEWS
        }
        # Only Python literals are read. `eval` would run code in a checkpoint.
        if "plain.state" in arena:
            self._load(ast.literal_eval(arena.array("plain.state", 0, "u1").tobytes().decode()))

    def __repr__(self) -> str:
        arrays = {**self.fields, **self.views}
        return describe_slots(self.handler, arrays, self.slots, "Accumulators")

    def check_restored(self, audit: Audit) -> None:
        """Raise StateCorruptError unless every field and view of a snapshot has as many slots."""
        for name, values in {**self.fields, **self.views}.items():
            audit.require_length(self.slots, name, values)

    @property
    def state(self) -> Any:
        return self.handler.KERNELS.state(None, *self.fields.values(), *self.views.values())

    @property
    def records(self) -> Array:
        return np.array(self.fields["records"], np.int64)

    def flags(self, field: str, slots: SlotArray) -> Array:
        """A field at the slots: bool[n]."""
        return np.array([bool(self.fields[field][s]) for s in slots], np.bool_)

    def shift_records(self, slots: SlotArray, by: int) -> None:
        """Add a number to the counts of rows at the slots."""
        for s in slots:
            self.fields["records"][s] += by

    def as_new(self, slots: SlotArray) -> Array:
        """Tell which slots equal new ones, apart from their counts of rows and rounded sums: bool[n]."""
        # New accumulators have every initial value, also those of a user's function.
        fresh = PlainAccumulators(self.handler, Arena(), 1)
        kinds = {f.name: f.kind for f in self.handler.FIELDS[1:] if f.kind != "double"}

        def is_new(s: int) -> bool:
            fields = all(
                _same(kind, self.fields[attr][s], fresh.fields[attr][0])
                for attr, kind in kinds.items()
            )
            return fields and all(self.views[a][s] == fresh.views[a][0] for a in self.views)

        return np.array([is_new(int(s)) for s in slots], np.bool_)

    def resize(self, slots: int) -> None:
        more = max(0, slots - self.slots)
        # With fewer slots the lists are cut, and `fresh` is empty.
        fresh = PlainAccumulators(self.handler, Arena(), more)
        for attr, values in self.fields.items():
            self.fields[attr] = values[:slots] + fresh.fields[attr]
        for attr, view in self.views.items():
            # In place, so that a view stays of its own class, which knows its width.
            view[:] = view[:slots] + fresh.views[attr]
        self.slots = slots

    def reserve(self, rows: int) -> int:
        """Lists need no room."""
        return rows

    is_airy = False

    def trim(self) -> None:
        """Python frees."""

    def reserve_merge(self, other: PlainAccumulators) -> None:
        """Lists need no room."""

    def sweep(self) -> None:
        """Python frees."""

    def sync(self) -> None:
        fields = {
            field.name: (
                _pack_values(field.name, self.fields[field.name])
                if field.kind in _PACKED
                else _plain(self.fields[field.name])
            )
            for field in self.handler.FIELDS
        }
        text = repr((self.slots, fields, _plain(self.views))).encode()
        # Replaced each time, since the text has another length.
        self.arena.array("plain.state", len(text), "u1")
        self.arena.replace("plain.state", len(text))[:] = np.frombuffer(text, np.uint8)

    def dump(self) -> list[Any]:
        return [
            ([v[s] for v in self.fields.values()], [v[s] for v in self.views.values()])
            for s in range(self.slots)
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainAccumulators) and self.dump() == other.dump()

    __hash__ = None  # type: ignore[assignment]

    def _load(self, saved: tuple[int, dict[str, Any], dict[str, Any]]) -> None:
        self.slots = saved[0]
        for field in self.handler.FIELDS:
            stored = saved[1][field.name]
            values = unpack(stored) if field.kind in _PACKED else stored
            self.fields[field.name] = (
                # Fractions are stored as two numbers: their `repr` is a call, which `literal_eval` refuses.
                [(Fraction(*v[0]), *v[1:]) for v in values]
                if field.kind == "float"
                else values
            )
        for layout in self.handler.VIEWS:
            view = VIEW_TYPES[layout.kind](0, layout.width)
            view.extend(saved[2][layout.name])
            self.views[layout.name] = view


def _same(kind: str, a: Any, b: Any) -> bool:
    """Tell whether two values of a field are the same."""
    # By their packed texts: a user's objects need not compare by value, and NaN differs from itself.
    return a == b if kind not in _PACKED else bool(pack([a]) == pack([b]))


def _pack_values(attr: str, values: list[Any]) -> Any:
    try:
        return pack(values)
    except DataError as error:
        raise DataError(f"{attr}: {error}") from None


def _new_field(kind: str, slots: int, initial: Any = 0) -> list[Any]:
    if callable(initial):
        # A user's `create` makes an object for each slot. Other values are immutable, so slots may share one.
        return [initial() for _ in range(slots)]
    return [ZERO_SUM if kind == "float" else initial] * slots


def _plain(value: Any) -> Any:
    """The value with nothing but literals, which `ast.literal_eval` reads."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    # `_load` makes it a fraction again.
    if isinstance(value, Fraction):
        return (value.numerator, value.denominator)
    return value


class PlainHandler(HandlerBase):
    """The base of handlers in plain Python."""

    accumulators_type = PlainAccumulators

    def bind_column(
        self, column: pa.Array, name: str, form: str, bound: dict[tuple[str, str], Any]
    ) -> None:
        if form == "flag":
            bound[name, form] = columns.flags(column).tolist()
        elif form == "valid":
            bound[name, form] = scalars.validity(column).tolist()
        elif form == "real" or (form == "number" and pa.types.is_floating(column.type)):
            bound[name, form] = columns.reals(column).tolist()
        elif form == "real_word":
            bound[name, form] = scalars.float_words(columns.reals(column)).tolist()
        elif form == "value":
            bound[name, form] = column.to_pylist()
        else:
            bound[name, form] = _python_words(column)

    def pick(self, inputs: Any, rows: NumberArray) -> Any:
        return self.KERNELS.inputs(*([column[row] for row in rows] for column in inputs))

    def outputs(self, n: int) -> Any:
        # Part 0 is `overflow`, which exists even without outputs.
        lists: list[Any] = [[0] * max(1, len(self.OUTPUTS))]
        for output in self.OUTPUTS:
            # A result of several words begins as a tuple of zeros, since kernels read it before they write.
            empty = (0,) * output.columns if output.form in ("words", "floats") else 0
            lists += [new_list_out(n) if output.form == "list" else [empty] * n, [False] * n]
        return self.KERNELS.outputs(*lists)

    def pick_outputs(self, out: Any, rows: NumberArray) -> Any:
        parts: list[Any] = [out[0]]
        for part in out[1:]:
            if isinstance(part, PlainLists):
                parts.append(PlainLists([part.lists[k] for k in rows]))
            else:
                parts.append([part[k] for k in rows])
        return type(out)(*parts)

    def differ(self, before: Any, after: Any, rows: int) -> Array:
        changed = np.zeros(rows, np.bool_)
        # Without part 0, `overflow`, which is no result of a row.
        for a, b in zip(before[1:], after[1:], strict=True):
            if isinstance(a, PlainLists):
                changed |= lists_differ(a, b, rows)
            else:
                changed |= np.array([a[k] != b[k] for k in range(rows)], np.bool_)
        return changed

    def halves(self, out: Any, n: int) -> tuple[Any, Any]:
        parts = ([part[:n] for part in out[1:]], [part[n:] for part in out[1:]])
        first, second = (type(out)(out[0], *part) for part in parts)
        return first, second

    def concatenate(self, before: Any, after: Any) -> Any:
        pairs = zip(before, after, strict=True)
        return type(before)(
            *(concatenate_lists(a, b) if isinstance(a, PlainLists) else a + b for a, b in pairs)
        )

    def scalars(self, data: Any, valid: Any, form: str, dtype: pa.DataType) -> pa.Array:
        values = [v if ok else None for v, ok in zip(data, valid, strict=True)]
        return _from_python_words(values, dtype)

    def select_rows(self, data: Any, valid: Any, take: NumberArray | None) -> tuple[Any, Any]:
        chosen = range(len(valid)) if take is None else take.tolist()
        return [data[k] for k in chosen], [valid[k] for k in chosen]

    def lists(self, data: PlainLists, take: NumberArray) -> tuple[Any, Any, Any]:
        return rows_of(data, take)


class PlainNamespaceHandler(Namespaced, PlainHandler):
    """A PlainHandler whose accumulators belong to windows."""
