"""Settings of operators: frozen, keyword-only dataclasses, and the one codec that writes them as JSON and reads them.

A checkpoint holds the settings with which its state was written. A field of type `Changing[..]` may differ when the
query continues from there; every other field is fixed by the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import pyarrow as pa

from aggloom.codegen import AggSpec, parse_type, type_name
from aggloom.codegen.windows import Windowing, windowing_data, windowing_of
from aggloom.errors import SpecError
from aggloom.runtime.operators.columns import columns_data, columns_from

T = TypeVar("T")
_CHANGING = "may change under a state"
Changing = Annotated[T, _CHANGING]
"""The type of a setting that does not change what the state means."""
_HINTS: dict[Any, dict[str, Any]] = {}
"""The types of the fields of each dataclass that was read or written; resolving them takes 100 microseconds."""


class OperatorSettings:
    """The base of an operator's settings.

    kind: the name by which a checkpoint knows the operator. An AggSpec among the fields is not part of the data, as
    a checkpoint holds it beside them; where it may be None, the data says whether there is one.
    """

    kind: ClassVar[str]

    def to_data(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them.

        Example:
            >>> from aggloom.runtime.operators.normalise import NormaliseSpec
            >>> data = NormaliseSpec(schema=pa.schema([("k", pa.int64())]), keys=1).to_data()
            >>> data["schema"], data["keys"], data["per_record"]
            ([['k', 'BIGINT']], 1, False)
        """
        return encode_fields(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec | None = None) -> Self:
        """Return the settings of what `to_data` gave; `spec` stands for an AggSpec among them. Raises SpecError."""
        with cls._name_errors():
            return decode_fields(cls, data, spec)

    def with_changing(self, data: Mapping[str, Any]) -> Self:
        """Return the same settings with those of `to_data` that may change. Raises SpecError.

        The others are not read: a user's own trigger, for one, has no JSON.
        """
        settings = type(self)
        hints, values = _hints(settings), {
            name: getattr(self, name) for name in field_names(settings)
        }
        with self._name_errors():
            for name in changing_fields(settings):
                values[name] = decode(data[name], hints[name])
        return settings(**values)

    @classmethod
    @contextmanager
    def _name_errors(cls) -> Iterator[None]:
        """Surround the reading of data; what is wrong with it is a SpecError that names the operator."""
        try:
            yield
        except SpecError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            where = cls.kind.replace("_", " ")
            raise SpecError(f"{where}: settings that cannot be read: {error!r}.") from None


def field_names(settings: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(field.name for field in fields(settings))


def changing_fields(settings: Any) -> tuple[str, ...]:
    """Return the names of the fields that may change under a state."""
    hints = _hints(settings)
    return tuple(name for name in field_names(settings) if _CHANGING in get_args(hints[name])[1:])


def encode_fields(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON can hold them."""
    data = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        if not _is_handler_spec(type(settings), field):
            data[field.name] = encode(value)
        elif _is_optional(type(settings), field):
            data[field.name] = value is not None
    return data


def encode(value: Any) -> Any:
    """Return a value of a setting as JSON can hold it; raises TypeError for a type that the codec does not know."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, pa.Schema):
        return columns_data(value)
    if isinstance(value, pa.Field):
        return [value.name, type_name(value.type)]
    if isinstance(value, pa.DataType):
        return type_name(value)
    if isinstance(value, Windowing):
        return windowing_data(value)
    if isinstance(value, tuple):
        return [encode(each) for each in value]
    if is_dataclass(value):
        return encode_fields(value)
    raise TypeError(f"a setting of type {type(value).__name__} has no JSON")


def decode_fields(settings: type[T], data: Mapping[str, Any], spec: AggSpec | None = None) -> T:
    """Return a dataclass of what `encode_fields` gave; a field that is missing has its default.

    Raises KeyError, TypeError, ValueError or SpecError for what is no such data.
    """
    known = {field.name: field for field in fields(settings)}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - set(known)):
        raise KeyError(unknown[0])
    hints, values = _hints(settings), {}
    for name, field in known.items():
        if _is_handler_spec(settings, field):
            values[name] = spec if data.get(name, True) else None
        elif name in data:
            values[name] = decode(data[name], hints[name])
        elif field.default is MISSING and field.default_factory is MISSING:
            raise KeyError(name)
    return settings(**values)


def decode(data: Any, hint: Any) -> Any:
    """Return the value of a type of what `encode` gave; raises TypeError, ValueError, KeyError or SpecError."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return decode(data, parts[0])
    if origin in (Union, UnionType):
        return _decode_union(data, parts)
    if origin is Literal:
        if data not in parts:
            raise ValueError(f"{data!r} is none of {', '.join(map(repr, parts))}")
        return data
    if origin is tuple:
        return _decode_tuple(data, parts)
    if hint in (bool, int, float, str):
        # The exact type: True is an int to isinstance, and no number of a setting.
        if type(data) is not hint:
            raise TypeError(f"{data!r} is no {hint.__name__}")
        return data
    if hint is pa.Schema:
        return columns_from(data)
    if hint is pa.Field:
        (field,) = columns_from([data])
        return field
    if hint is pa.DataType:
        return parse_type(data)
    if hint is Windowing:
        return windowing_of(data)
    if is_dataclass(hint):
        return decode_fields(hint, data)  # type: ignore[arg-type]
    raise TypeError(f"a setting of type {hint!r} has no JSON")


def _decode_union(data: Any, parts: tuple[Any, ...]) -> Any:
    if data is None and NoneType in parts:
        return None
    # Only the last alternative may be more than a plain type; the others are known by the data's own.
    alternatives = [part for part in parts if part is not NoneType]
    for part in alternatives[:-1]:
        if type(data) is part:
            return data
    return decode(data, alternatives[-1])


def _decode_tuple(data: Any, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise TypeError(f"{data!r} is no list")
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(decode(each, parts[0]) for each in data)
    return tuple(decode(each, part) for each, part in zip(data, parts, strict=True))


def _hints(settings: Any) -> dict[str, Any]:
    if settings not in _HINTS:
        _HINTS[settings] = get_type_hints(settings, include_extras=True)
    return _HINTS[settings]


def _is_handler_spec(settings: type[Any], field: Field[Any]) -> bool:
    hint = _hints(settings)[field.name]
    return hint is AggSpec or AggSpec in get_args(hint)


def _is_optional(settings: type[Any], field: Field[Any]) -> bool:
    return NoneType in get_args(_hints(settings)[field.name])
