"""The scope that the parts of a query share: its columns, the expressions computed from them, and places for errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.spec.dtypes import VARIANT, type_name
from aggloom.codegen.sql.dialect import AggloomSpark, CallNode
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.sized_casts import with_sized_casts
from aggloom.errors import (
    SpecError,
    TypeMismatchError,
    UnknownColumnError,
    UnsupportedExpressionError,
    nearest,
)

Types = dict[str, pa.DataType]
_MOST = 2_000
"""An alias of more nodes is not written out where another item names it: one of one of one is long."""
_WHOLE_DAYS = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_TIMESTAMPS = (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMP)


class Scope:
    """The input columns of a query, what its table is called, and the computed columns found so far."""

    def __init__(self, schema: pa.Schema, dialect: str, tables: set[str]) -> None:
        self.schema, self.dialect = schema, dialect
        self.tables = {name.casefold() for name in tables}
        self.computed: dict[str, Computed] = {}
        self.by_name: dict[str, Computed] = {}
        self.names_in_use = set(schema.names)

    @property
    def types(self) -> Types:
        """The types of the input columns."""
        return dict(zip(self.schema.names, self.schema.types, strict=True))

    def columns_of(self, names: Iterable[str]) -> pa.Schema:
        """Some of the input columns and of the computed ones."""
        fields = []
        for name in dict.fromkeys(names):
            # Computed columns first: their types are known, and the schema has none of them.
            known = self.by_name.get(name)
            fields.append(self.schema.field(name) if known is None else pa.field(name, known.type))
        return pa.schema(fields)

    def column(self, node: exp.Expression) -> str:
        """The column that an expression is, or the computed one that it becomes."""
        node = bare(node)
        self.require_columns(node)
        return node.name if isinstance(node, exp.Column) else self.compute(node, None)

    def require_columns(self, node: exp.Expression) -> None:
        """Raise if an expression names a column that the input does not have."""
        for part in node.find_all(exp.Column):
            if part.name not in self.schema.names:
                raise self.unknown(part)

    def compute(self, node: exp.Expression, preferred: str | None) -> str:
        """The name of the computed column for an expression, new or known."""
        sql = self.input_sql(node)
        # By text: two items that say the same are one column.
        if sql in self.computed:
            return self.computed[sql].name
        with self.at(node):
            dtype = infer(self.flink_divisions(node.copy(), self.types), self.types)
            if pa.types.is_null(dtype):
                raise UnsupportedExpressionError("NULL has no type; write CAST(NULL AS type).")
        # The alias of an item makes the readable name, unless a column has it.
        free = preferred is not None and preferred not in self.names_in_use
        base = preferred if preferred is not None and free else pretty(node)
        name, number = base, 2
        # Two expressions may have one readable name, such as `a + b` over columns that differ in case.
        while name in self.names_in_use:
            name, number = f"{base}_{number}", number + 1
        self.names_in_use.add(name)
        self.computed[sql] = self.by_name[name] = Computed(name, sql, dtype)
        return name

    def input_sql(self, node: exp.Expression) -> str:
        """An expression over the input as Spark evaluates it."""
        sql: str = spark_text(self.flink_divisions(node.copy(), self.types))
        return sql

    def where_of(self, tree: exp.Select) -> str | None:
        """The condition of WHERE over the input as Spark evaluates it; None without one."""
        where = tree.args.get("where")
        if where is None:
            return None
        node = self.resolve(where.this)
        self.refuse_aggregates(node, "WHERE", "move the condition to HAVING")
        self.require_boolean(node, "WHERE")
        return self.input_sql(node)

    def require_boolean(self, node: exp.Expression, clause: str) -> None:
        """Raise TypeMismatchError if the condition of a clause is none."""
        with self.at(node):
            dtype = infer(self.flink_divisions(node.copy(), self.types), self.types)
            if dtype != pa.bool_():
                raise TypeMismatchError(
                    f"{clause} needs BOOLEAN, not {type_name(dtype)}; compare it."
                )

    def join_conditions(self, conditions: Sequence[exp.Expression]) -> str | None:
        """The conditions of ON, all of which have to be true, as Spark evaluates them; None without one."""
        for each in conditions:
            self.require_boolean(each, "ON")
        return self.input_sql(exp.and_(*conditions)) if conditions else None

    def flink_divisions(self, node: exp.Expression, types: Types) -> exp.Expression:
        """Flink divides integers to an integer; Spark, which evaluates this, must be instructed to."""
        if self.dialect != "flink":
            return node
        # Inside a node of its own, for the division may be the whole expression and is replaced in its parent.
        root = exp.paren(node, copy=False)
        # The innermost first: the type of an outer division depends on what the inner one has become.
        for division in reversed(list(root.find_all(exp.Div))):
            operands = [infer(side, types) for side in (division.left, division.right)]
            if all(pa.types.is_integer(dtype) for dtype in operands):
                wider = infer(
                    exp.Add(this=division.left.copy(), expression=division.right.copy()), types
                )
                whole = exp.IntDiv(this=division.left.copy(), expression=division.right.copy())
                division.replace(exp.cast(whole, type_name(wider), dialect="spark"))
        return root.this

    def item(
        self, node: exp.Expression, alias: str | None, left: dict[str, exp.Expression]
    ) -> tuple[exp.Expression, str]:
        """An item of SELECT, and what it is called.

        left: what aliases to its left stand for, which it may name, as in Spark; its own is added.
        """
        resolved = bare(self.resolve(node, left=left))
        written = bare(node)
        aliased = isinstance(written, exp.Column) and self._find_alias(written, left) is not None
        default = written.name if aliased and self.find(written.name) is None else None
        # Flink has no aliases to the left.
        if alias is not None and self.dialect == "spark":
            left[alias.casefold()] = resolved
        return resolved, alias or default or own_name(node, resolved)

    def resolve(
        self,
        node: exp.Expression,
        lenient: bool = False,
        left: Mapping[str, exp.Expression] | None = None,
    ) -> exp.Expression:
        """The expression with every column under its exact name, unqualified and quoted.

        lenient: unknown ones stay. left: what stands for those that are none, but aliases to the left.
        """
        flink = self.dialect == "flink"

        def visit(part: exp.Expression) -> exp.Expression:
            # CAST(... AS TIMESTAMP) and TO_TIMESTAMP(...): Flink's is a wall clock.
            if flink and isinstance(part, exp.DataType) and part.this in _TIMESTAMPS:
                return exp.DataType.build("TIMESTAMP_NTZ", dialect="spark")
            if flink and isinstance(part, exp.RegexpExtract) and part.args.get("group") is None:
                # Without a group Flink gives the whole match, Spark the first group.
                part.set("group", exp.Literal.number(0))
            if not isinstance(part, exp.Column | exp.Dot) or isinstance(part.this, exp.Star):
                return part
            name = None
            if isinstance(part, exp.Column):
                owned = not part.table or part.table.casefold() in self.tables
                name = self.find(part.name) if owned else None
            field = self._field(part) if name is None else None
            if field is not None or isinstance(part, exp.Dot):
                return part if field is None else field
            if name is None:
                aliased = self._find_alias(part, left or {})
                if aliased is not None:
                    return aliased
                if lenient and owned:
                    return part
                raise self.unknown(part)
            column = make_column(name)
            place = span(part)
            if place is not None:
                column.this.update_positions(None, line=0, col=0, start=place[0], end=place[1] - 1)
            return column

        # CAST to VARCHAR(n) and its kin are written out before names are looked at.
        tree = _read_fields(with_sized_casts(node, self.dialect).transform(visit))
        if flink:
            for part in tree.find_all(exp.Bracket):
                self._count_from_zero(part)
            tree = self._type_added_dates(tree)
        return tree

    def _type_added_dates(self, tree: exp.Expression) -> exp.Expression:
        """Give sums of dates Flink's types: with days or months a DATE, with hours or less a TIMESTAMP."""
        root = exp.paren(tree, copy=False)
        # The innermost first: what is added to a sum depends on the type of that.
        for part in reversed(list(root.find_all(exp.Anonymous))):
            if part.name.upper() != "TIMESTAMPADD" or len(part.expressions) != 3:
                continue
            unit, _, date = part.expressions
            with suppress(SpecError):
                if not pa.types.is_date(infer(date, self.types)):
                    continue
                date.replace(exp.cast(date.copy(), "TIMESTAMP_NTZ", dialect="spark"))
                if unit.name.upper() in _WHOLE_DAYS:
                    part.replace(exp.cast(part.copy(), "DATE"))
        return root.this

    def _find_alias(
        self, part: exp.Column, left: Mapping[str, exp.Expression]
    ) -> exp.Expression | None:
        """Return the expression for a name that is an alias to the left; None if it is none."""
        item = None if part.table else left.get(part.name.casefold())
        if item is None:
            return None
        fix = "write its expression again, or name it in a sub-query"
        if part.find_ancestor(CallNode):
            raise refusal(part, f"the alias {part.name!r} inside an aggregate is", fix)
        # Each alias that names the one before doubles: a few dozen items would make an expression without end.
        if sum(1 for _ in item.walk()) > _MOST:
            raise refusal(part, f"the alias {part.name!r} of an item so long is", fix)
        return exp.paren(item.copy())

    def _field(self, node: exp.Expression) -> exp.Expression | None:
        """Return the field `t.c.f.g` or `c.f.g` of the column c, which is a ROW; None if there is no such column."""
        names = path(node)
        # Of three names the first may be a table or a column: a table has the right of way, as in Spark.
        if len(names) > 2 and names[0].casefold() in self.tables:
            names = names[1:]
        column = self.find(names[0]) if len(names) > 1 else None
        if column is None or not pa.types.is_struct(self.schema.field(column).type):
            return None
        value: exp.Expression = make_column(column)
        for name in names[1:]:
            value = exp.Bracket(this=value, expressions=[exp.Literal.string(name)])
        return value

    def _count_from_zero(self, part: exp.Bracket) -> None:
        """Flink numbers the items of arrays and VARIANTs from 1; what evaluates this numbers them from 0."""
        with suppress(SpecError):
            whole = infer(part.this, self.types)
            if pa.types.is_list(whole) or (whole == VARIANT and self._are_places(part)):
                one = exp.Literal.number(1)
                index = [exp.Sub(this=exp.paren(i), expression=one) for i in part.expressions]
                whole = [isinstance(i, exp.Literal) and i.this.isdigit() for i in part.expressions]
                if all(whole):
                    index = [exp.Literal.number(int(i.this) - 1) for i in part.expressions]
                part.set("expressions", index)

    def _are_places(self, part: exp.Bracket) -> bool:
        """Tell whether what is in brackets are numbers, and no names of fields."""
        return all(pa.types.is_integer(infer(each, self.types)) for each in part.expressions)

    def find(self, name: str) -> str | None:
        """The schema's spelling of a name: exact, or the only one that differs in case."""
        if name in self.schema.names:
            return name
        folded = [known for known in self.schema.names if known.casefold() == name.casefold()]
        # Two columns may differ in case alone; then only the exact spelling names one.
        return folded[0] if len(folded) == 1 else None

    def unknown(self, column: exp.Column) -> UnknownColumnError:
        """The error of a column that the input does not have."""
        return unknown_column(column, self.schema.names, self.tables)

    def refuse_aggregates(self, node: exp.Expression, where: str, fix: str) -> None:
        """Raise if there is an aggregate in the expression."""
        for part in node.find_all(CallNode):
            if part.name.upper() in ("ANY", "SOME") and isinstance(part.parent, exp.Binary):
                fix = "write ARRAY_CONTAINS(a, x), or a sub-query in the parentheses"
                raise refusal(part, f"a comparison with {part.name.upper()} of an array is", fix)
            raise refusal(part, f"an aggregate in {where} is", fix)

    @contextmanager
    def at(self, node: exp.Expression) -> Iterator[None]:
        """Adds the place in the query to an error that does not know it."""
        try:
            yield
        except SpecError as error:
            raise place_error(type(error)(str(error)), node) from None


