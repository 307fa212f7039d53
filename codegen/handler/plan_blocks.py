"""Blocks of a plan: calls over the same arguments under one FILTER, and DISTINCT calls that share a view."""

from __future__ import annotations

from aggloom.codegen.catalogue.entry import Aggregate
from aggloom.codegen.handler.draft import Draft
from aggloom.codegen.handler.operands import Operand, named_arguments, operand_of, skipping_columns
from aggloom.codegen.handler.plan_parts import CallBlock, Distinct, StateView
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.views import MULTISET, SEEN
from aggloom.codegen.views.kind import ViewKind
from aggloom.codegen.views.seen import CALLS


def is_distinct(call: AggCall, entry: Aggregate) -> bool:
    """Tell whether a call sees each value once."""
    return call.distinct and not entry.ignores_distinct and bool(call.args)


def block_of(draft: Draft, call: AggCall, entry: Aggregate, operand: Operand | None) -> CallBlock:
    """The block of a call, new or shared."""
    if is_distinct(call, entry) and operand is not None:
        block = _distinct_block(draft, call, entry, operand)
    else:
        block = _plain_block(draft, call, entry, operand)
    block.calls.append(call)
    return block


def _guards(draft: Draft, call: AggCall, entry: Aggregate) -> list[str]:
    columns = skipping_columns(call, entry, draft.spec.dialect)
    guards = [draft.read_column(column, "valid") for column in columns]
    if "frequency" in named_arguments(call, entry):
        guards.append(f"{draft.read_column(call.args[1], 'number')} > 0")
    return guards


def _plain_block(
    draft: Draft, call: AggCall, entry: Aggregate, operand: Operand | None
) -> CallBlock:
    guards = [draft.read_column(call.filter, "flag")] if call.filter else []
    guards += _guards(draft, call, entry)
    key = (call.args, tuple(guards), None if operand is None else operand.identity)
    if key not in draft.blocks:
        draft.blocks[key] = CallBlock(guards, operand)
    return draft.blocks[key]


def _distinct_key(draft: Draft, call: AggCall, entry: Aggregate) -> object:
    operand = operand_of(call, entry, draft.spec.input_schema, draft.spec.dialect)
    if operand is None or not is_distinct(call, entry):
        return None
    parts = operand.parts if operand.form == "row" else ()
    return operand.form, operand.columns, parts, tuple(_guards(draft, call, entry))


def _distinct_filters(draft: Draft) -> dict[object, list[str | None]]:
    """The filters of all DISTINCT calls by what they have distinct; each filter once, in the order of the calls."""
    if not draft.distinct_filters:
        for each in draft.spec.calls:
            key = _distinct_key(draft, each, draft.spec.entry(each))
            filters = draft.distinct_filters.setdefault(key, [])
            if each.filter not in filters:
                filters.append(each.filter)
    return draft.distinct_filters


def _distinct_kind(draft: Draft, calls: int) -> ViewKind:
    """The kind of a view that so many filters share."""
    # A count a call is needed only where rows are retracted; one call alone has one number in either kind.
    return SEEN if not draft.has_retractions and 1 < calls <= CALLS else MULTISET


def _distinct_block(draft: Draft, call: AggCall, entry: Aggregate, operand: Operand) -> CallBlock:
    key = _distinct_key(draft, call, entry)
    filters = _distinct_filters(draft)[key]
    if key not in draft.distincts:
        word = draft.read_operand(operand)
        attr = f"distinct_{'_'.join(draft.columns[c] for c in operand.columns)}"
        kind = _distinct_kind(draft, len(filters))
        view = StateView(draft.unique(attr), kind, operand.is_pooled, len(filters))
        guards = _guards(draft, call, entry)
        # A call without FILTER sees every row. Only where all have one is there a row that no call wants in the view.
        if all(filters):
            either = " or ".join(draft.read_column(f, "flag") for f in filters if f)
            guards.insert(0, f"({either})" if len(filters) > 1 else either)
        # A value may pass one FILTER and not another: each has a count of its own in the shared view.
        blocks = [
            CallBlock([draft.read_column(f, "flag")] if f else [], operand, column=column)
            for column, f in enumerate(filters)
        ]
        draft.distincts[key] = Distinct(view, word, guards, blocks)
    return draft.distincts[key].blocks[filters.index(call.filter)]
