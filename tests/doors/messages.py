"""Messages of databases' changes by chance, in every format: what each says of the rows, or that it is bad."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from doors.example import Row, damaged
from doors.texts import NAMES

Change = tuple[str, tuple[str | None, int | None]]
Values = tuple[str | None, int | None]
Made = tuple[Any, list[Change] | None]
UNTOLD = "__debezium_unavailable_value"
KEY = "k"
"""In the keys of Debezium's messages, where they have keys."""
INSERT, BEFORE, AFTER, DELETE = "insert", "update_preimage", "update_postimage", "delete"


@dataclass(frozen=True)
class Variant:
    """A format, and the keys by which it is read, if it is."""

    format: str
    keys: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def separator(self) -> str | None:
        return dict(self.options).get(
            "key_separator", "\t" if self.format == "upsert-json" else None
        )


VARIANTS = (
    *(Variant(f"{name}-json") for name in ("debezium", "canal", "maxwell", "ogg")),
    *(Variant(f"{name}-json", ("name",)) for name in ("debezium", "canal", "maxwell", "ogg")),
    Variant("debezium-json", ("name",), (("key_separator", "|"),)),
    Variant("upsert-json", ("name",)),
    Variant("jsonl"),
)


@dataclass
class Lines:
    """A file of messages: its lines, and of each the changes, None for one that is bad.

    hurt: the places of lines whose bytes were damaged; whole: all lines as they were before.
    """

    lines: list[bytes] = field(default_factory=list)
    changes: list[list[Change] | None] = field(default_factory=list)
    hurt: set[int] = field(default_factory=set)
    whole: list[bytes] = field(default_factory=list)

    @property
    def content(self) -> bytes:
        return b"\n".join(self.lines)


def _case(r: random.Random, name: str) -> str:
    return r.choice([name] * 5 + [name.upper(), name.title()])


def _values(r: random.Random, keyed: bool) -> Values:
    names = [name for name in NAMES if name] if keyed else [*NAMES, None]
    return r.choice(names), r.choice([0, 1, -5, 2**31 - 1, -(2**31), None])


def _image(r: random.Random, values: Values, texts: bool = False) -> dict[str, Any]:
    name, cnt = values
    number = str(cnt) if texts and cnt is not None and r.random() < 0.5 else cnt
    fields = [(_case(r, "name"), name), (_case(r, "cnt"), number)]
    fields += [("other", r.choice([1, None, {"name": 2}, ["cnt"]]))] if r.random() < 0.5 else []
    r.shuffle(fields)
    return dict(fields)


def _spoilt(r: random.Random, image: dict[str, Any], texts: bool = False) -> dict[str, Any]:
    """An image that no row can be made of."""
    name = next(key for key in image if key.lower() == "name")
    cnt = next(key for key in image if key.lower() == "cnt")
    what = r.randrange(4)
    if what == 0:
        gone = r.choice([name, cnt])
        return {key: value for key, value in image.items() if key != gone}
    if what == 1:
        return {**image, cnt: r.choice([2**31, "x", 1.5, [1], True, "" if texts else "1"])}
    if what == 2:
        return {**image, name: r.choice(["\ud83d", "a\udc0d"])}
    return {"NAME": "a", "Name": "b", "cnt": 1}


def _update(variant: Variant, old: Values, new: Values) -> list[Change]:
    """Return the changes of an update that tells the row before."""
    if not variant.keys:
        return [(BEFORE, old), (AFTER, new)]
    return [(DELETE, old), (AFTER, new)] if old[0] != new[0] else [(AFTER, new)]


def _insert(variant: Variant, new: Values) -> list[Change]:
    return [(AFTER if variant.keys else INSERT, new)]


def _old_of(r: random.Random, old: Values, new: Values, texts: bool) -> dict[str, Any]:
    """Draw the row before of an update: the columns that have changed, and perhaps one that has not."""
    image = {"name": old[0], "cnt": str(old[1]) if texts and old[1] is not None else old[1]}
    same = {"name": old[0] == new[0], "cnt": old[1] == new[1]}
    return {_case(r, n): v for n, v in image.items() if not same[n] or r.random() < 0.3}


