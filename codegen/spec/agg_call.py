"""One aggregate call, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from aggloom.codegen.catalogue.entry import Aggregate
from aggloom.codegen.catalogue.registry import canonical, find
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.argument_lists import items_of, pairs_of, text_of
from aggloom.codegen.spec.choices import Nulls
from aggloom.codegen.spec.dtypes import quote_name
from aggloom.codegen.spec.function_check import check_function
from aggloom.errors import SpecError

ON_NULL = "on_null"
"""The option that SQL has a clause for: NULL ON NULL, ABSENT ON NULL."""

_SORT = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|(.+?))\s*(?:\s(ASC|DESC))?\s*(?:\sNULLS\s+(FIRST|LAST))?\s*",
    re.I | re.S,
)


@dataclass(frozen=True)
class SortKey:
    """A column of ORDER BY inside a call; by default NULLs are first in ascending order, and last in descending."""

    column: str
    descending: bool = False
    nulls_first: bool | None = None

    def __post_init__(self) -> None:
        if self.nulls_first is None:
            object.__setattr__(self, "nulls_first", not self.descending)

    @classmethod
    def parse(cls, text: str) -> SortKey:
        """Parse SQL text such as "ts DESC NULLS FIRST"."""
        match = _SORT.fullmatch(text)
        if match is None:
            raise SpecError(
                f"order_by {text!r}: write a column, then perhaps DESC and NULLS FIRST."
            )
        quoted, bare, direction, nulls = match.groups()
        name = bare if quoted is None else quoted.replace("``", "`")
        first = None if nulls is None else nulls.upper() == "FIRST"
        return cls(name, (direction or "").upper() == "DESC", first)

    @property
    def text(self) -> str:
        """The key as SQL text, without defaults."""
        text = quote_name(self.column) + " DESC" * self.descending
        if self.nulls_first == (not self.descending):
            return text
        return text + (" NULLS FIRST" if self.nulls_first else " NULLS LAST")


@dataclass(frozen=True)
class AggCall:
    """One aggregate call over named columns; `AggCall("COUNT")` is COUNT(*).

    function: its name, in any case; raises UnknownFunctionError for one that neither the catalogue nor `al.register`
    has. args: columns of the input, or computed ones. distinct: equal arguments count once. filter: a BOOLEAN column
    or a condition in SQL; other rows are skipped. alias: the name of the result's column. order_by: SQL texts or
    SortKeys, for functions that depend on order. nulls: "ignore" or "respect", for functions that can keep NULLs.
    options: the call's constants by name, such as {"separator": ";"}; the catalogue lists them. monotonic: the planner
    has proved that MAX never falls (MIN never rises), so that retractions do not matter. entry: the definition of the
    function when the call was created; found by the name, not an argument.

    Example:
        >>> import aggloom as al
        >>> al.AggCall("listagg", ["name"], order_by=["ts DESC"], options={"separator": ";"}, alias="names").text
        "listagg(name, ';' ORDER BY ts DESC)"
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            function: str,
            args: Sequence[str] = (),
            distinct: bool = False,
            filter: str | None = None,
            alias: str | None = None,
            order_by: Sequence[str | SortKey] = (),
            nulls: Nulls | str | None = None,
            options: Mapping[str, Any] | Sequence[tuple[str, Any]] = (),
            monotonic: bool = False,
            entry: Aggregate | None = None,
        ) -> None: ...

    function: str
    args: tuple[str, ...] = ()
    distinct: bool = False
    filter: str | None = None
    alias: str | None = None
    order_by: tuple[SortKey, ...] = ()
    nulls: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    monotonic: bool = False
    entry: Aggregate | None = field(default=None, repr=False, hash=False)

    def __post_init__(self) -> None:
        function = text_of("function", self.function, "a name such as 'SUM'").strip().upper()
        # A call of a stored spec keeps its definition, whatever is registered here.
        if self.entry is None or self.entry.name != function:
            function = canonical(function)
            check_function(function, f"AggCall({self.function!r})")
            object.__setattr__(self, "entry", find(function))
        args = items_of(f"args of {function}", self.args, str, "a column")
        keys = items_of(f"order_by of {function}", self.order_by, str | SortKey, "a column")
        form = "a mapping such as {'separator': ';'}"
        options = dict(pairs_of(f"options of {function}", self.options, form))
        nulls = text_of("nulls", self.nulls or "", "'ignore' or 'respect'").lower() or None
        object.__setattr__(self, "function", function)
        # AggCall("COUNT", ["*"]) is COUNT(*) as users write it.
        object.__setattr__(self, "args", () if function == "COUNT" and args == ("*",) else args)
        object.__setattr__(
            self, "order_by", tuple(SortKey.parse(k) if isinstance(k, str) else k for k in keys)
        )
        object.__setattr__(self, "nulls", nulls)
        object.__setattr__(
            self,
            "options",
            # Sorted and frozen: calls are compared and hashed, and the digest must not depend on the order of writing.
            tuple(sorted((name, _freeze(value)) for name, value in options.items())),
        )

    @property
    def output_name(self) -> str:
        """The alias, or else the name that Spark would give the column: `sum(DISTINCT cnt)`."""
        return self.alias if self.alias is not None else self.text

    @property
    def text(self) -> str:
        """The call as SQL-like text, for names and messages."""
        inner = "DISTINCT " * self.distinct + ", ".join(self._items())
        if self.order_by:
            inner += f" ORDER BY {', '.join(key.text for key in self.order_by)}"
        on_null = dict(self.options).get(ON_NULL)
        if on_null is not None:
            inner += f" {str(on_null).upper()} ON NULL"
        if self.nulls is not None:
            inner += f" {self.nulls.upper()} NULLS"
        text = f"{self.function.lower()}({inner})"
        return text if self.filter is None else f"{text} FILTER (WHERE {self.filter})"

    def _items(self) -> list[str]:
        """The arguments and options in SQL's order; an option without a position by its name."""
        entry = self.entry
        items, args = [], list(self.args)
        options = {name: value for name, value in self.options if name != ON_NULL}
        columns = () if entry is None else tuple(argument.name for argument in entry.arguments)
        # An option such as the 0.5 of a percentile has a position among the arguments in SQL.
        for name in () if entry is None else places(entry):
            if name in options:
                items.append(_format_value(options.pop(name)))
            elif args and name in columns:
                items.append(args.pop(0))
            else:
                break
        if self.function == "COUNT" and not self.args:
            # COUNT(*) is the count of a constant that is never NULL.
            return ["1"]
        return [
            *items,
            *args,
            *(f"{name} => {_format_value(value)}" for name, value in options.items()),
        ]


def places(entry: Aggregate) -> tuple[str, ...]:
    """The names of a function's arguments and options by their position in SQL; options after `many` have none."""
    if entry.positions:
        return entry.positions
    arguments = tuple(argument.name for argument in entry.arguments)
    # Behind any number of arguments an option could not be distinguished from one of them.
    if entry.arguments and entry.arguments[-1].many:
        return arguments
    return arguments + tuple(option.name for option in entry.options if option.name != ON_NULL)


def describe_call(call: AggCall) -> str:
    """The call as SQL for people, on one line and safe inside a comment."""
    inner = call.text.partition("(")[2] if call.args or call.function != "COUNT" else "*)"
    text = f"{call.function}({inner}"
    if call.alias:
        text += f" AS {call.alias}"
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+", " ", text)


def _freeze(value: Any) -> Any:
    return tuple(_freeze(item) for item in value) if isinstance(value, list | tuple) else value


def _format_value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"array({', '.join(_format_value(item) for item in value)})"
    if isinstance(value, str):
        text: str = spark_text(exp.Literal.string(value))
        return text
    return str(value).lower()
