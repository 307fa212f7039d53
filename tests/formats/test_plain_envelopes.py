"""Plain envelopes: what Arrow reads of many of Debezium's messages at once is what is read of each alone."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from aggloom.errors import InputFormatError
from aggloom.runtime.formats import decoder as decoding
from aggloom.runtime.formats.base import Format, Message, Unreadable
from aggloom.runtime.formats.decoder import Decoder, decoder

UNTOLD = '"__debezium_unavailable_value"'
TEXTS = (
    '"a"',
    '""',
    '"\\u00e9"',
    '"é"',
    '"k"',
    '"\\"k\\":"',
    '"\\\\"',
    '"NULL"',
    '"2020-01-01"',
    '"1"',
)
TYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "k": ("BIGINT", ("1", "2", "3", "-9223372036854775808")),
    "name": ("STRING", TEXTS),
    "b": ("BOOLEAN", ("true", "false")),
    "i": ("TINYINT", ("1", "-128")),
    "f": ("DOUBLE", ("1.5", "1", "-0.0", "0.1", "1e300", "123456789012345678901", "5e-324", "1e-400")),
    "g": ("FLOAT", ("0.1", "16777217", "3.4e38", "1e-46")),
    "d": ("DECIMAL(10,2)", ('"1.50"', '"-2"', '"AfQ="', '"1.5e1"')),
    "dn": ("DECIMAL(10,2)", ("1.5", "-2", "0", "1e2", "0.50", "12345678.99", "-0.0", "1.500")),
    "at": ("TIMESTAMP", ("1700000000000", "1700000000123", "-1")),
    "wall": ("TIMESTAMP_NTZ", ('"2020-01-02T03:04:05.123456789"', '"2020-01-02 03:04"')),
    "day": ("DATE", ("18000", "-1")),
    "y": ("BINARY", ('"AAE="', '""')),
    "Ké": ("INT", ("7",)),
    "a,b": ("INT", ("7", "8")),
}  # fmt: skip
ODD = (
    *("-0", "01", "+1", "1.0", "1e2", "128", "9223372036854775808", "true", "null", "NaN", "Infinity"),
    *("-Infinity", "Inf", "1e999", "1e39", "0x1", "--1", "-", "tru", "{}", "[]", "[1]", '{"k":1}', '"1"'),
    *('"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"\x01"', '"\\/"', '"\\x"', '"1234"', '"NaN"'),
    *(UNTOLD, '"\\u005f_debezium_unavailable_value"', '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="'),
    *('"10000-01-01"', "253402300800000000", '"2020-13-01"', '"2020-01-01T00:00:00Z"', "1600000000000"),
    "1e-999999999999999999999",
)  # fmt: skip
SOURCES = (
    '{"name":"t","db":"shop","table":"orders","sequence":"[\\"1\\",\\"2\\"]","xmin":null,"ts_ms":1,"snapshot":"false"}',
    '{"name":null,"db":"shop","table":"other","snapshot":"incremental"}',
    '{"db":"shop","table":"orders","k":1}',
    '{"db":null}',
    "null",
)
CUTS = ("", " ", "\n", "}{", "//c", "\0", "\xa0", "\ufeff", ",", "{", "}", '"', "[", "]", ":", "\\")
FIELDS = {"at": "io.debezium.time.MicroTimestamp", "day": "io.debezium.time.Date"}


class Maker:
    """Messages about a table of some columns, mostly plain ones; odd: how often a value is not."""

    def __init__(self, draw: random.Random, names: list[str], odd: float) -> None:
        self.draw, self.names, self.odd = draw, names, odd
        self.headed = draw.random() < 0.3
        self.source = draw.choice([None, *SOURCES])

    def image(self, chance: float = 0.02) -> str:
        """A row."""
        draw, names = self.draw, list(self.names)
        if draw.random() < chance:
            draw.shuffle(names)
        if draw.random() < chance:
            names.insert(
                draw.randrange(len(names) + 1),
                draw.choice(["K", "x", "NAME", "k", "\\u006b", "op"]),
            )
        if draw.random() < chance:
            names.pop()
        pairs = []
        for name in names:
            values = TYPES[name][1] if name in TYPES else ("1", '"a"', "null")
            value = draw.choice(ODD if draw.random() < self.odd else values)
            value = "null" if draw.random() < 0.1 else value
            pairs.append(f'"{name}":{value}')
        return "{" + draw.choice([",", ",", ", "]).join(pairs) + "}"

    def message(self) -> list[Message]:
        """A message; or two that are one cut in two."""
        draw = self.draw
        if draw.random() < 0.02:
            return [
                Message(
                    draw.choice([None, b"", b"null", b" ", b"{}", b"[]", b"3"]), b'{"k":1}', "p"
                )
            ]
        op = draw.choice("crud") if draw.random() > 0.03 else draw.choice(["m", "t", "x", "", "C"])
        before = "null" if op in "cr" and draw.random() > 0.05 else self.image()
        after = "null" if op == "d" and draw.random() > 0.05 else self.image()
        if draw.random() < 0.03:
            before, after = draw.choice(
                [("null", after), (before, "null"), ("3", after), ("{}", "{}")]
            )
        if op in "ud" and draw.random() < 0.1:
            before = draw.choice(['{"k":1}', '{"k":null}', "null"])
        parts = [f'"before":{before}', f'"after":{after}', f'"op":"{op}"']
        if self.source is not None:
            parts.insert(
                2, f'"source":{self.source if draw.random() > 0.1 else draw.choice(SOURCES)}'
            )
        if draw.random() < 0.3:
            parts.append(
                draw.choice(
                    ['"ts_ms":1', '"transaction":null', '"x":[1,{"k":1}]', '"x":NaN', '"x":1.5']
                )
            )
        if draw.random() < 0.01:
            parts.append(
                draw.choice(
                    ['"op":"d"', '"x":1,"x":2', '"payload":null', '"schema":{}', '"OP":"c"']
                )
            )
        text = "{" + ",".join(parts) + "}"
        if self.headed:
            text = f'{{"schema":{self.schema()},"payload":{text}}}'
        if draw.random() < 0.01:
            at = draw.randrange(len(text) + 1)
            text = text[:at] + draw.choice((*CUTS, *ODD)) + text[at + (draw.random() < 0.5) :]
        value = text.encode()
        key = draw.choice(
            [
                None,
                b"",
                b'{"k":1}',
                b'{"K":1,"name":2}',
                b'{"schema":{},"payload":{"k":1}}',
                b"x",
                b"3",
            ]
        )
        if draw.random() < 0.01:
            at = draw.randrange(len(value))
            return [Message(value[:at], key, "p"), Message(value[at:], key, "q")]
        return [Message(value, key, "p")]

    def schema(self) -> str:
        """The schema of most messages; sometimes another."""
        fields = [{"field": name, "type": "int64", "name": FIELDS.get(name)} for name in self.names]
        images: list[Any] = [{"field": each, "fields": fields} for each in ("before", "after")]
        return json.dumps({"type": "struct", "fields": images[: 1 + (self.draw.random() > 0.01)]})


def exactly(format: Format, message: Message) -> Any:
    """The changes in a message by the rules, or the reason why there are none."""
    try:
        found = format.changes(message)
        if format.settings.keys:
            format.check_keys(found)
    except Unreadable as error:
        return str(error)
    types = format.settings.columns.types
    columns = list(zip(*(row for _, row in found), strict=True)) or [()] * len(types)
    arrays = [pa.array(c, t).to_pylist() for c, t in zip(columns, types, strict=True)]
    return list(zip([word for word, _ in found], *arrays, strict=True))


def check(made: Decoder, messages: list[Message], seen: Counter[str]) -> None:
    """Hold what a block knows to what each message says."""
    found = made._format.block(messages)
    seen["blocks" if found is not None else "none"] += 1
    if found is None:
        return
    assert [column.type for column in found.columns] == made.schema.types
    for column in found.columns:
        column.validate(full=True)
    rows = zip(found.words.to_pylist(), *(c.to_pylist() for c in found.columns), strict=True)
    told: dict[int, list[Any]] = {}
    for place, row in zip(found.owners.tolist(), rows, strict=True):
        told.setdefault(place, []).append(row)
    assert sorted(found.owners.tolist()) == found.owners.tolist()
    for place, message in enumerate(messages):
        seen["left" if found.left[place] else "read"] += 1
        wanted = exactly(made._format, message)
        assert found.left[place] or repr(told.pop(place, [])) == repr(wanted), (message, wanted)
    assert not told


def decoded(made: Decoder, messages: list[Message]) -> Any:
    """All that a decoder says."""
    try:
        found = made.decode(messages)
    except InputFormatError as error:
        return str(error)
    columns = [column.to_pylist() for column in found.columns]
    return repr((columns, found.words.to_pylist(), found.lengths.tolist(), found.refused))


def a_decoder(draw: random.Random, odd: float = 0.004) -> tuple[Decoder, Maker]:
    """A table, and messages about it."""
    names = ["k", *draw.sample(list(TYPES)[1:], draw.randint(0, 4))]
    options: dict[str, Any] = {}
    if draw.random() < 0.3:
        options["missing"] = "null"
    if draw.random() < 0.3:
        options["table"] = "orders"
    if draw.random() < 0.2:
        options["concatenated"] = "split"
    if draw.random() < 0.2:
        options["snapshot"] = "error"
    keys = draw.choice([None, "k", ["k", names[-1]]])
    ddl = ", ".join(f"`{name}` {TYPES[name][0]}" for name in names)
    made = decoder("debezium-json", ddl, keys, draw.choice(["error", "drop"]), **options)
    return made, Maker(draw, names, odd)


def test_many_at_once_are_what_each_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, seen = random.Random(11), Counter[str]()
    monkeypatch.setattr(decoding, "_AROUND", 4)
    for _ in range(130):
        made, maker = a_decoder(draw, draw.choice([0.0, 0.004, 0.05]))
        alone = decoder(made.format, made.schema, made.keys, made.unreadable, **dict(made.options))
        monkeypatch.setattr(alone._format, "block", lambda messages: None)
        for _ in range(6):
            messages = [m for _ in range(draw.randint(1, 12)) for m in maker.message()]
            check(made, messages, seen)
            assert decoded(made, messages) == decoded(alone, messages)
    assert seen["read"] > seen["left"] > 100, seen
    assert seen["blocks"] > 200, seen


def envelope(**parts: Any) -> Message:
    return Message(json.dumps(parts, separators=(",", ":")).encode(), b'{"k":1}')


SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "field": "after",
            "fields": [
                {"field": "at", "name": "io.debezium.time.MicroTimestamp"},
                {"field": "d", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
            ],
        }
    ],
}  # fmt: skip


def test_what_debezium_writes_is_read_at_once() -> None:
    source = json.loads(SOURCES[0])
    row = {
        "k": 1,
        "name": None,
        "at": 1_700_000_000_000_000,
        "d": base64.b64encode(b"\x01\xf4").decode(),
    }
    messages = [
        envelope(before=None, after=row, source=source, op="c", ts_ms=1, transaction=None),
        envelope(before=row, after=row | {"name": "x"}, source=source, op="u", ts_ms=2),
        envelope(before=row, after=None, source=source, op="d", ts_ms=3),
        Message(None, b'{"k":1}'),
    ]
    ddl = "k BIGINT, name STRING, at TIMESTAMP, d DECIMAL(10,2)"
    for some in (messages, [m._replace(value=m.value and with_schema(m.value)) for m in messages]):
        made = decoder("debezium-json", ddl, decimals="base64")
        found = made._format.block(some)
        assert found is not None and not found.left.any()
        assert found.owners.tolist() == [0, 1, 1, 2]
        assert found.columns[3].to_pylist()[0] == 5
        assert decoded(made, some)


def with_schema(value: bytes) -> bytes:
    return f'{{"schema":{json.dumps(SCHEMA)},"payload":{value.decode()}}}'.encode()


def test_objects_within_objects_go_no_deeper_than_arrow_can() -> None:
    made = decoder("debezium-json", "k INT", unreadable="drop")
    good = envelope(op="c", after={"k": 1})
    for depth in (100, 900, 100_000):
        for opening, closing in ((b"[", b"]"), (b'{"x":', b"}")):
            deep = (
                b'{"op":"c","after":{"k":1},"x":' + opening * depth + b"1" + closing * depth + b"}"
            )
            found = made.decode([good, Message(deep), good])
            assert found.lengths.tolist() in ([1, 1, 1], [1, 0, 1])
            assert found.lengths[1] == 1 or depth > 900
