"""The plan of a handler: every decision about the module that the template prints.

Calls over the same arguments with the same FILTER make one block; equal state is kept once; DISTINCT calls over
the same arguments share one view with a count column for each FILTER; the record counter also serves COUNT(*).
"""

from __future__ import annotations

from aggloom.codegen.catalogue.entry import Aggregate, View
from aggloom.codegen.handler.draft import CallPlan, Draft
from aggloom.codegen.handler.operands import operand_of
from aggloom.codegen.handler.plan_blocks import block_of, is_distinct
from aggloom.codegen.handler.plan_output import enter_output
from aggloom.codegen.handler.plan_parts import CallBlock, HandlerPlan, StateField, StateView
from aggloom.codegen.handler.plan_state import enter_field, enter_view
from aggloom.codegen.handler.plan_user import class_calls, enter_class, user_parts
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.views import SPILL, VIEW_KINDS


def plan_of(spec: AggSpec, backend: str = "numba") -> HandlerPlan:
    """Return the plan of a spec for a backend: numba (unless a user's class in it cannot be compiled), or python."""
    return Planner(spec, backend).plan()


class Planner(Draft):
    """A draft that enters the calls of a spec, one after the other."""

    def __init__(self, spec: AggSpec, backend: str) -> None:
        self.classes = class_calls(spec, backend)
        # A compiled loop cannot call a class that Numba does not know: one such class makes all plain Python.
        plain = any(call.verdict.reason for call in self.classes.values())
        super().__init__(spec, "python" if plain else backend)

    def plan(self) -> HandlerPlan:
        """The plan with every call of the spec in it."""
        # A flag says that a key has rows, in one byte; only COUNT(*) and retractions need their number, in eight.
        self.fields["records"] = StateField("records", "int", "i8" if self._counts() else "i1")
        for call in self.spec.calls:
            of = self.classes.get(call)
            self._enter(call, self.spec.entry(call) if of is None else of.retraction.entry)
        views = [d.view for d in self.distincts.values()] + list(self.views.values())
        if self.spilling:
            views.append(StateView("spill", SPILL, False, self.spilling))
        return HandlerPlan(
            self.spec,
            self.backend,
            inputs=list(self.inputs.values()),
            fields=list(self.fields.values()),
            views=views,
            blocks=[b for b in self.blocks.values() if b.updates or b.views or b.users],
            distincts=list(self.distincts.values()),
            outputs=self.outputs,
            **user_parts(self.spec, self.classes),
        )

    def _counts(self) -> bool:
        # Retractions need the number: a key without rows is forgotten when it is back at zero.
        return self.has_retractions or any(map(_is_count_of_rows, self.spec.calls))

    def _enter(self, call: AggCall, entry: Aggregate) -> None:
        if _is_count_of_rows(call):
            # COUNT(*) is the record counter, which every key has anyway.
            counting = CallPlan(call, entry, entry.append, None, CallBlock([], None), False)
            counting.fields["count"] = self.fields["records"]
            self.calls.append(counting)
            enter_output(self, counting)
            return
        operand = operand_of(call, entry, self.spec.input_schema, self.spec.dialect)
        block = block_of(self, call, entry, operand)
        distinct = is_distinct(call, entry)
        if entry.code is not None:
            self.calls.append(CallPlan(call, entry, entry.append, operand, block, distinct))
            enter_class(self, self.calls[-1], self.classes[call])
            return
        ordered = bool(call.order_by)
        # DISTINCT leaves no order in its counts: only a view of arrivals says what arrived first when two are merged.
        states = entry.shape(True, ordered).state
        arriving = any(isinstance(s, View) and VIEW_KINDS[s.kind].arrival for s in states)
        # A call over values that only grow never retracts one (rule monotonic_extremes).
        retracting = self.has_retractions and not call.monotonic
        shape = entry.shape(retracting or (distinct and arriving), ordered)
        entered = CallPlan(call, entry, shape, operand, block, distinct)
        self.calls.append(entered)
        for state in shape.state:
            if isinstance(state, View):
                entered.views[state.name] = enter_view(self, state, entered)
            else:
                entered.fields[state.name] = enter_field(self, state, entered)
        enter_output(self, entered)


def _is_count_of_rows(call: AggCall) -> bool:
    return call.function == "COUNT" and not call.args and call.filter is None
