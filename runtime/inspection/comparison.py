"""Two states of one query beside each other: the keys of each operator whose rows or accumulators differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.display import fields_of
from aggloom.errors import CheckpointError
from aggloom.runtime.inspection.facts import PartContents, Report, Row
from aggloom.runtime.inspection.look import Opened, StatefulNode
from aggloom.runtime.inspection.parts import describe_parts, keys_of
from aggloom.runtime.inspection.report import Why
from aggloom.runtime.inspection.stored import BucketFiles, StateReader
from aggloom.runtime.inspection.text import NOT_THERE, part_text, view_text
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.fragment import Fragment
from aggloom.runtime.values.batches import empty_columns
from aggloom.runtime.values.row_difference import row_difference

_VALUES = 20
"""The number of values of a view in a report."""
_CLOCKS = ("clock",)
"""Arrays that hold the wall clock."""


@dataclass(frozen=True)
class KeyDifference(Report):
    """A key, or a row where no key says more, whose contents are not those that the query has over its source.

    place: the operator by its number and name, or the sink. operator: its number; None of the sink. stored, expected:
    lines of text. why: how the value of the key arose, if that is asked for.
    """

    place: str
    key: Row
    stored: tuple[str, ...]
    expected: tuple[str, ...]
    operator: str | None = None
    why: Why | None = None


@dataclass
class PlaceComparison(Report):
    """The comparison of one operator, or of the sink. keys: that were compared, on both sides together."""

    place: str
    operator: str | None = None
    keys: int = 0
    differences: list[KeyDifference] = field(default_factory=list)
    note: str = ""


class NodeStates:
    """The buckets of a stateful node in one checkpoint; those that were never written are as new."""

    def __init__(self, node: StatefulNode) -> None:
        self.node = node
        self.files = {each.bucket: each for each in node.files}

    def fragment(self, bucket: int) -> Fragment | None:
        """The operators of a bucket in their state; None of a bucket without one."""
        file: BucketFiles | None = self.files.get(bucket)
        if file is None:
            return None
        buckets = self.node.checkpoint.buckets(self.node.stored.number, self.node.batch, [file])
        return next(Opened(each, self.node.trust, 0).rebuild() for each in buckets)


def open_nodes(reader: StateReader, batch: int | None, trust: bool) -> dict[int, NodeStates]:
    """The stateful nodes of a checkpoint by their places in the plan; none of a query without state."""
    try:
        operators = reader.operators()
    except CheckpointError:
        # A query without state has nothing to compare; its sink is compared all the same.
        return {}
    nodes = [StatefulNode(reader, each, batch, trust) for each in operators]
    return {node.description.place: NodeStates(node) for node in nodes}


def compare_nodes(
    stored: NodeStates, expected: NodeStates | None, *, same_batches: bool
) -> list[PlaceComparison]:
    """Each operator of a node beside the same one of another checkpoint, key by key.

    same_batches: both have read the same rows in the same order, so that rows which no result shows can be compared,
    too: operators are deterministic to the byte.
    """
    node = stored.node
    comparisons = [
        PlaceComparison(f"operator {each.number}: {each.description.operator}", each.number)
        for each in node.looks
    ]
    for bucket in sorted({*stored.files, *(expected.files if expected else ())}):
        left = stored.fragment(bucket)
        right = expected.fragment(bucket) if expected else None
        for part, comparison in enumerate(comparisons):
            sides = [side.operators[part] if side else None for side in (left, right)]
            description = node.description.parts[part]
            fields = description.key_fields
            _compare_operators(comparison, sides, pa.schema(fields), same_batches)
    return comparisons


def _compare_operators(
    comparison: PlaceComparison,
    sides: Sequence[Operator | None],
    key_schema: pa.Schema,
    same_batches: bool,
) -> None:
    """Add the differences between two operators of one bucket, one of which may not be there."""
    left, right = sides
    # Operators are deterministic to the byte: equal snapshots need no look at any key.
    if left is not None and right is not None and left.snapshot() == right.snapshot():
        comparison.keys += keys_of(left)[0]
        return
    keys = _distinct_keys([side for side in sides if side is not None], key_schema)
    comparison.keys += keys.num_rows
    # A key says more than a row of the result, so rows are compared only where no key differs.
    differences = list(_compare_keys(comparison, sides, keys)) or list(
        _compare_contents(comparison, sides)
    )
    # With a handler, parts hold all of the state. Without one, the state may have rows that no result shows.
    if not differences and left is not None and right is not None and left.handler_class is None:
        if same_batches and _has_other_arrays(left, right):
            # Such rows have no names to show, and the arrays do not show their key.
            texts = ("rows that no result shows, and other ones than",), ("those of the input",)
            differences = [KeyDifference(comparison.place, {}, *texts, comparison.operator)]
        elif not same_batches:
            # Batches that were cut elsewhere may leave different such rows, which is no fault.
            comparison.note = "rows that no result shows are not compared"
    comparison.differences += differences


def _has_other_arrays(left: Operator, right: Operator) -> bool:
    """Tell whether the arrays of two operators differ, in more than the wall clock of their last bundle."""
    for one, other in zip(left.arenas, right.arenas, strict=True):
        # The arenas are compared, and not the snapshots, whose bytes contain the clock as well.
        arrays, others = ({n: a for n, a in each if n not in _CLOCKS} for each in (one, other))
        if arrays.keys() != others.keys():
            return True
        if not all(np.array_equal(array, others[name]) for name, array in arrays.items()):
            return True
    return False


def _distinct_keys(operators: Sequence[Operator], schema: pa.Schema) -> pa.RecordBatch:
    """The keys that any of the operators holds, each once."""
    if not schema.names:
        rows = int(any(operator.keys for operator in operators))
        return empty_columns(rows)
    # By text: NaN is not equal to itself, and a list cannot be the key of a dict.
    rows_by_key: dict[Any, Row] = {}
    for operator in operators:
        columns = operator.key_columns()
        batch = pa.RecordBatch.from_arrays(columns, names=[str(n) for n in range(len(columns))])
        for row in batch.to_pylist():
            rows_by_key.setdefault(repr(row), row)
    columns = [[row[str(n)] for row in rows_by_key.values()] for n in range(len(schema))]
    arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _compare_keys(
    of: PlaceComparison, operators: Sequence[Operator | None], keys: pa.RecordBatch
) -> Iterator[KeyDifference]:
    """Yield the keys whose parts differ: results, accumulators and views."""
    for number in range(keys.num_rows):
        key = keys.slice(number, 1)
        left, right = ([] if each is None else describe_parts(each, key) for each in operators)
        # NaN is not even itself: what seems to differ is compared as text.
        if left != right and _as_text(left) != _as_text(right):
            row = key.to_pylist()[0] if key.schema.names else {}
            sides = _lines(left, right), _lines(right, left)
            yield KeyDifference(of.place, row, *sides, of.operator)


def _compare_contents(
    of: PlaceComparison, operators: Sequence[Operator | None]
) -> Iterator[KeyDifference]:
    """Yield the rows of a result that only one of two operators has: what no key shows."""
    # A side without the operator gets an empty table of the other's columns, so that every row is a difference.
    known = next(each for each in operators if each is not None)
    tables = [
        pa.Table.from_batches(
            [known.contents()[0].slice(0, 0) if each is None else each.contents()[0]]
        )
        for each in operators
    ]
    only_left, only_right = row_difference(*tables)
    for row in only_left.to_pylist():
        yield KeyDifference(of.place, row, (fields_of(row),), (NOT_THERE,), of.operator)
    for row in only_right.to_pylist():
        yield KeyDifference(of.place, row, (NOT_THERE,), (fields_of(row),), of.operator)


def _as_text(parts: Sequence[PartContents]) -> str:
    """Parts as a text that is equal where they are; when they were written is no part of them."""
    plain = [{**part.to_dict(), "written": None} for part in parts]
    return json.dumps(plain, sort_keys=True)


def _lines(parts: Sequence[PartContents], others: Sequence[PartContents]) -> tuple[str, ...]:
    """The parts of one side as lines, with the accumulators that the other side has not."""
    lines = [part_text(part) for part in parts] or [NOT_THERE]
    known = {repr(a) for part in others for a in (*part.accumulators, *part.views)}
    for part in parts:
        for each in part.accumulators:
            if repr(each) not in known:
                lines.append(f"  {each.name}={each.value!r}")
        lines += [
            f"  {v.name}: {view_text(v, _VALUES)}" for v in part.views if repr(v) not in known
        ]
    return tuple(lines)
