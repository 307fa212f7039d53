"""Outputs of a plan: the value of each call over its state, and how it becomes a column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Field, View
from aggloom.codegen.catalogue.registry import options_of
from aggloom.codegen.handler.draft import CallPlan, Draft
from aggloom.codegen.handler.lower import (
    GeneratedText,
    NameScope,
    Value,
    lower,
    lower_value,
    names_in,
)
from aggloom.codegen.handler.operands import named_arguments
from aggloom.codegen.handler.plan_parts import NOT_LIVE, CallOutput, Let
from aggloom.codegen.handler.plan_state import find_summed_column, holds_reals, widths_of
from aggloom.codegen.spec.agg_call import describe_call
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.user.checks import value_type
from aggloom.codegen.user.lower import user_shape, user_value


def enter_output(draft: Draft, call: CallPlan) -> None:
    """Enter the result of a call, computed from its state."""
    entry, dialect = call.entry, draft.spec.dialect
    options = options_of(entry, dict(call.call.options), dialect)
    scope = _scope(draft, call, options)
    shape = user_shape(call.shape) if entry.user_defined else call.shape
    condition = shape.empty if dialect in entry.empty_in else None
    lets = _lets(draft, call, shape.let, names_in(shape.value) | names_in(condition), scope)
    value = _value(draft, call, shape.value, scope, options)
    empty = lower(condition, scope) if condition else GeneratedText()
    used = value.names.union(empty.names, *(let.names for let in lets))
    text = empty.text
    if entry.user_defined:
        # A user's value need not know of keys that are not shown.
        text = " or ".join(filter(None, [NOT_LIVE, text and f"({text})"]))
    draft.outputs.append(
        CallOutput(
            f"out_{draft.results[call.call.output_name]}",
            describe_call(call.call),
            texts=value.texts,
            form=value.form,
            check=value.check,
            empty=text,
            loads=tuple(field for name, field in call.fields.items() if name in used),
            views=tuple(view for name, view in call.views.items() if name in used),
            let=lets,
            returns=_returns(call),
            options=tuple(sorted(options.items())),
            element=_element(call),
        )
    )


def _value(
    draft: Draft, call: CallPlan, expression: str, scope: NameScope, options: dict[str, Any]
) -> Value:
    types = draft.spec.arg_types(call.call)
    argument = types[0] if types else None
    result = draft.spec.result_type(call.call)
    if call.entry.user_defined:
        value_kind = value_type(call.entry, user_shape(call.shape))
        return user_value(expression, value_kind, scope, argument, result)
    fractions = options.get("fraction")
    views = [state for state in call.shape.state if isinstance(state, View)]
    return lower_value(
        expression,
        scope,
        argument,
        result,
        fractions if isinstance(fractions, tuple) else None,
        any(holds_reals(view, call.operand) for view in views) and call.entry.returns == "",
    )


def _lets(
    draft: Draft,
    call: CallPlan,
    named: tuple[tuple[str, str], ...],
    used: frozenset[str],
    scope: NameScope,
) -> tuple[Let, ...]:
    """The numbers that a value or its condition names and that no earlier call has computed."""
    new = []
    for name, expression in named:
        if name not in used:
            continue
        lowered = lower(expression, scope)
        # Calls of one block often name the same number, such as a mean: it is computed once.
        if lowered.text not in draft.lets:
            draft.lets[lowered.text] = f"{name}_{draft.suffix(call)}"
            new.append(Let(draft.lets[lowered.text], lowered.text, lowered.names))
        scope.names[name] = draft.lets[lowered.text]
    return tuple(new)


def _scope(draft: Draft, call: CallPlan, options: dict[str, Any]) -> NameScope:
    names = {n: f.attr for n, f in call.fields.items()}
    names |= {name: repr(value) for name, value in options.items()}
    names["out"] = f"out_{draft.results[call.call.output_name]}"
    names["backwards"] = str(call.operand is not None and call.operand.backwards)
    return NameScope(
        names,
        {n: f.kind for n, f in call.fields.items()},
        {n: f.spill for n, f in call.fields.items()},
        {n: v.parts for n, v in call.views.items()},
        widths=widths_of(call.operand),
        scales=_scales(draft, call) if call.entry.user_defined else {},
        user_defined=call.entry.user_defined,
    )


def _scales(draft: Draft, call: CallPlan) -> dict[str, int]:
    """The scales of a call's exact sums of decimals."""
    sums = [s for s in call.shape.state if isinstance(s, Field) and s.kind == "number"]
    types = {state.name: draft.type_of(find_summed_column(state, call)) for state in sums}
    return {name: t.scale for name, t in types.items() if pa.types.is_decimal(t)}


def _returns(call: CallPlan) -> str:
    if "separator" in named_arguments(call.call, call.entry):
        return "join_last"
    if not call.entry.returns and call.operand is not None and call.operand.form == "row":
        words = any(isinstance(s, View) or s.kind == "word" for s in call.shape.state)
        return "part" if words else ""
    return call.entry.returns


def _element(call: CallPlan) -> tuple[Any, ...] | None:
    """(types, parts, take) of the words behind a result, where they are not the result itself."""
    if not _returns(call) or call.operand is None:
        return None
    operand = call.operand
    parts = operand.parts if operand.form == "row" else None
    return tuple(type_name(t) for t in operand.types), parts, operand.take
