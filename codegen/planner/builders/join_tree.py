"""A FROM with several tables as a tree of joins: where each condition is tested, and the plan that it becomes.

Columns are those of the joined rows, of which no two have the same name. A condition of an outer join's own side stays
where it is; one that can be tested before a join is, so that less is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Join, Node, compute_columns, filter_node, mark, pick_first
from aggloom.codegen.planner.builders.as_of import as_of_join
from aggloom.codegen.planner.builders.lookup_join import LookupClause, dimension_of
from aggloom.codegen.planner.builders.planned_call import PlannedCall
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.scalar.calc import lower_condition
from aggloom.codegen.scalar.operand_types import common
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.checks import require_supported
from aggloom.codegen.spec.choices import JoinKind
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.as_of import AsOf
from aggloom.codegen.sql.clock_conditions import has_clock
from aggloom.codegen.sql.conditions import column_names, equality, never_null
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.scope import Scope, make_column
from aggloom.errors import UnsupportedExpressionError, UnsupportedSqlError

_DROPS_LEFT = ("inner", "right", "semi")
"""Kinds of which no row of the left leaves without a partner."""
_DROPS_RIGHT = ("inner", "left", "semi", "anti")
"""Kinds of which no row of the right does."""


class JoinTreeBuilder(Protocol):
    """The builder of the blocks of a query."""

    dialect: str
    notes: Notes

    def over(self, tree: exp.Select, source: Node, names: set[str]) -> Node: ...


@dataclass
class Leaf:
    """A table of FROM, and the conditions that its rows have to pass."""

    node: Node
    where: list[exp.Expression] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """The columns that it gives."""
        return list(self.node.schema.names)


@dataclass
class JoinedParts:
    """Two parts of FROM, the conditions on which their rows match, and those that the joined rows have to pass."""

    kind: JoinKind
    left: Leaf | JoinedParts | Correlated
    right: Leaf | JoinedParts | Correlated
    on: list[exp.Expression] = field(default_factory=list)
    ttls: tuple[int | None, int | None] = (None, None)
    where: list[exp.Expression] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    """The joins below which a semi or anti join has been moved."""
    as_of: AsOf | None = None
    """The rule for the row of the right that a row of the left finds; fewer rows of the right would change that."""
    hint: dict[str, Any] = field(default_factory=dict)
    """Options for asking a lookup table, where a hint gives them."""

    @property
    def columns(self) -> list[str]:
        """The columns that it gives."""
        right = [] if self.kind in ("semi", "anti") else self.right.columns
        return [*self.left.columns, *right]


@dataclass
class Correlated:
    """A part of FROM whose rows a table function makes more of; where: the conditions that these have to pass."""

    left: Leaf | JoinedParts | Correlated
    call: PlannedCall
    is_outer: bool
    where: list[exp.Expression] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """The columns that it gives."""
        return [*self.left.columns, *self.call.answers.names]


Tree = Leaf | JoinedParts | Correlated


def schema_of(tree: Tree) -> pa.Schema:
    """The columns that a part of FROM gives, with their types."""
    if isinstance(tree, Leaf):
        return tree.node.schema
    left = schema_of(tree.left)
    if isinstance(tree, Correlated):
        return pa.schema([*left, *tree.call.answers])
    return left if tree.kind in ("semi", "anti") else pa.schema([*left, *schema_of(tree.right)])


def without_padding(tree: Tree, needed: set[str]) -> None:
    """Make outer joins of which only rows with these columns not NULL are wanted ones that pad less."""
    if isinstance(tree, Leaf):
        return
    if isinstance(tree, Correlated):
        # A padded row has NULL in all answers, and so would not pass.
        tree.is_outer = tree.is_outer and not needed & set(tree.call.answers.names)
        without_padding(tree.left, needed)
        return
    left, right = (bool(needed & set(side.columns)) for side in (tree.left, tree.right))
    if tree.kind == "full":
        kinds: dict[tuple[bool, bool], JoinKind] = {
            (True, True): "inner",
            (True, False): "left",
            (False, True): "right",
        }
        tree.kind = kinds.get((left, right), "full")
    elif (tree.kind == "left" and right) or (tree.kind == "right" and left):
        tree.kind = "inner"
    # ON drops rows with NULL where the join drops rows without a partner; else they are padded instead.
    own = {name for each in tree.on for name in never_null(each)}
    for side, kinds_ in ((tree.left, _DROPS_LEFT), (tree.right, _DROPS_RIGHT)):
        without_padding(side, needed | (own if tree.kind in kinds_ else set()))


def place(tree: Tree, condition: exp.Expression) -> None:
    """Put a condition that all rows of the tree have to pass where the fewest rows are remembered."""
    names = column_names(condition)
    if isinstance(tree, Leaf):
        tree.where.append(condition)
    elif isinstance(tree, Correlated):
        below = names and names <= set(tree.left.columns)
        place(tree.left, condition) if below else tree.where.append(condition)
    # Below a join that pads the left, a row that does not pass would come back as NULLs.
    elif names and names <= set(tree.left.columns) and tree.kind not in ("right", "full"):
        place(tree.left, condition)
    # Fewer rows of the right would let a row of the left find another one: the condition has to come after.
    elif tree.as_of is not None:
        tree.where.append(condition)
    elif names and names <= set(tree.right.columns) and tree.kind in ("inner", "right"):
        place(tree.right, condition)
    elif tree.kind == "inner":
        tree.on.append(condition)
    else:
        tree.where.append(condition)


def sunk(tree: Tree, join: JoinedParts) -> Tree:
    """A tree with a semi or anti join below the joins that it says nothing of: they remember fewer rows."""
    names = {name for each in join.on for name in column_names(each)} - set(join.right.columns)
    if isinstance(tree, Correlated) and names <= set(tree.left.columns):
        tree.left = sunk(tree.left, join)
        return tree
    if isinstance(tree, JoinedParts) and tree.kind not in ("semi", "anti"):
        if names <= set(tree.left.columns) and tree.kind not in ("right", "full"):
            join.passed.append(tree.kind)
            tree.left = sunk(tree.left, join)
            return tree
        reads_right = tree.kind in ("inner", "right") and tree.as_of is None
        if names and names <= set(tree.right.columns) and reads_right:
            join.passed.append(tree.kind)
            tree.right = sunk(tree.right, join)
            return tree
    join.left = tree
    return join


def plan_of_tree(builder: JoinTreeBuilder, tree: Tree) -> Node:
    """The plan of a FROM."""
    if isinstance(tree, Leaf):
        node = tree.node
    elif isinstance(tree, Correlated):
        below = plan_of_tree(builder, tree.left)
        scope = Scope(below.schema, builder.dialect, set())
        node = tree.call.plan(below, scope, tree.is_outer)
    else:
        node = _Pairing(builder, tree).plan()
    if not tree.where:
        return node
    block = exp.select(*(make_column(name) for name in node.schema.names)).where(*tree.where)
    return builder.over(block, node, set())


class _Pairing:
    """One join on its way: which conditions are pairs of columns, and which are tested on pairs of rows."""

    def __init__(self, builder: JoinTreeBuilder, tree: JoinedParts) -> None:
        self.builder, self.tree = builder, tree
        self.conditions: list[exp.Expression] = []
        self._sort_conditions()
        self.sides = [plan_of_tree(builder, tree.left), plan_of_tree(builder, tree.right)]
        self.conditions = self._resolve_conditions(self.conditions)
        self.sign = mark(*(side.schema for side in self.sides))
        self.pairs: list[tuple[str, str]] = []
        self.null_safe: list[bool] = []

    def plan(self) -> Node:
        """The join of both sides, over their columns as it needs them."""
        if self.tree.as_of is not None and dimension_of(self.sides[1]) is not None:
            return self._lookup(self.tree.as_of)
        if self.tree.as_of is not None:
            return as_of_join(self, self.tree.as_of)
        names = [list(side.schema.names) for side in self.sides]
        rest = [each for each in self.conditions if not self.pair(each)]
        for place, side in enumerate(self.sides):
            self.sides[place] = pick_first(side, [pair[place] for pair in self.pairs])
        left, right = self.sides
        columns = names[0] if self.tree.kind in ("semi", "anti") else [*names[0], *names[1]]
        condition, above = self._split_condition(rest, left, right)
        node = Join(
            left,
            right,
            kind=self.tree.kind,
            pairs=tuple(self.pairs),
            null_safe=tuple(self.null_safe),
            columns=tuple(columns),
            condition=condition,
            ttls=self.tree.ttls,
        )
        if self.tree.passed:
            kinds = " and ".join(kind.upper() for kind in self.tree.passed)
            why = f"it reads columns of one side of the {kinds} JOIN only, which so remembers fewer rows"
            self.builder.notes.add("semi_join_transpose", node, True, why)
        return filter_node(node, above)

    def _lookup(self, as_of: AsOf) -> Node:
        """The join with a lookup table, which tests what an inner join's rows have to pass as well."""
        tree = self.tree
        if self.has_ttls:
            fix = "set table.exec.state.ttl, after which what rows got is forgotten"
            raise refusal(as_of.place, "STATE_TTL of a lookup join is", fix)
        if tree.kind == "inner":
            timed = [each for each in tree.where if has_clock(each)]
            tested = [each for each in tree.where if each not in timed]
            self.conditions = [*self.conditions, *self._resolve_conditions(tested)]
            tree.where = timed
        return LookupClause(self.builder, as_of, tree.kind, *self.sides).plan(
            self.conditions, tree.hint
        )

    def _resolve_conditions(self, conditions: list[exp.Expression]) -> list[exp.Expression]:
        """Conditions on the joined rows as Spark evaluates them, whatever the dialect."""
        both = pa.schema([*self.sides[0].schema, *self.sides[1].schema])
        scope = Scope(both, self.builder.dialect, set())
        return [scope.resolve(each) for each in conditions]

    def _sort_conditions(self) -> None:
        """Let each side test what is its own, where that drops no row that has to leave without a partner."""
        tree = self.tree
        left, right = set(tree.left.columns), set(tree.right.columns)
        for each in tree.on:
            names = column_names(each)
            if names and names <= left and tree.kind in _DROPS_LEFT:
                place(tree.left, each)
            elif names and names <= right and tree.kind in _DROPS_RIGHT and tree.as_of is None:
                place(tree.right, each)
            elif has_clock(each):
                self._filter_by_clock(each)
            elif not (isinstance(each, exp.Boolean) and each.this):
                self.conditions.append(each)

    def _filter_by_clock(self, condition: exp.Expression) -> None:
        """Let joined rows meet a condition on the clock; raises UnsupportedSqlError where it decides on partners."""
        if self.tree.kind != "inner":
            what = f"NOW() in ON of a {self.tree.kind.upper()} JOIN, over columns of both sides or of its own, is"
            fix = "let a sub-query of one side have the condition in its WHERE, or join the sides with JOIN"
            raise refusal(condition, what, fix)
        self.tree.where.append(condition)

    @property
    def kind(self) -> JoinKind:
        """The kind of join, which says which rows it emits."""
        return self.tree.kind

    @property
    def has_ttls(self) -> bool:
        """True if a hint says how long a side is kept."""
        return self.tree.ttls != (None, None)

    def build_pair_condition(self, conditions: list[exp.Expression]) -> str | None:
        """Return the condition that workers test pairs of rows for; raises where they cannot."""
        left, right = self.sides
        condition = self._condition(conditions, pa.schema([*left.schema, *right.schema]))
        if condition is not None:
            self._check_lowers(condition, left, right)
        return condition

    def pair(self, condition: exp.Expression) -> bool:
        """Make a condition a pair of columns, if it is an equality between the sides."""
        equation = equality(condition)
        if equation is None:
            return False
        names = [set(side.schema.names) for side in self.sides]
        sides = equation.sides
        if column_names(sides[0]) <= names[1] and column_names(sides[1]) <= names[0]:
            sides = sides[::-1]
        if not all(
            len(read := column_names(side)) > 0 and read <= own
            for side, own in zip(sides, names, strict=True)
        ):
            return False
        scopes = [self._scope(side) for side in self.sides]
        with scopes[0].at(condition):
            types = [infer(side, scope.types) for side, scope in zip(sides, scopes, strict=True)]
            # Keys are compared by their bytes: both sides need one type, or equal values would lie in two buckets.
            key_type = types[0] if types[0] == types[1] else common(types, condition)
        pair = tuple(
            self._key(place, scope, side, key_type)
            for place, (scope, side) in enumerate(zip(scopes, sides, strict=True))
        )
        with scopes[0].at(condition):
            require_supported(pair[0], self.sides[0].schema, "JOIN")
        self.pairs.append((pair[0], pair[1]))
        self.null_safe.append(equation.null_safe)
        return True

    def _key(self, place: int, scope: Scope, node: exp.Expression, dtype: pa.DataType) -> str:
        """The column of a side that an expression is, in a type; a computed one if there is none."""
        side = self.sides[place]
        plain = isinstance(node, exp.Column) and side.schema.field(node.name).type == dtype
        # A column that is in two equalities is copied: the keys of a side are different columns.
        if plain and all(pair[place] != node.name for pair in self.pairs):
            return str(node.name)
        sql = scope.input_sql(node)
        if not plain and infer(node, scope.types) != dtype:
            sql = f"CAST({sql} AS {type_name(dtype)})"
        name = f"{self.sign}{'left' if place == 0 else 'right'}_{len(self.pairs)}"
        self.sides[place] = compute_columns(side, [Computed(name, sql, dtype)])
        return name

    def _split_condition(
        self, conditions: list[exp.Expression], left: Node, right: Node
    ) -> tuple[str | None, str | None]:
        """Return the condition that is tested on pairs of rows, and the one that Spark has to test above them."""
        both = pa.schema([*left.schema, *right.schema])
        whole = self._condition(conditions, both)
        if whole is None or self._lowers(whole, left, right):
            return whole, None
        # Part by part: one that only Spark evaluates must not take the others out of the join with it.
        alone = [self._condition([each], both) for each in conditions]
        lowers = [text is not None and self._lowers(text, left, right) for text in alone]
        below = [each for each, low in zip(conditions, lowers, strict=True) if low]
        rest = [each for each, low in zip(conditions, lowers, strict=True) if not low]
        return self._condition(below, both), self._condition(rest, both)

    def _condition(self, conditions: list[exp.Expression], both: pa.Schema) -> str | None:
        """Return the condition that pairs of rows are tested for, as Spark evaluates it."""
        return Scope(both, self.builder.dialect, set()).join_conditions(conditions)

    def _lowers(self, condition: str, left: Node, right: Node) -> bool:
        """Tell whether workers evaluate a condition; raises where nothing else can: rows leave without a partner."""
        try:
            self._check_lowers(condition, left, right)
        except UnsupportedSqlError:
            if self.tree.kind == "inner":
                return False
            raise
        return True

    def _check_lowers(self, condition: str, left: Node, right: Node) -> None:
        both = pa.schema([*left.schema, *right.schema])
        try:
            lower_condition(condition, both)
        except UnsupportedExpressionError as error:
            what = f"a condition of a {self.tree.kind.upper()} JOIN that only Spark evaluates ({error}) is"
            fix = "compute its parts as columns in a sub-query of each side"
            raise refusal(next(iter(self.tree.on), None), what, fix) from None

    def _scope(self, side: Node) -> Scope:
        return Scope(side.schema, self.builder.dialect, set())
