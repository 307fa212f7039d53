"""Random records: documents of JSON and lines of CSV, whole and with mistakes in them."""

from __future__ import annotations

import json
import random
from typing import Any

JSON_TYPES = (
    "a INT, b STRING, c DOUBLE, d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, p BOOLEAN, x DECIMAL(10,2)",
    "a TINYINT, b SMALLINT, c FLOAT, d BIGINT, x DECIMAL(38,18), t STRING, n DATE, _corrupt_record STRING",
    "a ARRAY<INT>, b STRUCT<a: INT, b: STRING, c: ARRAY<STRING>>, c MAP<STRING, INT>, d STRING, t ARRAY<ARRAY<INT>>",
    "a STRUCT<b: STRUCT<c: INT, d: STRING>, a: ARRAY<STRUCT<a: INT, b: STRING>>>, c MAP<STRING, STRUCT<a: INT>>, b INT",
    "a MAP<STRING, ARRAY<INT>>, b ARRAY<MAP<STRING, STRING>>, c ARRAY<STRUCT<a: INT, b: ARRAY<INT>>>, d ARRAY<STRING>",
    "ARRAY<INT>",
    "ARRAY<STRUCT<a: INT, b: STRING>>",
    "MAP<STRING, STRING>",
    "MAP<STRING, STRUCT<a: INT, b: ARRAY<INT>>>",
)
_NAMES = ("a", "b", "c", "d", "t", "n", "p", "x", "A", "é")
_TEXTS = (
    *(
        "",
        "x",
        "NaN",
        "+INF",
        "-Infinity",
        "1",
        "1.5",
        "1,000.555",
        " 2",
        "true",
        'é🙂\n"\\',
        "2020-02-29",
        "2021-02-29",
    ),
    *(
        "2020-2-9 1:2:3.1234567",
        "2020-02-29T12:34:56Z",
        "2020-02-29T12:34:56.5+05:30",
        "2020",
        "12",
        "-3",
        "x'y",
        "GMT",
    ),
    *("2020-02-29T10:00:00GMT+01:00", "2020-02-29 10:00:00 GMT", "+5", "\u0001"),
)
_NUMBERS = (
    *(
        "0",
        "-0",
        "1",
        "7",
        "200",
        "-129",
        "40000",
        "3000000000",
        "-9223372036854775808",
        "9223372036854775808",
    ),
    *(
        "1.0",
        "1.10",
        "-0.0",
        "1e2",
        "1E400",
        "2.5e-3",
        "12345678.905",
        "0.1",
        "100000000000000000000000000001.5",
    ),
    *("16777217", "NaN", "Infinity", "-Infinity", "-INF", "+INF", "1e-400", "0.000001"),
)
_MISTAKES = (
    *(
        "",
        ",",
        "}",
        "]",
        "{",
        "[",
        '"',
        "'",
        "\\",
        ":",
        "x",
        "tru",
        "0",
        "-",
        ".",
        "+",
        "e",
        "/",
        "#",
        " ",
    ),
    "\n",
    "\u0001",
)


def random_document(draw: random.Random) -> str:
    """A document of JSON; one of two has a mistake."""
    text = _document(draw, 3) if draw.random() < 0.8 else _value(draw, 3)
    if draw.random() < 0.1:
        text = draw.choice((" ", "\n\t", "")) + text + draw.choice((" ", " junk", "}", ",", "{}"))
    for _ in range(draw.choice((0, 0, 0, 1, 1, 2))):
        at = draw.randrange(len(text) + 1)
        kind = draw.random()
        if kind < 0.2:
            text = text[:at]
        elif kind < 0.6:
            text = text[:at] + draw.choice(_MISTAKES) + text[at:]
        else:
            text = text[:at] + draw.choice(_MISTAKES) + text[at + draw.choice((1, 1, 2, 3)) :]
    return text


def _document(draw: random.Random, depth: int) -> str:
    space = draw.choice(("", "", " "))
    fields = (
        f"{_name(draw)}{space}:{space}{_value(draw, depth - 1)}" for _ in range(draw.randrange(6))
    )
    return "{" + f",{space}".join(fields) + space + "}"


def _name(draw: random.Random) -> str:
    name = draw.choice(_NAMES)
    return (
        f"'{name}'" if draw.random() < 0.05 else json.dumps(name, ensure_ascii=draw.random() < 0.5)
    )


def _value(draw: random.Random, depth: int) -> str:
    kind = draw.random()
    if depth > 0 and kind < 0.25:
        return _document(draw, depth)
    if depth > 0 and kind < 0.5:
        return "[" + ",".join(_value(draw, depth - 1) for _ in range(draw.randrange(4))) + "]"
    if kind < 0.6:
        return draw.choice(("null", "true", "false"))
    if kind < 0.8:
        return draw.choice(_NUMBERS)
    text = draw.choice(_TEXTS)
    if draw.random() < 0.1 and "'" not in text:
        return "'" + json.dumps(text)[1:-1].replace('\\"', '"') + "'"
    return json.dumps(text, ensure_ascii=draw.random() < 0.5)


def random_texts(make: Any, seed: int, count: int) -> list[str | None]:
    """So many texts, of which a few are NULL."""
    draw = random.Random(seed)
    return [None if draw.random() < 0.02 else make(draw) for _ in range(count)]


CSV_TYPES = (
    "a INT, b STRING, c DOUBLE, _corrupt_record STRING",
    "a STRING, b BOOLEAN, c DECIMAL(10,2), d STRING",
    "a TINYINT, b SMALLINT, c FLOAT, d BIGINT, e STRING",
    "a DATE, b TIMESTAMP, c TIMESTAMP_NTZ",
    "a STRING, b STRING",
    "a STRING",
)
_FIELDS = (
    *(
        "",
        " ",
        "x",
        "true",
        "FALSE",
        "NaN",
        "Inf",
        "-Inf",
        "Infinity",
        "-Infinity",
        "1d",
        " 2.5 ",
        ".5",
        "5.",
        "+7",
    ),
    *(
        "a b",
        "é🙂",
        "#x",
        "a#b",
        "1,000.555",
        "a;b",
        "tab\there",
        "line\nend",
        "\r\n",
        'a"b',
        "a\\b",
        "x\\",
        '"',
        "''",
    ),
)
_CSV_MISTAKES = ('"', '""', '"', "\\", '\\"', "\\\\", ",", " ", ";", "\t", "x", "#")


def random_line(draw: random.Random) -> str:
    """A line of CSV; one of two has a mistake."""
    fields = (random_field(draw) for _ in range(draw.choice((1, 2, 3, 3, 3, 4, 5))))
    text = draw.choice((",", ",", ",", ";")).join(_quote(draw, field) for field in fields)
    for _ in range(draw.choice((0, 0, 0, 1, 1, 2))):
        at = draw.randrange(len(text) + 1)
        cut = draw.choice((0, 0, 1, 2))
        text = text[:at] + draw.choice(_CSV_MISTAKES) + text[at + cut :]
    return text


def random_field(draw: random.Random) -> str:
    """The text of a field."""
    return draw.choice(draw.choice((_FIELDS, _TEXTS, _NUMBERS)))


def _quote(draw: random.Random, field: str) -> str:
    if draw.random() < 0.5:
        return field
    escaped = field.replace("\\", "\\\\").replace('"', '\\"') if draw.random() < 0.8 else field
    return f'"{escaped}"'
