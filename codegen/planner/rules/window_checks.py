"""Windows that no operator can run, refused after all rules have run."""

from __future__ import annotations

import re
from functools import partial

from aggloom.codegen.operators import Node, TemporalFilter, WindowAggregate, WindowTable, walk
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.rules.clock import clock_value
from aggloom.codegen.sql.errors import Span, refusal
from aggloom.codegen.windows import Assigner, Rolling, Session


def check_windows(root: Node, notes: Notes) -> None:
    """Refuse windows that no operator runs, PROCTIME() as a value, and rows that leave below what cannot follow."""
    for node in walk(root):
        if isinstance(node, WindowTable) and not _is_stateless(node.assigner):
            raise refusal(partial(find_call, _word(node.assigner)), _what(node, notes), _fix(node))
        if node.awaits_watermark or isinstance(node, WindowAggregate):
            _refuse_filters_below(node)
    column = clock_value(root)
    if column is not None:
        fix = f"take {column!r} out, or use it as the time column of a window only"
        raise refusal(partial(find_call, "PROCTIME"), "PROCTIME() as a value is", fix)


def _refuse_filters_below(node: Node) -> None:
    """Refuse rows that come and leave by the clock where a result is emitted once and for all."""
    filters = [each for each in walk(node) if isinstance(each, TemporalFilter)]
    if filters:
        what = f"{filters[0].condition} below {node.title[0]}, whose rows do not leave again, is"
        fix = (
            "write the condition in a query around it, over a time of its result such as window_end"
        )
        raise refusal(None, what, fix)


def _is_stateless(assigner: Assigner) -> bool:
    """Tell whether each row's windows are known from the row alone, for good."""
    return assigner.event_time and not assigner.merges and not isinstance(assigner, Rolling)


def _what(node: WindowTable, notes: Notes) -> str:
    """Name the refused table, and why it is no aggregate in windows, if the rule has a single answer."""
    clock = "" if node.assigner.event_time else " in processing time"
    every_note = [note for listed in notes.by_spec.values() for note in listed]
    # With several reasons any one of them could be of another window.
    whys = {note.why for note in every_note if note.rule == "windows" and not note.fired}
    why = f" ({whys.pop()})" if len(whys) == 1 else ""
    parts = " or ".join(node.roles) if isinstance(node.assigner, Rolling) else "its windows"
    return f"{_word(node.assigner)}{clock} without a GROUP BY of {parts}{why} is"


def _fix(node: WindowTable) -> str:
    fix = f"GROUP BY {', '.join(list(node.roles)[:2])}"
    if not isinstance(node.assigner, Session):
        return f"{fix}, and compute with them only after it"
    keys = ", ".join(node.partition or ())
    same = f" and the keys of PARTITION BY ({keys})" if keys else " alone"
    return f"{fix}{same}, filter its table before it, and compute with the bounds after it"


def _word(assigner: Assigner) -> str:
    return type(assigner).__name__.upper()


def find_call(word: str, sql: str) -> Span | None:
    """Return the place of the only call of a function; None if there are several."""
    # With several calls of one name nobody knows which one is meant, and nothing is underlined.
    matches = list(re.finditer(rf"\b{word}\b(?=\s*\()", sql, re.I))
    return matches[0].span() if len(matches) == 1 else None
