"""Definitions: users' functions as data of names, texts and lists, which a spec contains.

With them a module that was generated from a spec needs no registration in the process where it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate, Argument, Code, Field, Option, Shape, View
from aggloom.codegen.spec.choices import NULLS
from aggloom.codegen.spec.dtypes import parse_type, type_name
from aggloom.codegen.user import checks as user_check
from aggloom.codegen.user import source as user_source
from aggloom.codegen.user import trust as user_trust
from aggloom.errors import SpecError

_SHAPES = ("append", "retract", "ordered", "ordered_retract")
_TUPLES = ("row", "skips", "nulls", "empty_in", "positions")
_SPECIAL = ("inf", "-inf", "nan")
_OF_CLASS = ("name", "arguments", "result", "columns", "nulls", "source")


def to_data(entry: Aggregate) -> dict[str, Any]:
    """The definition of a user's function as data for JSON."""
    if entry.code is None:
        data: dict[str, Any] = _plain(entry)
        del data["user_defined"]
        return data
    columns = [list(pair) for pair in entry.code.columns]
    return {
        "name": entry.name,
        "arguments": [[argument.name, argument.kind] for argument in entry.arguments],
        **({"columns": columns} if columns else {"result": entry.result}),
        "nulls": "ignore" if entry.nulls is None else "respect",
        "source": entry.code.source,
    }


def from_data(data: Any) -> Aggregate:
    """The checked entry of a definition; raises SpecError saying what is wrong with it."""
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise SpecError(
            f"{data!r} is no definition of a function; it must be a mapping with a name"
        )
    try:
        if "source" in data:
            return _of_class(data)
        entry = _entry(data)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        # SpecError is a ValueError, and has a message already.
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"{data['name']!r}: the definition is malformed: {error}") from None
    user_check.check(entry)
    return entry


def read_definitions(content: Any, form: str, trust: bool = False) -> dict[str, Aggregate]:
    """The entries of the definitions in a spec's text, by name; trust: let their Python source run."""
    if not isinstance(content, Iterable) or isinstance(content, str | Mapping):
        raise SpecError(f"{form}, functions: must be a list of definitions")
    try:
        entries = [from_data(data) for data in content]
    except SpecError as error:
        raise type(error)(f"{form}, functions: {error}") from None
    definitions = {entry.name: entry for entry in entries}
    if len(definitions) < len(entries):
        raise SpecError(f"{form}, functions: two definitions have one name; drop one")
    # Only after all were checked: no source of a refused text may run.
    if trust:
        for entry in entries:
            user_trust.trust(entry)
    return definitions


def class_entry(
    name: str,
    arguments: Iterable[tuple[str, str]],
    result: str,
    nulls: str,
    source: str,
    columns: Iterable[tuple[str, str]] = (),
) -> Aggregate:
    """The checked entry of a function written as a class; columns: of the rows of a table aggregate."""
    emitted = tuple(columns)
    if emitted:
        result = _rows_type(name, emitted)
    if nulls not in NULLS:
        raise SpecError(f"{name}: nulls is {nulls!r}; write 'ignore' or 'respect'")
    listed = tuple(Argument(*pair) for pair in arguments)
    parsed = user_source.parse(source, name)
    entry = Aggregate(
        name,
        doc=parsed.doc,
        arguments=listed,
        result=result,
        nulls=("respect", "respect") if nulls == "respect" else None,
        # The order of rows may matter to the user's code.
        by_arrival=True,
        user_defined=True,
        code=Code(source, tuple(parsed.methods), emitted),
    )
    user_check.check_signature(entry)
    names = [argument.name for argument in listed]
    user_source.check_methods(parsed, name, names, emits_rows=bool(emitted))
    return entry


