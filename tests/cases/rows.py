"""Cases that ask for one row of each key: operators described by their parameters, and the function of the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.planner import Plan, PlanOptions, plan_deduplicate
from cases.format import Case, NotSupported, column_type
from cases.program import Program, Table, planning

Keep = Literal["first", "last"]
OPERATOR_KINDS = frozenset(("dedup", "window_dedup", "dedup_keep_first_fn"))
_WORD = re.compile(r"\w+")


def row_program(case: Case) -> Program:
    """A case of a kind in OPERATOR_KINDS over the table t."""
    params = case.params
    schema = pa.schema([(name, column_type(text)) for name, text in params["schema"].items()])
    function = case.kind == "dedup_keep_first_fn"
    keys = tuple(params["partition_by" if function else "key"])
    order = params.get("on_time") if function else _order(params, schema)
    end = params.get("window_end_field")
    if end and params.get("shift_time_zone", "UTC") != "UTC":
        raise NotSupported(f"shift_time_zone {params['shift_time_zone']!r}")
    keep: Keep = "last" if not function and params["keep"] == "last" else "first"
    # A function that tells neither how updates are sent nor what becomes of them has none.
    flags = ("generate_update_before", "generate_insert")
    final = not any(flag in params for flag in flags) or any(map(_says_final, params.values()))
    final = bool(params.get("insert_only", final)) and end is None
    final = final and keep == "first" and order is not None
    changes = "append" if _adds_only(case) else "retract"
    shown = _shown(params, schema, order)

    def plan(options: PlanOptions) -> Plan:
        chosen = options.with_options({"deduplicate_insert_only": final})
        with planning():
            return plan_deduplicate(
                schema,
                keys,
                keep=keep,
                order_by=order,
                window_end=end,
                options=chosen,
                input_changes=changes,
                select=shown,
            )

    return Program({"t": Table("t", schema)}, plan)


def deduplicate_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """The planner's options that say how the rows of a key are told."""
    return {
        "deduplicate_compact_changes": bool(params.get("compact_changes", False)),
        "deduplicate_insert": bool(params.get("generate_insert", True)),
    }


def _says_final(value: Any) -> bool:
    """Tell whether a parameter says that rows are only added."""
    return (
        isinstance(value, str) and re.search(r"(?i)\b(insert|append)[- _]only", value) is not None
    )


def _order(params: Mapping[str, Any], schema: pa.Schema) -> str | None:
    """The column by which rows are ordered; None: by the clock."""
    said = str(params["order"])
    if "proc" in said.lower():
        return None
    word: str | None = next((name for name in _WORD.findall(said) if name in schema.names), None)
    if word is None and re.search("(?i)event.?time|row.?time", said):
        # The only column that is called a time.
        times = [name for name in schema.names if re.search("(?i)time|^ts$", name)]
        word = times[0] if len(times) == 1 else None
    if word is None:
        raise NotSupported(f"order {said!r}")
    return word


def _shown(
    params: Mapping[str, Any], schema: pa.Schema, order: str | None
) -> Mapping[str, str] | None:
    """Return the columns of the result by their names: those listed; `rowtime` is the time that rows are ordered by."""
    listed = params.get("output")
    if not isinstance(listed, list) or not listed:
        return None
    named = {
        name: order if name not in schema.names and name == "rowtime" else name for name in listed
    }
    for name, column in named.items():
        if column not in schema.names:
            raise NotSupported(f"output {name!r}")
    return {name: str(column) for name, column in named.items()}


def _adds_only(case: Case) -> bool:
    events = [event for phase in case.phases for event in phase.events]
    return all(event.get("op", "+I") == "+I" for event in events)
