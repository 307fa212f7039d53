"""split_distinct: DISTINCT (and MIN, MAX) of a hot key spread over hash buckets, then put together.

The partial aggregate is keyed by the group keys and a bucket of the argument's hash; the final one adds up the results
of the buckets. Calls that cannot be computed exactly from partial results are not split: their rows are in no bucket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate as Entry
from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.operators import (
    AggregateNode,
    Bucket,
    Calc,
    Column,
    Constant,
    Expand,
    Item,
    Node,
    WindowAggregate,
    mark,
    transform,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.scalar.expressions import quote_name, select_names
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec
from aggloom.codegen.spec.dtypes import is_supported, type_name

_SUMS = ("COUNT", "SUM", "SUM0", "AVG")
_EXTREMES = ("MIN", "MAX")
# Digits that leave ten to add up in.
_ROOMY = 28


def split_distinct(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Replace every aggregate with a DISTINCT call by a partial and a final one."""

    def change(node: Node) -> Node:
        if isinstance(node, WindowAggregate) and any(call.distinct for call in node.spec.calls):
            notes.add("split_distinct", node.spec, False, "an aggregate in windows is not split")
        # A role: it is one half of a split already.
        if not isinstance(node, AggregateNode) or node.role:
            return node
        if not any(call.distinct and _part(call, node.spec) != "whole" for call in node.spec.calls):
            if any(call.distinct for call in node.spec.calls):
                notes.add("split_distinct", node.spec, False, _whole_reason(node.spec))
            return node
        if not options.distinct_agg_split_enabled:
            why = "table.optimizer.distinct-agg.split.enabled is false"
            notes.add("split_distinct", node.spec, False, why)
            return node
        unpassable = [c.text for c in node.spec.calls if not _passes(c, node.spec)]
        if unpassable:
            why = f"the result of {unpassable[0]} cannot pass through a second aggregate"
            notes.add("split_distinct", node.spec, False, why)
            return node
        filled = [c.text for c in node.spec.calls if node.spec.one_row and _fills(c, node.spec)]
        if filled:
            why = f"{filled[0]} over no rows is not NULL, which a second aggregate over no parts gives"
            notes.add("split_distinct", node.spec, False, why)
            return node
        return _Split(node, options.distinct_agg_split_bucket_num).result(notes)

    return transform(root, change)


def _part(call: AggCall, spec: AggSpec) -> str:
    """Return the way in which a call is made of its parts: sum, extreme, or not at all (whole)."""
    if call.distinct and set(call.args) <= set(spec.group_by):
        # One value for each key: no bucket of its own, and in another's it would count once for each.
        return "whole"
    if call.function in _EXTREMES and not call.monotonic:
        return "extreme"
    if call.function not in _SUMS or call.order_by:
        return "whole"
    if call.function == "COUNT":
        return "sum"
    (dtype,) = spec.arg_types(call)
    if call.function == "AVG":
        # Its sum must fit a BIGINT and a double: wider ones are averaged exactly, whole.
        return "sum" if pa.types.is_integer(dtype) and dtype.bit_width < 64 else "whole"
    if pa.types.is_decimal(dtype):
        # In Flink a part that overflows is NULL, which the whole would take for nothing.
        return "whole" if spec.dialect == "flink" and dtype.precision > _ROOMY else "sum"
    # Sums of floats are exact as a whole; a part would be rounded before it is added up.
    return "sum" if pa.types.is_integer(dtype) else "whole"


def _whole_reason(spec: AggSpec) -> str:
    call = next(call for call in spec.calls if call.distinct)
    if set(call.args) <= set(spec.group_by):
        return f"{call.text} has one value for each key"
    return f"{call.text} is exact only where all values of the key are"


def _passes(call: AggCall, spec: AggSpec) -> bool:
    """Tell whether a call that stays whole has a result that the final aggregate can take."""
    dtype = spec.result_type(call)
    return _part(call, spec) != "whole" or (is_supported(dtype) and not pa.types.is_map(dtype))


def _fills(call: AggCall, spec: AggSpec) -> bool:
    """Tell whether a call that stays whole has a result other than NULL over no rows."""
    entry = spec.entry(call)
    if _part(call, spec) != "whole" or entry.user_defined:
        return False
    shape = entry.shape(spec.input_changes == "retract", bool(call.order_by))
    return shape.empty is None or spec.dialect not in entry.empty_in