def _debezium(r: random.Random, variant: Variant, bad: bool) -> Made:
    keyed = bool(variant.keys)
    op, old, new = r.choice("crud"), _values(r, keyed), _values(r, keyed)
    before, after = _image(r, old), _image(r, new)
    if bad:
        wrong: list[Any] = [
            {"op": "c", "after": _spoilt(r, after)},
            {"op": "c", "after": None, "before": before},
            {"op": r.choice(["x", "", None, "C", 1]), "before": before, "after": after},
            {"before": before, "after": after},
            {"op": "t", "before": None, "after": None},
            {"op": "c", "after": {**after, _key(after, "name"): UNTOLD}},
            {"op": "d", "before": r.choice([3, {}] if variant.separator else [None, 3, {}])},
            {"op": "d", "before": {"cnt": 1}},
            {"op": "u", "before": r.choice(["x", 3, [before]]), "after": r.choice(["x", 3])},
            {"payload": 3},
        ]
        if not keyed:
            wrong += [
                {"op": "u", "before": None, "after": after},
                {"op": "u", "before": {"name": "a"}, "after": after},
                {"op": "d", "before": {"name": "a"}},
                {"op": "u", "before": {**before, _key(before, "cnt"): UNTOLD}, "after": after},
            ]
        return r.choice(wrong), None
    if r.random() < 0.1:
        return r.choice([{"op": "m", "message": {}}, {"schema": {}, "payload": None}]), []
    changes = _insert(variant, new)
    if op == "d":
        changes = [(DELETE, old)]
        if keyed and r.random() < 0.6:
            # No more than the key is told of what is gone.
            before = {_case(r, "name"): old[0]}
        elif variant.separator and r.random() < 0.5:
            before, changes = None, [(DELETE, (KEY, None))]
    elif op == "u":
        changes = _update(variant, old, new)
        if keyed and r.random() < 0.4:
            before, changes = r.choice([None, {"cnt": 3}]), _update(variant, new, new)
        if isinstance(before, dict) and len(before) > 1 and old[0] and r.random() < 0.1:
            # A large value that has not changed stands in the row before; it is never NULL.
            after = {**after, _key(after, "name"): UNTOLD}
            changes = _update(variant, old, (old[0], new[1]))
    message = {"op": op, "before": None if op in "cr" else before}
    message["after"] = None if op == "d" else after
    if r.random() < 0.3:
        message = {"schema": {"type": "struct"}, "payload": message}
    return message, changes


def _key(image: dict[str, Any], name: str) -> str:
    return next(key for key in image if key.lower() == name)


def _canal(r: random.Random, variant: Variant, bad: bool) -> Made:
    pairs = [(_values(r, bool(variant.keys)), _values(r, bool(variant.keys)))]
    pairs += [(_values(r, bool(variant.keys)), _values(r, bool(variant.keys)))] * r.randrange(2)
    data = [_image(r, new, texts=True) for _, new in pairs]
    about = {"database": "db", "table": "t", "isDdl": False}
    if bad:
        where = r.randrange(len(data))
        hurt = [_spoilt(r, one, True) if at == where else one for at, one in enumerate(data)]
        return (
            r.choice(
                [
                    about | {"type": "INSERT", "data": hurt},
                    about
                    | {"type": r.choice(["INSERT", "DELETE"]), "data": r.choice([None, [], {}])},
                    about | {"type": r.choice([None, "insert", "", "X", 1]), "data": data},
                    about | {"type": "UPDATE", "data": data, "old": r.choice([None, [], [{}] * 5])},
                    about | {"type": "UPDATE", "data": data, "old": ["x"] * len(data)},
                    about | {"type": r.choice(["TRUNCATE", "ERASE"]), "isDdl": True},
                    about | {"type": "DELETE", "data": [*data, r.choice([None, 3, "x"])]},
                ]
            ),
            None,
        )
    if r.random() < 0.1:
        return about | {"isDdl": True, "type": r.choice(["CREATE", "ALTER", "QUERY"])}, []
    kind = r.choice(["INSERT", "UPDATE", "DELETE"])
    message = about | {"type": kind, "data": data}
    if kind == "INSERT":
        return message, [c for _, new in pairs for c in _insert(variant, new)]
    if kind == "DELETE":
        return message, [(DELETE, new) for _, new in pairs]
    message["old"] = [_old_of(r, old, new, texts=True) for old, new in pairs]
    return message, [c for old, new in pairs for c in _update(variant, old, new)]


