"""Times as numbers: a column has one unit, told by its first values or an option; other values are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggloom.errors import InputFormatError
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder

MS, US, NS = 1_700_000_000_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000
LAST = 253_402_300_799_999


def years(*numbers: int, format: str = "jsonl", **options: Any) -> list[int]:
    """The years of the times of some messages."""
    rows = [{"t": number} for number in numbers]
    bodies = rows if format == "jsonl" else [{"op": "c", "after": row} for row in rows]
    made = decoder(format, "t TIMESTAMP_NTZ", **options)
    found = made.decode([Message(json.dumps(body).encode()) for body in bodies])
    return [moment.year for moment in found.columns[0].to_pylist()]


@pytest.mark.parametrize("format", ["jsonl", "debezium-json"])
@pytest.mark.parametrize(
    ("numbers", "more"),
    [
        ([MS, 0, 5, MS + 1], [2023, 1970, 1970, 2023]),
        ([US, 0, US + 1], [2023, 1970, 2023]),
        ([NS, NS + 1], [2023, 2023]),
        ([MS, LAST], [2023, 9999]),
        ([US, 99 * 10**12], [2023, 1973]),
    ],
)
def test_first_values_tell_the_unit(format: str, numbers: list[int], more: list[int]) -> None:
    assert years(*numbers, format=format) == more


@pytest.mark.parametrize("format", ["jsonl", "debezium-json"])
@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([1_700_000_000], "unit that its size does not show"),
        ([MS, 1_700_000_000], "unit that its size does not show"),
        ([99 * 10**12], "unit that its size does not show"),
        ([LAST], "unit that its size does not show"),
        ([MS, US], "a time in us, in a column that has had ms"),
        ([US, MS], "a time in ms, in a column that has had us"),
        ([NS, US], "a time in us, in a column that has had ns"),
    ],
)
def test_other_values_are_refused(format: str, numbers: list[int], said: str) -> None:
    with pytest.raises(InputFormatError, match=f"column 't' has .*{said}: give time_unit"):
        years(*numbers, format=format)


@pytest.mark.parametrize(
    ("unit", "number"), [("s", 1_700_000_000), ("us", 99 * 10**12), ("ms", LAST), ("ns", NS)]
)
def test_an_option_says_the_unit(unit: str, number: int) -> None:
    assert years(number, time_unit=unit)[0] in (2023, 1973, 9999)
