"""Case files as data: a JSON array of cases, each a program, its events and the changes expected.

Only the format is known here: schemas, values and phases. What runs a case is in `cases`.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.codegen import AggSpec, to_schema
from aggloom.errors import CaseFormatError, SpecError
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL

EVENT_KEYS = ("op", "watermark", "set_processing_time", "set_ttl_time", "flush", "end_of_input")
MODES = (
    "ordered",
    "unordered",
    "set",
    "materialized",
    "materialized_total",
    "accumulator_empty",
    "count",
    "none",
)
REMARKS = frozenset(
    (
        *("impl", "input_set", "group_key", "legacy_planner_function", "late_data", "notes"),
        *("allow_latency_ms", "source_changelog", "output_types", "cross_key_order"),
    )
)
"""Params that say in words what events, types and queries say as well."""
RESTATED = {
    "sql": ("aggs", "frame", "frames", "order_by", "partition_by", "output"),
    "join_type": ("sql",),
}
"""Parameters that repeat the one that was read."""
_EPOCH = dt.datetime(1970, 1, 1)
_REMARK = re.compile(r"(\w+(?:\([\d, ]+\))?)\s+(?!WITH\b)[^<>]*", re.IGNORECASE)
_COUNT_ALL = re.compile(r"\bCOUNT\s*\(\s*\*\s*\)", re.IGNORECASE)


class NotSupported(Exception):
    """A case needs something that this release does not have; the text is the reason shown."""


class Params(dict[str, Any]):
    """The parameters of a case; to need one that it does not have is NotSupported.

    read: the names that were asked for, here or in those that these were made of: what is never read is not heeded.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = values.read if isinstance(values, Params) else set()

    def __missing__(self, name: str) -> Any:
        raise NotSupported(f"params without {name!r}")

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def changed(self, **values: Any) -> Params:
        """These with other values."""
        made = Params({**self, **values})
        made.read = self.read
        return made

    @property
    def unheeded(self) -> list[str]:
        """The names that nothing has asked for, but for those that only tell where a case comes from."""
        restated = {name for said in self.read & RESTATED.keys() for name in RESTATED[said]}
        return sorted(set(self) - self.read - REMARKS - restated)


@dataclass(frozen=True)
class Expectation:
    """The changes a phase must add, how to compare them, and the extra facts asserted with them."""

    mode: str
    rows: tuple[tuple[str, tuple[Any, ...]], ...]
    extra: Mapping[str, Any]


@dataclass(frozen=True)
class Phase:
    """Events fed together, what is done before them, and what must come out."""

    events: tuple[Mapping[str, Any], ...]
    expect: Expectation
    before: str | None


@dataclass(frozen=True)
class Case:
    """One case of a file; events and modes that are not known here are found by `unknown`."""

    family: str
    id: str
    kind: str
    params: Params
    phases: tuple[Phase, ...]
    total: tuple[tuple[str, tuple[Any, ...]], ...] | None

    @property
    def unknown(self) -> str:
        """Describe the first part of the case whose form is unknown; "" if all is known."""
        for phase in self.phases:
            for event in phase.events:
                if not any(key in event for key in EVENT_KEYS):
                    return f"event {event!r}; known: {', '.join(EVENT_KEYS)}"
            if phase.expect.mode not in MODES:
                return f"mode {phase.expect.mode!r}; known: {', '.join(MODES)}"
        return ""


def read_cases(directory: Path) -> list[Case]:
    """All cases of the directory's `*.json` files, in file and then list order."""
    paths = sorted(directory.glob("*.json"))
    if not paths:
        raise CaseFormatError(f"no *.json case file in {directory}: name the folder with the cases")
    return [case for path in paths for case in _read_file(path)]


def _read_file(path: Path) -> Iterable[Case]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CaseFormatError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(raw, list):
        raise CaseFormatError(f"{path.name} holds a {type(raw).__name__}; expected a list of cases")
    for position, item in enumerate(raw):
        where = f"{path.name}, case {position}"
        try:
            yield parse_case(path.stem, item)
        except (KeyError, TypeError, AttributeError) as error:
            raise CaseFormatError(f"{where}: malformed ({error!r}); see the format") from error


def parse_case(family: str, item: Mapping[str, Any]) -> Case:
    """A case from its JSON; malformed ones raise KeyError, TypeError or AttributeError."""
    phases = item.get("phases", [item])
    total = item.get("expect_materialized_total")
    if isinstance(total, Mapping):
        total = total["rows"]
    return Case(
        family=family,
        id=item["id"],
        kind=item["kind"],
        params=Params(item["params"]),
        phases=tuple(_phase(phase) for phase in phases),
        total=None if total is None else expected_rows(total),
    )


def _phase(item: Mapping[str, Any]) -> Phase:
    expect = item["expect"]
    extra = {k: v for k, v in expect.items() if k not in ("mode", "rows", "listed_order")}
    return Phase(
        events=tuple(item["events"]),
        expect=Expectation(expect["mode"], expected_rows(expect.get("rows", ())), extra),
        before=item.get("before"),
    )