def unknown_column(
    column: exp.Column, names: Sequence[str], tables: Iterable[str]
) -> UnknownColumnError:
    """The error of a column that no table of FROM has; `names` are those that they have.

    One that is qualified with a table of another FROM gets no column as a hint: it would be another table's.
    """
    written = ".".join(part.name for part in column.parts)
    # A name before the dot may be a column that is a ROW.
    known = {name.casefold() for name in (*tables, *names)}
    if (
        not column.table
        or column.parts[0].name.casefold() in known
        or column.table.casefold() in known
    ):
        message = f"there is no column {written!r}. {nearest(column.name, names)}"
        return place_error(UnknownColumnError(message), column)
    message = (
        f"there is no column {written!r}, for {column.table!r} is no table in the FROM of this query. "
        f"{nearest(column.table, sorted(tables))} A sub-query in FROM or WITH does not see the tables around it: let "
        f"it select what is to be compared, and write the condition outside of it."
    )
    return place_error(UnknownColumnError(message), column)


def path(node: exp.Expression) -> list[str]:
    """The names that dots join; none of what is no column, nor a field of one."""
    if isinstance(node, exp.Dot):
        last = node.expression
        inner = path(node.this)
        return [*inner, last.name] if inner and isinstance(last, exp.Identifier) else []
    return [part.name for part in node.parts] if isinstance(node, exp.Column) else []


