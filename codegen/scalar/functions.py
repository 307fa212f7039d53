"""The table of everything that is lowered: one entry for each operator and function, by family."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from aggloom.codegen.scalar import (
    arithmetic,
    branching,
    clocks,
    collections,
    date_texts,
    dates,
    encodings,
    exponentials,
    flink_entries,
    json_texts,
    lambdas,
    logic,
    numbers,
    patterns,
    shorthand,
    sql_json,
    texts,
    variants,
    words,
)
from aggloom.codegen.scalar.lowering import LoweringEntry

OWN_FAMILY: Final = "Functions of Flink that Spark lacks"
"""The family of the functions in `own_functions`."""
FAMILIES: Final = {
    "Values, logic and comparisons": (*logic.ENTRIES, *shorthand.ENTRIES),
    "Conditionals": branching.ENTRIES,
    "Arithmetic": (*arithmetic.ENTRIES, *numbers.ENTRIES, *exponentials.ENTRIES),
    "Texts": (*texts.ENTRIES, *patterns.ENTRIES, *words.ENTRIES),
    "Encodings, hashes and URLs": encodings.ENTRIES,
    "Arrays, maps and rows": (*collections.ENTRIES, *lambdas.ENTRIES),
    "JSON": json_texts.ENTRIES,
    "VARIANT": variants.ENTRIES,
    OWN_FAMILY: (*sql_json.ENTRIES, *flink_entries.ENTRIES),
    "Dates and times": (*dates.ENTRIES, *date_texts.ENTRIES, *clocks.ENTRIES),
}
BY_NODE: Final[dict[type[exp.Expression] | str, LoweringEntry]] = {
    node: entry for entries in FAMILIES.values() for entry in entries for node in entry.nodes
}
