"""A windowing as data in a checkpoint, and back: built-in parts by their class and fields, never code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from aggloom.codegen.windows.assigners import (
    CountWindow,
    Cumulate,
    GlobalWindow,
    Hop,
    Session,
    Tumble,
)
from aggloom.codegen.windows.calendar import CalendarCumulate, CalendarHop, CalendarTumble
from aggloom.codegen.windows.delta_trigger import DeltaTrigger
from aggloom.codegen.windows.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from aggloom.codegen.windows.rolling import Rolling
from aggloom.codegen.windows.timeout_trigger import ProcessingTimeoutTrigger
from aggloom.codegen.windows.trigger import Trigger
from aggloom.codegen.windows.triggers import (
    ContinuousTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from aggloom.codegen.windows.windowing import Windowing
from aggloom.errors import SpecError, nearest

_BUILT_IN: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Tumble,
        CalendarCumulate,
        CalendarHop,
        CalendarTumble,
        Hop,
        Cumulate,
        Rolling,
        Session,
        GlobalWindow,
        CountWindow,
        EventTimeTrigger,
        ProcessingTimeTrigger,
        CountTrigger,
        ContinuousTrigger,
        PurgingTrigger,
        NeverTrigger,
        DeltaTrigger,
        ProcessingTimeoutTrigger,
        CountEvictor,
        TimeEvictor,
        DeltaEvictor,
    )
}
_PARTS = ("assigner", "trigger", "evictor")
_FUNCTION = "function"
_PLAIN = ("allowed_lateness", "updates", "late_rows")


def windowing_data(windowing: Windowing) -> dict[str, Any]:
    """A windowing as JSON can hold it; a user's own class is only named."""
    # Only where there is one: what older checkpoints say of their windows does not name it.
    more = () if windowing.function is None else (_FUNCTION,)
    parts = {name: _part_data(getattr(windowing, name)) for name in (*_PARTS, *more)}
    return parts | {name: getattr(windowing, name) for name in _PLAIN}


def windowing_of(data: Any) -> Windowing:
    """The windowing of what `windowing_data` gave; raises SpecError, also where it names a user's own class."""
    # A field more or less is of another version, whose windows may mean something else.
    if not isinstance(data, Mapping) or set(data) - {_FUNCTION} != {*_PARTS, *_PLAIN}:
        raise SpecError("windows: not what a windowing is written as.")
    parts = {name: _part_of(data.get(name)) for name in (*_PARTS, _FUNCTION)}
    return Windowing(**parts, **{name: data[name] for name in _PLAIN})


def _part_data(part: Any) -> dict[str, Any] | None:
    if part is None:
        return None
    kind = type(part)
    values = (
        {each.name: getattr(part, each.name) for each in fields(part)} if _is_built_in(kind) else {}
    )
    # A function cannot be written: a built-in class with one counts as a user's own.
    if not _is_built_in(kind) or any(callable(value) for value in values.values()):
        return {"own": f"{kind.__module__}.{kind.__qualname__}"}
    nested = {name: _part_data(v) for name, v in values.items() if isinstance(v, Trigger | Evictor)}
    # As JSON gives them back, so that what is read compares with what is written.
    values = {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
    return {"class": kind.__name__, **values, **nested}


def _part_of(data: Any) -> Any:
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise SpecError(f"windows: {data!r} is no part of a windowing.")
    if "own" in data:
        raise SpecError(
            f"windows: {data['own']} is a class of the user's own, which is named here but not kept; "
            "only built-in assigners, triggers and evictors can be made again."
        )
    name = data.get("class")
    if not isinstance(name, str) or name not in _BUILT_IN:
        raise SpecError(f"windows: there is no class {name!r}. {nearest(str(name), _BUILT_IN)}")
    values = {
        key: _part_of(value) if isinstance(value, Mapping) else value
        for key, value in data.items()
        if key != "class"
    }
    try:
        return _BUILT_IN[name](**values)
    # A field too many or too few: the record is of another version.
    except TypeError as error:
        raise SpecError(f"windows: {name}: {error}.") from None


def _is_built_in(kind: type[Any]) -> bool:
    # By identity: a class of the user may have the name of a built-in one.
    return _BUILT_IN.get(kind.__name__) is kind
