"""Lowering: a parsed Spark SQL expression becomes the text of Arrow calls, by the entry of its function or operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, constant, quoted
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import common_type
from aggloom.codegen.scalar.variant_types import compared_error
from aggloom.codegen.spec.dtypes import VARIANT, type_name
from aggloom.errors import TypeMismatchError, UnknownColumnError, nearest

NEEDS_SPARK: Final = "is outside what runs without Spark; give the harness a Spark session."

_CHOICES: Final = (exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Nvl2)
"""Nodes that take one of several values as it is; others compare them."""
_DEEPEST: Final = 30
_BRACKETS: Final = re.compile(r"[()\[\]]")


@dataclass(frozen=True)
class LoweringEntry:
    """One function or operator of the table.

    nodes: its classes in a syntax tree, or its name where the parser knows none. samples: expressions over the columns
    of the sample table (`docs/writers/sample_table.py`), which the page shows and the tests compare with Spark. lower:
    its rule. parts: the parts of a node that the rule reads; a node that carries more is refused.
    """

    nodes: tuple[type[exp.Expression] | str, ...]
    samples: tuple[str, ...]
    lower: Rule
    parts: frozenset[str]


@dataclass(frozen=True)
class ExpressionLowering:
    """One expression over named inputs on its way to text.

    inputs: the schema of each record batch by the name that it has in the text. zone: the session's time zone.
    entries: the table of functions by node. casts: what turns a value into another type. parts: the texts of functions
    of the inputs that stand for what would be nested too deep: Python's own parser has a limit.
    """

    inputs: Mapping[str, pa.Schema]
    zone: str
    entries: Mapping[type[exp.Expression] | str, LoweringEntry]
    casts: Cast
    parts: list[str] = field(default_factory=list)

    def lower(self, node: exp.Expression) -> LoweredExpression:
        """The value of an expression; raises UnsupportedExpressionError for what Arrow does not say as Spark does."""
        value = self._lower_node(node)
        if bracket_depth(value.text) <= _DEEPEST:
            return value
        # Python's own parser gives up at some hundred brackets within each other, so deep expressions are cut into
        # functions.
        self.parts.append(value.text)
        return replace(value, text=f"part_{len(self.parts)}({self.arguments})")

    def _lower_node(self, node: exp.Expression) -> LoweredExpression:
        if isinstance(node, exp.Paren | exp.Alias):
            return self.lower(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        # The parser writes NOT LIKE and its kin as one node; here each is the opposite of the plain one.
        if node.args.get("negate"):
            plain = node.copy()
            plain.set("negate", None)
            return call("pc.invert({0})", pa.bool_(), self.lower(plain))
        entry = self.entries.get(
            str(node.this).lower() if isinstance(node, exp.Anonymous) else type(node)
        )
        # A part of the node that the rule does not read would be dropped without a word, and the value be another.
        used = {name for name, value in node.args.items() if value}
        if entry is None or not used <= entry.parts:
            raise unsupported_error(node, NEEDS_SPARK)
        return entry.lower(self, node)

    def cast(
        self, value: LoweredExpression, dtype: pa.DataType, node: exp.Expression
    ) -> LoweredExpression:
        """The value as a type, by Spark's implicit cast; raises TypeMismatchError where Spark makes none."""
        # CAST spells an array as a text, and no function does.
        if pa.types.is_nested(value.type) and not pa.types.is_nested(dtype):
            raise TypeMismatchError(
                f"expression {node.sql('spark')}: it is {type_name(value.type)} where {type_name(dtype)} is needed; "
                "give one, or write CAST(... AS STRING) around it."
            )
        return self.casts(self, value, dtype, node)

    def as_type(self, node: exp.Expression, dtype: pa.DataType) -> LoweredExpression:
        """An expression's value as a type."""
        return self.cast(self.lower(node), dtype, node)

    def text(self, node: exp.Expression) -> LoweredExpression:
        """An argument that is a text; numbers and dates are spelled out."""
        return self.as_type(node, pa.string())

    def boolean(self, node: exp.Expression) -> LoweredExpression:
        """A condition; raises UnsupportedExpressionError for another type."""
        value = self.lower(node)
        # A bare NULL as a condition is UNKNOWN.
        if value.is_null:
            return constant(None, pa.bool_())
        if value.type != pa.bool_():
            raise unsupported_error(node, f"is {type_name(value.type)} where a BOOLEAN is needed.")
        return value

    def align_values(
        self, nodes: list[exp.Expression], whole: exp.Expression, texts: bool = True
    ) -> list[LoweredExpression]:
        """The values of several expressions in their common type; raises TypeMismatchError if there is none."""
        values = [self.lower(node) for node in nodes]
        dtype = common_type([value.type for value in values], texts)
        if dtype == VARIANT and not isinstance(whole, _CHOICES):
            raise compared_error(whole)
        if dtype is None:
            names = " and ".join(dict.fromkeys(type_name(v.type) for v in values if not v.is_null))
            raise TypeMismatchError(
                f"expression {whole.sql('spark')}: {names} have no common type; write CAST(... AS type) around "
                "one of them."
            )
        return [
            value if value.type == dtype else self.cast(value, dtype, node)
            for value, node in zip(values, nodes, strict=True)
        ]

    def branch(self, value: LoweredExpression) -> str:
        """A value as a function of the inputs, to be computed on some of their rows."""
        return f"lambda {self.arguments}: {value.text}"

    @property
    def arguments(self) -> str:
        """The inputs' names, as arguments."""
        return ", ".join(self.inputs)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of the columns by name."""
        return {f.name: f.type for schema in self.inputs.values() for f in schema}

    def _row_field(self, node: exp.Column) -> LoweredExpression | None:
        """The field of a column that is a row, as in row.field; None if it is something else."""
        kind = self.types.get(node.table)
        # `row.field` and `table.column` look alike: a table that is read is asked first.
        if kind is None or not pa.types.is_struct(kind):
            return None
        if kind.get_field_index(node.name) < 0:
            return None
        row = self._column(exp.column(node.table, quoted=True))
        text = "pc.struct_field({0}, {field})"
        return call(text, kind.field(node.name).type, row, field=quoted(node.name))

    def _column(self, node: exp.Column) -> LoweredExpression:
        name, table = node.name, node.table
        if table and table not in self.inputs:
            field = self._row_field(node)
            if field is not None:
                return field
        places = [place for place, schema in self.inputs.items() if name in schema.names]
        # With one input every column is of it, by whatever name the query reads it.
        if len(self.inputs) > 1 and table in self.inputs:
            places = [place for place in places if place == table]
        if not places:
            known = dict.fromkeys(n for schema in self.inputs.values() for n in schema.names)
            raise UnknownColumnError(
                f"expression {node.sql('spark')}: there is no column {name!r}. {nearest(name, known)}"
            )
        if len(places) > 1:
            raise UnknownColumnError(
                f"expression {node.sql('spark')}: column {name!r} is in {' and in '.join(places)}; "
                f"write {places[0]}.{name} or {places[1]}.{name}"
            )
        (place,) = places
        dtype = self.inputs[place].field(name).type
        return LoweredExpression(f"{place}[{quoted(name)}]", dtype, frozenset([(place, name)]))


def bracket_depth(text: str) -> int:
    """Return the depth to which brackets are nested."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "([" else -1
        deepest = max(deepest, depth)
    return deepest


Rule = Callable[[ExpressionLowering, Any], LoweredExpression]
Cast = Callable[
    [ExpressionLowering, LoweredExpression, pa.DataType, exp.Expression], LoweredExpression
]
