"""Notes on users' functions in a plan: which are compiled, and how their rows are retracted."""

from __future__ import annotations

from collections.abc import Iterator

from aggloom.codegen.handler.plan_parts import HandlerPlan
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.user.retraction import Retraction


def note_functions(plan: HandlerPlan) -> list[str]:
    """The lines on each call of a user's function, further ones indented; none if there is no such call."""
    reasons, retractions = dict(plan.verdicts), dict(plan.retractions)
    lines: list[str] = []
    for call in plan.spec.calls:
        if not plan.spec.entry(call).user_defined:
            continue
        if plan.spec.entry(call).code is None:
            lines.append(f"{call.text}: expressions, as the built-in functions")
        elif reasons[call.text]:
            lines.append(f"{call.text}: Python, not compiled: {reasons[call.text]}")
        else:
            lines.append(f"{call.text}: {'compiled' if plan.is_compiled else 'can be compiled'}")
        lines += [f"  {text}" for text in _note_retraction(call, retractions.get(call.text))]
    return lines


def _note_retraction(call: AggCall, of: Retraction | None) -> Iterator[str]:
    """Yield notes on a class without `retract`: how its rows are retracted nevertheless, and what that costs."""
    if of is not None and of.inverse:
        yield "retract is derived: accumulate with the opposite signs; it is exact, and costs no state"
    elif of is not None and of.why:
        yield f"no retract, and none is derived: {of.why}"
        what = ", ".join(call.args)
        yield f"so each key keeps its live rows, each distinct ({what}) with its count; after a retraction"
        yield "  it accumulates all of them again when its result is next read"
