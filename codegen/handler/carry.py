"""The parts of an old handler's state that a new one can use, when the calls of a query change.

A part is known by the call whose state it is. The old calls are planned once more with the added ones behind them. What
is planned for an old call then has its name of the old plan, and what an added call shares with it is the same part.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from aggloom.codegen.handler.draft import CallPlan
from aggloom.codegen.handler.names import Names
from aggloom.codegen.handler.plan import Planner
from aggloom.codegen.handler.plan_parts import StateField
from aggloom.codegen.spec.agg_call import AggCall, describe_call
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.errors import StateMismatchError


@dataclass(frozen=True)
class Carried:
    """The places of a state in another one, by the names of arrays: new ones to old ones.

    counts: by DISTINCT view of the new handler that of the old, and for each of its counts the place there or -1.
    spills: for each place in the new spill that in the old, or -1. empty: the added calls of which nothing is known.
    """

    fields: Mapping[str, str]
    views: Mapping[str, str]
    counts: Mapping[str, tuple[str, tuple[int, ...]]]
    spills: tuple[int, ...]
    empty: tuple[AggCall, ...]


def match_state(old: AggSpec, new: AggSpec, backend: str = "numba") -> Carried:
    """Return the parts of the state of `old` that serve `new`, which may differ in its calls.

    Raises StateMismatchError for an added call that shares a part of its state with rows from before it, but not all.
    """
    before, after = _make_planner(old, backend), _make_planner(new, backend)
    # Python objects are no arrays: nothing could be copied.
    if before.backend != after.backend:
        raise StateMismatchError(
            f"the old handler's state is of backend {before.backend!r}, the new one's of {after.backend!r}. "
            "Run the query that this checkpoint belongs to, or give this one a checkpoint directory of its own."
        )
    united = _make_planner(_unite_specs(old, new), backend, before.columns)
    return _Carrying(before, after, united).result()


def same_call(call: AggCall) -> Hashable:
    """Return the parts that make two calls the same: all but the name of their result."""
    form = call.function, call.args, call.distinct, call.filter, call.order_by, call.nulls
    return *form, call.options, call.monotonic


def _make_planner(spec: AggSpec, backend: str, names: Names | None = None) -> Planner:
    planner = Planner(spec, backend)
    # Columns are called as in the plan that this one is compared with.
    planner.columns = names or planner.columns
    planner.plan()
    return planner


def _unite_specs(old: AggSpec, new: AggSpec) -> AggSpec:
    """The old spec with the calls of the new one that it does not have behind its own."""
    there = {same_call(call) for call in old.calls}
    added = dict.fromkeys(replace(c, alias=None) for c in new.calls if same_call(c) not in there)
    columns = {field.name: field.type for field in (*new.input_schema, *old.input_schema)}
    names = [*old.input_schema.names, *(n for n in columns if n not in old.input_schema.names)]
    # Names of results are numbers here: they must not clash, and nobody reads them.
    calls = [replace(call, alias=f"{place}") for place, call in enumerate([*old.calls, *added])]
    return replace(
        old,
        schema=pa.schema([(name, columns[name]) for name in names]),
        calls=tuple(calls),
        computed=(),
        where=None,
        having=None,
        select=None,
    )


@dataclass
class _Parts:
    """The state of one call in one plan, by what the call calls it."""

    fields: dict[str, StateField]
    views: dict[str, str]
    ordered: set[str]
    distinct: tuple[str, int] | None

    @classmethod
    def of(cls, planner: Planner, entered: CallPlan) -> _Parts:
        fields = dict(entered.fields)
        if entered.entry.code is not None:
            output = planner.outputs[planner.calls.index(entered)]
            # The numbers of a class's state have no names; their places distinguish them.
            fields = {str(place): each for place, each in enumerate(output.loads)}
        views = {name: view.attr for name, view in entered.views.items()}
        ordered = {name for name, view in entered.views.items() if view.kind.arrival}
        for each in planner.distincts.values():
            for block in each.blocks:
                if block is entered.block:
                    return cls(fields, views, ordered, (each.view.attr, block.column))
        return cls(fields, views, ordered, None)


@dataclass
class _Carrying:
    """The parts of the new plan, matched one call after the other."""

    before: Planner
    after: Planner
    united: Planner
    fields: dict[str, str] = field(default_factory=lambda: {"records": "records"})
    views: dict[str, str] = field(default_factory=dict)
    columns: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    spills: dict[int, int] = field(default_factory=dict)

    def result(self) -> Carried:
        old = {same_call(entered.call) for entered in self.before.calls}
        known = {same_call(m.call): _Parts.of(self.united, m) for m in self.united.calls}
        calls = [
            (entered.call, _Parts.of(self.after, entered), known[same_call(entered.call)])
            for entered in self.after.calls
        ]
        added = [each for each in calls if same_call(each[0]) not in old]
        # First what was there before: an added call may then find its parts among it.
        for call, here, there in calls:
            if same_call(call) in old:
                self._match(here, there)
        # A call that is new may still be made of what others kept, such as an AVG of a sum and a count.
        whole = [each for each in added if self._is_known(each[2])]
        for _, here, there in whole:
            self._match(here, there)
        empty = [each for each in added if each not in whole]
        for call, here, _ in empty:
            self._refuse_mixed(call, here)
        return Carried(
            self.fields,
            self.views,
            self._counts(),
            tuple(self.spills.get(place, -1) for place in range(self.after.spilling)),
            tuple(call for call, _, _ in empty),
        )

    def _is_known(self, parts: _Parts) -> bool:
        """Tell whether the old state has all parts of a call; what follows from a DISTINCT view is made of it."""
        if parts.distinct is not None:
            view, column = parts.distinct
            widths = {d.view.attr: d.view.width for d in self.before.distincts.values()}
            there = column < widths.get(view, 0)
            return there and all(parts.views[name] in self._old_views for name in parts.ordered)
        if any(each.attr == "records" for each in parts.fields.values()):
            # A plan that only needed to know whether a key has rows kept a flag, from which no count follows.
            return self.before.fields["records"].dtype == "i8"
        fields = {each.attr for each in self.before.fields.values()}
        return all(each.attr in fields for each in parts.fields.values()) and all(
            view in self._old_views for view in parts.views.values()
        )

    @property
    def _old_views(self) -> set[str]:
        return {view.attr for view in self.before.views.values()}

    def _match(self, here: _Parts, there: _Parts) -> None:
        old = {each.attr for each in self.before.fields.values()}
        for name, each in here.fields.items():
            if there.fields[name].attr in old:
                self.fields[each.attr] = there.fields[name].attr
                # An exact float sum has a second place, in the spill.
                if each.spill >= 0:
                    self.spills[each.spill] = there.fields[name].spill
        for name, view in here.views.items():
            if there.views[name] in self._old_views:
                self.views[view] = there.views[name]
        if here.distinct is not None and there.distinct is not None:
            self.columns[here.distinct] = there.distinct

    def _refuse_mixed(self, call: AggCall, here: _Parts) -> None:
        """Refuse a call that begins empty but shares a part with what does not."""
        shared = any(each.attr in self.fields for each in here.fields.values())
        shared |= any(view in self.views for view in here.views.values())
        if shared or here.distinct in self.columns:
            raise StateMismatchError(
                f"{describe_call(call)} cannot be added: the state holds a part of what it needs, shared with other "
                "calls, but not all of it. Give it a FILTER, which keeps its state apart, or start over with an "
                "empty checkpoint directory."
            )

    def _counts(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        counts = {}
        for each in self.after.distincts.values():
            view = each.view
            columns_of_view = [
                self.columns.get((view.attr, column)) for column in range(view.width)
            ]
            olds = {place[0] for place in columns_of_view if place is not None}
            if olds:
                places = tuple(-1 if place is None else place[1] for place in columns_of_view)
                counts[view.attr] = (olds.pop(), places)
        return counts
