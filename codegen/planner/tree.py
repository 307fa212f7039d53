"""A plan for readers: as data, as a tree of text in the words of Flink's EXPLAIN, and as JSON.

The tree has one line for each node. What a node remembers, what the rules say of it and which handler it runs come
after the tree, by the number that its line ends with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa

from aggloom.codegen.planner.footprint import bounds, size, state_of, state_of_windows
from aggloom.codegen.planner.nodes import (
    Aggregate,
    Bucket,
    Calc,
    Column,
    Exchange,
    Expand,
    GroupAggregate,
    IncrementalAggregate,
    Item,
    LocalAggregate,
    Node,
    Scan,
    Union,
    WindowAggregate,
    WindowAssign,
    WindowTable,
    column_name,
)
from aggloom.codegen.planner.plan import Plan
from aggloom.codegen.planner.traits import changelog, unique_key
from aggloom.codegen.spec.agg_call import describe_call
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.spec.durations import shown as duration
from aggloom.codegen.windows import Windowing

_SPECIAL = re.compile(r"[`,\[\]{}\x00-\x1f\x7f\u0085\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+")


def describe(plan: Plan, backend: str = "numba") -> dict[str, Any]:
    """The plan as data that JSON can hold.

    Each node has its name, `details` (the words of its line), columns, changelog_mode, unique_key (None if there is
    none) and inputs; one that runs a handler its digest; a stateful one an id, its state and what the rules say.
    """
    return {
        "dialect": plan.dialect,
        "options": dict(plan.options.changed),
        "unique_key": _listed(plan.key),
        "columns": _columns(plan.schema),
        "plan": _Describer(plan, backend).node(plan.root),
    }


def as_json(plan: Plan, backend: str = "numba") -> str:
    """The description as JSON text."""
    return json.dumps(describe(plan, backend), indent=2, ensure_ascii=False)


def as_text(plan: Plan, backend: str = "numba") -> str:
    """The tree, then for each stateful node its unique key, state and rules, then the options that were changed."""
    described = describe(plan, backend)
    blocks = ["\n".join(_lines(described["plan"], numbered=True))]
    blocks += ["\n".join(_legend(node)) for node in stateful(described["plan"])]
    if described["options"]:
        lines = (f"  {each}" for each in settings(described["options"]))
        blocks.append("\n".join(["options", *lines]))
    return "\n\n".join(blocks)


def as_tree(plan: Plan) -> str:
    """The tree alone: a line for each node, as Flink prints it."""
    return "\n".join(_lines(_Describer(plan, None).node(plan.root), numbered=False))


def stateful(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The described nodes that keep state, by their numbers."""
    below = [found for each in node["inputs"] for found in stateful(each)]
    return [node, *below] if "state" in node else below


def settings(options: dict[str, Any]) -> list[str]:
    """Options as `name = value`, each as SET takes it."""
    shown_values = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in options.items()
    }
    return [f"{name} = {value}" for name, value in shown_values.items()]


def words(node: dict[str, Any], *skipped: str) -> list[str]:
    """The details of a described node as they stand in its line, each on one line; some can be left out."""
    shown = {**node["details"], "changelogMode": node["changelog_mode"]}
    found = []
    for name, value in shown.items():
        comma = "," if name == "changelogMode" else ", "
        text = f"{name}=[{comma.join(value)}]" if name not in skipped else ""
        found += [_CONTROL.sub(" ", text)] if text else []
    return found


