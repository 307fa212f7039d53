"""Window functions in SQL: their arguments by name, lengths of time in milliseconds, and the assigner.

A window may be written as a table function, `FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))`, as a
group key, `GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)`, or as in Spark, `GROUP BY window(ts, '1 hour')`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final

from sqlglot import exp

from aggloom.codegen.spec.durations import format_duration, milliseconds
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.scope import bare
from aggloom.codegen.sql.window_parser import (
    CHANGELOG_FUNCTIONS,
    SPARK_FUNCTIONS,
    TABLE_FUNCTIONS,
    Descriptor,
    TableArgument,
    WindowCall,
)
from aggloom.codegen.windows import Assigner, Cumulate, Hop, Rolling, Session, Tumble
from aggloom.codegen.windows.calendar import CalendarCumulate, CalendarHop, CalendarTumble
from aggloom.errors import OptionError, SqlError, UnknownFunctionError, nearest

_LENGTHS: Final[dict[str, tuple[str, ...]]] = {
    "TUMBLE": ("SIZE",),
    "HOP": ("SLIDE", "SIZE"),
    "CUMULATE": ("STEP", "SIZE"),
    "SESSION": ("GAP",),
    "ROLLING": ("STEP",),
    "WINDOW": ("SIZE",),
    "SESSION_WINDOW": ("GAP",),
}
_OPTIONAL: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("TUMBLE", "HOP", "CUMULATE"), ("OFFSET",)),
    "ROLLING": (),
    "WINDOW": ("SLIDE", "OFFSET"),
}
_UNITS: Final = {
    "DAY": 86_400_000,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1000,
    "MILLISECOND": 1,
    "WEEK": 604_800_000,
}
_CALENDAR: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""Months of the units that have no fixed length."""
_CALENDAR_LENGTHS: Final = {
    "TUMBLE": ("SIZE",),
    "HOP": ("SLIDE", "SIZE"),
    "CUMULATE": ("STEP", "SIZE"),
}
"""The lengths that may be of the calendar."""
_UNEVEN: Final = ("MONTH", "QUARTER", "YEAR")
_NO_LENGTH: Final = "that is no length of time; write INTERVAL '10' MINUTE"
_SPAN: Final = ("DAY", "HOUR", "MINUTE", "SECOND")


