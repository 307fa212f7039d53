"""Windows in a query: the WindowTable of a table function in FROM, and of a window in GROUP BY."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import (
    HORIZON,
    Bounds,
    Calc,
    Node,
    RollingTable,
    WindowTable,
    compute_columns,
    mark,
)
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.window_options import in_zone
from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK, type_name
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.scope import Scope, bare, make_column, text_of
from aggloom.codegen.sql.shape import is_clock
from aggloom.codegen.sql.window_parser import PARTS, SPARK_FUNCTIONS, WindowCall
from aggloom.codegen.sql.windows import WindowArguments, group_arguments
from aggloom.errors import TypeMismatchError

NAMES = ("window_start", "window_end", "window_time")
_PARTS = dict(zip(PARTS, (0, 1, 2, 2), strict=True))


def time_type(node: Node, name: str, what: str) -> pa.DataType:
    """The type of a column that windows can go by; raises TypeMismatchError for others."""
    dtype = node.schema.field(name).type
    if dtype not in (INSTANT, WALL_CLOCK):
        raise TypeMismatchError(
            f"{what} needs a time column of type TIMESTAMP; column {name!r} is {type_name(dtype)}: "
            f"make it one before, by CAST({name} AS TIMESTAMP) or TO_TIMESTAMP({name})."
        )
    return dtype


def bounds_types(dtype: pa.DataType, dialect: str) -> tuple[pa.DataType, pa.DataType]:
    """The types of a window's start and end, and of its time, by the type of the time column."""
    # Flink's bounds are TIMESTAMPs without a zone, whatever the time column is.
    return (WALL_CLOCK if dialect == "flink" else dtype), dtype


def table_window(
    scope: Scope, rows: Node, arguments: WindowArguments, options: PlanOptions
) -> WindowTable:
    """The WindowTable of a function in FROM over the plan of its table."""
    time = bare(scope.resolve(arguments.time))
    if not (is_clock(time) or isinstance(time, exp.Column)):
        fix = "compute it as a column of a view or of the table, and name that"
        raise refusal(arguments.time, "DESCRIPTOR of an expression is", fix)
    keys = [bare(scope.resolve(key)) for key in arguments.partition]
    # A table may have columns under the names that are added; those of the function are seen.
    names = (HORIZON,) if arguments.kind == "ROLLING" else NAMES
    rows, renamed = _rename_shadowed(rows, names)
    on = None if is_clock(time) else renamed.get(time.name, time.name)
    partition = tuple(renamed.get(key.name, key.name) for key in keys)
    return _make_window_table(
        scope, rows, arguments=arguments, on=on, options=options, names=NAMES, partition=partition
    )


def _make_window_table(
    scope: Scope,
    rows: Node,
    arguments: WindowArguments,
    on: str | None,
    options: PlanOptions,
    names: tuple[str, str, str],
    partition: tuple[str, ...] | None,
) -> WindowTable:
    # A column that is PROCTIME() means the clock, which is an instant.
    if on is None or on in rows.clock_columns:
        on, dtype = None, INSTANT
    else:
        with scope.at(arguments.time):
            dtype = time_type(rows, on, arguments.call.name)
    with scope.at(arguments.call):
        assigner = arguments.assigner(on, None)
    if dtype == INSTANT:
        assigner = in_zone(assigner, options.local_time_zone)
    bounds = Bounds(*names, *bounds_types(dtype, scope.dialect))
    table = RollingTable if arguments.kind == "ROLLING" else WindowTable
    return table(rows, assigner, bounds, partition)


def _rename_shadowed(rows: Node, added: Sequence[str]) -> tuple[Node, dict[str, str]]:
    """The rows with other names for columns that are called as those that are added, and those names."""
    column_names = set(rows.schema.names)
    renamed = {}
    for name in added:
        if name in column_names:
            # As Flink distinguishes columns of one name: a, a0, a1.
            renamed[name] = next(n for i in range(999) if (n := f"{name}{i}") not in column_names)
            column_names.add(renamed[name])
    if not renamed:
        return rows, {}
    names = [renamed.get(name, name) for name in rows.schema.names]
    select = zip(names, map(quote_name, rows.schema.names), strict=True)
    fields = [pa.field(n, f.type) for n, f in zip(names, rows.schema, strict=True)]
    return Calc(rows, tuple(select), pa.schema(fields)), renamed


def grouped_by_window(
    scope: Scope, tree: exp.Select, rows: Node, options: PlanOptions
) -> tuple[exp.Select, Node]:
    """A SELECT and its rows with the window in its GROUP BY written as columns; without one, as they were."""
    group = tree.args.get("group")
    calls = [] if group is None else list(group.find_all(WindowCall))
    refuse_windows(tree, grouped=bool(calls))
    if not calls:
        return tree, rows
    return _GroupWindow(scope, tree, rows, calls, options).result()


def refuse_windows(tree: exp.Select, *, grouped: bool = False) -> None:
    """Raise for a window function where there are no windows."""
    parts = [tree.args.get("where")]
    parts += [] if grouped else [*tree.expressions, tree.args.get("having")]
    for part in parts:
        for call in () if part is None else part.find_all(WindowCall):
            fix = "read FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ...)), or write it in GROUP BY"
            raise refusal(call, f"{call.name} outside GROUP BY is", fix)


