"""docs/functions.md is what the catalogue says, and says everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from handlers import empty
from model import is_sketch
from strategies import ARGUMENTS, required, spec_over
from writers import functions

from aggloom.codegen import AggCall
from aggloom.codegen.catalogue.registry import ALIASES, CATALOGUE, REFUSED

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"
entries = pytest.mark.parametrize("name", CATALOGUE)
_SHOWN = {
    "NULL": None,
    "0": 0,
    "an empty array": [],
    "an empty map": [],
    "`[]`": "[]",
    "`{}`": "{}",
}


def test_the_page_is_what_the_catalogue_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == functions.page(), "run 'make docs'"


@entries
def test_an_entry_has_what_a_reader_needs(name: str) -> None:
    entry, page = CATALOGUE[name], functions.page()
    section = page.split(f"### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
    rows = ("Arguments", "Result", "NULL", "Retraction", "State per key", "Cost", "Example")
    for row in rows:
        (line,) = (each for each in section.splitlines() if each.startswith(f"| {row} |"))
        assert len(line) > len(f"| {row} |  |")
    assert entry.doc in section
    assert all(f"`{option.name}`: " in section for option in entry.options)
    assert all(f"`{alias}`" in section for alias in entry.aliases)
    assert f"[{name}](#{name.lower()})" in page


@entries
def test_the_value_over_nothing_is_what_the_page_says(name: str) -> None:
    args = tuple(names[0] for names in ARGUMENTS[name])
    call = AggCall(name, args, options=tuple(required(CATALOGUE[name]).items()))
    for dialect in ("spark", "flink"):
        shown = functions.empty_value(CATALOGUE[name], dialect)
        (found,) = empty(spec_over([call], (), dialect, "append")).getValue()
        assert found == _SHOWN[shown]


def test_what_cannot_be_used_is_listed_with_what_to_do() -> None:
    page = functions.page()
    refused = page.split("## Functions that are no aggregates\n")[1]
    assert all(f"| `{name}` | {reason} |" in refused for name, reason in REFUSED.items())
    approximate = page.split("## Approximate functions over changes\n")[1]
    for name, entry in CATALOGUE.items():
        assert not entry.instead or is_sketch(entry)
        assert not entry.instead or f"| `{name}` | {entry.instead} |" in approximate
    assert not set(ALIASES) & set(CATALOGUE)


def test_the_page_names_types_of_both_dialects() -> None:
    (line,) = (
        each
        for each in functions.page().split("### SUM\n")[1].split("### ")[0].splitlines()
        if each.startswith("| Result |")
    )
    assert "spark: `BIGINT` of INT and BIGINT" in line
    assert "flink: `INT` of INT" in line
    assert "`DECIMAL(20,2)` of DECIMAL(10,2)" in line
