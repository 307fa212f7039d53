"""Join: pairs of rows of two inputs that match, and rows that match none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, constant
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.footprint import WORD, index_bytes
from aggloom.codegen.operators.plan_text import one_line, shown_names
from aggloom.codegen.operators.rows_by_key import holds_texts, row_entries
from aggloom.codegen.operators.two_sided import TwoSided
from aggloom.codegen.scalar.expressions import columns_of
from aggloom.codegen.spec.choices import JoinKind
from aggloom.codegen.spec.dtypes import type_name

InputSpec = Literal["JoinKeyContainsUniqueKey", "HasUniqueKey", "NoUniqueKey"]
FLINK_KINDS: dict[JoinKind, str] = {
    "inner": "InnerJoin",
    "left": "LeftOuterJoin",
    "right": "RightOuterJoin",
    "full": "FullOuterJoin",
    "semi": "LeftSemiJoin",
    "anti": "LeftAntiJoin",
}
# Beside its words a row has: links to its neighbours, a count, its slot; cells of the index; how many rows it matches.
ROW, CELL, DEGREE = 12 + 4, 12, 4
NOTHING = pa.field("", pa.int8())


@dataclass(frozen=True)
class Join(TwoSided):
    """Rows of two inputs that agree in pairs of columns and pass a condition.

    condition: over the columns of both. columns: only the left's if it is semi or anti. ttls: after how many
    milliseconds each side forgets, None as the options say. is_spread: the last pair is a bucket, of which each key of
    the others has several.
    """

    condition: str | None = None
    update_before: bool = True
    ttls: tuple[int | None, int | None] = (None, None)
    merges: bool = False
    is_spread: bool = False

    @property
    def keeps_rows(self) -> bool:
        """True if rows of both sides stay until they are retracted."""
        return True

    @property
    def stored_sides(self) -> tuple[int, ...]:
        """The sides whose rows are remembered: 0 is the left, 1 the right."""
        return (0, 1)

    @property
    def spreads(self) -> bool:
        return self.is_spread

    @property
    def join_conditions(self) -> tuple[str, ...]:
        return () if self.condition is None else (self.condition,)

    @property
    def name(self) -> str:
        return f"{self.kind.upper()} JOIN ON {self.equalities or 'TRUE'}"

    @cached_property
    def left_key(self) -> Key | None:
        """The columns by which the left's rows are distinguished; None: all of them."""
        return smallest_key(self.left, self.keys)

    @cached_property
    def right_key(self) -> Key | None:
        """The columns by which the right's rows are distinguished; None: all of them."""
        return smallest_key(self.right, self.right_keys)

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        # The columns by which rows of the result are distributed: a padded row by those of its own side alone.
        keys_of_kind = {
            "inner": (self.keys, self.right_keys),
            "right": (self.right_keys,),
            "full": (),
        }
        distributions = keys_of_kind.get(self.kind, (self.keys,))
        return find_ordered_keys(
            self.unique_keys, distributions, dict(self.pairs) if self.kind == "inner" else {}
        )

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        adds_only = self.left.appends_only and self.right.appends_only
        # The other kinds add rows without a partner, and retract them when one comes.
        if adds_only and self.kind in ("inner", "semi"):
            return ("I",)
        passes_on = self.kind in ("inner", "semi", "anti")
        # Without a key no two rows are the old and the new one of an update.
        if self.unique_key is None and not passes_on:
            return ("I", "D")
        return tuple(k for k in ("I", "UB", "UA", "D") if self.update_before or k != "UB")

    @property
    def never_deletes(self) -> bool:
        return self.appends_only

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        left, right = self.left.unique_keys, self.right.unique_keys
        # Whether a row of this side meets one row of the other at most.
        left_meets_one = any(set(key) <= set(self.right_keys) for key in right)
        right_meets_one = any(set(key) <= set(self.keys) for key in left)
        keys: list[Key] = []
        if self.kind in ("semi", "anti"):
            # Rows of the left leave as they are, each once at most.
            keys = list(left)
        elif self.kind != "full":
            # Padded rows of a FULL JOIN may look alike: a NULL may be one of the key itself.
            keys += left if left_meets_one and self.kind != "right" else ()
            keys += right if right_meets_one and self.kind != "left" else ()
            # Both keys together always distinguish a pair.
            keys += [(*one, *other) for one in left for other in right]
        there = set(self.columns)
        keys_that_leave = dict.fromkeys(key for key in keys if set(key) <= there)
        return tuple(sorted(keys_that_leave, key=len))

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.columns) if self.appends_only else {}

    @property
    def distribution(self) -> Key | None:
        """A row without a partner lies where its own side's columns say."""
        if self.kind == "full":
            return None
        # Only a side that is never padded: its columns have the values by which the row was sent.
        sides = [self.right] if self.kind == "right" else [self.left]
        sides += [self.right] if self.kind == "inner" else []
        distributions = [each.distribution for each in sides]
        return next(
            (
                columns
                for columns in distributions
                if columns is not None and set(columns) <= set(self.columns)
            ),
            None,
        )

    def below(self, names: Key) -> tuple[dict[str, str], ...]:
        lefts, rights = dict(self.pairs), {right: left for left, right in self.pairs}
        by_left: dict[str, str] = {}
        for name in names:
            # A padded row has NULL in place of the other side's key, and lies by it all the same: that column
            # distributes nothing.
            if name in lefts and self.kind not in ("right", "full"):
                by_left[name] = name
            # Equal in every pair of rows, so that the left's column stands for it.
            elif name in rights and self.kind in ("inner", "right"):
                by_left[name] = rights[name]
        return by_left, {name: lefts[own] for name, own in by_left.items()}

    @cached_property
    def lineage(self) -> str:
        sides = [[(f.name, type_name(f.type)) for f in each.schema] for each in self.inputs]
        known = (self.left_key, self.right_key)
        what = (self.pairs, self.null_safe, self.condition, sides, known, self.columns)
        return f"join {self.kind} {what!r}"

    @property
    def title(self) -> Title:
        where = [self.equalities] if self.pairs else []
        where += [] if self.condition is None else [one_line(self.condition)]
        details: dict[str, list[str]] = {
            "joinType": [FLINK_KINDS[self.kind]],
            "where": [" AND ".join(where) if where else "true"],
            "select": shown_names(self.columns),
            "leftInputSpec": [self.input_spec(0)],
            "rightInputSpec": [self.input_spec(1)],
        }
        return "Join", details

    def input_spec(self, side: int) -> InputSpec:
        """Return how the rows of a side are identified, in Flink's terms."""
        key = (self.left_key, self.right_key)[side]
        return key_kind(key, (self.keys, self.right_keys)[side])

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [
            {"name": "key", "kind": "index", "bytes_per_key": index_bytes(len(self.pairs))}
        ]
        stored_columns = [self._stored_columns(side) for side in range(2)]
        # A side may forget at its own time, for a hint of the query overrules the option.
        lives = [ttl if own is None else own for own in self.ttls]
        for side, name in enumerate(("left", "right")):
            if side not in self.stored_sides:
                parts.append({"name": name, "kind": "rows", "bytes_per_key": 4})
                continue
            # Rows of which nothing is read are counted in a row of one byte, which is a word.
            # Rows are found by an index where their key is not that of the join.
            more = ROW + CELL * has_index(self.input_spec(side), self.inputs[side])
            more += DEGREE * self._counts_matches(side, lives[1 - side])
            rows = {"name": name, "kind": "rows", "entries": f"its rows of the {name}"}
            room = row_entries(pa.schema(stored_columns[side] or [NOTHING]), more)
            parts.append({**rows, **room, "bytes_per_key": 4 + WORD * (lives[side] > 0)})
        bounds = ["the number of keys" if self.pairs else "one key"]
        bounds += [f"per key, {part['entries']}" for part in parts if "entries" in part]
        stored = [self.both.field(name) for name in self.keys]
        texts = holds_texts(pa.schema(stored))
        return self.footprint(parts, ttl, bounds, texts)

    def _stored_columns(self, side: int) -> list[pa.Field]:
        """The columns of a side that are stored with its rows."""
        keys = (self.keys, self.right_keys)[side]
        known = {*((self.left_key, self.right_key)[side] or ())} - {*keys}
        read = {*self._columns_read, *known}
        return [field for field in self.inputs[side].schema if field.name in read]

    def _counts_matches(self, side: int, other_lives: int) -> bool:
        """Tell whether each row of a side has the number of rows that it matches."""
        # With one row on the other side, or no condition, the number of matches is that of the key's rows.
        several = self.input_spec(1 - side) != "JoinKeyContainsUniqueKey"
        return self._leaves_alone(side) and (
            other_lives > 0 or (self.condition is not None and several)
        )

    def _leaves_alone(self, side: int) -> bool:
        """Tell whether rows of a side leave by themselves, for what they match or do not match."""
        return self.kind in (("left", "full", "semi", "anti"), ("right", "full"))[side]

    @property
    def _columns_read(self) -> frozenset[str]:
        """The columns of both sides that are read from stored rows."""
        return frozenset({*self.columns, *columns_of(self.condition or "TRUE")})

    def wakes_by(self, ttl: int) -> Literal["", "time to live"]:
        sides = [ttl if own is None else own for own in self.ttls]
        return "time to live" if any(sides) else ""

    @property
    def local_obstacle(self) -> str:
        return "which rows match is known only where the rows of both sides are"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        columns = tuple(name for name in self.columns if name in names) or self.columns[:1]
        read = replace(self, columns=columns)._columns_read
        sides = []
        for each, keys, known in (
            (self.left, self.keys, self.left_key),
            (self.right, self.right_keys, self.right_key),
        ):
            # The key of a side's rows is read even if no column of it leaves: a retraction is found by it.
            others = [n for n in each.schema.names if n in {*read, *(known or ())} - set(keys)]
            needed_names = [*keys, *others] or each.schema.names[:1]
            sides.append(pick(prune.input(each, needed_names), needed_names))
        pruned = replace(self, left=sides[0], right=sides[1], columns=columns)
        prune.note_replacement(self, pruned)
        return pruned


