"""Names of functions and numbers of arguments: unknown ones are refused by name."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from aggloom.codegen.catalogue.registry import find, list_functions
from aggloom.codegen.scalar.own_functions import OWN_FUNCTIONS
from aggloom.codegen.scalar.result_types import current_analyser
from aggloom.codegen.scalar.spark_functions import AGGREGATES, ARITIES, WINDOW_FUNCTIONS
from aggloom.errors import SpecError, UnknownFunctionError, UnsupportedSqlError, nearest

_PLACES: Final = (exp.Hint, exp.Table, exp.Lateral, exp.TableFromRows)
"""Parents below which an exp.Anonymous is no scalar function: a hint, or a source in FROM."""
_OWN: Final = frozenset({"proctime"})
_FIXES: Final = {
    "inet_aton": "write a column of the input that holds it",
    "inet_ntoa": "write a column of the input that holds it",
    "object_of": "write NAMED_STRUCT('field', value, ..)",
    "object_update": "write NAMED_STRUCT('field', value, ..) of all fields",
    "rand_integer": "write a column of the input instead: a retraction must repeat its value",
    "group_id": "write GROUPING_ID()",
    "unnest": "write it in FROM: CROSS JOIN UNNEST(a) AS u(x)",
    "to_changelog": "write it in FROM: FROM TO_CHANGELOG(input => TABLE t)",
    "from_changelog": "write it in FROM: FROM FROM_CHANGELOG(input => TABLE t)",
    "dayofweek_iso": "write WEEKDAY(d) + 1",
}
"""Spark's names in place of functions of Flink and others."""
_CUT: Final = {
    "current_watermark": "windows drop late rows, and hand them out with late_rows=True; for rows that leave by the "
    "clock write NOW() in WHERE",
}
"""Functions whose value depends on where batches are cut, with what to use in their place."""
_FORMS: Final[dict[type[exp.Expression], tuple[str, str]]] = {
    exp.JSON: ("IS JSON with UNIQUE KEYS", "take the words out"),
    exp.Overlaps: ("OVERLAPS of anything but pairs", "write (start, end) OVERLAPS (start, end)"),
    exp.SimilarTo: (
        "SIMILAR TO a pattern that is no literal",
        "write RLIKE with a pattern of Java's",
    ),
    exp.Glob: ("GLOB", "write LIKE or RLIKE"),
}
"""Operators of other databases that the parser reads, with what to write in their place."""


def check_function_names(
    tree: exp.Expression, stored: bool = False
) -> tuple[exp.Expression, SpecError] | None:
    """Return the first call that nobody knows, or that has too few or too many arguments, with its error.

    stored: a name that nobody knows may be that of a function of the session in which the text was written.
    """
    for node in tree.find_all(exp.Anonymous, *_FORMS):
        if _is_source(node):
            continue
        # Nodes of _FORMS have no name and no arguments to count: they are faults as they stand.
        error = _fault(node, stored) if isinstance(node, exp.Anonymous) else _fault_of_form(node)
        if error is not None:
            # Of s IS JSON the right side has no place of its own.
            return (node.parent if isinstance(node.parent, exp.Is) else node), error
    return None


def is_known_function(name: str) -> bool:
    """Tell whether a name is that of a function of Spark, of Flink, or of the catalogue."""
    folded = name.lower()
    own = folded in _OWN | WINDOW_FUNCTIONS or folded in OWN_FUNCTIONS
    return own or folded in ARITIES or find(name) is not None


def _is_source(node: exp.Expression) -> bool:
    """Tell whether a call is a hint or a table function: f(x) and TABLE(f(x)) in FROM, GENERATE_SERIES in UNNEST."""
    parent = node.parent
    if isinstance(parent, exp.Anonymous) and parent.name.upper() == "TABLE":
        parent = parent.parent
    series = isinstance(parent, exp.Unnest) and node.name.upper() == "GENERATE_SERIES"
    return series or isinstance(parent, _PLACES)


def _fault_of_form(node: exp.Expression) -> SpecError:
    """Return the fault of an operator that Spark lacks."""
    name, fix = _FORMS[type(node)]
    return UnsupportedSqlError(f"{name} is not supported here: Spark lacks it; {fix}.")


def _fault(node: exp.Anonymous, stored: bool) -> SpecError | None:
    """Return the fault of a call; None if it has none."""
    name, count = node.name, len(node.expressions)
    folded = name.lower()
    # Spark's table comes first: where both have a name, Spark's numbers of arguments hold.
    if folded in ARITIES or folded in OWN_FUNCTIONS:
        least, most = ARITIES[folded] if folded in ARITIES else OWN_FUNCTIONS[folded][:2]
        if count >= least and (most is None or count <= most):
            return None
        message = f"{name.upper()} takes {_number(least, most)}, not {count}; give it as many."
        return UnknownFunctionError(message)
    # Of a stored text the names were checked when it was written, by a session that is not here.
    if stored or folded in _OWN | WINDOW_FUNCTIONS or find(name) is not None:
        return None
    if folded in AGGREGATES:
        hint = nearest(name.upper(), list_functions())
        return UnsupportedSqlError(
            f"{name.upper()} is an aggregate of Spark's that is not one here. {hint}"
        )
    # Last, since it asks the JVM.
    if _is_in_session(name):
        return None
    if folded in _CUT:
        what = "its value follows from where batches are cut, so that another run would give other rows"
        message = f"{name.upper()} is not supported here: {what}; {_CUT[folded]}."
        return UnsupportedSqlError(message)
    fix = _FIXES.get(folded)
    if fix is not None:
        return UnknownFunctionError(f"there is no function {name.upper()} in Spark; {fix}.")
    names = [each.upper() for each in (*ARITIES, *OWN_FUNCTIONS)] + list_functions()
    hint = nearest(name.upper(), names)
    return UnknownFunctionError(f"neither Spark nor the catalogue has a function {name}. {hint}")


def _number(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} argument{'s' * (least != 1)} or more"
    if least == most:
        return f"{least} argument{'s' * (least != 1)}"
    return f"{least} to {most} arguments"


def _is_in_session(name: str) -> bool:
    """Tell whether the session, if there is one, knows a function: one that a user has registered with Spark."""
    analyser = current_analyser()
    if analyser is None:
        return False
    try:
        # Without arguments: an error about their number says as well that there is such a function.
        analyser(f"`{name}`()", {})
    except UnknownFunctionError:
        return False
    except SpecError:
        return True
    return True
