"""What a query becomes, in plain words: its calls, what a key keeps, and what is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from aggloom.codegen.call import describe_call
from aggloom.codegen.dtypes import type_name
from aggloom.codegen.plan import plan_of
from aggloom.codegen.plan_parts import HandlerPlan
from aggloom.codegen.spec import AggSpec, SchemaLike
from aggloom.errors import SpecError


def explain(
    query: AggSpec | str,
    schema: SchemaLike = None,
    *,
    input_changes: Literal["append", "retract"] = "retract",
    dialect: Literal["spark", "flink"] = "spark",
    backend: Literal["numba", "python"] = "numba",
) -> str:
    """The calls of a spec, or of SQL over a schema, with their types, a key's state, and the backend and why."""
    if isinstance(query, str):
        if schema is None:
            raise SpecError("explain: SQL needs a schema, such as 'name STRING, cnt INT'")
        query = AggSpec.from_sql(query, schema, input_changes, dialect)
    return "\n".join(_lines(query, plan_of(query, backend), backend))


def _lines(spec: AggSpec, plan: HandlerPlan, asked: str) -> Iterator[str]:
    keys = ", ".join(spec.group_by) or "nothing: one group"
    yield f"GROUP BY {keys}"
    yield f"input   {'retracting' if plan.retracting else 'append-only'}, dialect {spec.dialect}"
    yield "calls"
    for call in spec.calls:
        yield f"  {describe_call(call)}: {type_name(spec.result_type(call))}"
    yield "state of a key"
    for line in plan.describe().splitlines():
        yield f"  {line}"
    slow = list(dict.fromkeys(text.partition("(")[0].upper() for text, why in plan.verdicts if why))
    why = ""
    if asked == "numba" and slow:
        why = f", for {' and '.join(slow)} cannot be compiled"
    yield f"backend {'compiled by Numba' if plan.compiled else 'plain Python'}{why}"
    yield from _functions(spec, plan)


def _functions(spec: AggSpec, plan: HandlerPlan) -> Iterator[str]:
    if not plan.names:
        return
    yield "your functions"
    reasons = dict(plan.verdicts)
    for call in spec.calls:
        if not spec.entry(call).own:
            continue
        if spec.entry(call).code is None:
            yield f"  {call.text}: expressions, as the built-in functions"
        elif reasons[call.text]:
            yield f"  {call.text}: Python, not compiled: {reasons[call.text]}"
        else:
            yield f"  {call.text}: {'compiled' if plan.compiled else 'can be compiled'}"
