"""Objects as rows of a table: names in any case where one fits, absent is not NULL, values of the columns' types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aggloom.codegen import type_name
from aggloom.runtime.formats.base import FormatSettings, Unreadable, Values
from aggloom.runtime.formats.inferred_values import declared_advice
from aggloom.runtime.formats.json_text import Object, format_value
from aggloom.runtime.formats.values import WRONG, Reader, UnsaidError, reader

_LENIENT = 'missing="null" reads it as NULL'
_SHOWN = 80


class ImageReader:
    """Makes rows of a table's objects: a list of values in the order of its columns.

    texts: numbers may come as texts.
    """

    def __init__(self, settings: FormatSettings, texts: bool = False) -> None:
        self.columns, self.lenient = settings.columns, settings.lenient
        self.names, self.inferred = settings.columns.names, settings.inferred
        self.readers = [reader(f.type, settings, texts) for f in settings.columns]
        self._known = set(self.names)
        self.spelling = Spelling(self.names)

    def by_name(self, image: Object, what: str) -> Mapping[str, Any]:
        """An object by the columns' names; raises Unreadable where one is there twice."""
        # The usual object has these very names, none of them twice, and serves as it is.
        if image.twice or not self._known <= image.keys():
            return self.spelling.of(image, what)
        return image

    def row(
        self,
        image: Any,
        what: str,
        fix: str = "",
        needed: Iterable[str] | None = None,
        readers: Sequence[Reader] | None = None,
    ) -> Values:
        """The values of an object.

        what: what to call it. fix: what to do where it lacks a column; given, nothing that is needed may be absent.
        needed: the columns that it has to have (all); others are NULL where they are absent.
        """
        if not isinstance(image, Object):
            raise Unreadable(f"{what}is no object")
        named = self.by_name(image, what)
        row = self.values(named, readers)
        required = self.names if needed is None else needed
        lacks = [name for name in required if name not in named]
        if lacks and (fix or not self.lenient):
            listed = "', '".join(lacks)
            raise Unreadable(f"{what}lacks '{listed}'; {fix or _LENIENT}")
        return row

    def partial(
        self,
        after: Mapping[str, Any],
        what: str,
        keys: Sequence[str],
        before: Mapping[str, Any] | None = None,
        readers: Sequence[Reader] | None = None,
    ) -> Values:
        """The values of a row that may leave columns out, and behind them the JSON list of those, None if it has all.

        before: the row before, by which it is completed. A NULL there may be a value that was not known, and does not.
        Raises Unreadable without a column of the key.
        """
        known = {n: value for n, value in (before or {}).items() if value is not None}
        named = {**known, **after}
        lacks = [name for name in keys if name not in named]
        if lacks:
            raise Unreadable(f"{what}lacks '{lacks[0]}' of the key, by which a row is completed")
        absent = [name for name in self.names if name not in named]
        return [*self.values(named, readers), json.dumps(absent) if absent else None]

    def values(self, named: Mapping[str, Any], readers: Sequence[Reader] | None = None) -> Values:
        """The values of what is there; the rest is NULL."""
        row = []
        for place, (name, read) in enumerate(zip(self.names, readers or self.readers, strict=True)):
            value = named.get(name)
            if value is not None:
                try:
                    value = read(value)
                except UnsaidError as error:
                    raise Unreadable(
                        f"column {name!r} has {format_value(value)!r:.{_SHOWN}}, {error}"
                    ) from None
                except UnicodeEncodeError:
                    raise Unreadable(
                        f"half of a surrogate pair in a text, column {name!r}"
                    ) from None
                except WRONG:
                    kind = type_name(self.columns.field(place).type)
                    text = format_value(value)[:_SHOWN]
                    why = f"column {name!r} cannot hold '{text}' as {kind}"
                    if self.inferred:
                        advice = declared_advice(name, self.columns.field(place).type)
                        why = f"{why}, which the first rows suggest. {advice.removesuffix('.')}"
                    raise Unreadable(why) from None
            row.append(value)
        return row


class Spelling:
    """Names as they are declared; one in another case is the declared one, unless that is there too."""

    def __init__(self, declared: Sequence[str]) -> None:
        same: dict[str, list[str]] = {}
        for name in declared:
            same.setdefault(name.lower(), []).append(name)
        self._declared = set(declared)
        # Where several columns differ in case alone, only the exact names count.
        self._by_lower = {lower: names[0] for lower, names in same.items() if len(names) == 1}

    def of(self, image: Object, what: str = "") -> dict[str, Any]:
        """An object by declared names; raises Unreadable where one of these is there twice."""
        named: dict[str, Any] = {}
        twice = [name for name in image.twice if self._name(name, image) in self._declared]
        for name, value in image.items():
            own = self._name(name, image)
            if own in named and own in self._declared:
                twice.append(own)
            named[own] = value
        if twice:
            listed = "', '".join(dict.fromkeys(self._name(name, image) for name in twice))
            raise Unreadable(
                f"{what}has '{listed}' twice" if what else f"'{listed}' is there twice"
            )
        return named

    def _name(self, name: str, image: Mapping[str, Any]) -> str:
        own = self._by_lower.get(name.lower())
        return name if own is None or own in image else own