def _rows_type(name: str, columns: tuple[tuple[str, str], ...]) -> str:
    """The type of the rows of a table aggregate, an ARRAY of STRUCT; raises SpecError for wrong columns."""
    fields: dict[str, pa.DataType] = {}
    for column, text in columns:
        if not column.isidentifier() or not column.isascii():
            raise SpecError(f"{name}: {column!r} cannot be the name of a column; use a plain word")
        if column in fields:
            raise SpecError(f"{name}: two columns are called {column!r}; rename one")
        try:
            fields[column] = parse_type(text)
        except SpecError as error:
            raise SpecError(f"{name}: column {column!r}: {error}") from None
        if pa.types.is_map(fields[column]):
            raise SpecError(
                f"{name}: column {column!r} cannot be a MAP; use ARRAY<STRUCT<key ..., value ...>>"
            )
    return type_name(pa.list_(pa.struct(list(fields.items()))))


def unmergeable(entry: Aggregate) -> str:
    """Return the reason why states of a user's function cannot be merged, with the fix; "" if they can."""
    if entry.code is None or "merge" in entry.code.methods:
        return ""
    return f"{entry.name} has no merge; give its class `def merge(state, other)`"


def unretractable(entry: Aggregate, ordered: bool) -> str:
    """Return the reason why a user's function cannot retract rows, with the fix; "" if it can.

    A class always can: see codegen/user/retraction.py.
    """
    if entry.code is not None:
        return ""
    for state in entry.shape(True, ordered).state:
        if isinstance(state, Field) and state.retract is None:
            return (
                f"{entry.name} cannot retract rows, for its field {state.name!r} has no `retract`; give the "
                "field one, or the entry another shape as `retract`"
            )
    return ""


def _plain(value: Any) -> Any:
    """Dataclasses as mappings of the fields that differ from their defaults, tuples as lists."""
    if is_dataclass(value):
        listed = {f.name: getattr(value, f.name) for f in fields(value) if _is_set(f, value)}
        return {name: _plain(item) for name, item in listed.items()}
    if isinstance(value, float) and value - value != 0:
        # JSON has no infinity.
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _is_set(field: Any, value: Any) -> bool:
    # Defaults are left out, so that a field that a later version adds changes no older digest.
    differs = field.name == "result" or getattr(value, field.name) != field.default
    return bool(field.compare and differs)


def _of_class(data: Mapping[str, Any]) -> Aggregate:
    unknown = sorted(set(data) - set(_OF_CLASS))
    if unknown:
        raise SpecError(f"{data['name']!r}: a definition has no {unknown[0]!r}")
    columns = _pairs(data.get("columns", ()))
    if bool(columns) == ("result" in data):
        raise SpecError(
            f"{data['name']!r}: a definition has either `result`, or `columns` of the rows that it emits"
        )
    return class_entry(
        data["name"],
        _pairs(data.get("arguments", ())),
        data.get("result", ""),
        data.get("nulls", "ignore"),
        str(data["source"]),
        columns,
    )


def _pairs(arguments: Any) -> list[tuple[str, str]]:
    """Names and types, as a mapping or as pairs."""
    listed = (
        arguments.items() if isinstance(arguments, Mapping) else [tuple(pair) for pair in arguments]
    )
    return [(str(name), str(kind)) for name, kind in listed]


def _entry(data: Mapping[str, Any]) -> Aggregate:
    values: dict[str, Any] = dict(data)
    values["arguments"] = tuple(Argument(**each) for each in data.get("arguments", ()))
    values["options"] = tuple(_option(each) for each in data.get("options", ()))
    values |= {name: _shape(data[name]) for name in _SHAPES if data.get(name) is not None}
    values |= {name: tuple(data[name]) for name in _TUPLES if data.get(name) is not None}
    return Aggregate(**values, user_defined=True)


def _option(data: Mapping[str, Any]) -> Option:
    values = dict(data)
    if isinstance(values.get("default"), list):
        values["default"] = tuple(values["default"])
    if "choices" in values:
        values["choices"] = tuple(values["choices"])
    return Option(**values)


def _field(data: Mapping[str, Any]) -> Field:
    initial = data.get("initial", 0)
    return Field(**{**data, "initial": float(initial) if initial in _SPECIAL else initial})


def _shape(data: Mapping[str, Any]) -> Shape:
    values: dict[str, Any] = dict(data)
    values["state"] = tuple(
        _field(each) if "name" in each else View(**each) for each in data.get("state", ())
    )
    values["let"] = tuple((name, text) for name, text in data.get("let", ()))
    return Shape(**values)
