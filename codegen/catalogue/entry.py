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
    """A column that a call reads. `optional` ones may be left out, `many` stands for one or more.

    Kinds: any, number, integer, boolean, scalar (no ARRAY or STRUCT), or a type such as BIGINT, that narrower ones fit.
    """

    name: str
    kind: str = "any"
    optional: bool = False
    many: bool = False


@dataclass(frozen=True)
class Option:
    """A constant of a call, given by name or, in SQL, by its place among the arguments.

    Kinds: text, whole (an integer of at least `least`), fraction (0 to 1), fractions (one or a list), choice (one of
    `choices`). `default` stands where none is given; `required` ones have no default. `flink` is the default in that
    dialect, if it differs. A text may be a column instead where `column` says so.
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
        return self.flink if dialect == "flink" and self.flink is not None else self.default


FieldKind = Literal["count", "number", "real", "word", "double"]
Over = Literal["word", "real", "rank"]


@dataclass(frozen=True)
class Field:
    """One value a key, `initial` at first (0; another for counts and doubles only).

    Kinds: count (int64), number (an exact sum as the argument's type sums), real (an exact sum of DOUBLEs),
    word (64 bits that compare as the argument does), double (a float64 as it is).
    """

    name: str
    kind: FieldKind
    accumulate: str
    merge: str
    retract: str | None = None
    initial: float = 0


@dataclass(frozen=True)
class View:
    """A collection a key. `name` is what values call it.

    It is over the argument's words, over it as a DOUBLE (`real`), or as a DOUBLE if it is a number (`rank`).

    The kinds are those of `codegen/views/`. `latest`: a stamped value is stamped anew each time that it comes.
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
    """State, the value over it, and the condition under which the value is NULL (None: never).

    The condition none(view) is that a view shows no value. `let` names numbers that both may use; only those that
    they use are computed.
    """

    state: tuple[State, ...]
    value: str
    empty: str | None = None
    let: tuple[tuple[str, str], ...] = ()


Row = tuple[object, ...]


@dataclass(frozen=True)
class Example:
    """Rows of arguments (a single value stands for a row of one) and the result they give."""

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
    """An aggregate function.

    append, retract: the shapes over the two kinds of input (`retract` None: the same). ordered, ordered_retract:
    those of a call with ORDER BY. row: the arguments that make up a word, in order, where it is not the first alone.
    result: a type, "argument" (that of the first one), or a rule over the arguments' types, dialect and options.
    skips: the arguments whose NULL skips the row (None: all). nulls: the default of IGNORE | RESPECT NULLS by
    dialect (None: the function has no choice). instead: what to use over a retracting input, if this cannot.
    returns: how elements become the result (see runtime/values/results.py). by_arrival: the order of rows matters.
    oracle: the call in DuckDB's SQL; "" where only the examples judge.
    keeps, cost: for the documentation, what a key keeps and what a row and a read cost.
    positions: arguments and options in SQL's order, where it is not arguments first.
    user_defined: whether a user registered it; code: its source, if it is a class. What only documents is not compared.
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
        return next((option for option in self.options if option.name == name), None)
