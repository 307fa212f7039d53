"""Cases of a Join alone: the operator as its params say, over the tables left and right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

import pyarrow as pa

from aggloom.codegen import JoinKind
from aggloom.codegen.planner import Calc, Join, Node, Notes, Plan, PlanOptions, Scan
from cases.format import Case, NotSupported, names_in, table_schema
from cases.program import Program, Table

OPERATOR_KINDS = frozenset(("join", "mini_batch_join", "semi_anti_join"))


def join_program(case: Case) -> Program:
    """A case of a kind in OPERATOR_KINDS."""
    params = case.params
    schemas = {side: table_schema(params[f"{side}_schema"], "*") for side in ("left", "right")}
    said_keys = {side: list(params[f"{side}_key"]) for side in schemas}
    known = {
        side: _unique_key(params.get(f"{side}_unique_key"), said_keys[side], schema.names)
        for side, schema in schemas.items()
    }
    # Of a name that both sides have, the right's is another one.
    other = {
        name: f"{name}$right" for name in schemas["right"].names if name in schemas["left"].names
    }
    schemas["right"] = pa.schema(
        [field.with_name(other.get(field.name, field.name)) for field in schemas["right"]]
    )
    said_keys["right"] = [other.get(name, name) for name in said_keys["right"]]
    known["right"] = tuple(other.get(name, name) for name in known["right"])
    said = str(params["join_type"]).lower()
    # From the end: a semi join may be called LEFT SEMI.
    kind = next((each for each in reversed(get_args(JoinKind)) if each in said), None)
    if kind is None:
        raise NotSupported(f"a {params['join_type']} join")
    text = str(params.get("condition") or "true")
    condition = None if re.match(r"(?i)true\s*(\(|$)", text) else text
    # A key whose NULLs are not filtered out takes NULL for equal to NULL.
    filtered = next((params[name] for name in _NULL_FILTERS if name in params), True)
    pairs = tuple(zip(said_keys["left"], said_keys["right"], strict=True))
    flags = [filtered] * len(pairs) if isinstance(filtered, bool) else list(filtered)
    null_safe = tuple(not flag for flag in flags)

    def plan(options: PlanOptions) -> Plan:
        left, right = (_rows(side, schemas[side], said_keys[side], known[side]) for side in schemas)
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
        ).insert_exchange()
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


def _rows(side: str, schema: pa.Schema, keys: Sequence[str], known: tuple[str, ...]) -> Node:
    """The rows of a side, the columns of its key first."""
    names = [*keys, *(name for name in schema.names if name not in keys)]
    return Calc(
        Scan(side, schema, "retract", known),
        tuple((name, f"`{name}`") for name in names),
        pa.schema([schema.field(name) for name in names]),
    )
