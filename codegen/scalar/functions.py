"""The table of everything that is lowered: one entry for each operator and function, by family."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from aggloom.codegen.scalar import (
    arithmetic,
    assertions,
    branching,
    clocks,
    collections,
    csv_records,
    date_texts,
    dates,
    encodings,
    exponentials,
    flink_entries,
    intervals,
    json_texts,
    lambdas,
    logic,
    number_formats,
    numbers,
    patterns,
    records,
    shorthand,
    sql_json,
    texts,
    times_of_day,
    variants,
    words,
)
from aggloom.codegen.scalar.lowering import LoweringEntry

OWN_FAMILY: Final = "Functions of Flink that Spark lacks"
"""The family of the functions in `own_functions`."""
FAMILIES: Final = {
    "Values, logic and comparisons": (*logic.ENTRIES, *shorthand.ENTRIES),
    "Conditionals": (*branching.ENTRIES, *assertions.ENTRIES),
    "Arithmetic": (*arithmetic.ENTRIES, *numbers.ENTRIES, *exponentials.ENTRIES),
    "Texts": (*texts.ENTRIES, *patterns.ENTRIES, *words.ENTRIES, *number_formats.ENTRIES),
    "Encodings, hashes and URLs": encodings.ENTRIES,
    "Arrays, maps and rows": (*collections.ENTRIES, *lambdas.ENTRIES),
    "JSON": (*json_texts.ENTRIES, *records.ENTRIES),
    "CSV": csv_records.ENTRIES,
    "VARIANT": variants.ENTRIES,
    OWN_FAMILY: (*sql_json.ENTRIES, *flink_entries.ENTRIES),
    "Dates and times": (
        *dates.ENTRIES,
        *date_texts.ENTRIES,
        *clocks.ENTRIES,
        *times_of_day.ENTRIES,
        *intervals.ENTRIES,
    ),
}
BY_NODE: Final[dict[type[exp.Expression] | str, LoweringEntry]] = {
    node: entry for entries in FAMILIES.values() for entry in entries for node in entry.nodes
}