def _take_read(rows: Node, spec: AggSpec) -> tuple[Node, AggSpec]:
    """The columns that an aggregate reads, in its order, and the aggregate over them.

    An operator's rows come in this order, also where a local phase passes them on as they are.
    """
    read = spec.handler_schema
    if isinstance(rows, Expand) and sorted(read.names) == sorted(rows.schema.names):
        places = [rows.schema.names.index(name) for name in read.names]
        projects = tuple(tuple(project[at] for at in places) for project in rows.projects)
        narrowed: Node = replace(rows, projects=projects, columns=read)
    else:
        narrowed = rows if read == rows.schema else Calc(rows, select_names(read.names), read)
    return narrowed, AggSpec(read, spec.group_by, spec.calls, spec.input_changes, spec.dialect)


@dataclass
class _Split:
    """One aggregate on its way to two."""

    node: AggregateNode
    buckets: int
    hashed: list[tuple[str, ...]] = field(default_factory=list)
    partial: list[AggCall] = field(default_factory=list)
    final: list[AggCall] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    filters: dict[tuple[int, str | None], str] = field(default_factory=dict)
    wide: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mark = mark(self.spec.schema, self.spec.aggregate_schema)
        self.whole = f"{self.mark}w"

    @property
    def spec(self) -> AggSpec:
        """The aggregate as it was."""
        return self.node.spec

    def result(self, notes: Notes) -> Node:
        spec = self.spec
        # First all sets of buckets, since each call is placed in one of them.
        for call in spec.calls:
            columns = self._hash_of(call)
            if columns and columns not in self.hashed:
                self.hashed.append(columns)
        for call in spec.calls:
            self._call(call)
        expand = self._expand()
        keys = [*spec.group_by, *(f"{self.mark}h{i}" for i in range(len(self.hashed)))]
        keys += [self.whole] * self._has_whole()
        partial = AggSpec(
            expand.schema, tuple(keys), tuple(self.partial), spec.input_changes, spec.dialect
        )
        narrowed, partial = _take_read(expand, partial)
        # Parts are updated while rows are added, so that the final aggregate always takes retractions.
        final = AggSpec(
            partial.aggregate_schema, spec.group_by, tuple(self.final), "retract", spec.dialect
        )
        parts = AggregateNode(narrowed, partial, "partial", self.node.state_ttl)
        rows, core = _take_read(parts, final)
        notes.move(spec, core)
        spread = ", ".join(f"({', '.join(columns)})" for columns in self.hashed)
        why = f"keys are spread over {self.buckets} buckets of {spread}"
        notes.add("split_distinct", core, True, why)
        return self._project_result(AggregateNode(rows, core, "final", self.node.state_ttl))

    def _has_whole(self) -> bool:
        return any(_part(call, self.spec) == "whole" for call in self.spec.calls)

    def _hash_of(self, call: AggCall) -> tuple[str, ...]:
        """The columns by which a call's rows are spread; none for calls that follow others' rows."""
        part = _part(call, self.spec)
        if part == "whole" or (part == "sum" and not call.distinct):
            return ()
        return tuple(name for name in call.args if name not in self.spec.group_by)

    def _set_of(self, call: AggCall) -> int:
        """The number of the set of keys that a call's rows have; the last one is without buckets."""
        if _part(call, self.spec) == "whole":
            return len(self.hashed)
        columns = self._hash_of(call)
        # Calls that may be cut anywhere go along with the first set of buckets, instead of one more copy of each row.
        return self.hashed.index(columns) if columns else 0

    def _sets(self) -> int:
        return len(self.hashed) + self._has_whole()

    def _call(self, call: AggCall) -> None:
        part = _part(call, self.spec)
        result_type = self.spec.result_type(call)
        if part == "whole":
            name = self._partial(call, call.function)
            # The result of a whole call is in the one part of its key that has no bucket.
            only = AggCall("SINGLE_VALUE", (name,), filter=self.whole)
            self._show(call, only, lambda sql: sql)
        elif part == "extreme":
            name = self._partial(call, call.function)
            self._show(call, AggCall(call.function, (name,)), lambda sql: sql)
        elif call.function == "AVG":
            total = self._final(
                AggCall("SUM0", (self._partial(call, "SUM0", self._widen_argument(call)),))
            )
            count = self._final(AggCall("SUM0", (self._partial(call, "COUNT"),)))
            sign = "DIV" if self.spec.dialect == "flink" else "/"
            ratio = f"{quote_name(total)} {sign} {quote_name(count)}"
            text = f"CASE WHEN {quote_name(count)} = 0 THEN NULL ELSE {ratio} END"
            self.results.append((call.output_name, f"CAST({text} AS {type_name(result_type)})"))
        else:
            name = self._partial(call, call.function)
            # A count of no rows is 0, where a sum of no parts would be NULL.
            function = "SUM" if call.function == "SUM" else "SUM0"
            self._show(call, AggCall(function, (name,)), _cast_to(result_type))

    def _widen_argument(self, call: AggCall) -> tuple[str, ...]:
        """The argument as BIGINT: Flink's sums wrap at the width of what they add, but not AVG's."""
        if self.spec.dialect != "flink":
            return call.args
        (name,) = call.args
        return (self.wide.setdefault(name, f"{self.mark}b{len(self.wide)}"),)

    def _show(self, call: AggCall, combined: AggCall, cast: Callable[[str], str]) -> None:
        name = self._final(combined)
        self.results.append((call.output_name, cast(quote_name(name))))

    def _partial(self, call: AggCall, function: str, args: tuple[str, ...] = ()) -> str:
        """The name of the partial call with this function, and these arguments if any, in place of the call's."""
        # SUM0 and COUNT in place of AVG have entries of their own.
        entry: Entry | None = call.entry if function == call.function else find(function)
        condition = self._filter(call)
        partial = replace(
            call,
            function=function,
            args=args or call.args,
            filter=condition,
            alias=None,
            entry=entry,
        )
        for known in self.partial:
            # AVG and SUM of one argument share their parts.
            if replace(known, alias=None) == partial:
                return known.output_name
        self.partial.append(replace(partial, alias=f"{self.mark}p{len(self.partial)}"))
        return self.partial[-1].output_name

    def _final(self, combined: AggCall) -> str:
        # Equal calls over one part are computed once.
        for known in self.final:
            if replace(known, alias=None) == combined:
                return known.output_name
        self.final.append(replace(combined, alias=f"{self.mark}f{len(self.final)}"))
        return self.final[-1].output_name

    def _filter(self, call: AggCall) -> str | None:
        """The column that says which rows of the expanded input are for a call."""
        # With one set each row is there once, and the call's own FILTER is all that decides.
        if self._sets() == 1:
            return call.filter
        key = (self._set_of(call), call.filter)
        return self.filters.setdefault(key, f"{self.mark}g{len(self.filters)}")

    def _expand(self) -> Expand:
        spec, single = self.spec, self._sets() == 1
        passed = [name for name in spec.schema.names if name not in spec.group_by]
        if not single:
            read = {name for call in spec.calls for name in call.args}
            read |= {key.column for call in spec.calls for key in call.order_by}
            passed = [name for name in passed if name in read]
        fields = [spec.schema.field(name) for name in spec.group_by]
        fields += [pa.field(f"{self.mark}h{i}", pa.int32()) for i in range(len(self.hashed))]
        fields += [pa.field(self.whole, pa.bool_())] * self._has_whole()
        fields += [spec.schema.field(name) for name in passed]
        fields += [pa.field(name, pa.int64()) for name in self.wide.values()]
        fields += [pa.field(name, pa.bool_()) for name in self.filters.values()]
        projects = []
        for number in range(self._sets()):
            items: list[Item] = [Column(name) for name in spec.group_by]
            for place, columns in enumerate(self.hashed):
                spread = Bucket(columns, self.buckets)
                # The columns of other sets are NULL, which keeps the buckets of each set apart from theirs.
                items.append(spread if place == number else Constant(None))
            items += [Constant(number == len(self.hashed))] * self._has_whole()
            items += [Column(name) for name in (*passed, *self.wide.values())]
            for own, condition in self.filters:
                passes: Item = Constant(own == number)
                if own == number and condition is not None:
                    passes = Column(condition)
                items.append(passes)
            projects.append(tuple(items))
        return Expand(self._input(), tuple(projects), pa.schema(fields))

    def _input(self) -> Node:
        """The input, with the columns that are made wider."""
        rows = self.node.input
        if not self.wide:
            return rows
        columns = [*rows.schema, *(pa.field(wide, pa.int64()) for wide in self.wide.values())]
        select = select_names(rows.schema.names)
        # Into a projection that is there already, rather than one more step over every row.
        below = rows if isinstance(rows, Calc) else Calc(rows, select, rows.schema)
        texts = dict(below.select)
        added = [(wide, f"CAST({texts[name]} AS BIGINT)") for name, wide in self.wide.items()]
        return replace(below, select=(*below.select, *added), columns=pa.schema(columns))

    def _project_result(self, node: AggregateNode) -> Node:
        # The columns of the aggregate as it was, in their order.
        keys = select_names(self.spec.group_by)
        return Calc(node, (*keys, *self.results), self.spec.aggregate_schema)


def _cast_to(dtype: pa.DataType) -> Callable[[str], str]:
    """A sum of sums has a type of its own: back to what the whole has."""
    if pa.types.is_decimal(dtype):
        return lambda sql: f"CAST({sql} AS {type_name(dtype)})"
    return lambda sql: sql
