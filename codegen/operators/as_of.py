"""AsOfJoin: each row of the left with the one row of the right that is nearest to it in time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, constant, walk
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.footprint import WORD, index_bytes
from aggloom.codegen.operators.join import smallest_key
from aggloom.codegen.operators.plan_text import format_name, one_line, shown_names
from aggloom.codegen.operators.rows_by_key import holds_texts, row_entries
from aggloom.codegen.operators.two_sided import TwoSided
from aggloom.codegen.scalar.expressions import columns_of
from aggloom.codegen.spec.dtypes import type_name

Comparison = Literal[">=", ">", "<=", "<"]
_FLINK = {"inner": "InnerJoin", "left": "LeftOuterJoin"}
# Beside its words a row has: its sort word and arrival, links to its equals, its slot, cells of the index, and an entry
# of a B+tree that is three quarters full.
_ROW = 24 + 4 + 12 + 32 * 4 // 3
_TREE = 4 * WORD


@dataclass(frozen=True)
class AsOfJoin(TwoSided):
    """Rows of the left, each with the row of the right that agrees in pairs of columns and is nearest by `times`.

    times: the columns that are compared, of one type. matches: how the left's stands to the right's. waits: whether the
    left's rows wait for the watermark and leave once; then the right's rows are versions, which `condition` tests.
    """

    times: tuple[str, str]
    matches: Comparison
    waits: bool = False
    condition: str | None = None
    update_before: bool = True
    merges: bool = False

    @property
    def join_conditions(self) -> tuple[str, ...]:
        return () if self.condition is None else (self.condition,)

    @property
    def name(self) -> str:
        word = "TEMPORAL" if self.waits else "ASOF"
        return f"{word} {self.kind.upper()} JOIN ON {self.equalities or 'TRUE'}"

    @cached_property
    def row_keys(self) -> tuple[Key | None, Key | None]:
        """The columns by which the rows of each side are distinguished; None: all of them."""
        # Rows of the left are only added. A version is known by its time within the key.
        if self.waits:
            return None, (self.times[1],)
        return smallest_key(self.left, self.keys), smallest_key(self.right, self.right_keys)

    @property
    def is_chained(self) -> bool:
        """True if rows of the left come from below when the same watermark says so."""
        return self.waits and any(node.awaits_watermark for node in walk(self.left))

    @property
    def event_times(self) -> frozenset[str]:
        # Without waiting a correction leaves long after the time of its row.
        return self.left.event_times & set(self.columns) if self.waits else frozenset()

    @property
    def awaits_watermark(self) -> bool:
        return self.waits

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        if self.waits:
            return ("I",)
        # Without a key no two rows are the old and the new one of an update.
        if self.unique_key is None:
            return ("I", "D")
        return tuple(k for k in ("I", "UB", "UA", "D") if self.update_before or k != "UB")

    @property
    def never_deletes(self) -> bool:
        return self.waits

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        # A row of the left meets one row at most.
        return tuple(key for key in self.left.unique_keys if set(key) <= set(self.columns))

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        if self.waits:
            return self.unique_keys
        # Updates are emitted by the first one: of another key the new row may come before the old one goes.
        return tuple(key for key in self.unique_keys if set(self.keys) <= set(key))[:1]

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.columns) if self.waits else {}

    @property
    def distribution(self) -> Key | None:
        # A row of the left without a match has NULL in the right's columns: they distribute nothing.
        columns = self.left.distribution
        return columns if columns is not None and set(columns) <= set(self.columns) else None

    def below(self, names: Key) -> tuple[dict[str, str], ...]:
        # Names of the left alone: those of the right may be NULL in a row that lies by its key.
        rights = dict(self.pairs)
        mine = {name: name for name in names if name in rights}
        return mine, {name: rights[name] for name in mine}

    @cached_property
    def lineage(self) -> str:
        sides = [[(f.name, type_name(f.type)) for f in each.schema] for each in self.inputs]
        what = (self.pairs, self.null_safe, self.times, self.matches, self.condition, sides)
        kind = "temporal" if self.waits else "asof"
        return f"{kind} join {self.kind} {what!r} {self.row_keys!r} {self.columns!r}"

    @property
    def title(self) -> Title:
        left, right = map(format_name, self.times)
        time = f"({left} {self.matches} {right})"
        time = f"__TEMPORAL_JOIN_CONDITION({left}, {right})" if self.waits else time
        where = [self.equalities] if self.pairs else []
        where += [time, *([] if self.condition is None else [one_line(self.condition)])]
        return "TemporalJoin" if self.waits else "AsOfJoin", {
            "joinType": [_FLINK[self.kind]],
            "where": [" AND ".join(where)],
            "select": shown_names(self.columns),
        }

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [
            {"name": "key", "kind": "index", "bytes_per_key": index_bytes(len(self.pairs))},
            {"name": "written", "kind": "time", "bytes_per_key": WORD},
        ]
        parts += [{"name": "due", "kind": "time", "bytes_per_key": WORD}] if self.waits else []
        stored_columns = [pa.schema(self._stored_columns(side)) for side in range(2)]
        what = ("its rows of the left", "its rows of the right")
        if self.waits:
            what = (
                "its rows of the left that the watermark has not reached",
                "its versions from the last one at the watermark on",
            )
        for side, name in enumerate(("left", "right")):
            # The left's rows have the number of the row that they found, versions whether one is gone.
            more = WORD if self.waits == (side == 1) else 0
            rows = {"name": name, "kind": "sorted", "bytes_per_key": _TREE, "entries": what[side]}
            parts.append({**rows, **row_entries(stored_columns[side], _ROW + more)})
        bounds = ["the number of keys" if self.pairs else "one key"]
        bounds += [f"per key, {text}" for text in what]
        stored = [self.both.field(name) for name in self.keys]
        texts = holds_texts(pa.schema(stored))
        return self.footprint(parts, ttl, bounds, texts)

    def _stored_columns(self, side: int) -> list[pa.Field]:
        """The columns of a side that are stored with its rows."""
        read = {*self.columns, *columns_of(self.condition or "TRUE"), *self.times}
        read |= {*(self.row_keys[side] or ())}
        return [field for field in self.inputs[side].schema if field.name in read]

    @property
    def local_obstacle(self) -> str:
        return "which row is the nearest is known only where the rows of both sides are"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        # One column stays where only the number of rows matters.
        columns = tuple(name for name in self.columns if name in names) or self.columns[:1]
        read = {*columns, *columns_of(self.condition or "TRUE"), *self.times}
        sides = []
        for each, keys, known in zip(
            self.inputs, (self.keys, self.right_keys), self.row_keys, strict=True
        ):
            others = [n for n in each.schema.names if n in {*read, *(known or ())} - set(keys)]
            needed_names = [*keys, *others]
            sides.append(pick(prune.input(each, needed_names), needed_names))
        pruned = replace(self, left=sides[0], right=sides[1], columns=columns)
        prune.note_replacement(self, pruned)
        return pruned