def expected_rows(rows: Iterable[Any]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """(kind, values) of listed rows; a bare list of values means an insert."""
    return tuple(
        (row["op"], tuple(row["row"])) if isinstance(row, Mapping) else ("+I", tuple(row))
        for row in rows
    )


def column_type(text: str) -> pa.DataType:
    """The Arrow type of a Flink type name; marks and remarks after it, such as `(primary key)`, are ignored."""
    bare = _REMARK.fullmatch(text.strip())
    for name in (text.strip(), bare[1] if bare else ""):
        try:
            # Values of cases have the digits that their type says.
            schema = to_schema({"c": name}, "flink", is_cut=True)
            return AggSpec(schema, ("c",), (), dialect="flink").schema.field("c").type
        except SpecError:
            continue
    raise NotSupported(f"type {text.strip()}")


def names_in(said: Any, known: Iterable[str]) -> tuple[str, ...]:
    """The columns that a list, or a text with remarks such as `id (not in the join key)`, names."""
    names = list(known)
    words = re.findall(r"[\w$#]+", said) if isinstance(said, str) else list(said or ())
    found = tuple(word for word in words if word in names)
    if (words and not found) or (not isinstance(said, str) and len(found) < len(words)):
        raise NotSupported(f"columns {said!r}")
    return found


def computed_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """The expressions of the columns that rows do not hold, by name; remarks after them are left out."""
    return {
        name: _expression(str(text)[3:])
        for name, text in columns.items()
        if str(text).upper().startswith("AS ")
    }


def _expression(text: str) -> str:
    """The text up to a comma or semicolon outside of parentheses, or to a parenthesis after a finished call."""
    depth = 0
    for place, sign in enumerate(text):
        remark = sign == "(" and text[:place].endswith(") ")
        if not depth and (sign in ",;" or remark):
            return text[:place].strip()
        depth += (sign == "(") - (sign == ")")
    return text.strip()


def reads(sql: str, name: str) -> bool:
    """Tell whether a query may read a column: its text has the column's name, or a *."""
    said = rf"\b{re.escape(name)}\b|\*"
    return re.search(said, _COUNT_ALL.sub("", sql), re.IGNORECASE) is not None


def table_schema(columns: Mapping[str, str], sql: str) -> pa.Schema:
    """The physical columns of a table; a foreign type becomes text if the query never reads it."""
    computed = computed_columns(columns)
    fields = []
    for name, declared in columns.items():
        if name.lower() == "primary key" or name in computed:
            continue
        try:
            fields.append(pa.field(name, column_type(declared)))
        except NotSupported:
            if reads(sql, name):
                raise
            fields.append(pa.field(name, pa.string()))
    return pa.schema(fields)


def event_time(event: Mapping[str, Any], name: str) -> int:
    """The milliseconds that an event says, no later than the end of time; raises CaseFormatError for what are none."""
    ms = event[name]
    if not isinstance(ms, int) or isinstance(ms, bool) or not -(2**63) <= ms < 2**63:
        raise CaseFormatError(f"event {dict(event)!r}: {name} is no time in milliseconds")
    return max(BEFORE_ALL, min(ms, AFTER_ALL))


def fitting_decimal(values: Iterable[Any]) -> pa.DataType:
    """The 38-digit decimal with the scale that the given numerals need (DECIMAL of any size)."""
    exponents = [Decimal(str(v)).as_tuple().exponent for v in values if v is not None]
    scale = max((-e for e in exponents if isinstance(e, int)), default=0)
    if scale > 38:
        raise NotSupported("a decimal of more than 38 digits")
    return pa.decimal128(38, max(scale, 0))


def to_value(raw: Any, kind: pa.DataType) -> Any:
    """The Python value that a JSON value stands for in a column of this type."""
    if raw is None:
        return None
    try:
        return _convert(raw, kind)
    except (ValueError, TypeError, OverflowError, InvalidOperation) as error:
        raise CaseFormatError(f"value {raw!r} does not fit a column of type {kind}") from error


def _convert(raw: Any, kind: pa.DataType) -> Any:
    if pa.types.is_nested(kind):
        return _convert_nested(raw, kind)
    if pa.types.is_decimal(kind):
        return Decimal(str(raw))
    if pa.types.is_timestamp(kind):
        moment = _moment(raw)
        return moment.replace(tzinfo=dt.UTC) if kind.tz else moment
    if pa.types.is_time(kind):
        return _moment(raw if isinstance(raw, int) else f"1970-01-01 {raw}").time()
    if pa.types.is_date(kind):
        return _EPOCH.date() + dt.timedelta(raw) if isinstance(raw, int) else _date(raw)
    if pa.types.is_floating(kind):
        return float(raw)
    if pa.types.is_integer(kind):
        return int(raw)
    if pa.types.is_binary(kind):
        return base64.b64decode(raw) if isinstance(raw, str) else bytes(raw)
    if pa.types.is_string(kind) and not isinstance(raw, str):
        return json.dumps(raw)
    return raw


def _convert_nested(raw: Any, kind: pa.DataType) -> Any:
    """Lists, as Arrow shows what they stand for: a ROW as a dict, a MAP or MULTISET as a list of pairs."""
    if pa.types.is_struct(kind):
        values = raw.values() if isinstance(raw, Mapping) else raw
        pairs = zip(kind, values, strict=True)
        return {field.name: to_value(value, field.type) for field, value in pairs}
    if pa.types.is_map(kind):
        entries = raw.items() if isinstance(raw, Mapping) else raw
        return [(to_value(k, kind.key_type), to_value(v, kind.item_type)) for k, v in entries]
    return [to_value(value, kind.value_type) for value in raw]


def _date(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


def _moment(raw: Any) -> dt.datetime:
    if isinstance(raw, int | float):
        try:
            return _EPOCH + dt.timedelta(milliseconds=raw)
        except OverflowError:
            raise NotSupported("a time outside of the years 1 to 9999") from None
    whole, _, fraction = str(raw).strip().rstrip("Z").replace("T", " ").partition(".")
    if fraction[6:].strip("0"):
        raise NotSupported("time finer than a microsecond")
    return dt.datetime.fromisoformat(whole) + dt.timedelta(
        microseconds=int(fraction[:6].ljust(6, "0"))
    )
