"""Conditions of DEFINE as lines of Python: each is a function over the columns, the rows mapped so far, and the row.

A truth is 0, 1 or 2: false, unknown or true, so that AND is the least and OR the greatest of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.match.definition import (
    DefineCondition,
    MatchDefinition,
    MatchOperand,
    field_type,
)
from aggloom.codegen.match.values import (
    DefineValue,
    as_float,
    domain_of,
    literal_value,
    unify,
    value_of,
)
from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.scope import bare
from aggloom.errors import SpecError

_COMPARISONS: Final[dict[type[exp.Expression], str]] = {
    exp.EQ: "==",
    exp.NEQ: "!=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_ARITHMETIC: Final[dict[type[exp.Expression], str]] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
}
_FIX: Final = (
    "give FIRST, LAST or PREV the function itself, as in LAST(f(A.x)), or compare and add up values of different rows"
)


@dataclass(frozen=True)
class ConditionCode:
    """A condition as the template prints it: the lines before its result, and the result."""

    condition: DefineCondition
    lines: tuple[str, ...]
    truth: str


def condition_code(condition: DefineCondition, definition: MatchDefinition) -> ConditionCode:
    """The code of a condition; raises UnsupportedSqlError for what no matcher computes."""
    writer = _Writer(condition.variable, definition)
    truth = writer.truth(parse_scalar(condition.sql))
    return ConditionCode(condition, tuple(writer.lines), truth)


class _Writer:
    """Writes one condition, each value and truth in a line of its own."""

    def __init__(self, variable: int, definition: MatchDefinition) -> None:
        self.variable, self.definition = variable, definition
        self.operands = {operand.name: operand for operand in definition.operands}
        self.lines: list[str] = []
        self.known: dict[str, DefineValue] = {}

    def truth(self, node: exp.Expression) -> str:
        """The text of a truth; its lines are written."""
        node = bare(node)
        if isinstance(node, exp.And | exp.Or):
            # Both sides are computed: they have no side effects, and a branch would cost more than a comparison.
            function = "min" if isinstance(node, exp.And) else "max"
            return self._note(f"{function}({self.truth(node.left)}, {self.truth(node.right)})")
        if isinstance(node, exp.Not):
            # NOT of unknown (1) is unknown.
            return self._note(f"2 - {self.truth(node.this)}")
        if isinstance(node, exp.Boolean):
            return "TRUE" if node.this else "FALSE"
        if isinstance(node, exp.Null):
            return "UNKNOWN"
        if isinstance(node, exp.Is):
            return self._test(node)
        if isinstance(node, exp.NullSafeEQ):
            left, right = unify(self.value(node.left), self.value(node.right), node)
            same = self._compare(left, right, "==")
            either, both = f"({left.null} or {right.null})", f"({left.null} and {right.null})"
            return self._note(f"TRUE if {both} or (not {either} and {same}) else FALSE")
        operator = _COMPARISONS.get(type(node))
        if operator is not None:
            left, right = unify(self.value(node.left), self.value(node.right), node)
            return self._truth_of(_nulls(left, right), self._compare(left, right, operator))
        value = self.value(node)
        if value.domain != "flag":
            raise refusal(
                node, f"DEFINE: {node.sql('spark')}, which is no condition, is", "compare it"
            )
        return self._truth_of(value.null, value.text)

    def value(self, node: exp.Expression) -> DefineValue:
        """The texts of a value; its lines are written."""
        node = bare(node)
        if isinstance(node, exp.Column):
            if node.name not in self.operands:
                raise SpecError(f"a condition of DEFINE reads {node.name!r}, which is no operand.")
            return self._operand(self.operands[node.name])
        if isinstance(node, exp.Literal) and not node.is_string:
            return literal_value(node)
        if isinstance(node, exp.Neg):
            # As 0 - x: the negative of the least integer overflows as a subtraction does.
            zero = DefineValue("0", "False", "int", bits=8)
            return self._arithmetic("subtract", zero, self.value(node.this), node)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(
                _ARITHMETIC[type(node)], self.value(node.left), self.value(node.right), node
            )
        if isinstance(node, exp.Div):
            left, right = (
                as_float(self._number(self.value(side), node)) for side in (node.left, node.right)
            )
            return self._compute(
                f"rt.divide({left.text}, {right.text})", "0.0", (left, right), "float"
            )
        if isinstance(node, exp.Coalesce):
            return self._first_known(node)
        if _is_truth(node):
            truth = self.truth(node)
            return DefineValue(f"({truth} == TRUE)", f"({truth} == UNKNOWN)", "flag")
        what = f"DEFINE: {node.sql('spark')} over values of different rows is"
        raise refusal(node, what, _FIX)

    def _test(self, node: exp.Is) -> str:
        """IS NULL, IS TRUE and IS FALSE."""
        test = bare(node.expression)
        if isinstance(test, exp.Null):
            if _is_truth(bare(node.this)):
                return self._note(f"TRUE if {self.truth(node.this)} == UNKNOWN else FALSE")
            return self._note(f"TRUE if {self.value(node.this).null} else FALSE")
        if isinstance(test, exp.Boolean):
            truth = "TRUE" if test.this else "FALSE"
            return self._note(f"TRUE if {self.truth(node.this)} == {truth} else FALSE")
        raise refusal(node, f"DEFINE: {node.sql('spark')} is", "write IS NULL, IS TRUE or IS FALSE")

    def _compare(self, left: DefineValue, right: DefineValue, operator: str) -> str:
        if left.domain == "float":
            # NaN is the greatest number in SQL, and equal to itself; to the processor it is neither.
            return f"rt.order({left.text}, {right.text}) {operator} 0"
        return f"{left.text} {operator} {right.text}"

    def _truth_of(self, null: str, test: str) -> str:
        plain = f"TRUE if {test} else FALSE"
        return self._note(plain if null == "False" else f"UNKNOWN if {null} else ({plain})")

    def _arithmetic(
        self, name: str, left: DefineValue, right: DefineValue, node: exp.Expression
    ) -> DefineValue:
        left, right = self._number(left, node), self._number(right, node)
        if name == "multiply" and "float" not in (left.domain, right.domain):
            # The digits after the point of a product are those of both.
            scale = left.scale + right.scale
        else:
            left, right = unify(left, right, node)
            scale = left.scale
        domain = (
            "float" if "float" in (left.domain, right.domain) else "decimal" if scale else "int"
        )
        if domain == "float":
            sign = {"add": "+", "subtract": "-", "multiply": "*"}[name]
            return self._compute(f"{left.text} {sign} {right.text}", "0.0", (left, right), "float")
        bits = max(left.bits, right.bits) if domain == "int" else 64
        text = f"rt.{name}({left.text}, {right.text}, {bits})"
        result = self._compute(text, "0", (left, right), domain)
        return DefineValue(result.text, result.null, result.domain, scale, bits)

    def _number(self, value: DefineValue, node: exp.Expression) -> DefineValue:
        if not value.is_number:
            what = f"DEFINE: arithmetic over values of different rows that are no numbers ({node.sql('spark')}) is"
            raise refusal(
                node, what, "compute it of one row, as in B.t > LAST(A.t + INTERVAL '1' HOUR)"
            )
        return value

    def _compute(
        self, text: str, none: str, operands: tuple[DefineValue, ...], domain: str
    ) -> DefineValue:
        """A value that is NULL if one of its operands is."""
        null = _nulls(*operands)
        if null == "False":
            return DefineValue(self._note(text), "False", domain)  # type: ignore[arg-type]
        null = null if null.isidentifier() else self._note(null)
        # What stands under a NULL is not computed: it may be anything, and could overflow.
        return DefineValue(self._note(f"{none} if {null} else {text}"), null, domain)  # type: ignore[arg-type]

    def _first_known(self, node: exp.Coalesce) -> DefineValue:
        """COALESCE."""
        value = self.value(node.this)
        for each in node.expressions:
            left, right = unify(value, self.value(each), node)
            null = self._note(f"{left.null} and {right.null}")
            text = self._note(f"{right.text} if {left.null} else {left.text}")
            value = DefineValue(
                text, null, left.domain, left.scale, max(left.bits, right.bits), left.dtype
            )
        return value

    def _operand(self, operand: MatchOperand) -> DefineValue:
        if operand.name not in self.known:
            self.known[operand.name] = (
                self._total(operand) if operand.adds_up else self._row_value(operand)
            )
        return self.known[operand.name]

    def _row_value(self, operand: MatchOperand) -> DefineValue:
        """The value of one row."""
        column = column_number(self.definition, operand.column)
        # The row that is being mapped is there for certain: no check for a row that is missing.
        if operand.is_current(self.variable) and not operand.back:
            text = self._note(f"columns.v{column}[row]")
            # A row that is not there is NULL, as SQL has it.
            null = self._note(f"columns.n{column}[row]")
            return value_of(text, null, operand.dtype)
        place = self._note(self._place(operand))
        if operand.back:
            place = self._note(f"rt.rows_before({place}, floor, {operand.back})")
        null = self._note(f"{place} < 0 or columns.n{column}[{place}]")
        return value_of(self._note(f"columns.v{column}[{place}]"), null, operand.dtype)

    def _place(self, operand: MatchOperand) -> str:
        """The number of the row, -1 if there is none."""
        if operand.is_current(self.variable):
            return "row"
        name = operand.function.lower()
        if not operand.variables:
            return f"rt.{name}_row(start, row, {operand.offset})"
        if len(operand.variables) > 1:
            return f"rt.{name}_of_set(run, start, row, {mask(operand.variables)}, {operand.offset})"
        (variable,) = operand.variables
        if name == "last":
            return f"rt.last_mapped(run, start, {variable}, {operand.offset})"
        return f"rt.first_mapped(run, start, row, {variable}, {operand.offset})"

    def _total(self, operand: MatchOperand) -> DefineValue:
        """An aggregate over the rows so far, the row that is being mapped included."""
        number = [each for each in self.definition.operands if each.adds_up].index(operand)
        # Totals are kept for each length of the run: giving a row back is a step to the one before (decision 092).
        at = "[row - start + 1]"
        count = self._note(f"totals.count{number}{at}")
        if operand.function == "COUNT":
            return DefineValue(count, "False", "int")
        total, null = self._note(f"totals.total{number}{at}"), self._note(f"{count} == 0")
        column = field_type(self.definition.columns, operand.column)
        if operand.function == "AVG":
            one = value_of(total, null, column)
            if pa.types.is_integer(operand.dtype):
                text = self._note(f"0 if {null} else rt.whole_quotient({total}, {count})")
                return DefineValue(text, null, "int", bits=operand.dtype.bit_width)
            text = self._note(f"0.0 if {null} else {as_float(one).text} / {count}")
            return DefineValue(text, null, "float")
        return value_of(total, null, operand.dtype, domain_of(column))

    def _note(self, text: str) -> str:
        """The name of a line with this text."""
        for number, line in enumerate(self.lines):
            # Equal texts have equal values: lines have no side effects.
            if line == f"x{number} = {text}":
                return f"x{number}"
        self.lines.append(f"x{len(self.lines)} = {text}")
        return f"x{len(self.lines) - 1}"


def column_number(definition: MatchDefinition, name: str) -> int:
    """The number of a column among those that conditions read."""
    return [field.name for field in definition.columns].index(name)


def mask(variables: tuple[int, ...]) -> int:
    """Variables as the bits of a number."""
    return sum(1 << variable for variable in variables)


def _is_truth(node: exp.Expression) -> bool:
    kinds = (exp.And, exp.Or, exp.Not, exp.Is, exp.Boolean, exp.NullSafeEQ, *_COMPARISONS)
    return isinstance(node, kinds)


def _nulls(*values: DefineValue) -> str:
    """The text of whether one of these values is NULL."""
    return " or ".join(dict.fromkeys(v.null for v in values if v.null != "False")) or "False"