class _Describer:
    """Describes the nodes of a plan, numbering those with state from the root on; backend None: only their lines."""

    def __init__(self, plan: Plan, backend: str | None) -> None:
        self.plan, self.backend = plan, backend
        self.numbers = count(1)

    def node(self, node: Node) -> dict[str, Any]:
        name, details = title(node)
        found: dict[str, Any] = {"node": name, "details": details}
        if self.backend is not None:
            found |= self._state(node, self.backend)
        return {
            **found,
            "columns": _columns(node.schema),
            "changelog_mode": list(changelog(node)),
            "unique_key": _listed(unique_key(node)),
            "inputs": [self.node(each) for each in node.inputs],
        }

    def _state(self, node: Node, backend: str) -> dict[str, Any]:
        if isinstance(node, LocalAggregate):
            return {"handler": node.spec.digest}
        if not isinstance(node, GroupAggregate | IncrementalAggregate | WindowAggregate):
            return {}
        found = {
            "id": next(self.numbers),
            "keys": list(node.keys if isinstance(node, WindowAggregate) else node.spec.group_by),
            "handler": node.spec.digest,
        }
        if isinstance(node, IncrementalAggregate):
            found["final_handler"] = node.final.digest
        rules = [
            {"rule": note.rule, "fired": note.fired, "why": note.why}
            for note in self.plan.notes.of(node.spec)
        ]
        if isinstance(node, WindowAggregate):
            state = state_of_windows(node, backend)
        else:
            state = state_of(node.spec, backend, self.plan.ttl_of(node))
        return {**found, "state": state, "rules": rules}


def title(node: Node) -> tuple[str, dict[str, list[str]]]:
    """A node's name in Flink's words, and what its line says, as lists of texts."""
    match node:
        case Scan():
            return "TableSourceScan", {
                "table": [f"[{shown(node.table)}]"],
                "fields": _names(node.schema.names),
            }
        case Calc():
            select = {"select": [_projected(name, sql) for name, sql in node.select]}
            return "Calc", select | ({} if node.where is None else {"where": [node.where]})
        case Union():
            return "Union", {"all": ["true"], "union": _names(node.schema.names)}
        case Expand():
            return "Expand", {"projects": [_project(each, node) for each in node.projects]}
        case Exchange():
            hashed = f"hash[{', '.join(_names(node.keys))}]"
            return "Exchange", {"distribution": [hashed if node.keys else "single"]}
        case IncrementalAggregate():
            details = {
                "partialAggGrouping": _names(node.spec.group_by),
                "finalAggGrouping": _names(node.final.group_by),
                "select": _calls(node.spec),
            }
            between = [step for step in node.steps if not _is_pick(step)]
            return "IncrementalGroupAggregate", details | (
                {"between": [_line(*title(step)) for step in between]} if between else {}
            )
        case WindowTable():
            return "WindowTableFunction", {"window": [node.assigner.text]}
        case WindowAssign():
            return "WindowAssign", {"window": [node.windowing.assigner.text]}
        case WindowAggregate():
            return "Global" * node.merges + "WindowAggregate", _windowed(node)
        case LocalAggregate() if node.spec.namespace:
            return "LocalWindowAggregate", _windowed(node)
        case LocalAggregate():
            return "LocalGroupAggregate", _aggregated(node)
        case GroupAggregate():
            return "Global" * node.merges + "GroupAggregate", _aggregated(node)
        case Aggregate():
            return "LogicalAggregate", _aggregated(node)
    raise TypeError(f"{type(node).__name__} is no node that has a title")


def shown(name: str) -> str:
    """A column's name on one line, in backticks if it could be mistaken for something else."""
    if name and not _SPECIAL.search(name):
        return name
    return "`" + _CONTROL.sub(" ", name).replace("`", "``") + "`"


def _aggregated(node: Aggregate | LocalAggregate | GroupAggregate) -> dict[str, list[str]]:
    found = {}
    if node.spec.group_by:
        found["groupBy"] = _names(node.spec.group_by)
    if node.role:
        found["partialFinalType"] = [node.role.upper()]
    if not isinstance(node, LocalAggregate) and node.state_ttl is not None:
        found["stateTtl"] = [duration(node.state_ttl)]
    return {**found, "select": _calls(node.spec)}


def _windowed(node: WindowAggregate | LocalAggregate) -> dict[str, list[str]]:
    keys = node.spec.group_by[:-1]
    window, shown_keys = _windowing(node).text, list(node.spec.group_by)
    if isinstance(node, WindowAggregate):
        shown_keys = [*keys, *node.bounds.names]
    calls = _calls(node.spec)[len(node.spec.group_by) :]
    found = {"groupBy": _names(keys)} if keys else {}
    return {**found, "window": [window], "select": [*_names(shown_keys), *calls]}