def find_ordered_keys(
    keys: Iterable[Key], distributions: Iterable[Key], same: Mapping[str, str]
) -> tuple[Key, ...]:
    """Return the unique keys of joined rows by which the new row of an update arrives after the old one.

    distributions: the columns by which the rows are distributed, once for each of their names. same: columns that
    equal another.
    """
    column_sets = [set(columns) for columns in distributions]
    keys_in_order = [key for key in keys if any(columns <= set(key) for columns in column_sets)]
    # Updates are paired by the first one: by another key the new row may arrive before the old one is retracted.
    names = {same.get(name, name) for name in keys_in_order[0]} if keys_in_order else set()
    return tuple(key for key in keys_in_order if {same.get(name, name) for name in key} == names)


def has_index(input_spec: InputSpec, rows: Node) -> bool:
    """Tell whether an index names the stored rows of an input by their identities."""
    if input_spec == "JoinKeyContainsUniqueKey":
        return False
    # Append-only rows without a key are never searched.
    return input_spec == "HasUniqueKey" or not rows.appends_only


def key_kind(known: Key | None, keys: Key) -> InputSpec:
    """Return how these columns identify rows that are distributed by the join's key, in Flink's terms."""
    if known is None:
        return "NoUniqueKey"
    return "JoinKeyContainsUniqueKey" if set(known) <= set(keys) else "HasUniqueKey"


def smallest_key(side: Node, keys: Key) -> Key | None:
    """Return the unique key by which the rows of a side are stored: one within the join's key, else the shortest.

    If an old row may be retracted after the new row has arrived, rows are identified by all columns.
    """
    # Within the join's key a row needs no index; else the fewest columns make the smallest one.
    candidates: Iterable[Key] = side.ordered_keys
    return min(candidates, key=lambda key: (not set(key) <= set(keys), len(key)), default=None)