def _maxwell(r: random.Random, variant: Variant, bad: bool) -> Made:
    old, new = _values(r, bool(variant.keys)), _values(r, bool(variant.keys))
    data, about = _image(r, new), {"database": "db", "table": "t", "xid": 1}
    if bad:
        wrong = [
            about | {"type": "insert", "data": _spoilt(r, data)},
            about | {"type": r.choice(["insert", "update", "delete"]), "old": {}},
            about | {"type": r.choice([None, "INSERT", "", "x", 1]), "data": data},
            about | {"type": "update", "data": data, "old": r.choice([None, [], 3])},
            about | {"type": r.choice(["table-drop", "table-truncate", "database-drop"])},
            about | {"type": "delete", "data": r.choice([[], 3, "x"])},
        ]
        return r.choice(wrong), None
    if r.random() < 0.1:
        return about | {"type": r.choice(["bootstrap-start", "table-create"]), "data": {}}, []
    kind = r.choice(["insert", "bootstrap-insert", "update", "delete"])
    message = about | {"type": kind, "data": data}
    if kind == "delete":
        return message, [(DELETE, new)]
    if kind != "update":
        return message, _insert(variant, new)
    return message | {"old": _old_of(r, old, new, texts=False)}, _update(variant, old, new)


def _ogg(r: random.Random, variant: Variant, bad: bool) -> Made:
    keyed = bool(variant.keys)
    old, new = _values(r, keyed), _values(r, keyed)
    before, after = _image(r, old, texts=True), _image(r, new, texts=True)
    if bad:
        wrong = [
            {"op_type": "I", "after": _spoilt(r, after, True)},
            {"op_type": r.choice(["I", "U"]), "before": before},
            {"op_type": r.choice([None, "i", "", "X", 1]), "before": before, "after": after},
            {"op_type": "T"},
            {"op_type": "D", "before": r.choice([None, {}, 3, "x"])},
            {"op_type": "D", "before": {"cnt": 1}},
        ]
        if not keyed:
            wrong += [
                {"op_type": "U", "after": after},
                {"op_type": "U", "before": {"name": "a"}, "after": after},
            ]
        return {"table": "DB.T"} | r.choice(wrong), None
    kind = r.choice("IUD")
    changes = _insert(variant, new)
    if kind == "D":
        changes = [(DELETE, old)]
        before = {_case(r, "name"): old[0]} if keyed and r.random() < 0.5 else before
    elif kind == "U":
        changes = _update(variant, old, new)
        if keyed and r.random() < 0.4:
            before, changes = r.choice([{}, {"cnt": 3}]), _update(variant, new, new)
    message = {"table": "DB.T", "op_type": kind}
    message |= {"before": before} if kind != "I" else {}
    return message | ({"after": after} if kind != "D" else {}), changes


def _upsert(r: random.Random, variant: Variant, bad: bool) -> Made:
    values = _values(r, True)
    key, image = {"name": values[0]}, _image(r, values)
    if bad:
        wrong: list[tuple[Any, Any]] = [
            (key, _spoilt(r, {**image, _key(image, "name"): "a"})),
            ({"name": "other"}, image),
            ({"cnt": 1}, r.choice([image, None])),
            (None, None),
            (None, {"cnt": 1, "name": None}),
            (key, r.choice([3, "x", [image]])),
        ]
        made = r.choice(wrong)
        if (
            made[0] == key
            and isinstance(made[1], dict)
            and not any(n.lower() == "name" for n in made[1])
        ):
            # The key says what the value lacks.
            made = (None, {"cnt": 1})
        if made == (None, None):
            return ("null", "null"), None
        return made, None
    shown: Any = r.choice([key, {"schema": {}, "payload": key}])
    if r.random() < 0.3:
        return (shown, None), [(DELETE, values)]
    if r.random() < 0.2:
        return (None, image), [(AFTER, values)]
    if r.random() < 0.2:
        return (shown, {n: v for n, v in image.items() if n.lower() != "name"}), [(AFTER, values)]
    return (shown, image), [(AFTER, values)]


