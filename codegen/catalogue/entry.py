"""The parts of an entry of the catalogue.

An entry says which arguments a function takes, what it returns in each dialect, which state it keeps and, as
expressions over that state *before* the step (like an SQL UPDATE), how a row changes it. Expressions may use
the names of the entry's fields, views, arguments and options, `other_<field>` (in merge) and the functions of
`codegen/handler/lower.py` and `codegen/views/`. State is a Field (one value a key) or a View (a collection a key);
equal state over equal arguments is kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

Types = tuple[pa.DataType, ...]
Options = Mapping[str, Any]
ResultType = Callable[[Types, str, Options], pa.DataType]
ARGUMENT_KINDS = ("any", "number", "integer", "boolean", "scalar")
OptionKind = Literal["text", "whole", "fraction", "fractions", "choice"]


@dataclass(frozen=True)
class Argument:
    """A column that a call reads.

    name: what expressions and the documentation call it. kind: any, number, integer, boolean, scalar (no ARRAY or
    STRUCT), or a type such as BIGINT, which narrower ones fit. optional: whether it may be left out. many: whether it
    stands for one or more columns. carried: whether values are only counted or given back, as those of VARIANT can be.

    Example:
        >>> import aggloom as al
        >>> al.Argument("x", "number").kind
        'number'
    """

    name: str
    kind: str = "any"
    optional: bool = False
    many: bool = False
    carried: bool = False


@dataclass(frozen=True)
class Option:
    """A constant of a call, given by name or, in SQL, by its place among the arguments.

    name: what calls and expressions call it. kind: text, whole (an integer of at least `least`), fraction (0 to 1),
    fractions (one or a list), choice (one of `choices`). default: what stands where none is given. required: whether a
    call must give it, so that there is no default. flink: the default in that dialect, if it differs. column: whether
    a text may be a column instead.

    Example:
        >>> import aggloom as al
        >>> al.Option("separator", "text", default=",").default_in("spark")
        ','
    """

    name: str
    kind: OptionKind
    default: Any = None
    required: bool = False
    flink: Any = None
    least: int = 1
    choices: tuple[str, ...] = ()
    column: bool = False

    def default_in(self, dialect: str) -> Any:
        """The default in a dialect."""
        return self.flink if dialect == "flink" and self.flink is not None else self.default


FieldKind = Literal["count", "number", "real", "word", "double"]
Over = Literal["word", "real", "rank"]


@dataclass(frozen=True)
class Field:
    """A part of the state: one value for each key.

    name: what expressions call it. kind: count (int64), number (an exact sum as the argument's type sums), real (an
    exact sum of DOUBLEs), word (64 bits that compare as the argument does), double (a float64 as it is). accumulate,
    retract: the value after a row is added or retracted, as expressions over the state before; retract=None: rows
    cannot be retracted. merge: the value of two states together, of which `other_` and a name are the second's.
    initial: the value of a new key (0; another for counts and doubles only).

    Example:
        >>> import aggloom as al
        >>> al.Field("n", "count", accumulate="n + 1", merge="n + other_n", retract="n - 1").initial
        0
    """

    name: str
    kind: FieldKind
    accumulate: str
    merge: str
    retract: str | None = None
    initial: float = 0


@dataclass(frozen=True)
class View:
    """A part of the state: a collection of values for each key, which expressions call by its kind.

    kind: one of `codegen/views/`, such as ordered or multiset. over: what is collected: the words of the argument, the
    argument as a DOUBLE ("real"), or as a DOUBLE if it is a number ("rank"). latest: a stamped value is stamped anew
    each time that it comes.

    Example:
        >>> import aggloom as al
        >>> al.View("ordered").name
        'ordered'
    """

    kind: str
    over: Over = "word"
    latest: bool = False

    @property
    def name(self) -> str:
        return self.kind


State = Field | View


@dataclass(frozen=True)
class Shape:
    """The state of a function and the value over it.

    state: fields and views. value: the result, as an expression. empty: the condition under which the result is NULL
    (None: never); `none(view)` is that a view shows no value. let: numbers by name that both may use, of which only
    those that they use are computed.

    Example:
        >>> import aggloom as al
        >>> rows = al.Field("n", "count", "n + 1", "n + other_n", "n - 1")
        >>> al.Shape((rows,), "n", empty="n == 0").value
        'n'
    """

    state: tuple[State, ...]
    value: str
    empty: str | None = None
    let: tuple[tuple[str, str], ...] = ()


Row = tuple[object, ...]


@dataclass(frozen=True)
class Example:
    """An example of an entry: rows of arguments and the result that they give. The tests run it.

    rows: tuples of arguments; a single value stands for a row of one. result: the value. options: those of the call,
    as pairs. types: of the arguments. order_by: the ORDER BY of the call.

    Example:
        >>> import aggloom as al
        >>> al.Example((3, None, 4), 2, types=("INT",)).result
        2
    """

    rows: tuple[object, ...]
    result: object
    options: tuple[tuple[str, object], ...] = ()
    types: tuple[str, ...] = ("INT",)
    order_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Code:
    """A function that its user wrote as a class: the source, and which methods it has.

    columns: names and types of the rows that a table aggregate emits; () for a function with one value.
    """

    source: str
    methods: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function: an entry of the catalogue.

    name, aliases: what SQL calls it. doc: a sentence about it. arguments, options: what a call takes. positions:
    arguments and options in SQL's order, where it is not arguments first. result: a type, "argument" (that of the
    first one), or a rule over the arguments' types, dialect and options. append, retract: the shapes over the two
    kinds of input (`retract` None: the same). ordered, ordered_retract: those of a call with ORDER BY. row: the
    arguments that make up a word, in order, where it is not the first alone. skips: the arguments whose NULL skips the
    row (None: all). nulls: the default of IGNORE | RESPECT NULLS by dialect (None: the function has no choice).
    ignores_distinct: DISTINCT changes nothing. empty_in: the dialects in which `empty` of the shape makes the result
    NULL. instead: what to use over a retracting input, if this cannot. returns: how elements become the result (see
    runtime/values/results.py). by_arrival: the order of rows matters. oracle: the call in DuckDB's SQL; "" where only
    the examples judge. examples: rows and results. keeps, cost: for the documentation, what a key keeps and what a row
    and a read cost. user_defined: whether a user registered it; code: its source, if it is a class. What only
    documents is not compared.

    Example:
        >>> import aggloom as al
        >>> rows = al.Field("n", "count", "n + 1", "n + other_n", "n - 1")
        >>> shape = al.Shape((rows,), "n")
        >>> entry = al.Aggregate("HOW_MANY", arguments=(al.Argument("x"),), result="BIGINT", append=shape)
        >>> _ = al.register(entry)
        >>> with al.Harness.from_sql("SELECT HOW_MANY(v) AS n FROM t", {"t": "v INT"}, backend="python") as harness:
        ...     harness.process([("+I", 3), ("+I", 4), ("-D", 3)])
        ...     harness.flush()
        ...     print(harness.table())
        [(1,)]
        >>> al.unregister("HOW_MANY")
    """

    name: str
    doc: str = field(default="", compare=False)
    arguments: tuple[Argument, ...] = ()
    result: ResultType | str = "argument"
    append: Shape = Shape((), "")
    examples: tuple[Example, ...] = field(default=(), compare=False)
    keeps: str = field(default="", compare=False)
    cost: str = field(default="", compare=False)
    options: tuple[Option, ...] = ()
    retract: Shape | None = None
    ordered: Shape | None = None
    ordered_retract: Shape | None = None
    row: tuple[str, ...] = ()
    skips: tuple[str, ...] | None = None
    nulls: tuple[str, str] | None = None
    returns: str = ""
    ignores_distinct: bool = False
    by_arrival: bool = False
    empty_in: tuple[str, ...] = ("spark", "flink")
    instead: str = ""
    oracle: str = field(default="", compare=False)
    aliases: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()
    user_defined: bool = False
    code: Code | None = None

    def shape(self, retracting: bool, ordered: bool) -> Shape:
        """The shape for an input and a call."""
        if ordered and self.ordered is not None:
            return self.ordered_retract if retracting and self.ordered_retract else self.ordered
        return self.retract if retracting and self.retract else self.append

    @property
    def emits_rows(self) -> bool:
        """True for a table aggregate, whose result is an ARRAY of the rows that it emits for a key."""
        return self.code is not None and bool(self.code.columns)

    def option(self, name: str) -> Option | None:
        """The option of that name; None if there is none."""
        return next((option for option in self.options if option.name == name), None)
