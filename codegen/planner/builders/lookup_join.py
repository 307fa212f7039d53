"""FOR SYSTEM_TIME AS OF processing time: which parts of ON are looked up, and which are tested after."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import (
    Calc,
    Dimension,
    LookupJoin,
    LookupQuestion,
    Node,
    compute_columns,
    filter_node,
    mark,
)
from aggloom.codegen.planner.builders.as_of import way_of
from aggloom.codegen.scalar.calc import lower_calc
from aggloom.codegen.scalar.operand_types import common
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.checks import require_supported
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.spec.lookup_table import Function
from aggloom.codegen.sql.as_of import AsOf
from aggloom.codegen.sql.conditions import column_names, equality
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.scope import Scope, bare
from aggloom.errors import SpecError, TypeMismatchError, UnsupportedExpressionError

Pushed = tuple[str, str, tuple[Any, ...]]
_PASSES = pa.schema([("passes", pa.bool_())])
_OPERATIONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}


class LookupJoinBuilder(Protocol):
    """The builder that knows the text of the query."""

    dialect: str


def dimension_of(node: Node) -> Dimension | None:
    """The lookup table that a side is, perhaps with other names for its columns; None if it is none."""
    # Renamed columns are all that may stand between; a filter would make rows of it.
    while isinstance(node, Calc) and node.picked_columns == tuple(node.input.schema.names):
        node = node.input
    return node if isinstance(node, Dimension) else None


class LookupClause:
    """A lookup join on its way. right: the dimension under the names of the joined rows."""

    def __init__(
        self, builder: LookupJoinBuilder, as_of: AsOf, kind: Any, left: Node, right: Node
    ) -> None:
        self.builder, self.as_of, self.kind, self.left = builder, as_of, kind, left
        dimension = dimension_of(right)
        assert dimension is not None
        self.dimension, self.right = dimension, right.schema
        self.own = list(left.schema.names)
        self.pairs: list[tuple[str, str]] = []
        # A source that is asked by key compares all digits of its own, and the query those that are declared.
        table = dimension.table
        self.cut = {} if table.cache.kind == "full" else dict(table.digits)

    def plan(self, conditions: list[exp.Expression], hint: Mapping[str, Any]) -> Node:
        """The join. conditions: what ON says, and of an inner join WHERE; hint: settings of asking."""
        if way_of(self.as_of, self.left) != "now":
            fix = "name PROCTIME(), or a column that is PROCTIME()"
            what = f"a lookup table, {self.dimension.name}, in ASOF JOIN or AS OF a row time is"
            raise refusal(self.as_of.place, what, fix)
        # By the name in the joined rows the column of the table.
        tables = dict(zip(self.right.names, self.dimension.schema.names, strict=True))
        left = set(self.own)
        rest = [each for each in conditions if not self._pair(each, tables)]
        if not self.pairs:
            fix = f"compare a column of {self.dimension.name} with =, as in ON s.id = {self.dimension.name}.id"
            fix += self._advise_digits()
            raise refusal(self.as_of.place, "a lookup join without an equality is", fix)
        self._check_function()
        # Conditions of the row alone: rows that do not meet them need not ask.
        before = [each for each in rest if column_names(each) <= left]
        tested = [each for each in rest if each not in before]
        both = pa.schema([*self.left.schema, *self.right])
        pushed = [
            filter_
            for each in tested
            if (filter_ := _push_condition(each, tables, self.dimension.schema)) is not None
            and filter_[0] not in dict(self.dimension.table.digits)
        ]
        # What no worker evaluates is tested above the join, by Spark. Of a LEFT JOIN it would have to pad again.
        above, condition = None, self._sql(tested, both)
        if condition is not None and not self._lowers(condition, both, tested):
            above, condition = condition, None
        asks_if = self._sql(before, self.left.schema)
        if asks_if is not None and not self._lowers(asks_if, self.left.schema, before):
            above, asks_if = asks_if if above is None else f"({above}) AND ({asks_if})", None
        question = LookupQuestion(
            self.dimension.name,
            self.dimension.table.with_hint(**hint),
            kind=self.kind,
            pairs=tuple(self.pairs),
            names=tuple(tables.items()),
            before=asks_if,
            condition=condition,
            pushed=tuple(pushed),
        )
        node = LookupJoin(self.left, question, (*self.own, *self.right.names))
        return filter_node(node, above)

    def _pair(self, condition: exp.Expression, tables: Mapping[str, str]) -> bool:
        """Make a condition a pair of columns, if it sets a column of the table equal to what the row says."""
        equation = equality(condition)
        if equation is None:
            return False
        one, other = (bare(side) for side in equation.sides)
        if column_names(other) <= set(self.own) and column_names(one) & set(tables):
            one, other = other, one
        is_plain = isinstance(other, exp.Column) and other.name in tables
        if not is_plain or not column_names(one) <= set(self.own):
            return False
        if equation.null_safe:
            fix = "write =; a row whose key is NULL finds nothing"
            raise refusal(condition, "IS NOT DISTINCT FROM in a lookup join is", fix)
        name = tables[other.name]
        # A second equality of the column is tested on the answer: a source is asked for one value of each.
        if name in self.cut or any(name == known for _, known in self.pairs):
            return False
        dtype = self.dimension.schema.field(name).type
        scope = Scope(self.left.schema, self.builder.dialect, set())
        with scope.at(condition):
            require_supported(name, self.dimension.schema, "a lookup")
            own = infer(scope.flink_divisions(one.copy(), scope.types), scope.types)
            # The row's value may become the table's type where that loses nothing; never the other way, which a source
            # cannot do.
            if own != dtype and common([own, dtype], condition) != dtype:
                raise TypeMismatchError(
                    f"{self.dimension.name}.{name} is {type_name(dtype)}, and what is looked up {type_name(own)}; "
                    f"cast it: CAST(.. AS {type_name(dtype)})."
                )
        self.pairs.append((self._column(scope, one, own, dtype), name))
        return True

    def _column(
        self, scope: Scope, node: exp.Expression, own: pa.DataType, dtype: pa.DataType
    ) -> str:
        """The column of the row that an expression is, in a type; a computed one if there is none."""
        if isinstance(node, exp.Column) and own == dtype:
            return str(node.name)
        sql = scope.input_sql(node)
        if own != dtype:
            sql = f"CAST({sql} AS {type_name(dtype)})"
        name = f"{mark(self.left.schema, self.right)}key_{len(self.pairs)}"
        self.left = compute_columns(self.left, [Computed(name, sql, dtype)])
        return name

    def _check_function(self) -> None:
        """Refuse a function of which not all arguments are said."""
        table = self.dimension.table
        missing = [name for name in table.key if name not in {known for _, known in self.pairs}]
        if isinstance(table.source, Function) and missing:
            what = f"a lookup of {self.dimension.name} without {' and '.join(missing)} is"
            fix = "its function is called with the values of its key; compare each of its columns with ="
            fix += self._advise_digits()
            raise refusal(self.as_of.place, what, fix)

    def _advise_digits(self) -> str:
        """Return what to do where an equality of a time is none by which the source can be asked."""
        if not self.cut:
            return ""
        names = " and ".join(self.cut)
        return f" ({names}: declare six digits, as TIMESTAMP(6), or read the table whole, cache='full')"

    def _sql(self, conditions: list[exp.Expression], columns: pa.Schema) -> str | None:
        """Conditions as Spark evaluates them."""
        # TRUE is what is left of a condition that was simplified away.
        conditions = [e for e in conditions if not (isinstance(e, exp.Boolean) and e.this)]
        return Scope(columns, self.builder.dialect, set()).join_conditions(conditions)

    def _lowers(self, condition: str, columns: pa.Schema, parts: list[exp.Expression]) -> bool:
        """Tell whether workers evaluate a condition in whatever time zone; raises where nothing else can."""
        select = (("passes", condition),)
        try:
            texts = {
                lower_calc(None, select, _PASSES, columns, zone=zone).text
                # Workers evaluate in no zone of their own: a condition whose text differs between two depends on one.
                for zone in ("UTC", "Asia/Tokyo")
            }
        except UnsupportedExpressionError as error:
            why = f"only Spark evaluates ({error})"
        else:
            why = "depends on the time zone"
            if len(texts) == 1:
                return True
        if self.kind == "inner":
            return False
        what = f"a condition of a LEFT lookup join that {why} is"
        raise refusal(parts[0], what, "compute its parts as columns before the join")


def _push_condition(
    condition: exp.Expression, tables: Mapping[str, str], schema: pa.Schema
) -> Pushed | None:
    """A condition of a column of the table that a database tests alike, or lets more rows pass."""
    node = bare(condition)
    if (
        isinstance(node, exp.In)
        and isinstance(node.this, exp.Column)
        and not node.args.get("query")
    ):
        return _push_comparison(node.this, "IN", node.expressions, tables, schema)
    operations = _OPERATIONS.get(type(node))
    if operations is None:
        return None
    left, right = bare(node.this), bare(node.expression)
    if isinstance(left, exp.Column):
        return _push_comparison(left, operations[0], [right], tables, schema)
    if isinstance(right, exp.Column):
        return _push_comparison(right, operations[1], [left], tables, schema)
    return None


def _push_comparison(
    column: exp.Column,
    operation: str,
    constants: list[exp.Expression],
    tables: Mapping[str, str],
    schema: pa.Schema,
) -> Pushed | None:
    name = tables.get(column.name)
    if name is None:
        return None
    kind = schema.field(name).type
    # Floats are left out: databases differ in NaN and in how they round a literal.
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    # In what order texts stand is the database's own affair.
    if not is_number and not (pa.types.is_string(kind) and operation in ("=", "IN")):
        return None
    values = []
    for each in constants:
        negative = isinstance(each, exp.Neg)
        literal = bare(each.this) if negative else bare(each)
        if not isinstance(literal, exp.Literal) or literal.is_string == is_number:
            return None
        try:
            value: Any = Decimal(literal.this) if is_number else str(literal.this)
        except ArithmeticError:
            return None
        # A negative number is no literal to the parser.
        value = -value if negative else value
        values.append(int(value) if is_number and value == int(value) else value)
    return name, operation, tuple(values)


def as_dimensions(lookups: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[str, Node]:
    """Return the nodes that stand for lookup tables in a plan; raises SpecError for a name that a table has, too."""
    both = {name.casefold() for name in lookups} & {name.casefold() for name in tables}
    if both:
        raise SpecError(f"{sorted(both)[0]!r} is a table and a lookup table; rename one.")
    return {name: Dimension(name, table) for name, table in lookups.items()}
