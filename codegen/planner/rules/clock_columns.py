"""clock_columns: PROCTIME() as a value is a column of the table; the reader of a batch fills it with the batch's time.

A batch has one time, which its checkpoint knows, so that a batch that runs again has the same. Windows by the clock
that no operator fires are laid out by that column: each row's windows follow from it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Calc, Node, Scan, Union, WindowTable, transform, walk
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.clock import reads_clock
from aggloom.codegen.scalar.expressions import parse_scalar, quote_name
from aggloom.codegen.spec.dtypes import INSTANT
from aggloom.codegen.sql.errors import Span, refusal
from aggloom.codegen.sql.scope import text_of
from aggloom.codegen.sql.shape import is_clock

CLOCK: Final = "(processing time)"
_WORDS: Final = re.compile(
    r"(?i)\b(proctime\s*\(|current_timestamp\b|now\s*\(|localtimestamp\b|current_date\b)"
)
_OVER_ADDED: Final = (
    "the change that retracts a row would have another time; compute it over a table whose rows are only added"
)


def clock_columns(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Give tables a column of their batches' time where PROCTIME() is read as a value; raises UnsupportedSqlError."""
    # Most plans read no clock, and stay the same object.
    if not any(map(_asks, walk(root))):
        return root
    return transform(root, _fill)


def _asks(node: Node) -> bool:
    """Tell whether a node reads the clock as a value."""
    if isinstance(node, WindowTable):
        # Sessions by the clock are kept by an operator, which has a clock of its own.
        return not node.assigner.event_time and not node.assigner.merges
    return isinstance(node, Calc) and reads_clock(node)


def _fill(node: Node) -> Node:
    """The node, reading the column of its table where it has read the clock."""
    if not _asks(node):
        return node
    below = _add_column(node.inputs[0])
    if isinstance(node, WindowTable):
        # The column comes before the bounds, and is taken away again.
        # From here on the window goes by a column: it counts as a window of event time.
        by_column = replace(node.assigner, on=CLOCK)  # type: ignore[call-arg]
        return pick(replace(node, input=below, assigner=by_column), node.schema.names)
    assert isinstance(node, Calc)
    select = tuple((name, _replace_clock(sql)) for name, sql in node.select)
    return replace(node, input=below, select=select)


def _replace_clock(sql: str) -> str:
    """The text of an expression with the column in place of PROCTIME()."""
    tree = parse_scalar(sql)
    if not any(map(is_clock, tree.walk())):
        return sql
    column = exp.column(exp.to_identifier(CLOCK, quoted=True))
    return text_of(tree.transform(lambda part: column.copy() if is_clock(part) else part))


def _add_column(node: Node) -> Node:
    """The node with the column of its tables' time behind its own; raises UnsupportedSqlError where there is none."""
    if CLOCK in node.schema.names:
        return node
    field = pa.field(CLOCK, INSTANT)
    # A retraction would be read in a later batch than its row, with another time, and cancel nothing.
    if isinstance(node, Scan) and node.changes == "append":
        return replace(node, columns=node.columns.append(field), clock=CLOCK)
    if isinstance(node, Calc):
        select = (*node.select, (CLOCK, quote_name(CLOCK)))
        columns = node.columns.append(field)
        return replace(node, input=_add_column(node.input), select=select, columns=columns)
    if isinstance(node, Union):
        return replace(node, parts=tuple(map(_add_column, node.parts)))
    what = "of a table with changes" if isinstance(node, Scan) else f"over {node.title[0]}"
    raise refusal(_find_call, f"the time of processing {what} is", _OVER_ADDED)


def _find_call(sql: str) -> Span | None:
    """The place of the first PROCTIME() or the like."""
    match = re.search(_WORDS, sql)
    return None if match is None else match.span()
