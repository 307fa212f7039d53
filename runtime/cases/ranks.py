"""Cases of a Rank alone: the operator as its params say, under each of the strategies that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from aggloom.runtime.cases.format import Case, NotSupported, table_schema
from aggloom.runtime.cases.program import Program, Table

_FUNCTIONS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_ARRIVAL = ("proctime", "arrival")


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
    if case.kind == "window_topn":
        end = params["window_end_field"]
        others = [n for n in schema.names if n not in (*params["partition_by"], end)]
        order = [*params["partition_by"], end, *others]
        rows = Calc(
            Scan("t", schema, "append"),
            tuple((name, f"`{name}`") for name in order),
            pa.schema([schema.field(name) for name in order]),
        )
        yield Program({"t": Table("t", schema)}, partial(_plan_in_windows, params, rows))
        return

    for scan in _scans(params, schema):
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
    for name in ("unique_key", "upsert_key", "primary_key"):
        if params.get(name):
            return tuple(params[name])
    said = re.search(r"keyed by \(([\w, ]+)\)", strategy)
    if said:
        return tuple(name.strip() for name in said[1].split(","))
    sorts = [each[0] for each in params["order_by"]]
    others = [n for n in schema.names if n not in params["partition_by"] and n not in sorts]
    return (*params["partition_by"], *others[:1])


def _plan_in_windows(params: Any, rows: Node, options: PlanOptions) -> Plan:
    """The rank by key and window, with the columns as the case has them."""
    end = params["window_end_field"]
    keys = [*params["partition_by"], end]
    made = _plan({**params, "partition_by": keys}, rows, options)
    root = replace(made.root, window=end)  # type: ignore[call-arg]
    names = list(params["schema"]) + [n for n in root.schema.names if n not in params["schema"]]
    columns = pa.schema([root.schema.field(name) for name in names])
    shown = Calc(root, tuple((name, f"`{name}`") for name in names), columns)
    return replace(made, root=shown, logical=shown)


def _plan(params: Any, scan: Node, options: PlanOptions) -> Plan:
    asked = params["rank_range"]
    function = params.get("rank_function", "ROW_NUMBER")
    if function not in _FUNCTIONS:
        raise NotSupported(f"the function {function!r}")
    partition = tuple(params["partition_by"])
    order = tuple(
        SortItem(column, how.upper().startswith("DESC"), _nulls_first(how, words))
        for column, how, *words in params["order_by"]
        if column not in _ARRIVAL
    )
    if scan.schema.names[: len(partition)] != list(partition):
        raise NotSupported("a key that is not the first columns")
    end = asked.get("variable_end_field")
    told = Range(end_column=end) if end else Range(asked["start"], asked["end"])
    number = None
    if params.get("output_rank_number"):
        number = list(params.get("output_schema") or {"w0$o0": ""})[-1]
    root = Rank(scan, partition, function, order, told, number).exchanged()
    if not options.update_before:
        root = root.without_before()
    return Plan(root, root, options, Notes())


def _nulls_first(how: str, words: list[str]) -> bool:
    text = " ".join([how, *words]).upper()
    return "NULLS FIRST" in text or (
        "NULLS LAST" not in text and not how.upper().startswith("DESC")
    )