def _windowing(node: Node) -> Windowing:
    """The windows of an aggregate; its local half finds them where rows get them."""
    while not isinstance(node, WindowAggregate | WindowAssign):
        (node,) = node.inputs
    return node.windowing


def _calls(spec: AggSpec) -> list[str]:
    """Keys and calls; those that take rows back are marked as Flink marks them, a user's own never."""
    calls = []
    for call in spec.calls:
        function, _, rest = describe_call(replace(call, alias=None)).partition("(")
        if spec.input_changes == "retract" and not call.monotonic and not spec.entry(call).own:
            function += "_RETRACT"
        calls.append(f"{function}({rest} AS {shown(call.output_name)}")
    return [*_names(spec.group_by), *calls]


def _projected(name: str, sql: str) -> str:
    column = column_name(sql)
    text = sql if column is None else shown(column)
    return text if column == name else f"{text} AS {shown(name)}"


def _project(items: tuple[Item, ...], node: Expand) -> str:
    pairs = zip(items, node.schema.names, strict=True)
    return "{" + ", ".join(_item(item, name) for item, name in pairs) + "}"


def _item(item: Item, name: str) -> str:
    if isinstance(item, Column):
        return shown(name) if item.name == name else f"{shown(item.name)} AS {shown(name)}"
    if isinstance(item, Bucket):
        text = f"MOD(HASH_CODE({', '.join(_names(item.columns))}), {item.buckets})"
    else:
        text = "null" if item.value is None else str(item.value).lower()
    return f"{text} AS {shown(name)}"


def _is_pick(step: Node) -> bool:
    return isinstance(step, Calc) and step.picked == tuple(step.schema.names)


def _lines(node: dict[str, Any], *, numbered: bool, first: str = "", rest: str = "") -> list[str]:
    """A described node and what is below it, indented as Flink does."""
    number = [f"node=[{node['id']}]"] if numbered and "id" in node else []
    found = [f"{first}{node['node']}({', '.join([*words(node), *number])})"]
    for place, below in enumerate(node["inputs"]):
        last = place == len(node["inputs"]) - 1
        found += _lines(
            below,
            numbered=numbered,
            first=rest + ("+- " if last else ":- "),
            rest=rest + ("   " if last else ":  "),
        )
    return found


def _line(name: str, details: dict[str, list[str]]) -> str:
    texts = (f"{key}=[{', '.join(value)}]" for key, value in details.items())
    return f"{name}({', '.join(texts)})"


def _legend(node: dict[str, Any]) -> Iterator[str]:
    state, key = node["state"], node["unique_key"]
    handler = f"handler {node['handler']}"
    if "final_handler" in node:
        handler += f", for the final half {node['final_handler']}"
    unique = "none" if key is None else ", ".join(map(shown, key)) or "one row"
    yield f"node[{node['id']}] {node['node']}: unique key {unique}; {handler}"
    yield f"  state bounded by {_CONTROL.sub(' ', bounds(state))}: {size(state)}"
    if state["ttl_ms"]:
        yield f"    a key is forgotten {state['ttl_ms']} ms after its last change"
    if state["texts"]:
        own = f": its bytes and {state['bytes_per_text']} more" if state["compiled"] else ""
        yield f"    and each different text once in a bucket{own}"
    for part in state["parts"] if state["compiled"] else []:
        room = "a Python object" if part["bytes_per_key"] is None else f"{part['bytes_per_key']:>4}"
        entry = f", {part['bytes_per_entry']} an entry" if "entries" in part else ""
        yield f"    {part['name']:<32} {part['kind']:<9} {room}{entry}"
    if node["rules"]:
        yield "  rules"
    for rule in node["rules"]:
        verdict = "fired" if rule["fired"] else "did not fire"
        yield _CONTROL.sub(" ", f"    {rule['rule']} {verdict}: {rule['why']}")


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: type_name(field.type) for field in schema}


def _names(names: Any) -> list[str]:
    return [shown(name) for name in names]


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
