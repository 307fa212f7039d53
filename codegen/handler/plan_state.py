"""State of a plan: the field or the view of each state of an entry, and the steps that change it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Field, View
from aggloom.codegen.catalogue.registry import options_of
from aggloom.codegen.handler.draft import CallPlan, Draft
from aggloom.codegen.handler.lower import Kind, NameScope, lower, names_in, number_kind
from aggloom.codegen.handler.operands import (
    Operand,
    WordText,
    as_real,
    named_arguments,
    ranks_as_real,
    real_of,
)
from aggloom.codegen.handler.plan_parts import Local, StateField, StateView, Update, ViewStep
from aggloom.codegen.handler.plan_user import literal, user_argument
from aggloom.codegen.views import VIEW_KINDS
from aggloom.type_layout import is_wide_decimal, row_widths


def enter_field(draft: Draft, state: Field, call: CallPlan) -> StateField:
    """The field of a state, new or shared."""
    block = call.block
    kind, layout, pooled = _layout(draft, state, call)
    arguments = _arguments(draft, state, call)
    # The same changes of the same kind are the same state, whatever an entry calls it.
    initial = literal(state.initial)
    # Drafted under a placeholder: a name is taken only if no other field makes the same changes.
    drawn = _update(draft, StateField("_", kind, *layout, pooled), state, call, arguments)
    key = (id(block), kind, drawn.accumulate, drawn.retract, drawn.merge, initial)
    if key not in draft.fields:
        spill = draft.spilling if kind == "float" else -1
        draft.spilling += kind == "float"
        # Named now, since names are numbered in the order in which state is made.
        attr = draft.unique(f"{state.name}_{draft.suffix(call, state.kind == 'word')}")
        field = StateField(attr, kind, *layout, pooled, spill, initial)
        draft.fields[key] = field
        block.updates.append(_update(draft, field, state, call, arguments))
    return draft.fields[key]


def _update(
    draft: Draft, field: StateField, state: Field, call: CallPlan, arguments: dict[str, str]
) -> Update:
    earlier = {**call.fields, state.name: field}
    names = {n: f.attr for n, f in earlier.items()}
    # Merges read both states. An expression may use the fields before its own, which are planned in order.
    names |= {f"other_{n}": f"other_{f.attr}" for n, f in earlier.items()}
    scope = NameScope(
        names | arguments | (_constants(draft, call) if call.entry.user_defined else {}),
        {n: f.kind for n, f in earlier.items()},
        {n: f.spill for n, f in earlier.items()},
        pooled=field.pooled,
        widths=widths_of(call.operand),
        user_defined=call.entry.user_defined,
    )
    # A monotonic MIN or MAX never falls back, so nothing is kept by which it could.
    retract = state.retract if not call.call.monotonic else None
    return Update(
        field,
        lower(state.accumulate, scope).text,
        lower(retract, scope).text if retract else None,
        lower(state.merge, scope).text,
        _scale(draft, state, call),
    )


def _constants(draft: Draft, call: CallPlan) -> dict[str, str]:
    """The call's options as text."""
    options = options_of(call.entry, dict(call.call.options), draft.spec.dialect)
    return {name: repr(value) for name, value in options.items()}


def _layout(draft: Draft, state: Field, call: CallPlan) -> tuple[Kind, tuple[str, int], bool]:
    """The kind of a field, its dtype and columns, and whether it holds ids of the pool."""
    if state.kind == "double":
        return "double", ("f8", 0), False
    # A word of a text is its id in the pool, which counts references.
    if state.kind == "word":
        return "word", ("i8", 0), call.operand is not None and call.operand.is_pooled
    if state.kind == "real":
        # An exact float sum has seven parts (runtime/arithmetic/floats.py).
        return "float", ("f8", 7), False
    if state.kind != "number":
        return "int", ("i8", 0), False
    dtype = draft.type_of(find_summed_column(state, call))
    kind = number_kind(dtype, draft.spec.dialect)
    # So many numbers of 64 bits as a count can count add up to less than 128.
    limbs = 3 if is_wide_decimal(dtype) else 2
    return kind, {"float": ("f8", 7), "wide": ("i8", limbs)}.get(kind, ("i8", 0)), False


