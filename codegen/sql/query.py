"""SQL to a spec: keys, calls, and the scalar expressions around them.

Everything scalar below an aggregate or inside a key becomes a computed column; everything scalar
above an aggregate becomes the final projection over keys and calls.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec import checks as spec_check
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.spec.content import SpecContent
from aggloom.codegen.spec.schemas import SchemaLike, to_schema
from aggloom.codegen.sql.calls import lower
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal, underline_errors
from aggloom.codegen.sql.grouping_sets import (
    GROUP_ID,
    MAX_SETS,
    count_sets,
    grouping_value,
    has_sets,
    is_grouping,
    listed_keys,
    plain_keys,
    sets_of,
)
from aggloom.codegen.sql.output_names import free_names
from aggloom.codegen.sql.scope import Scope, bare, make_column, text_of
from aggloom.codegen.sql.shape import parse_select
from aggloom.errors import DuplicateNameError, SqlError, UnsupportedSqlError


def parse(
    sql: str, schema: SchemaLike, input_changes: Any = "retract", dialect: Any = "spark"
) -> SpecContent:
    """Return the content of one `SELECT ... FROM t [WHERE] [GROUP BY] [HAVING]`; errors show the place."""
    spec_check.check_choices(input_changes, dialect)
    columns = to_schema(schema, dialect)
    with underline_errors(sql):
        tree = parse_select(sql, dialect)
        table = tree.args["from_"].this
        names = {name for name in (table.name, table.alias) if name}
        return SelectBlock(tree, columns, dialect, names).content(input_changes)


class SelectBlock(Scope):
    """One SELECT with aggregates on its way: what has been found so far of keys, computed columns and calls.

    sets: the names of the keys of each grouping set; with them the schema must have the column GROUP_ID.
    """

    def __init__(self, tree: exp.Select, schema: pa.Schema, dialect: str, tables: set[str]) -> None:
        super().__init__(schema, dialect, tables)
        self.tree = tree
        self.keys: dict[str, str] = {}
        self.key_kinds: set[type[exp.Expression]] = {exp.Column}
        self.sets: list[tuple[str, ...]] = []
        self.calls: list[AggCall] = []
        self.known: dict[AggCall, str] = {}
        self.hidden = 0
        self.outputs: list[tuple[str, exp.Expression]] = []
        self.aliases: dict[str, exp.Expression] = {}

    def content(self, input_changes: Any) -> SpecContent:
        projections = self._projections()
        where = self.where_of(self.tree)
        # Keys before calls: an item that is a key must not be taken for an expression over columns.
        self._find_keys(projections)
        self._project(projections)
        having = self._lower_having()
        if not self.keys and not self.calls and (self.tree.args.get("group") or having is not None):
            # GROUP BY () and HAVING make one group of all rows, whether or not anything is computed of them.
            self._add_hidden_call(CallNode(this="COUNT", expressions=[exp.Star()]))
        if not self.keys and not self.calls:
            raise UnsupportedSqlError(
                "the query has no aggregate and no GROUP BY, so there is nothing to maintain; "
                "use DataFrame.select for it."
            )
        names = [*self.keys.values(), *(call.output_name for call in self.calls)]
        plain = [(name, spark_text(make_column(name))) for name in names]
        nodes = [node for _, node in self.outputs] + ([] if having is None else [having])
        if self.dialect == "flink":
            nodes = self._as_flink(nodes, names, input_changes)
        texts = [spark_text(node) for node in nodes]
        select = list(zip((name for name, _ in self.outputs), texts, strict=False))
        return SpecContent(
            self.schema,
            tuple(self.keys.values()),
            calls=tuple(self.calls),
            input_changes=input_changes,
            dialect=self.dialect,  # type: ignore[arg-type]
            computed=tuple(self.computed.values()),
            where=where,
            having=None if having is None else texts[-1],
            select=None if select == plain else tuple(select),
        )

    def _projections(self) -> list[tuple[exp.Expression, str | None, str]]:
        """Each item of SELECT: the expression, its alias, and its name with or without one."""
        items = []
        left: dict[str, exp.Expression] = {}
        for item in self.tree.expressions:
            alias = item.alias if isinstance(item, exp.Alias) else None
            node = item.unalias()
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
            ):
                raise refusal(node, "SELECT * is", "name the keys and the aggregates")
            value, name = self.item(node, alias, left)
            items.append((value, alias, name))
        return items

    def _find_keys(self, projections: list[tuple[exp.Expression, str | None, str]]) -> None:
        group, distinct = self.tree.args.get("group"), self.tree.args.get("distinct")
        sets = has_sets(group)
        nodes: list[exp.Expression] = []
        if distinct is not None:
            if group is not None or any(node.find(CallNode) for node, _, _ in projections):
                raise refusal(None, "DISTINCT beside aggregates is", "drop DISTINCT")
            if distinct.args.get("on"):
                raise refusal(distinct, "DISTINCT ON is", "use plain DISTINCT")
            nodes = [node for node, _, _ in projections]
        elif group is not None and group.args.get("all") and not group.expressions:
            if sets:
                raise refusal(group, "GROUP BY ALL beside ROLLUP or CUBE is", "name the keys")
            # GROUP BY ALL: by every item without an aggregate.
            nodes = [node for node, _, _ in projections if not node.find(CallNode)]
        elif group is not None:
            if group.args.get("totals"):
                raise refusal(group, "WITH TOTALS is", "write WITH ROLLUP")
            chosen = [plain_keys(group)]
            if sets:
                self._check_sets(group)
                chosen = sets_of(group)
            key_sets = [[self._key(node, projections) for node in nodes] for nodes in chosen]
            if group.args.get("all") is False:
                # GROUP BY DISTINCT: each set once.
                key_sets = list({frozenset(map(text_of, part)): part for part in key_sets}.values())
            listed = [self._key(node, projections) for node in listed_keys(group)]
            # Each key once, in the order in which they are first mentioned.
            nodes = list(
                {text_of(node): node for part in [listed, *key_sets] for node in part}.values()
            )
        aliases = {text_of(node): alias for node, alias, _ in projections if alias is not None}
        self.key_kinds |= {type(node) for node in nodes}
        for node in nodes:
            self.refuse_aggregates(node, "a group key", "group by input columns")
            if isinstance(node, exp.Column):
                with self.at(node):
                    spec_check.require_supported(node.name, self.schema, "GROUP BY")
                self.keys[text_of(node)] = node.name
            else:
                self.keys[text_of(node)] = self.compute(node, aliases.get(text_of(node)))
        # The empty set alone is no grouping at all, as in Spark.
        if sets and key_sets != [[]]:
            self.sets = [tuple({self.keys[text_of(node)]: 0 for node in part}) for part in key_sets]
            self.keys[text_of(make_column(GROUP_ID))] = GROUP_ID

    def _check_sets(self, group: exp.Group) -> None:
        for node in listed_keys(group):
            if node.find(exp.GroupingSets, exp.Cube, exp.Rollup):
                what = "ROLLUP, CUBE or GROUPING SETS before GROUPING SETS without a comma is"
                raise refusal(group, what, "put a comma between them")
        kind = next((word for word in ("rollup", "cube") if group.args.get(word)), None)
        if kind is not None and any(map(is_grouping, group.expressions)):
            what = f"ROLLUP, CUBE or GROUPING SETS beside WITH {kind.upper()} is"
            raise refusal(group, what, f"write {kind.upper()}(..) and a comma")
        sets = count_sets(group)
        if sets > MAX_SETS:
            what = f"this GROUP BY stands for {sets} sets of keys, and {MAX_SETS} is the limit; more are"
            fix = "name those that are needed in GROUPING SETS"
            raise refusal(group, what, fix)

    def _key(
        self, node: exp.Expression, projections: list[tuple[exp.Expression, str | None, str]]
    ) -> exp.Expression:
        """The expression that an item of GROUP BY means: an ordinal, an alias or itself."""
        if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
            if not 1 <= int(node.this) <= len(projections):
                message = f"GROUP BY {node.this}: SELECT has items 1 to {len(projections)}."
                raise place_error(SqlError(message), node)
            return projections[int(node.this) - 1][0]
        # A column goes before an alias of the same name, as in Spark.
        if isinstance(node, exp.Column) and not node.table and self.find(node.name) is None:
            for item, alias, _ in projections:
                if alias is not None and alias.casefold() == node.name.casefold():
                    return item
        return bare(self.resolve(node))

    def _project(self, projections: list[tuple[exp.Expression, str | None, str]]) -> None:
        names: set[str] = set()
        aliases = [alias for _, alias, _ in projections if alias is not None]
        outputs: list[tuple[str, exp.Expression | None]] = []
        for node, alias, default in projections:
            call = None
            if text_of(node) not in self.keys and isinstance(node, CallNode):
                call = lower(self, node, alias)
            name = alias or (default if call is None else call.output_name)
            if alias is None:
                (free,) = free_names([name], [*names, *aliases])
                assert free is not None
                if call is not None and free != name:
                    call = replace(call, alias=free)
                name = free
            if name in names:
                message = f"two output columns are called {name!r}; give one an alias."
                raise place_error(DuplicateNameError(message), node)
            names.add(name)
            if call is not None:
                # An alias may be the name of a key; the call then has a name of its own below the projection.
                if name in self.keys.values():
                    call = replace(call, alias=self._name_hidden_call())
                self._add(call)
            outputs.append((name, None if call is None else make_column(call.output_name)))
        # Only now, so that an expression over aggregates finds the calls that are columns already.
        for (name, done), (node, alias, _) in zip(outputs, projections, strict=True):
            lowered = self._lower_expression(node, "SELECT") if done is None else done
            self.outputs.append((name, lowered))
            if alias is not None:
                self.aliases[alias.casefold()] = lowered

    def _lower_having(self) -> exp.Expression | None:
        having = self.tree.args.get("having")
        if having is None:
            return None
        return self._lower_expression(self.resolve(having.this, lenient=True), "HAVING")

    def _lower_expression(self, node: exp.Expression, where: str) -> exp.Expression:
        """The expression over the columns that the operator emits: keys and calls."""
        kinds = self.key_kinds

        def visit(part: exp.Expression) -> exp.Expression:
            # The text of each part of a long sum is long: only what may be a key is written out.
            text = text_of(part) if type(part) in kinds else ""
            if text in self.keys:
                return make_column(self.keys[text])
            if isinstance(part, CallNode):
                return make_column(self._add_hidden_call(part))
            if isinstance(part, exp.Grouping | exp.GroupingId):
                return self._lower_grouping(part)
            if not isinstance(part, exp.Column):
                return part
            if where == "HAVING" and part.name.casefold() in self.aliases:
                return exp.paren(self.aliases[part.name.casefold()].copy())
            if part.name not in self.schema.names:
                raise self.unknown(part)
            message = (
                f"{where}: column {part.name!r} is neither grouped nor aggregated; "
                f"add it to GROUP BY or wrap it, for example in MAX({part.name})."
            )
            raise place_error(SqlError(message), part)

        return node.transform(visit, copy=True)

    def _lower_grouping(self, part: exp.Expression) -> exp.Expression:
        """GROUPING(k) and GROUPING_ID(k, ...) over the sets of keys."""
        if not self.sets:
            fix = "group by ROLLUP, CUBE or GROUPING SETS, or take it out"
            raise refusal(part, "GROUPING without grouping sets is", fix)
        for node in part.expressions:
            if text_of(bare(node)) not in self.keys:
                raise place_error(SqlError("GROUPING is of keys only; name one."), part)
        every = [name for name in self.keys.values() if name != GROUP_ID]
        keys = [self.keys[text_of(bare(node))] for node in part.expressions] or every
        # Spark's GROUPING is a TINYINT; Flink's, and GROUPING_ID, are BIGINT.
        single = isinstance(part, exp.Grouping) and self.dialect == "spark"
        return grouping_value(keys, self.sets, "TINYINT" if single else "BIGINT")

    def _add_hidden_call(self, node: exp.Expression) -> str:
        call = lower(self, node, None)
        if call not in self.known:
            self._add(replace(call, alias=self._name_hidden_call()))
        return self.known[call]

    def _add(self, call: AggCall) -> None:
        self.calls.append(call)
        # Without its alias: an expression that says the call again finds the column that has it.
        self.known.setdefault(replace(call, alias=None), call.output_name)

    def _as_flink(
        self, nodes: list[exp.Expression], names: list[str], input_changes: Any
    ) -> list[exp.Expression]:
        """Expressions over keys and calls in which integers divide as in Flink."""
        keys, calls = tuple(self.keys.values()), tuple(self.calls)
        computed = tuple(self.computed.values())
        spec = SpecContent(self.schema, keys, calls, input_changes, "flink", computed)
        # Types of results are known only of a whole spec: what a division is follows from them.
        types = dict(zip(names, spec.aggregate_schema.types, strict=True))
        return [self.flink_divisions(node.copy(), types) for node in nodes]

    def _name_hidden_call(self) -> str:
        """Return a name that no column, key or output has."""
        names = self._reserved_names
        while (name := f"_agg{self.hidden}") in names or name in self.keys.values():
            self.hidden += 1
        self.hidden += 1
        return name

    @cached_property
    def _reserved_names(self) -> set[str]:
        """The names that no call may be given: those of columns, and those that SELECT gives."""
        # A hidden call that took one of these names would stand where an item of SELECT is to stand.
        names = {name for _, alias, default in self._projections() for name in (alias, default)}
        return {*self.schema.names, *(name for name in names if name is not None)}
