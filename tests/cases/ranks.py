"""Cases of a Rank alone: the operator as its params say, under each of the strategies that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from aggloom.codegen.planner import (
    Calc,
    Node,
    Notes,
    Plan,
    PlanOptions,
    Range,
    Rank,
    Scan,
    SortItem,
)
from cases.format import Case, NotSupported, names_in, table_schema
from cases.program import Program, Table

_FUNCTIONS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_ARRIVAL = ("proctime", "arrival")
_ROW_KEYS = ("unique_key", "upsert_key", "primary_key", "primary_keys", "row_key")


@dataclass(frozen=True)
class Improving(Scan):
    """A table of rows that are known by a key, are never deleted, and of which some columns only get better."""

    key: tuple[str, ...] = ()
    better: tuple[tuple[str, Any], ...] = ()

    @property
    def changelog(self) -> tuple[str, ...]:
        return ("I", "UB", "UA")

    @property
    def never_deletes(self) -> bool:
        return True

    @property
    def unique_keys(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)

    @property
    def trends(self) -> dict[str, Any]:
        return {**dict.fromkeys(self.key, "constant"), **dict(self.better)}


def rank_programs(case: Case) -> Iterator[Program]:
    """The Rank of a case, once for each strategy that it names; that of a window has only one."""
    params = case.params
    schema = table_schema(params["schema"], "*")
    if case.kind == "window_topn" and not params.get("event_time", True):
        raise NotSupported("a rank in windows by the clock")
    for scan in (
        [Scan("t", schema, "append")] if case.kind == "window_topn" else _scans(params, schema)
    ):
        yield Program({"t": Table("t", schema)}, partial(_plan, params, scan))


def _scans(params: Any, schema: Any) -> Iterator[Scan]:
    """The table as each strategy needs it to be."""
    for text in str(params["strategy"]).split("|"):
        name = text.strip()
        if name.startswith("Retract"):
            yield Scan("t", schema, "retract")
        elif name.startswith(("AppendFast", "AppendOnly", "FastTop1")):
            # The best row of a key takes the place of the one before, whether it is another row or the same.
            yield Scan("t", schema, "append")
        elif name.startswith("UpdateFast"):
            better = tuple(
                (column, "increasing" if how.upper().startswith("DESC") else "decreasing")
                for column, how, *_ in params["order_by"]
            )
            key = _row_key(params, name, schema)
            yield Improving("t", schema, "retract", key, better=better)
        else:
            raise NotSupported(f"the strategy {name!r}")


def _row_key(params: Any, strategy: str, schema: Any) -> tuple[str, ...]:
    """The key of the rows: as the case says it, or else of the partition and the first column beside it."""
    said = next((params[name] for name in _ROW_KEYS if params.get(name)), None)
    said = said or next(iter(re.findall(r"keyed by \(([\w, ]+)\)", strategy)), None)
    if said:
        return names_in(said, schema.names)
    sorts = [each[0] for each in params["order_by"]]
    others = [n for n in schema.names if n not in params["partition_by"] and n not in sorts]
    return (*params["partition_by"], *others[:1])


def _plan(params: Any, scan: Scan, options: PlanOptions) -> Plan:
    """The rank by the columns of its key, and of its window, with the columns as the case has them."""
    asked = params["rank_range"]
    function = params.get("rank_function", "ROW_NUMBER")
    if function not in _FUNCTIONS:
        raise NotSupported(f"the function {function!r}")
    window = params.get("window_end_field")
    partition = (*params["partition_by"], *([window] if window else []))
    order = tuple(
        SortItem(column, how.upper().startswith("DESC"), _nulls_first(how, words))
        for column, how, *words in params["order_by"]
        if column not in _ARRIVAL
    )
    end = asked.get("variable_end_field")
    told = Range(end_column=end) if end else Range(asked["start"], asked["end"])
    number = None
    if params.get("output_rank_number"):
        number = list(params.get("output_schema") or {"w0$o0": ""})[-1]
    names = scan.schema.names
    rest = [name for name in names if name not in partition]
    root: Node = Rank(
        _shown(scan, [*partition, *rest]),
        partition,
        function,
        order,
        told,
        number,
        window=window,
        zone=params.get("shift_time_zone") or "UTC",
    ).insert_exchange()
    if not options.update_before:
        root = root.without_before()
    root = _shown(root, [*names, *(name for name in root.schema.names if name not in names)])
    return Plan(root, root, options, Notes())


def _shown(rows: Node, names: list[str]) -> Node:
    """The rows with their columns in another order."""
    if names == rows.schema.names:
        return rows
    columns = pa.schema([rows.schema.field(name) for name in names])
    return Calc(rows, tuple((name, f"`{name}`") for name in names), columns)


def _nulls_first(how: str, words: list[str]) -> bool:
    text = " ".join([how, *words]).upper()
    return "NULLS FIRST" in text or (
        "NULLS LAST" not in text and not how.upper().startswith("DESC")
    )
