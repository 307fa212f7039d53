"""Plain rows: what Arrow reads of many messages at once is what is read of each alone."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from aggloom.errors import InputFormatError
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import Decoder, decoder

DDL = "k BIGINT, s STRING, b BOOLEAN, i TINYINT"
OTHERS = "k BIGINT, f DOUBLE, g FLOAT, d DECIMAL(6,2), at TIMESTAMP, day DATE, y BINARY"
GOOD = {
    "k": ("1", "-5", "0", "9223372036854775807"),
    "s": ('"a"', '""', '"\\u00e9"', '"é"'),
    "b": ("true", "false"),
    "i": ("1", "-128"),
    "f": ("1.5", "-0.0", "1", "1e300", "0.1"),
    "g": ("0.1", "16777217"),
    "d": ("1.5", "-2", "0", "1e2", "0.50", "-0.0", "1.500"),
    "at": ("1700000000000", "-1"),
    "day": ('"2020-01-02"', '"1969-1-1"'),
    "y": ('"AAE="', '""'),
}
ODD = (
    *("0", "-0", "01", "+1", "1.0", "1e2", "128", "9223372036854775808", "true", "null", "NaN"),
    *("Infinity", "0x1", "1_0", "--1", "-", "1,", "1 ", "tru", "{}", "[]", '{"k":1}', '"1"'),
    *('"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"\x01"', '"\n"', '"a\\nb"', '"\\/"', '"\\x"'),
    *('"{"', '"}{"', '"\ufeff"', '"\u2028"'),
)
WORDS = ('"+I"', '"-D"', '"insert"', '"UPDATE_AFTER"', '"+U"')
NAMES = ("k", "s", "b", "i", "K", "x", "op", "_change_type", "__op", "\\u006b", "")
BETWEEN = ("", " ", "\n", "\r\n", "\t", "}{", "//c", "\0", "\v", "\xa0", "\ufeff", ",")


def one(draw: random.Random, columns: list[str], word: str | None) -> list[bytes]:
    """A message, mostly a good one; or two that are one cut in two."""
    names = [*columns, *([word] if word and draw.random() < 0.95 else [])]
    if draw.random() < 0.2:
        draw.shuffle(names)
    if draw.random() < 0.1:
        names.insert(draw.randrange(len(names) + 1), draw.choice(NAMES))
    if draw.random() < 0.05:
        names.pop()
    good = {**GOOD, **dict.fromkeys(("op", "_change_type"), WORDS)}
    values = (draw.choice(good.get(n, ODD) if draw.random() < 0.93 else ODD) for n in names)
    text = ",".join(f'"{name}":{value}' for name, value in zip(names, values, strict=True))
    text = f"{{{text}}}"
    if draw.random() < 0.1:
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice((*BETWEEN, *ODD)) + text[at + (draw.random() < 0.5) :]
    found = text.encode()
    if draw.random() < 0.02:
        at = draw.randrange(len(found))
        found = found[:at] + bytes([draw.randrange(256)]) + found[at + 1 :]
    at = draw.randrange(len(found))
    return [found[:at], found[at:]] if draw.random() < 0.03 else [found]


def singly(alone: Decoder, message: Message) -> Any:
    """Read a message by the rules; None if it is refused."""
    try:
        found = alone.decode([message])
    except InputFormatError:
        return None
    columns = map(pa.Array.to_pylist, found.columns)
    return list(zip(found.words.to_pylist(), *columns, strict=True))


def by_the_rules(made: Decoder, monkeypatch: pytest.MonkeyPatch) -> Decoder:
    """The same decoder without blocks."""
    alone = decoder(made.format, made.schema, made.keys, made.unreadable, **dict(made.options))
    monkeypatch.setattr(alone._format, "block", lambda messages: None)
    return alone


@pytest.mark.parametrize(
    ("ddl", "rounds", "options"),
    [
        (DDL, 2_000, {}),
        (OTHERS, 1_500, {"time_unit": "ms"}),
        (OTHERS, 400, {"missing": "null", "decimals": "text", "time_unit": "ms"}),
        ("k BIGINT, s STRING", 500, {"change_column": "op", "change_values": "+I=insert,=delete"}),
    ],
)
def test_many_at_once_are_what_each_is_alone(
    ddl: str, rounds: int, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, reader = random.Random(7), decoder("jsonl", ddl, **options)
    alone = by_the_rules(reader, monkeypatch)
    plain, names = 0, reader.schema.names
    for _ in range(rounds):
        word = draw.choice([None, None, "op", "_change_type"])
        messages = [
            Message(value) for _ in range(draw.randint(1, 3)) for value in one(draw, names, word)
        ]
        found = reader._format.block(messages)
        if found is None:
            continue
        plain += not found.left.any()
        assert [column.type for column in found.columns] == reader.schema.types
        for column in found.columns:
            column.validate(full=True)
        columns = map(pa.Array.to_pylist, found.columns)
        rows = zip(found.words.to_pylist(), *columns, strict=True)
        told = dict(zip(found.owners.tolist(), rows, strict=True))
        assert list(told) == sorted(told) and len(told) == len(found.owners)
        for at, message in enumerate(messages):
            wanted = singly(alone, message)
            assert found.left[at] or repr(wanted) == repr([told.pop(at)] if at in told else [])
        assert not told
    assert plain > rounds / 8


@pytest.mark.parametrize(
    "odd",
    [
        *(b"null", b" {}", b'{"k": 1, "K": 1}', b'{"k":1,"s":"\xff"}', b'{"k":1,"s":"\\ud800"}'),
        # Other fields that have a meaning, or are there twice.
        *(b'{"k":1,"s":"","OP":1}', b'{"k":1,"s":"","S":1}', '{"\u212a":1,"s":""}'.encode()),
        *(b'{"k":1,"s":"","payload":{}}', b'{"k":1,"s":"","x":1}\n{"k":1,"s":"","x":"1"}'),
    ],
)
def test_one_that_is_odd_is_left_to_the_rules(odd: bytes) -> None:
    reader = decoder("jsonl", "k INT, s STRING")
    good = Message(b'{"s": "a", "K": 1}')
    block = reader._format.block([good, Message(odd), good, Message(None)])
    assert block is not None and block.left.tolist() == [False, True, False, False]
    assert block.owners.tolist() == [0, 2]


def test_fields_that_are_no_columns_are_passed_over() -> None:
    reader = decoder("jsonl", "k INT, d DECIMAL(5,1), s STRING")
    others = '"x": {"k": 2, "y": [{"s": "b"}]}, "é": null'
    texts = [f'{{{others}, "d": {n}, "s": "a", "k": 1}}' for n in ("0.5", "2")]
    block = reader._format.block([Message(text.encode()) for text in texts])
    assert block is not None and not block.left.any()
    assert list(map(str, block.columns[1].to_pylist())) == ["0.5", "2.0"]
    nested = decoder("jsonl", "k INT, r STRUCT<a: INT>, l ARRAY<INT>")
    block = nested._format.block([Message(b'{"k":1,"r":{"a":1,"b":2},"l":[1, null]}')])
    assert block is not None and block.columns[1].to_pylist() == [{"a": 1}]
    assert block.columns[2].to_pylist() == [[1, None]]


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("k DOUBLE", b'{"k": true}'),
        ("k DECIMAL(5,1)", b'{"k": "1234"}'),
        ("k DECIMAL(5,1)", b'{"k": 1.55}'),
        ("k DATE", b'{"k": 1.5}'),
        ("k FLOAT", b'{"k": 1e39}'),
        ("k ARRAY<INT>", b'{"k": ["1"]}'),
    ],
)
def test_values_of_another_type_are_left(ddl: str, text: bytes) -> None:
    found = decoder("jsonl", ddl)._format.block([Message(text)] * 2)
    assert found is not None and found.left.all()


def test_null_is_told_from_a_column_that_is_not_there() -> None:
    reader = decoder("jsonl", "k INT, s STRING", unreadable="drop")
    texts = [
        b'{"k":1,"s":null}',
        b'{"k":2}',
        b'{"k":3,"s":"\\"s\\":"}',
        b'{"k" :null,"s":"\\"k\\":"}',
        b'{"k":null}',
    ]
    messages = list(map(Message, texts))
    found = reader._format.block(messages)
    assert found is not None and not found.left.any()
    assert reader.decode(messages).columns[0].to_pylist() == [1, 2, 3, None, None]