class _GroupWindow:
    """One SELECT whose GROUP BY holds a window, on its way to columns."""

    def __init__(
        self,
        scope: Scope,
        tree: exp.Select,
        rows: Node,
        calls: list[WindowCall],
        options: PlanOptions,
    ) -> None:
        self.scope, self.tree, self.options = scope, tree.copy(), options
        self.arguments = group_arguments(calls[0])
        self.identity = self._identity(calls[0])
        for call in calls[1:]:
            self._require_same(call)
        self.rows, self.on = self._add_time(rows)
        names = {*self.rows.schema.names, *rows.schema.names}
        sign = mark(self.rows.schema) if names & set(NAMES) else ""
        start, end, time = (sign + name for name in NAMES)
        self.names = start, end, time
        self.reads_time = False

    def result(self) -> tuple[exp.Select, Node]:
        items = [self._item(each) for each in self.tree.expressions]
        self.tree.set("expressions", items)
        having = self.tree.args.get("having")
        if having is not None:
            having.set("this", self._replace_calls(having.this))
        # Only now: whether the window's time is a key depends on who reads it.
        self._group(self.tree.args["group"])
        return self.tree, _make_window_table(
            self.scope,
            self.rows,
            arguments=self.arguments,
            on=self.on,
            options=self.options,
            names=self.names,
            partition=None,
        )

    def _add_time(self, rows: Node) -> tuple[Node, str | None]:
        """The rows with the time that the window goes by as a column, and its name; None is the clock."""
        time = bare(self.scope.resolve(self.arguments.time))
        if is_clock(time):
            return rows, None
        if isinstance(time, exp.Column):
            return rows, time.name
        with self.scope.at(time):
            dtype = infer(time, self.scope.types)
        name = f"{mark(rows.schema)}time"
        time_column = Computed(name, self.scope.input_sql(time), dtype)
        return compute_columns(rows, [time_column]), name

    def _identity(self, call: WindowCall) -> tuple[object, ...]:
        """Return the key that two window calls share if they mean the same windows."""
        arguments = group_arguments(call)
        time = text_of(bare(self.scope.resolve(arguments.time)))
        # By the text of the time: TUMBLE_START must repeat the window as it is in GROUP BY.
        return arguments.kind, time, tuple(sorted(arguments.lengths.items())), arguments.months

    def _require_same(self, call: WindowCall, written: WindowCall | None = None) -> None:
        if self._identity(call) != self.identity:
            raise refusal(
                written or call,
                "a window other than that of GROUP BY is",
                "write the same times in both, or group by the second window in a query of its own",
            )

    def _item(self, item: exp.Expression) -> exp.Expression:
        """An item of SELECT; a bound without a name is called as its column would be."""
        place = self._find_window_column(item)
        if place is None:
            return self._replace_calls(item)
        name = item.name if isinstance(item, exp.Column) else NAMES[place]
        return exp.alias_(self._column(place), name, quoted=True)

    def _replace_calls(self, node: exp.Expression) -> exp.Expression:
        def visit(part: exp.Expression) -> exp.Expression:
            place = self._find_window_column(part)
            return part if place is None else self._column(place)

        return node.transform(visit)

    def _column(self, place: int) -> exp.Column:
        self.reads_time = self.reads_time or place == 2
        return make_column(self.names[place])

    def _find_window_column(self, node: exp.Expression) -> int | None:
        """Return which of the window's columns an expression stands for."""
        if isinstance(node, exp.Column):
            return self._field(node)
        if not isinstance(node, WindowCall):
            return None
        base, _, part = node.name.rpartition("_")
        if node.name == "WINDOW_TIME":
            return 2
        if part not in _PARTS or node.name in SPARK_FUNCTIONS:
            fix = "take its start and end: TUMBLE_START(...), or window.start in Spark's form"
            raise refusal(node, "a window as a value is", fix)
        call = WindowCall(this=base, expressions=[each.copy() for each in node.expressions])
        self._require_same(call, node)
        return _PARTS[part]

    def _field(self, node: exp.Column) -> int | None:
        """`window.start` and `window.end`, where GROUP BY has Spark's window."""
        own = self.arguments.call.name
        if own not in SPARK_FUNCTIONS or isinstance(node.this, exp.Star):
            return None
        if node.table.upper() == own and node.name.lower() in ("start", "end"):
            return ("start", "end").index(node.name.lower())
        if not node.table and node.name.upper() == own and self.scope.find(node.name) is None:
            word = own.lower()
            fix = f"select {word}.start and {word}.end"
            raise refusal(node, "a window as a value is", fix)
        return None

    def _group(self, group: exp.Group) -> None:
        """GROUP BY with the window's columns in the place of its calls."""
        for call in list(group.find_all(WindowCall)):
            columns = list(self._keys())
            # A set of one key in parentheses becomes a set of several.
            if isinstance(call.parent, exp.Paren):
                call.parent.replace(exp.Tuple(expressions=columns))
            elif isinstance(call.parent, exp.Group | exp.Tuple):
                call.parent.set("expressions", list(_splice_columns(call, columns)))
            else:
                fix = "write it beside the other keys, GROUP BY TUMBLE(...), ROLLUP (a, b)"
                raise refusal(call, "a window inside an expression is", fix)

    def _keys(self) -> Iterator[exp.Column]:
        # window_time is a key only where somebody reads it: it follows from the end.
        for place in range(2 + self.reads_time):
            yield make_column(self.names[place])


def _splice_columns(call: WindowCall, columns: list[exp.Column]) -> Iterator[exp.Expression]:
    assert call.parent is not None
    for each in call.parent.expressions:
        yield from columns if each is call else [each]
