"""Cases of a Join alone: the operator as its params say, over the tables left and right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.codegen import JoinKind
from aggloom.codegen.planner import Calc, Join, Node, Notes, Plan, PlanOptions, Scan
from aggloom.runtime.cases.format import Case, NotSupported, table_schema
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
    condition = str(params.get("condition") or "true").split()
    if kind is None or condition[0].lower() != "true":
        raise NotSupported(f"a {params['join_type']} join on {params.get('condition')!r}")

    def plan(options: PlanOptions) -> Plan:
        left, right = (_rows(params, side, schema) for side, schema in schemas.items())
        names = [*schemas["left"].names, *(() if kind in _ALONE else schemas["right"].names)]
        root = Join(
            left,
            right,
            kind,
            tuple(zip(params["left_key"], params["right_key"], strict=True)),
            (False,) * len(params["left_key"]),
            tuple(names),
            ttls=(params.get("left_ttl_ms"), params.get("right_ttl_ms")),
        ).exchanged()
        return Plan(root, root, options, Notes())

    return Program({side: Table(side, schema) for side, schema in schemas.items()}, plan)


_ALONE = ("semi", "anti")


def _rows(params: Mapping[str, Any], side: str, schema: pa.Schema) -> Node:
    """The rows of a side, the columns of its key first."""
    keys = list(params[f"{side}_key"])
    said = params.get(f"{side}_unique_key")
    known: tuple[str, ...] = ()
    if said is not None:
        known = tuple(keys) if "join key" in said else (str(said),)
    names = [*keys, *(name for name in schema.names if name not in keys)]
    return Calc(
        Scan(side, schema, "retract", known),
        tuple((name, f"`{name}`") for name in names),
        pa.schema([schema.field(name) for name in names]),
    )