def _read_fields(tree: exp.Expression) -> exp.Expression:
    """The expression with fields in brackets where a dot follows a value: `f(x).a`, `a[0].b`."""
    root = exp.paren(tree, copy=False)
    # The innermost first: of `f(x).a.b` the field a.
    for dot in reversed(list(root.find_all(exp.Dot))):
        if not path(dot) and isinstance(dot.expression, exp.Identifier):
            name = exp.Literal.string(dot.expression.name)
            dot.replace(exp.Bracket(this=dot.this, expressions=[name]))
    return root.this


def own_name(item: exp.Expression, resolved: exp.Expression) -> str:
    """Return the name of an item without an alias: a column or field by its name, others as Spark calls them."""
    if isinstance(resolved, exp.Column):
        return str(resolved.name)
    written = path(bare(item))
    if written:
        return written[-1]
    casts = list(item.find_all(exp.Cast))
    sized = any(cast.to.expressions for cast in casts)
    # A cast that the dialect has added is no part of the name.
    is_cast = len(casts) < len(list(resolved.find_all(exp.Cast)))
    is_field = isinstance(bare(item), exp.Dot)
    return pretty(bare(item) if sized or is_cast or is_field else resolved)


def make_column(name: str) -> exp.Column:
    """The column of this exact name."""
    return exp.column(exp.to_identifier(name, quoted=True))