def _flat(r: random.Random, variant: Variant, bad: bool) -> Made:
    values = _values(r, False)
    image = _image(r, values)
    if bad:
        wrong = [
            {**image, "op": r.choice([None, "", "x", "Insert"])},
            {**image, "op": "+I", "_change_type": "insert"},
            {**image, r.choice(["__op", "__deleted"]): "d"},
            {"other": 1},
            {"NAME": "a", "Name": "b", "cnt": 1},
            {"name": "a", "cnt": r.choice([2**31, "x", 1.5])},
        ]
        return r.choice(wrong), None
    word = r.choice([INSERT, DELETE, BEFORE, AFTER])
    return image | {r.choice(["op", "_change_type"]): word}, [(word, values)]


MAKERS: dict[str, Callable[[random.Random, Variant, bool], Made]] = {
    "debezium-json": _debezium,
    "canal-json": _canal,
    "maxwell-json": _maxwell,
    "ogg-json": _ogg,
    "upsert-json": _upsert,
    "jsonl": _flat,
}


def _line(r: random.Random, variant: Variant, message: Any) -> str:
    def written(value: Any) -> str:
        return json.dumps(value, ensure_ascii=r.random() < 0.5 or "\\ud" in json.dumps(value))

    if not isinstance(message, tuple):
        text = written(message)
        return f"{written({'name': KEY})}{variant.separator}{text}" if variant.separator else text
    key, value = message
    if isinstance(key, str):
        return f"{key}{variant.separator}{value}"
    if key is None and value is not None and r.random() < 0.5:
        return written(value)
    shown = ["" if part is None else written(part) for part in (key, value)]
    return (variant.separator or "\t").join(shown)


def lines_of(r: random.Random, variant: Variant, bad: float = 0.2, hurt: float = 0.15) -> Lines:
    """A file of 1 to 8 messages, good and bad ones, and some whose bytes are damaged."""
    made = Lines()
    for place in range(r.randrange(1, 9)):
        wrong = r.random() < bad
        message, changes = MAKERS[variant.format](r, variant, wrong)
        text = _line(r, variant, message)
        keyless = variant.keys and not (variant.format == "debezium-json" and variant.separator)
        if keyless and changes and r.random() < 0.05:
            # A key that is NULL: such rows would take one another's place.
            message, changes = _without_key(message), None
            text = _line(r, variant, message)
        elif not wrong and r.random() < 0.02 and text[-1] == "}" and variant.format != "jsonl":
            # What is said twice need not mean the last.
            text, changes = _twice(r, variant, text, changes)
        if wrong and r.random() < 0.2:
            cut = text if variant.format == "upsert-json" else text[:-1]
            text, changes = r.choice([f"{cut}x", f"{text}x", f"[{text}]", "{", "3"]), None
        line = text.encode()
        made.whole.append(line)
        if r.random() < hurt:
            line = damaged(r, line).replace(b"\n", b" ").replace(b"\r", b" ")
            made.hurt.add(place)
        made.lines.append(line)
        made.changes.append(changes)
    return made


def _without_key(message: Any) -> Any:
    """The message with NULL for every name, wherever it stands."""
    if isinstance(message, dict):
        return {
            n: None if n.lower() == "name" and n != "other" else _without_key(v)
            for n, v in message.items()
        }
    if isinstance(message, list | tuple):
        return type(message)(map(_without_key, message))
    return message


def _twice(r: random.Random, variant: Variant, text: str, changes: Any) -> tuple[str, Any]:
    """The text with one of its fields twice."""
    again = {"debezium-json": '"op":"d"', "canal-json": '"type":"DELETE"'}
    again |= {"maxwell-json": '"type":"delete"', "ogg-json": '"op_type":"D"'}
    field = again.get(variant.format)
    name = field and field.partition(":")[0]
    if not field or f"{name}:" not in text or '"payload"' in text:
        return text, changes
    return f"{text[:-1]}, {field}}}", None


def rows_of(variant: Variant, changes: list[Change]) -> list[Row]:
    """Changes as rows; of what is gone by key no more than the key counts."""
    keyed = bool(variant.keys)
    return [
        (name, None if keyed and word == DELETE else cnt, word) for word, (name, cnt) in changes
    ]