@dataclass(frozen=True)
class WindowArguments:
    """The arguments of a window function: its table (None in GROUP BY), its time, and lengths in milliseconds.

    months: those of its lengths that are of the calendar, by name. horizons: those of ROLLING, by name.
    """

    call: WindowCall
    time: exp.Expression
    lengths: dict[str, int]
    table: TableArgument | None = None
    months: dict[str, int] = field(default_factory=dict)
    horizons: dict[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """TUMBLE, HOP, CUMULATE or SESSION, whatever the function is called."""
        name = self.call.name
        if name == "WINDOW":
            return "HOP" if "SLIDE" in self.lengths else "TUMBLE"
        return "SESSION" if name == "SESSION_WINDOW" else name

    @property
    def partition(self) -> list[exp.Expression]:
        """The keys of PARTITION BY."""
        return [] if self.table is None else self.table.args.get("partition") or []

    def assigner(self, on: str | None, zone: str | None) -> Assigner:
        """The windows, over a column of that name (None: processing time) on the clocks of a time zone."""
        if self.months:
            return self._calendar_assigner(on, zone)
        sizes = self.lengths
        offset = sizes.get("OFFSET", 0)
        if self.kind == "ROLLING":
            return Rolling(sizes["STEP"], self.horizons, on, offset)
        if self.kind == "SESSION":
            return Session(sizes["GAP"], on=on, time_zone=zone)
        if self.kind == "TUMBLE":
            return Tumble(sizes["SIZE"], on, offset, zone)
        if self.kind == "HOP":
            return Hop(sizes["SIZE"], sizes["SLIDE"], on, offset, zone)
        return Cumulate(sizes["SIZE"], sizes["STEP"], on, offset, zone)

    def _calendar_assigner(self, on: str | None, zone: str | None) -> Assigner:
        """The windows of a size in months."""
        months = self.months["SIZE"]
        if self.kind == "TUMBLE":
            return CalendarTumble(months, on, zone)
        if self.kind == "HOP":
            return CalendarHop(months, self.months["SLIDE"], on, zone)
        step = {"step": self.lengths["STEP"]} if "STEP" in self.lengths else {}
        return CalendarCumulate(months, self.months.get("STEP", 0), on=on, time_zone=zone, **step)


def table_arguments(call: WindowCall) -> WindowArguments:
    """Return the arguments of a window function in FROM, checked."""
    if call.name not in TABLE_FUNCTIONS:
        known = nearest(call.name, (*TABLE_FUNCTIONS, *CHANGELOG_FUNCTIONS))
        message = f"no function {str(call.this)!r} takes a table. {known}"
        raise place_error(UnknownFunctionError(message), call)
    call, horizons = _take_horizons(call) if call.name == "ROLLING" else (call, {})
    arguments = _read_arguments(call, ("DATA", "TIMECOL", *_LENGTHS[call.name]))
    table, time = arguments.pop("DATA"), arguments.pop("TIMECOL")
    if not isinstance(table, TableArgument):
        raise _error(call, "needs a table first; write TABLE and its name", table)
    if not isinstance(time, Descriptor) or len(time.expressions) != 1:
        fix = "needs its time column after the table; write DESCRIPTOR(ts)"
        raise _error(call, fix, time)
    if table.args.get("partition") and call.name != "SESSION":
        keys = table.args["partition"][0]
        raise _error(call, "has no partitions; take PARTITION BY out, or GROUP BY it", keys)
    months = _take_months(call, arguments)
    lengths = _durations(call, arguments)
    return WindowArguments(call, time.expressions[0], lengths, table, months, horizons)


def group_arguments(call: WindowCall) -> WindowArguments:
    """Return the arguments of a window function in GROUP BY, checked."""
    keys = {"CUMULATE": "window_start, window_end", "ROLLING": "horizon"}.get(call.name)
    if keys is not None:
        fix = f"read FROM TABLE({call.name}(TABLE t, ...)) and GROUP BY {keys}"
        raise refusal(call, f"{call.name} in GROUP BY is", fix)
    known = (*TABLE_FUNCTIONS, *SPARK_FUNCTIONS)
    if call.name not in known:
        message = f"there is no window function {str(call.this)!r}. {nearest(call.name, known)}"
        raise place_error(UnknownFunctionError(message), call)
    arguments = _read_arguments(call, ("TIMECOL", *_LENGTHS[call.name]))
    time = arguments.pop("TIMECOL")
    if isinstance(time, Descriptor | TableArgument):
        raise _error(call, "in GROUP BY takes the time column itself; write its name", time)
    months = _take_months(call, arguments)
    lengths = _durations(call, arguments)
    # Windows that begin where the last one ends are tumbling ones.
    if call.name == "WINDOW" and lengths.get("SLIDE") == lengths["SIZE"]:
        del lengths["SLIDE"]
    return WindowArguments(call, time, lengths, months=months)


def _take_horizons(call: WindowCall) -> tuple[WindowCall, dict[str, int]]:
    """ROLLING without its horizons, and those in milliseconds by name: that of the argument, or as they are written."""
    fixed = ("DATA", "TIMECOL", "STEP", "OFFSET")
    own_items, horizons = list[exp.Expression](), dict[str, int]()
    for place, item in enumerate(call.expressions):
        named = isinstance(item, exp.Kwarg)
        if (place < 3 and not named) or (named and str(item.this.name).upper() in fixed):
            own_items.append(item)
            continue
        value = item.expression if named else item
        (length,) = _durations(call, {"horizon": value}).values()
        name = str(item.this.name) if named else _written_length(value, length)
        if name in horizons:
            raise _error(call, f"has the horizon {name} twice; take one out", item)
        horizons[name] = length
    if not horizons:
        raise _error(call, "needs horizons after its step; write INTERVAL '1' HOUR", call)
    rest = call.copy()
    rest.set("expressions", own_items)
    return rest, horizons


def _written_length(node: exp.Expression, length: int) -> str:
    """A length as it is written: 24 hours for INTERVAL '24' HOUR, and the text of a text."""
    node = bare(node)
    if isinstance(node, exp.Literal):
        return str(node.this)
    if (
        isinstance(node, exp.Interval)
        and isinstance(node.args.get("unit"), exp.Var)
        and str(node.this.this).isdigit()
    ):
        # As users say it: 1 hour, 24 hours.
        number = int(node.this.this)
        return f"{number} {_unit(node.args['unit']).lower()}{'s' * (number != 1)}"
    return format_duration(length)


def _take_months(call: WindowCall, arguments: dict[str, exp.Expression]) -> dict[str, int]:
    """Take the lengths of the calendar out of a window's arguments, as months by name; none unless its size is one."""
    names = _CALENDAR_LENGTHS.get(call.name, ())
    lengths = {name: months for name in names if (months := _months(arguments.get(name)))}
    if not lengths:
        return {}
    if "SIZE" not in lengths or ("SLIDE" in names and "SLIDE" not in lengths):
        short = "SIZE" if "SIZE" not in lengths else "SLIDE"
        fix = f"beside months needs months for {short} too; a fixed length of time is no number of months"
        raise _error(call, fix, arguments.get(short, call))
    if "OFFSET" in arguments:
        raise _error(call, "of months has no offset; take it out", arguments["OFFSET"])
    for name in lengths:
        del arguments[name]
    return lengths


def _months(node: exp.Expression | None) -> int:
    """The months of an interval of months, quarters or years; 0 of any other."""
    node = None if node is None else bare(node)
    if not isinstance(node, exp.Interval) or node.this is None or not node.args.get("unit"):
        return 0
    months = _CALENDAR.get(_unit(node.args["unit"]))
    if months is None or not str(node.this.this).isdigit():
        return 0
    return months * int(node.this.this)


def duration(node: exp.Expression) -> int:
    """The milliseconds of an INTERVAL or of a text such as '1 hour'; raises OptionError saying why there are none."""
    node = bare(node)
    if isinstance(node, exp.Neg):
        return -duration(node.this)
    # INTERVAL '1' HOUR + INTERVAL '30' MINUTE.
    if isinstance(node, exp.Add):
        return duration(node.left) + duration(node.right)
    if isinstance(node, exp.Literal) and node.is_string:
        text = str(node.this)
        _refuse_uneven(text.upper())
        return milliseconds("the text", text.lower().removeprefix("interval ").strip())
    if not isinstance(node, exp.Interval) or node.this is None:
        raise OptionError(_NO_LENGTH)
    negative = isinstance(node.this, exp.Neg)
    value = str((node.this.this if negative else node.this).this)
    return _interval(value, node.args.get("unit")) * (-1 if negative else 1)


def _interval(value: str, unit: exp.Expression | None) -> int:
    if isinstance(unit, exp.IntervalSpan):
        return _span_length(value, _unit(unit.this), _unit(unit.expression))
    if unit is None:
        _refuse_uneven(value.upper())
        return milliseconds("the text", value)
    name = _unit(unit)
    _refuse_uneven(name)
    try:
        length = Decimal(value) * _UNITS[name]
    except (InvalidOperation, KeyError):
        raise OptionError(f"INTERVAL '{value}' {name}: {_NO_LENGTH}") from None
    if length != int(length):
        raise OptionError(f"INTERVAL '{value}' {name}: windows know whole milliseconds; write more")
    return int(length)


def _unit(node: exp.Expression) -> str:
    """The name of a unit without its plural and precision, which sqlglot takes for a function's argument."""
    name = node.name.upper() if isinstance(node, exp.Var) else type(node).__name__.upper()
    return name.removesuffix("S")


def _span_length(value: str, first: str, last: str) -> int:
    """`'1 02:30' DAY TO MINUTE`: the numbers are in the order of the units."""
    _refuse_uneven(first)
    # The sign is of the whole length, not of its first number.
    sign = -1 if value.strip().startswith("-") else 1
    numbers = value.strip().lstrip("+-").replace(":", " ").split()
    if first not in _SPAN or last not in _SPAN:
        raise OptionError(f"INTERVAL '{value}' {first} TO {last}: {_NO_LENGTH}")
    units = _SPAN[_SPAN.index(first) : _SPAN.index(last) + 1]
    if len(numbers) != len(units):
        raise OptionError(f"{first} TO {last} are {len(units)} numbers; '{value}' is not")
    pairs = zip(numbers, units, strict=True)
    return sign * sum(_interval(number, exp.var(unit)) for number, unit in pairs)


def _refuse_uneven(text: str) -> None:
    for unit in _UNEVEN:
        if unit in text:
            raise OptionError(f"a {unit.lower()} has no fixed length; write days")


def _read_arguments(call: WindowCall, required: tuple[str, ...]) -> dict[str, exp.Expression]:
    """The arguments by their names, each once, none missing."""
    names = (*required, *_OPTIONAL.get(call.name, ()))
    arguments: dict[str, exp.Expression] = {}
    for name, item in _name_items(call, names):
        if name not in names:
            hint = nearest(name, names).rstrip("?.")
            raise _error(call, f"has no argument {name!r}: {hint}", item)
        if name in arguments:
            raise _error(call, f"has {name} twice; take one out", item)
        arguments[name] = item
    missing = [name for name in required if name not in arguments]
    if missing:
        what = f"needs {', '.join(names[: len(required)])}; {missing[0]} is missing"
        raise _error(call, what, call)
    return arguments


def _name_items(call: WindowCall, names: tuple[str, ...]) -> Iterator[tuple[str, exp.Expression]]:
    for place, item in enumerate(call.expressions):
        if isinstance(item, exp.Kwarg):
            yield str(item.this.name).upper(), item.expression
        elif place < len(names):
            yield names[place], item
        else:
            what = f"takes at most {len(names)} arguments ({', '.join(names)}); take the rest out"
            raise _error(call, what, item)


def _durations(call: WindowCall, arguments: dict[str, exp.Expression]) -> dict[str, int]:
    lengths = {}
    for name, node in arguments.items():
        try:
            lengths[name] = duration(node)
        except OptionError as error:
            what = f"cannot read its {name}: {str(error).rstrip('.')}"
            raise _error(call, what, node) from None
        # An offset may be negative: windows begin so much earlier.
        if lengths[name] <= 0 and name != "OFFSET":
            raise _error(call, f"needs a {name} longer than nothing; write a larger one", node)
    return lengths


def _error(call: WindowCall, what: str, where: exp.Expression) -> SqlError:
    # A bare literal does not remember its place; the call does.
    return place_error(SqlError(f"{call.name} {what}."), where if span(where) else call)