def make_table(name: str) -> exp.Table:
    """The table of this exact name."""
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def name_item(node: exp.Expression, name: str) -> exp.Alias:
    """A copy of an expression as an item of SELECT of this exact name."""
    # `exp.alias_` would make it a sub-query's own name, as in FROM.
    return exp.Alias(this=node.copy(), alias=exp.to_identifier(name, quoted=True))


def replace_expression(node: exp.Expression, value: exp.Expression) -> None:
    """Put a value in the place of a node; as an item of SELECT without a name it keeps the node's text as its name."""
    if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        value = exp.Alias(this=value, alias=exp.to_identifier(pretty(node), quoted=True))
    node.replace(value)


def bare(node: exp.Expression) -> exp.Expression:
    """The expression without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def text_of(node: exp.Expression) -> str:
    """Return the text that is the same for two expressions that are the same."""
    text: str = node.sql(AggloomSpark, comments=False, unsupported_level=ErrorLevel.IGNORE)
    return text


def pretty(node: exp.Expression) -> str:
    """A readable column name for an expression, as Spark would call it."""
    if isinstance(node, exp.Literal):
        return str(node.this)
    copy = node.copy()
    for identifier in copy.find_all(exp.Identifier):
        identifier.set("quoted", not re.fullmatch(r"\w+", identifier.name))
    text = text_of(copy)
    is_operation = isinstance(node, exp.Binary) and not isinstance(node, exp.Dot)
    return f"({text})" if is_operation else text
