"""Documents of MongoDB in Debezium's envelopes: images that are JSON in a text, in MongoDB's Extended JSON.

A value in a wrapper that says its type (`{"$numberLong": "1"}`) becomes that value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from aggloom.runtime.formats import times
from aggloom.runtime.formats.base import Unreadable
from aggloom.runtime.formats.json_text import Object, objects, scalar_or_object

_IMAGES = ("before", "after")
_NO_AFTER = (
    "`after` is missing: the update says only which fields it changed; set capture.mode of Debezium to "
    "change_streams_update_full"
)


def with_documents(body: Object) -> Object:
    """An envelope whose images are objects; another one as it is. Raises Unreadable."""
    if body.get("op") == "u" and body.get("after") is None and "updateDescription" in body:
        raise Unreadable(_NO_AFTER)
    texts = {name: body[name] for name in _IMAGES if isinstance(body.get(name), str)}
    if not texts:
        return body
    images = {name: _document(text, name) for name, text in texts.items()}
    return Object({**body, **images})


def document_key(key: Object, keys: tuple[str, ...]) -> Object:
    """The key of a message about a document, whose `id` is JSON in a text, as the column `_id`; another as it is."""
    text = key.get("id")
    if keys != ("_id",) or key.keys() != {"id"} or not isinstance(text, str):
        return key
    return Object({"_id": _plain(scalar_or_object(text))})


def _document(text: str, name: str) -> Any:
    contents = objects(text, False)
    if not contents:
        raise Unreadable(f"`{name}` is a text without an object")
    return _plain(contents[0])


def _plain(value: Any) -> Any:
    """A value without the wrappers of its types."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, Object):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name in _WRAPPERS:
            try:
                return _WRAPPERS[name](inner)
            except (ValueError, TypeError, ArithmeticError, KeyError):
                raise Unreadable(f"{name} has {inner!r:.80}") from None
    plain = Object({name: _plain(each) for name, each in value.items()})
    # Whoever reads the row still has to refuse names that are there twice.
    plain.twice = value.twice
    return plain


def _moment(value: Any) -> str:
    """A time as text: one as text, or as milliseconds since 1970."""
    if isinstance(value, str):
        return value
    millis = int(value["$numberLong"]) if isinstance(value, Mapping) else int(value)
    return times.shown_moment(times.in_range(millis * 1000)) + "Z"


def _double(value: Any) -> Any:
    number = Decimal(value)
    # What is no number has a text of its own, which readers of numbers know.
    return number if number.is_finite() else str(value)


_WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "$oid": str,
    "$uuid": str,
    "$symbol": str,
    "$numberInt": int,
    "$numberLong": int,
    "$numberDouble": _double,
    "$numberDecimal": _double,
    "$date": _moment,
    "$binary": lambda value: value["base64"] if isinstance(value, Mapping) else value,
}