def find_summed_column(state: Field, call: CallPlan) -> str:
    """The column that a field of kind number sums."""
    used = names_in(state.accumulate)
    named = named_arguments(call.call, call.entry)
    columns = [column for name, column in named.items() if name in used]
    return columns[0] if columns else call.call.args[0]


def _scale(draft: Draft, state: Field, call: CallPlan) -> int:
    """The digits after the point of an exact sum of decimals, which is stored as an integer."""
    if state.kind != "number":
        return 0
    dtype = draft.type_of(find_summed_column(state, call))
    return int(dtype.scale) if pa.types.is_decimal(dtype) else 0


def _arguments(draft: Draft, state: Field, call: CallPlan) -> dict[str, str]:
    """Return the names of the arguments in a field's expressions, with the block's locals that they need."""
    used = names_in(state.accumulate) | names_in(state.retract)
    names: dict[str, str] = {}
    for name, column in named_arguments(call.call, call.entry).items():
        if name not in used:
            continue
        if call.entry.user_defined:
            names[name] = user_argument(draft, state, call, column)
            continue
        exact = number_kind(draft.type_of(column), draft.spec.dialect) != "float"
        if state.kind in ("real", "double") or (state.kind == "number" and not exact):
            names[name] = draft.real(call, column)
        elif state.kind == "number":
            names[name] = draft.number(call, column)
        else:
            names[name] = draft.word(call)
    return names


def widths_of(operand: Operand | None) -> tuple[int, ...]:
    """The widths of the components of an order key."""
    if operand is None or not operand.keys:
        return ()
    # The keys alone: what follows them is the value, which does not decide what arrived first.
    return row_widths(operand.types[: operand.keys], operand.parts[: operand.keys])


def holds_reals(state: View, operand: Operand | None) -> bool:
    """Tell whether the words of a view are those of DOUBLEs."""
    ranked = operand is not None and ranks_as_real(operand)
    return state.over == "real" or (state.over == "rank" and ranked)


def enter_view(draft: Draft, state: View, call: CallPlan) -> StateView:
    """The view of a state, new or shared."""
    block, operand, kind = call.block, call.operand, VIEW_KINDS[state.kind]
    assert operand is not None
    real = holds_reals(state, operand)
    stored = as_real(operand) if real else operand
    options: dict[str, Any] = options_of(call.entry, dict(call.call.options), draft.spec.dialect)
    width = kind.width(options, draft.type_of(call.call.args[0]))
    # Views of two widths, such as two accuracies, are two.
    key = (state.kind, state.latest, width, stored.identity, id(block))
    if key in draft.views:
        return draft.views[key]
    attr = draft.unique(f"{state.kind}_{draft.suffix(call, True)}")
    view = StateView(attr, kind, stored.is_pooled, width)
    draft.views[key] = view
    if real:
        local = f"rank_{draft.columns[stored.columns[0]]}"
        from_word = f"rt.real_word({real_of(WordText('word'), stored.types[0])})"
        block.locals[local] = Local(local, draft.read_operand(stored), from_word)
    else:
        local = draft.word(call)
    block.views.append(replace(_steps(draft, view, local, call, state.latest), real=real))
    return view


def _steps(draft: Draft, view: StateView, local: str, call: CallPlan, latest: bool) -> ViewStep:
    more = f", latest={latest}" if view.kind.stamps else ""
    function = f"rt.{view.kind.name}"
    # Broken as black would break it: text that black has to change is formatted twice.
    other = f"other.{view.attr}, other.pool, other_slot=o"
    merge = f"{function}_merge(\n    {view.here}, {other}{more}\n)"
    named = named_arguments(call.call, call.entry)
    if "frequency" in named:
        times = draft.read_column(named["frequency"], "number")
        # A frequency is a number of equal rows, which are added at once.
        add = f"{function}_add({view.here}, {local}, {{}}{times})"
        return ViewStep(view, add.format(""), add.format("-"), merge)
    return ViewStep(
        view,
        f"{function}_accumulate({view.here}, {local}{more})",
        f"{function}_retract({view.here}, {local})",
        merge,
    )
