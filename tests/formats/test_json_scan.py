"""Fields that a kernel finds in memory are those that Python's `json` reads, or the message is odd."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from aggloom.runtime.formats.json_fields import FieldValues, find_fields, index_names
from aggloom.runtime.formats.json_tokens import ABSENT, NULL, NUMBER, ODD, WHOLE
from aggloom.runtime.formats.texts import Texts

NAMES = ("a", "bé", "C")
SCALARS = (
    *("0", "-0", "7", "-12", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("1.5", "-0.0", "1e5", "2E-3", "0.1e+2", "1e99999", "01", "1.", ".5", "1e", "-", "+1", "1_0"),
    *("true", "false", "null", "True", "nul", "NaN", "Infinity", '""', '"a"', '"é"', '"\\u00e9\\n"'),
    *('"\\ud83d\\ude00"', '"\\ud800"', '"\\u12g4"', '"\\x"', '"a\nb"', '"\x00"', "'a'", '"a', "", "{", "]"),
    *(f'"{"x" * 63}"', f'"{"x" * 64}é"', f'"{"x" * 200}\\""', f'"{"x" * 130}\n"', "9" * 1_001),
)  # fmt: skip
SPACES = ("", "", "", "", " ", "\t", "\r\n", "\n  ", "\v", "\xa0", "\ufeff")


def value(draw: random.Random, depth: int = 0) -> str:
    """A value, not always one of JSON's."""
    space = draw.choice(SPACES) if draw.random() < 0.1 else ""
    if depth > 3 or draw.random() < 0.6:
        return space + draw.choice(SCALARS if draw.random() < 0.1 else SCALARS[:5]) + space
    inner = [value(draw, depth + 1) for _ in range(draw.randrange(4))]
    if draw.random() < 0.5:
        return space + "[" + ",".join(inner) + "]" + space
    pairs = (f'"{draw.choice(NAMES)}"{space}:{each}' for each in inner)
    return "{" + ",".join(pairs) + "}"


def message(draw: random.Random) -> bytes:
    """A message; now and then with a byte too few, too many, or another."""
    names = draw.choices((*NAMES, "A", "BÉ", "x", "y", "\\u0061", ""), k=draw.randrange(5))
    text = "{" + ",".join(f'"{name}":{value(draw)}' for name in names) + "}"
    data = draw.choice(SPACES).encode() + text.encode() if draw.random() < 0.05 else text.encode()
    if draw.random() < 0.1:
        at = draw.randrange(len(data))
        data = data[:at] + bytes([draw.randrange(256)]) * draw.randrange(3) + data[at + 1 :]
    return data


def pairs_of(data: bytes) -> list[tuple[str, Any]] | None:
    """The names and values of an object as Python reads it; None of what is none."""

    def refuse(word: str) -> Any:
        raise ValueError(word)

    levels: list[Any] = []

    def note(pairs: list[tuple[str, Any]]) -> Any:
        levels.append(pairs)
        return dict(pairs)

    try:
        text = data.decode()
        whole = json.loads(text, object_pairs_hook=note, parse_float=Decimal, parse_constant=refuse)
    except (ValueError, ArithmeticError):
        return None
    return levels[-1] if isinstance(whole, dict) else None


@pytest.mark.parametrize("folds", [True, False])
def test_fields_are_those_of_python(folds: bool) -> None:
    draw, plain = random.Random(5), 0
    names = index_names(NAMES, () if folds else None, is_unique=True)
    texts = [message(draw) for _ in range(4_000)]
    packed = Texts.copy(texts)
    fields = find_fields(packed.buffer, packed.starts, packed.ends, names)
    for at, data in enumerate(texts):
        pairs = pairs_of(data)
        if fields.marks[at] & ODD:
            continue
        assert pairs is not None, data
        plain += 1
        told = [name.lower() if folds and name.isascii() else name for name, _ in pairs]
        assert len(set(told)) == len(told) or folds
        for place, name in enumerate(NAMES):
            field = FieldValues(fields, place)
            wanted = [v for n, v in pairs if (n.lower() == name.lower() if folds else n == name)]
            kind = int(field.kinds[at])
            assert (kind == ABSENT) == (not wanted)
            assert not wanted or (kind == NULL) == (wanted[0] is None)
            if kind in (WHOLE, NUMBER):
                assert json.loads(field.text(at), parse_float=Decimal) == wanted[0]
                assert (kind == WHOLE) == isinstance(wanted[0], int)
            is_here = np.arange(len(texts)) == at
            if kind == WHOLE:
                numbers, fits = field.numbers(is_here)
                assert fits[at] == (-(2**63) <= wanted[0] < 2**63)
                assert not fits[at] or numbers[at] == wanted[0]
            if field.is_text[at]:
                column, is_whole = field.texts(is_here)
                assert column[at].as_py() == (wanted[0] if is_whole[at] else None)
                assert is_whole[at] == (wanted[0].encode(errors="replace").decode() == wanted[0])
    assert plain > 800


@pytest.mark.parametrize("depth", [1, 59, 60, 61, 100_000])
def test_levels_are_followed_as_far_as_a_word_has_bits(depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        text = '{"x":' + opening * depth + "1" + closing * depth + ',"a":2}'
        packed = Texts.copy([text.encode()])
        fields = find_fields(packed.buffer, packed.starts, packed.ends, index_names(["a"]))
        assert bool(fields.marks[0] & ODD) == (depth > 60)


def test_texts_of_several_buffers_are_joined() -> None:
    texts = [b"a", None, b"", b"long " * 30, b"\n", b"b"]
    parts = [Texts.copy(texts)[1:4], Texts.copy([]), Texts.copy(texts[::-1])[:2], Texts.copy([])]
    joined = Texts.join(parts)
    wanted = [*texts[1:4], b"b", b"\n"]
    assert [joined[at] for at in range(len(joined))] == wanted == joined.text_list
    assert joined[1:3].text_list == wanted[1:3] and Texts.join([]).text_list == []
    assert bytes(joined.buffer[joined.ends[-1] :]) == b"\n" * 65
