"""Cases of a Join alone: the operator as its params say, over the tables left and right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from aggloom.codegen import JoinKind
from aggloom.codegen.planner import Calc, Join, Node, Notes, Plan, PlanOptions, Scan
from aggloom.runtime.cases.format import Case, NotSupported, names_in, table_schema
from aggloom.runtime.cases.program import Program, Table

OPERATOR_KINDS = frozenset(("join", "mini_batch_join", "semi_anti_join"))
_KINDS: dict[str, JoinKind] = {
    "INNER": "inner",
    "LEFT": "left",
    "RIGHT": "right",
    "FULL": "full",
    "SEMI": "semi",
    "ANTI": "anti",
}


def join_program(case: Case) -> Program:
    """A case of a kind in OPERATOR_KINDS."""
    params = case.params
    schemas = {side: table_schema(params[f"{side}_schema"], "*") for side in ("left", "right")}
    kind = _KINDS.get(str(params["join_type"]).split()[0].upper())
    if kind is None:
        raise NotSupported(f"a {params['join_type']} join")
    said = str(params.get("condition") or "true")
    condition = None if re.match(r"(?i)true\s*(\(|$)", said) else said
    # A key whose NULLs are not filtered out takes NULL for equal to NULL.
    filtered = next((params[name] for name in _NULL_FILTERS if name in params), True)
    pairs = tuple(zip(params["left_key"], params["right_key"], strict=True))
    flags = [filtered] * len(pairs) if isinstance(filtered, bool) else list(filtered)
    null_safe = tuple(not flag for flag in flags)

    def plan(options: PlanOptions) -> Plan:
        left, right = (_rows(params, side, schema) for side, schema in schemas.items())
        names = [*schemas["left"].names, *(() if kind in _ALONE else schemas["right"].names)]
        root: Node = Join(
            left,
            right,
            kind,
            pairs,
            null_safe,
            tuple(names),
            condition=condition,
            ttls=(params.get("left_ttl_ms"), params.get("right_ttl_ms")),
        ).exchanged()
        if not options.update_before:
            root = root.without_before()
        return Plan(root, root, options, Notes())

    return Program({side: Table(side, schema) for side, schema in schemas.items()}, plan)


_ALONE = ("semi", "anti")
_NULL_FILTERS = ("filter_nulls", "filter_null_keys", "null_filter")


def _unique_key(said: Any, keys: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The columns by which the rows of a side are told apart; none: by all of them."""
    text = said.lower().replace(" ", "") if isinstance(said, str) else ""
    if not said or text.startswith("no"):
        return ()
    # "join key" may be a part of a remark about a key that the join key does not hold.
    if "joinkey" in text and "not" not in text:
        return tuple(keys)
    return names_in(said, names)


def _rows(params: Mapping[str, Any], side: str, schema: pa.Schema) -> Node:
    """The rows of a side, the columns of its key first."""
    keys = list(params[f"{side}_key"])
    known = _unique_key(params.get(f"{side}_unique_key"), keys, schema.names)
    names = [*keys, *(name for name in schema.names if name not in keys)]
    return Calc(
        Scan(side, schema, "retract", known),
        tuple((name, f"`{name}`") for name in names),
        pa.schema([schema.field(name) for name in names]),
    )
