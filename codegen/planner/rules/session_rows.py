"""session_rows: without GROUP BY, the rows of a session wait until it is over, and are emitted with its bounds.

The end of a session is known only when it is over. A list of its rows is an aggregate like any other: it can retract
rows, waits for the watermark or the clock, and is unnested when it is emitted.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Calc, Correlate, Node, Unnest, WindowTable, mark, transform
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.window_checks import find_call
from aggloom.codegen.planner.rules.windows import bounds_of, namespace_spec, over_windows
from aggloom.codegen.scalar.expressions import quote_name, select_names
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec
from aggloom.codegen.spec.choices import Changes
from aggloom.codegen.spec.dtypes import is_supported, type_name
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.windows import Windowing

_PLACE: Final = partial(find_call, "SESSION")
_WHY: Final = "each row waits until its session ends, and is emitted with its bounds"


def session_rows(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Replace the tables of sessions that are left; raises UnsupportedSqlError for rows that no list can hold."""

    def change(node: Node) -> Node:
        # Without a partition the rule `windows` has already taken the keys of a GROUP BY, or refused it.
        if isinstance(node, WindowTable) and node.assigner.merges and node.partition is not None:
            return _collect(node, node.partition, notes)
        return node

    return transform(root, change)


def _collect(node: WindowTable, keys: tuple[str, ...], notes: Notes) -> Node:
    """The lists of rows by key and session, as rows with the bounds behind them."""
    below = node.input
    _check_rows(node)
    sign = mark(node.schema)
    row, listed = f"{sign}row", f"{sign}rows"
    texts = (exp.Literal.string(name).sql("spark") for name in below.schema.names)
    pairs = zip(texts, map(quote_name, below.schema.names), strict=True)
    # A NAMED_STRUCT by texts, since names of columns may be any text.
    parts = (f"{text}, {name}" for text, name in pairs)
    # Beside the row as one value: what the operator lies by, and what sessions go by.
    inputs = list(dict.fromkeys([*keys, *node.assigner.columns]))
    select = (*select_names(inputs), (row, f"NAMED_STRUCT({', '.join(parts)})"))
    fields = [below.schema.field(name) for name in inputs]
    schema = pa.schema([*fields, pa.field(row, pa.struct(list(below.schema)))])
    rows = Calc(below, select, schema)
    call = AggCall("ARRAY_AGG", (row,), alias=listed)
    # Over changes a list retracts rows, and an unfinished session loses them before anybody has seen them.
    changes: Changes = "append" if below.appends_only else "retract"
    spec = namespace_spec(AggSpec(schema, keys, (call,), changes), keys, schema)
    bounds = bounds_of(spec, node.bounds)
    lists = over_windows(rows, spec, Windowing(node.assigner), bounds)
    notes.add("session_rows", spec, True, _WHY)
    answers = [pa.field(sign + each.name, each.type) for each in below.schema]
    opened = Unnest("UNNEST", (listed,), pa.schema(answers), shapes=("rows",))
    outputs = (*(each.name for each in answers), *bounds.names)
    table = Correlate(lists, opened, outer=False, columns=outputs)
    # Back to the names of the table: those of the planner's own are not seen above.
    named = zip(node.schema.names, map(quote_name, outputs), strict=True)
    return Calc(table, tuple(named), node.schema)


def _check_rows(node: WindowTable) -> None:
    """Refuse rows whose values no list holds, and retractions, which the clock would look for in the session of now."""
    for each in node.input.schema:
        if not is_supported(each.type):
            fix = "leave it out before, or make it an ARRAY of rows"
            what = f"SESSION without a GROUP BY, over column {each.name!r} of type {type_name(each.type)}, is"
            raise refusal(_PLACE, what, fix)
    if not node.assigner.event_time and not node.input.appends_only:
        fix = "make sessions of a time of the rows, or GROUP BY their bounds"
        raise refusal(_PLACE, "SESSION in processing time over changes without a GROUP BY is", fix)
