"""Rows that are compared, `(a, b) IN ((1, 2), (3, 4))` or `(a, b) < (1, 2)`, written out by their fields.

BETWEEN is two comparisons. A row within a row counts as its fields: the order of the whole is theirs, one by one.

In dialect `spark` a row is never NULL, a NULL field equals a NULL field and is less than any value: the answer is TRUE
or FALSE. In dialect `flink`, as in the SQL standard, the comparison of a NULL field is unknown.
"""

from __future__ import annotations

from sqlglot import exp

from aggloom.codegen.sql.conditions import connect_all
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.scope import bare, replace_expression
from aggloom.errors import SqlError

_MOST = 100
"""The most rows of a list that is written out. The planner would read longer ones too slowly; Spark evaluates them."""


_EQUAL = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_VALUES = (exp.Literal, exp.Boolean, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
"""Expressions that are no rows, whatever is in them."""
_MIRRORED = {exp.GT: exp.LT, exp.GTE: exp.LTE}


def compare_fields(tree: exp.Expression, dialect: str) -> None:
    """Write out the comparisons of rows of a tree, lists of rows up to a hundred; raises SqlError for other fields."""
    standard = dialect == "flink"
    for node in list(tree.find_all(exp.In, exp.Between, *_EQUAL, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        if not isinstance(node.this, exp.Tuple):
            continue
        _refuse_values(node, node.this)
        if isinstance(node, exp.In):
            condition = _of_list(node, standard)
        elif isinstance(node, exp.Between):
            condition = _of_range(node, standard)
        else:
            condition = _of_two(node, standard)
        if condition is not None:
            replace_expression(node, exp.paren(condition, copy=False))


def _refuse_values(node: exp.Expression, row: exp.Tuple) -> None:
    """Raise SqlError for a row that is compared with a single value."""
    if isinstance(node, exp.In):
        # The list of a PIVOT names columns; it is no condition.
        others = [] if isinstance(node.parent, exp.Pivot) else node.expressions
    elif isinstance(node, exp.Between):
        others = [node.args["low"], node.args["high"]]
    else:
        others = [node.expression]
    for each in others:
        if isinstance(bare(each), _VALUES):
            count = len(row.expressions)
            message = (
                f"{row.sql('spark')}, a row of {count} values, is compared with {each.sql('spark')}, which is no row; "
                f"write a row of {count} values there, or compare one value."
            )
            raise place_error(SqlError(message), each)


def _of_list(node: exp.In, standard: bool) -> exp.Expression | None:
    """A row is among the rows of a list; None where the list has anything but rows, or too many."""
    rows = node.expressions
    # The list of a PIVOT names columns; it is no condition.
    if isinstance(node.parent, exp.Pivot) or not 0 < len(rows) <= _MOST:
        return None
    if not all(isinstance(row, exp.Tuple) for row in rows):
        return None
    equal = exp.EQ if standard else exp.NullSafeEQ
    return connect_all([_equal(_pairs(node.this, row), equal) for row in rows], exp.Or)


def _of_range(node: exp.Between, standard: bool) -> exp.Expression | None:
    """A row lies between two others; None where one of them is none."""
    low, high = node.args["low"], node.args["high"]
    if not (isinstance(low, exp.Tuple) and isinstance(high, exp.Tuple)):
        return None
    ranges = [(low, high), (high, low)] if node.args.get("symmetric") else [(low, high)]
    conditions = [
        connect_all(
            [
                _precedes(_pairs(first, node.this), True, standard),
                _precedes(_pairs(node.this, last), True, standard),
            ],
            exp.And,
        )
        for first, last in ranges
    ]
    return connect_all(conditions, exp.Or)


def _of_two(node: exp.Expression, standard: bool) -> exp.Expression | None:
    """A row beside another one; None where the other side is none."""
    if not isinstance(node.expression, exp.Tuple):
        return None
    pairs = _pairs(node.this, node.expression)
    if isinstance(node, _EQUAL):
        has_nulls = isinstance(node, exp.EQ | exp.NEQ) and standard
        equal = _equal(pairs, exp.EQ if has_nulls else exp.NullSafeEQ)
        return exp.Not(this=equal) if isinstance(node, exp.NEQ | exp.NullSafeNEQ) else equal
    form = type(node)
    if form in _MIRRORED:
        form, pairs = _MIRRORED[form], [(b, a) for a, b in pairs]
    return _precedes(pairs, form is exp.LTE, standard)


def _pairs(left: exp.Tuple, right: exp.Tuple) -> list[tuple[exp.Expression, exp.Expression]]:
    """The fields of two rows, side by side; raises SqlError if one row has more of them."""
    own, other = left.expressions, right.expressions
    if len(own) != len(other):
        message = (
            f"a row of {len(other)} is compared with a row of {len(own)}; write {len(own)} values."
        )
        raise place_error(SqlError(message), right)
    pairs: list[tuple[exp.Expression, exp.Expression]] = []
    for a, b in zip(own, other, strict=True):
        both = isinstance(a, exp.Tuple) and isinstance(b, exp.Tuple)
        pairs.extend(_pairs(a, b) if both else [(a, b)])
    return pairs


def _compare(form: type[exp.Binary], a: exp.Expression, b: exp.Expression) -> exp.Binary:
    return form(this=exp.paren(a), expression=exp.paren(b))


def _equal(
    pairs: list[tuple[exp.Expression, exp.Expression]], form: type[exp.Binary]
) -> exp.Expression:
    """The condition under which two rows are equal; form: the comparison of two fields."""
    return exp.paren(connect_all([_compare(form, a, b) for a, b in pairs], exp.And), copy=False)


def _precedes(
    pairs: list[tuple[exp.Expression, exp.Expression]], or_equal: bool, standard: bool
) -> exp.Expression:
    """The condition under which the left row comes before the right one, field by field; or_equal: or is the same."""
    (a, b), *others = pairs
    less: exp.Expression = _compare(exp.LT, a, b)
    if not standard:
        b_alone = exp.and_(_is_null(a), exp.not_(_is_null(b)))
        less = exp.Coalesce(this=less, expressions=[b_alone])
    equal = _compare(exp.EQ if standard else exp.NullSafeEQ, a, b)
    if others:
        equal = exp.And(
            this=equal, expression=exp.paren(_precedes(others, or_equal, standard), copy=False)
        )
    elif not or_equal:
        return less
    return exp.Or(this=less, expression=exp.paren(equal, copy=False))


def _is_null(node: exp.Expression) -> exp.Is:
    return exp.Is(this=exp.paren(node), expression=exp.null())
