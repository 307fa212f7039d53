"""SQL to a spec: keys, calls, and the scalar expressions around them.

Everything scalar below an aggregate or inside a key becomes a computed column; everything scalar
above an aggregate becomes the final projection over keys and calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen import spec_check
from aggloom.codegen.catalogue import CATALOGUE, REFUSED, canonical
from aggloom.codegen.dtypes import type_name
from aggloom.codegen.scalar_types import infer
from aggloom.codegen.spec import AggCall, AggSpec, Computed, SchemaLike, to_schema
from aggloom.codegen.sql_errors import located, span
from aggloom.codegen.sql_shape import read, refusal
from aggloom.errors import (
    DuplicateNameError,
    SpecError,
    SqlError,
    TypeMismatchError,
    UnknownColumnError,
    UnsupportedExpressionError,
    UnsupportedSqlError,
    nearest,
)


def parse(
    sql: str, schema: SchemaLike, input_changes: Any = "retract", dialect: Any = "spark"
) -> AggSpec:
    """The spec of one `SELECT ... FROM t [WHERE] [GROUP BY] [HAVING]`; errors show the place."""
    spec_check.check_choices(input_changes, dialect)
    return _Query(sql, to_schema(schema, dialect), dialect).spec(input_changes)


class _Query:
    """One query on its way: what has been found so far of keys, computed columns and calls."""

    def __init__(self, sql: str, schema: pa.Schema, dialect: str) -> None:
        self.sql, self.schema, self.dialect = sql, schema, dialect
        self.tree = read(sql)
        self.table = self.tree.args["from_"].this
        self.computed: dict[str, Computed] = {}
        self.keys: dict[str, str] = {}
        self.calls: list[AggCall] = []
        self.outputs: list[tuple[str, exp.Expression]] = []
        self.aliases: dict[str, exp.Expression] = {}

    def spec(self, input_changes: Any) -> AggSpec:
        projections = self._projections()
        where = self._where()
        self._find_keys(projections)
        self._project(projections)
        having = self._having()
        if not self.keys and not self.calls:
            raise UnsupportedSqlError(
                "the query has no aggregate and no GROUP BY, so there is nothing to maintain; "
                "use DataFrame.select for it."
            )
        names = [*self.keys.values(), *(call.output_name for call in self.calls)]
        plain = [(name, _column(name).sql("spark")) for name in names]
        select = [(name, self._flink(node, names).sql("spark")) for name, node in self.outputs]
        return AggSpec(
            self.schema,
            tuple(self.keys.values()),
            tuple(self.calls),
            input_changes,
            self.dialect,  # type: ignore[arg-type]
            tuple(self.computed.values()),
            where,
            None if having is None else self._flink(having, names).sql("spark"),
            None if select == plain else tuple(select),
        )

    def _projections(self) -> list[tuple[exp.Expression, str | None, str]]:
        """Each item of SELECT: the expression, its alias, and the name that it has without one."""
        items = []
        for item in self.tree.expressions:
            alias = item.alias if isinstance(item, exp.Alias) else None
            node = item.this if isinstance(item, exp.Alias) else item
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
            ):
                raise refusal(self.sql, node, "SELECT * is", "name the keys and the aggregates")
            node = _bare(self._resolved(node))
            items.append(
                (node, alias, node.name if isinstance(node, exp.Column) else _pretty(node))
            )
        return items

    def _where(self) -> str | None:
        where = self.tree.args.get("where")
        if where is None:
            return None
        node = self._resolved(where.this)
        self._refuse_aggregates(node, "WHERE", "move the condition to HAVING")
        with self._at(node):
            dtype = infer(node, self._types())
            if dtype != pa.bool_():
                raise TypeMismatchError(f"WHERE needs BOOLEAN, not {type_name(dtype)}; compare it.")
        text: str = self._input_sql(node)
        return text

    def _find_keys(self, projections: list[tuple[exp.Expression, str | None, str]]) -> None:
        group, distinct = self.tree.args.get("group"), self.tree.args.get("distinct")
        nodes: list[exp.Expression] = []
        if distinct is not None:
            if group is not None or any(self._aggregates(node) for node, _, _ in projections):
                raise refusal(self.sql, None, "DISTINCT beside aggregates is", "drop DISTINCT")
            if distinct.args.get("on"):
                raise refusal(self.sql, distinct, "DISTINCT ON is", "use plain DISTINCT")
            nodes = [node for node, _, _ in projections]
        elif group is not None and group.args.get("all"):
            nodes = [node for node, _, _ in projections if not self._aggregates(node)]
        elif group is not None:
            nodes = [self._key(node, projections) for node in group.expressions]
        taken = {_text(node): alias for node, alias, _ in projections if alias is not None}
        for node in nodes:
            self._refuse_aggregates(node, "a group key", "group by input columns")
            if isinstance(node, exp.Column):
                with self._at(node):
                    spec_check.require_supported(node.name, self.schema, "GROUP BY")
                self.keys[_text(node)] = node.name
            else:
                self.keys[_text(node)] = self._compute(node, taken.get(_text(node)))

    def _key(
        self, node: exp.Expression, projections: list[tuple[exp.Expression, str | None, str]]
    ) -> exp.Expression:
        """The expression that an item of GROUP BY means: an ordinal, an alias or itself."""
        if isinstance(node, exp.Literal) and not node.is_string:
            if not (node.this.isdigit() and 1 <= int(node.this) <= len(projections)):
                message = f"GROUP BY {node.this}: SELECT has items 1 to {len(projections)}."
                raise SqlError(located(message, self.sql, node))
            return projections[int(node.this) - 1][0]
        if isinstance(node, exp.Column) and not node.table and self._find(node.name) is None:
            for item, alias, _ in projections:
                if alias is not None and alias.casefold() == node.name.casefold():
                    return item
        return _bare(self._resolved(node))

    def _project(self, projections: list[tuple[exp.Expression, str | None, str]]) -> None:
        names: set[str] = set()
        outputs: list[tuple[str, exp.Expression | None]] = []
        for node, alias, default in projections:
            call = None
            if _text(node) not in self.keys and self._is_aggregate(node):
                call = self._call(node, alias)
            name = alias or (default if call is None else call.output_name)
            if name in names:
                message = f"two output columns are called {name!r}; give one an alias."
                raise DuplicateNameError(located(message, self.sql, node))
            names.add(name)
            if call is not None:
                if name in self.keys.values():
                    call = replace(call, alias=self._unused("_agg"))
                self.calls.append(call)
            outputs.append((name, None if call is None else _column(call.output_name)))
        # Only now, so that an expression over aggregates finds the calls that are columns already.
        for (name, done), (node, alias, _) in zip(outputs, projections, strict=True):
            lowered = self._lowered(node, "SELECT") if done is None else done
            self.outputs.append((name, lowered))
            if alias is not None:
                self.aliases[alias.casefold()] = lowered

    def _having(self) -> exp.Expression | None:
        having = self.tree.args.get("having")
        if having is None:
            return None
        return self._lowered(self._resolved(having.this, lenient=True), "HAVING")

    def _lowered(self, node: exp.Expression, where: str) -> exp.Expression:
        """The expression over the columns that the operator emits: keys and calls."""

        def visit(part: exp.Expression) -> exp.Expression:
            if _text(part) in self.keys:
                return _column(self.keys[_text(part)])
            if self._is_aggregate(part):
                return _column(self._hidden(part))
            if isinstance(part, exp.Anonymous) and not self._over_keys(part):
                with self._at(part):
                    spec_check.check_function(canonical(part.name), where)
            if not isinstance(part, exp.Column):
                return part
            if where == "HAVING" and part.name.casefold() in self.aliases:
                return exp.paren(self.aliases[part.name.casefold()].copy())
            if part.name not in self.schema.names:
                raise self._unknown(part)
            message = (
                f"{where}: column {part.name!r} is neither grouped nor aggregated; "
                f"add it to GROUP BY or wrap it, for example in MAX({part.name})."
            )
            raise SqlError(located(message, self.sql, part))

        return node.transform(visit, copy=True)

    def _hidden(self, node: exp.Expression) -> str:
        call = self._call(node, None)
        for known in self.calls:
            if replace(known, alias=None) == call:
                return known.output_name
        self.calls.append(replace(call, alias=self._unused("_agg")))
        return self.calls[-1].output_name

    def _call(self, node: exp.Expression, alias: str | None) -> AggCall:
        """One aggregate call, its arguments and filter brought down to columns."""
        predicate, inner = None, node
        while isinstance(inner, exp.Filter | exp.IgnoreNulls):
            if isinstance(inner, exp.Filter):
                predicate = inner.expression.this
            inner = inner.this
        function = canonical(self._function(inner))
        with self._at(inner):
            spec_check.check_function(function, "SELECT")
        arguments, distinct = _arguments(inner)
        if function == "COUNT" and not distinct and _counts_rows(arguments):
            arguments = []
        names = tuple(self._argument(argument, function) for argument in arguments)
        condition = None if predicate is None else self._filter(predicate, function)
        call = AggCall(function, names, distinct, condition, alias)
        columns = [pa.field(c.name, c.type) for c in self.computed.values()]
        with self._at(node):
            spec_check.check_call(call, pa.schema([*self.schema, *columns]), self.dialect)
        return call

    def _argument(self, node: exp.Expression, function: str) -> str:
        if isinstance(node, exp.Order | exp.HavingMax | exp.Limit | exp.WithinGroup | exp.Star):
            raise refusal(self.sql, node, f"this form of {function} is", "give it a plain column")
        node = _bare(node)
        self._refuse_aggregates(node, f"the argument of {function}", "aggregate in two steps")
        for column in node.find_all(exp.Column):
            if column.name not in self.schema.names:
                raise self._unknown(column)
        return node.name if isinstance(node, exp.Column) else self._compute(node, None)

    def _filter(self, node: exp.Expression, function: str) -> str:
        self._refuse_aggregates(node, f"the filter of {function}", "use HAVING")
        with self._at(node):
            dtype = infer(node, self._types())
            if dtype != pa.bool_():
                name = type_name(dtype)
                raise TypeMismatchError(
                    f"FILTER of {function} needs BOOLEAN, not {name}; compare it."
                )
        return self._argument(node, function)

    def _function(self, node: exp.Expression) -> str:
        """The function as the user spelled it; the parser may know it by a synonym."""
        if isinstance(node, exp.Anonymous):
            return str(node.name)
        if "start" in node.meta:
            return self.sql[node.meta["start"] : node.meta["end"] + 1].strip("`$ ")
        place = span(node)
        before = re.search(r"(\w+)\s*\(\W*$", self.sql[: place[0]]) if place is not None else None
        if before is not None:
            return before[1]
        return str(node.sql_name() if isinstance(node, exp.Func) else node.key).upper()

    def _is_aggregate(self, node: exp.Expression) -> bool:
        if isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            if isinstance(node, exp.RespectNulls):
                raise refusal(self.sql, node, "RESPECT NULLS is", "nulls are always skipped")
            return True
        if isinstance(node, exp.Anonymous):
            return canonical(node.name) in CATALOGUE or canonical(node.name) in REFUSED
        return isinstance(node, exp.AggFunc) or (
            isinstance(node, exp.Func) and node.sql_name() in REFUSED
        )

    def _aggregates(self, node: exp.Expression) -> list[exp.Expression]:
        return [part for part in node.walk() if self._is_aggregate(part)]

    def _refuse_aggregates(self, node: exp.Expression, where: str, fix: str) -> None:
        for part in self._aggregates(node):
            raise refusal(self.sql, part, f"an aggregate in {where} is", fix)

    def _over_keys(self, node: exp.Expression) -> bool:
        keys = set(self.keys)
        return all(_text(column) in keys for column in node.find_all(exp.Column))

    def _compute(self, node: exp.Expression, preferred: str | None) -> str:
        """The name of the computed column for an expression, new or known."""
        text = self._input_sql(node)
        if text in self.computed:
            return self.computed[text].name
        with self._at(node):
            dtype = infer(self._flink_divisions(node.copy(), self._types()), self._types())
            if pa.types.is_null(dtype):
                raise UnsupportedExpressionError("NULL has no type; write CAST(NULL AS type).")
        taken = {*self.schema.names, *(column.name for column in self.computed.values())}
        base = preferred if preferred is not None and preferred not in taken else _pretty(node)
        name, number = base, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        self.computed[text] = Computed(name, text, dtype)
        return name

    def _input_sql(self, node: exp.Expression) -> str:
        text: str = self._flink_divisions(node.copy(), self._types()).sql("spark")
        return text

    def _flink(self, node: exp.Expression, names: list[str]) -> exp.Expression:
        if self.dialect != "flink":
            return node
        keys, calls = tuple(self.keys.values()), tuple(self.calls)
        computed = tuple(self.computed.values())
        spec = AggSpec(self.schema, keys, calls, "retract", "flink", computed)
        types = dict(zip(names, spec.aggregate_schema.types, strict=True))
        return self._flink_divisions(node.copy(), types)

    def _flink_divisions(
        self, node: exp.Expression, types: dict[str, pa.DataType]
    ) -> exp.Expression:
        """Flink divides integers to an integer; Spark, which evaluates this, must be told to."""
        if self.dialect != "flink":
            return node
        root = exp.paren(node, copy=False)
        for division in reversed(list(root.find_all(exp.Div))):
            operands = [infer(side, types) for side in (division.left, division.right)]
            if all(pa.types.is_integer(dtype) for dtype in operands):
                wider = infer(
                    exp.Add(this=division.left.copy(), expression=division.right.copy()), types
                )
                whole = exp.IntDiv(this=division.left.copy(), expression=division.right.copy())
                division.replace(exp.cast(whole, type_name(wider), dialect="spark"))
        return root.this

    def _types(self) -> dict[str, pa.DataType]:
        return dict(zip(self.schema.names, self.schema.types, strict=True))

    def _unused(self, stem: str) -> str:
        names = {*self.schema.names, *self.keys.values(), *(c.output_name for c in self.calls)}
        names |= {item.alias for item in self.tree.expressions}
        return next(name for n in range(1000) if (name := f"{stem}{n}") not in names)

    def _resolved(self, node: exp.Expression, lenient: bool = False) -> exp.Expression:
        """The expression with every column under its exact name, unqualified and quoted."""

        flink = self.dialect == "flink"

        def visit(part: exp.Expression) -> exp.Expression:
            if flink and isinstance(part, exp.DataType) and part.this == exp.DType.TIMESTAMPTZ:
                return exp.DataType.build("TIMESTAMP_NTZ", dialect="spark")
            if not isinstance(part, exp.Column) or isinstance(part.this, exp.Star):
                return part
            name = self._find(part.name)
            if part.table and part.table.casefold() not in self._table_names():
                raise self._unknown(part)
            if name is None:
                if lenient:
                    return part
                raise self._unknown(part)
            column = _column(name)
            place = span(part)
            if place is not None:
                column.this.update_positions(None, line=0, col=0, start=place[0], end=place[1] - 1)
            return column

        return node.transform(visit, copy=True)

    def _table_names(self) -> set[str]:
        return {name.casefold() for name in (self.table.name, self.table.alias) if name}

    def _find(self, name: str) -> str | None:
        """The schema's spelling of a name: exact, or the only one that differs in case."""
        if name in self.schema.names:
            return name
        folded = [known for known in self.schema.names if known.casefold() == name.casefold()]
        return folded[0] if len(folded) == 1 else None

    def _unknown(self, column: exp.Column) -> UnknownColumnError:
        written = ".".join(part.name for part in column.parts)
        message = f"there is no column {written!r}. {nearest(column.name, self.schema.names)}"
        return UnknownColumnError(located(message, self.sql, column))

    @contextmanager
    def _at(self, node: exp.Expression) -> Iterator[None]:
        """Adds the place in the query to an error that does not know it."""
        try:
            yield
        except SpecError as error:
            raise type(error)(located(str(error), self.sql, node)) from None


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _text(node: exp.Expression) -> str:
    """What makes two expressions the same."""
    text: str = node.sql("spark", comments=False)
    return text


def _pretty(node: exp.Expression) -> str:
    """A readable column name for an expression, as Spark would call it."""
    if isinstance(node, exp.Literal):
        return str(node.this)
    shown = node.copy()
    for identifier in shown.find_all(exp.Identifier):
        identifier.set("quoted", not re.fullmatch(r"\w+", identifier.name))
    text = _text(shown)
    return f"({text})" if isinstance(node, exp.Binary) else text


def _arguments(node: exp.Expression) -> tuple[list[exp.Expression], bool]:
    """The arguments of a call, and whether they are DISTINCT."""
    found: list[exp.Expression] = []
    for key in node.arg_types:
        value = node.args.get(key)
        items = value if isinstance(value, list) else [value]
        if not (isinstance(node, exp.Anonymous) and key == "this"):
            found += [item for item in items if isinstance(item, exp.Expression)]
    if found and isinstance(found[0], exp.Distinct):
        return [*found[0].expressions, *found[1:]], True
    return found, False


def _counts_rows(arguments: list[exp.Expression]) -> bool:
    """COUNT(*), COUNT(1), COUNT('x'): no argument that could be NULL."""
    return all(isinstance(each, exp.Star | exp.Literal | exp.Boolean) for each in arguments)
