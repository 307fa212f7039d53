"""A plan for readers: as data, as a tree of text in the words of Flink's EXPLAIN, and as JSON.

The tree has one line for each node. What a node remembers, what the rules say of it and which handler it runs come
after the tree, by the number that its line ends with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pyarrow as pa

from aggloom.codegen.operators import Exchange, Node, Scan, Stateful, walk
from aggloom.codegen.operators.base import Title
from aggloom.codegen.operators.footprint import bounds, size
from aggloom.codegen.operators.plan_text import format_name, one_line
from aggloom.codegen.planner.plan import Plan
from aggloom.codegen.spec.dtypes import type_name


def describe(plan: Plan, backend: str = "numba") -> dict[str, Any]:
    """The plan as data that JSON can hold.

    Each node has its name, `details` (the words of its line), columns, changelog_mode, unique_key (None if there is
    none) and inputs; one that runs a handler its digest; a stateful one an id, its state and what the rules say.
    """
    return {
        "dialect": plan.dialect,
        "options": dict(plan.options.changed_options),
        "unique_key": _as_list(plan.key),
        "columns": _columns(plan.schema),
        "plan": _Describer(plan, backend).node(plan.root),
    }


def list_stateful_nodes(plan: Plan) -> list[Stateful]:
    """The nodes that keep state, in the order of the numbers by which they are described."""
    met: set[int] = set()

    def visit(node: Node) -> Iterator[Stateful]:
        if isinstance(node, Stateful):
            yield node
        for each in () if _is_reused(node, met) else node.inputs:
            yield from visit(each)

    return list(visit(plan.root))


def _is_reused(node: Node, met: set[int]) -> bool:
    """Tell whether an exchange is one that has been met, whose rows come once."""
    if not isinstance(node, Exchange) or not node.reuse:
        return False
    known = node.reuse in met
    # The first time it is shown whole, later by its number.
    met.add(node.reuse)
    return known


def as_json(plan: Plan, backend: str = "numba") -> str:
    """The description as JSON text."""
    return json.dumps(describe(plan, backend), indent=2, ensure_ascii=False)


def as_text(plan: Plan, backend: str = "numba", *, notes: bool = True) -> str:
    """The tree, then for each stateful node its unique key, state and rules, then the options that were changed.

    notes: also which of users' functions are compiled, and what they keep.
    """
    described = describe(plan, backend)
    blocks = ["\n".join(_lines(described["plan"], numbered=True))]
    blocks += ["\n".join(_legend(node, notes)) for node in stateful(described["plan"])]
    # From the root down, as the tree reads.
    remarks = [each.remark for each in reversed(walk(plan.root)) if each.remark]
    blocks += ["\n".join(dict.fromkeys(remarks))] if remarks else []
    if described["options"]:
        lines = (f"  {each}" for each in settings(described["options"]))
        blocks.append("\n".join(["options", *lines]))
    return "\n\n".join(blocks)


def tree_of(described: Mapping[str, Any]) -> str:
    """The tree of a plan that `describe` made into data, with the numbers of the nodes that keep state."""
    return "\n".join(_lines(described["plan"], numbered=True))


def as_tree(plan: Plan, *, with_changes: bool = True) -> str:
    """The tree alone: a line for each node, as Flink prints it. with_changes: with the kinds of its changes."""
    skipped = () if with_changes else ("changelogMode",)
    return "\n".join(
        _lines(_Describer(plan, None).node(plan.root), numbered=False, skipped=skipped)
    )


def mini_batches_of(plan: Plan, node: Node) -> Title | None:
    """The name and the details of what marks the ends of bundles behind a table; None where nothing does.

    By the watermark if something waits for that of the table, else by the clock.
    """
    interval = plan.options.watermark_interval
    if not interval or not isinstance(node, Scan) or plan.root is plan.logical:
        return None
    if not any(isinstance(each, Stateful) for each in walk(plan.root)):
        return None
    mode = "RowTime" if node.time is not None and plan.awaits_watermark else "ProcTime"
    return "MiniBatchAssigner", {"interval": [f"{interval}ms"], "mode": [mode]}


def line_of(title: Title) -> str:
    """The line of a node in a tree, without the kinds of its changes."""
    name, details = title
    described = {"details": details, "changelog_mode": ()}
    return f"{name}({', '.join(list_node_words(described, 'changelogMode'))})"


def stateful(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The described nodes that keep state, by their numbers."""
    below = [node_below for each in node["inputs"] for node_below in stateful(each)]
    return [node, *below] if "state" in node else below


def settings(options: dict[str, Any]) -> list[str]:
    """Options as `name = value`, each as SET takes it."""
    shown_values = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in options.items()
    }
    return [f"{name} = {value}" for name, value in shown_values.items()]


def list_node_words(node: Mapping[str, Any], *skipped: str) -> list[str]:
    """The details of a described node as they are in its line, each on one line; some can be left out."""
    details = {**node["details"], "changelogMode": node["changelog_mode"]}
    words = []
    for name, value in details.items():
        comma = "," if name == "changelogMode" else ", "
        text = f"{name}=[{comma.join(value)}]" if name not in skipped else ""
        words += [one_line(text)] if text else []
    return words


def phrase_state(node: Mapping[str, Any]) -> str:
    """Return what bounds the state of a described node, and its bytes; empty if it has none."""
    return f"{bounds(node['state'])}: {size(node['state'])}" if "state" in node else ""


class _Describer:
    """Describes the nodes of a plan, numbering those with state from the root on; backend None: only their lines."""

    def __init__(self, plan: Plan, backend: str | None) -> None:
        self.plan, self.backend = plan, backend
        self.numbers = count(1)
        self._met: set[int] = set()

    def node(self, node: Node) -> dict[str, Any]:
        name, details = node.title
        inputs = node.inputs
        if isinstance(node, Exchange) and _is_reused(node, self._met):
            name, details, inputs = "Reused", {"reference_id": [str(node.reuse)]}, ()
        entry: dict[str, Any] = {"node": name, "details": details}
        if self.backend is not None:
            entry |= self._state(node, self.backend)
        about = {
            "columns": _columns(node.schema),
            "changelog_mode": list(node.changelog),
            "unique_key": _as_list(node.unique_key),
        }
        described = {**entry, **about, "inputs": [self.node(each) for each in inputs]}
        assigner = mini_batches_of(self.plan, node)
        if assigner is None:
            return described
        return {"node": assigner[0], "details": assigner[1], **about, "inputs": [described]}

    def _state(self, node: Node, backend: str) -> dict[str, Any]:
        handlers = dict(zip(("handler", "final_handler"), node.handlers, strict=False))
        digests = {name: spec.digest for name, spec in handlers.items()}
        if not isinstance(node, Stateful):
            return digests
        rules = [
            {"rule": note.rule, "fired": note.fired, "why": note.why}
            for note in self.plan.notes.of(node.subject)
        ]
        return {
            "id": next(self.numbers),
            "keys": list(node.keys),
            **digests,
            "state": node.state(backend, self.plan.ttl_of(node)),
            "rules": rules,
        }


def _lines(
    node: dict[str, Any],
    *,
    numbered: bool,
    skipped: tuple[str, ...] = (),
    first: str = "",
    rest: str = "",
) -> list[str]:
    """A described node and what is below it, indented as Flink does. skipped: details that are left out."""
    number = [f"node=[{node['id']}]"] if numbered and "id" in node else []
    lines = [f"{first}{node['node']}({', '.join([*list_node_words(node, *skipped), *number])})"]
    for place, below in enumerate(node["inputs"]):
        last = place == len(node["inputs"]) - 1
        lines += _lines(
            below,
            numbered=numbered,
            skipped=skipped,
            first=rest + ("+- " if last else ":- "),
            rest=rest + ("   " if last else ":  "),
        )
    return lines


def _legend(node: Mapping[str, Any], notes: bool) -> Iterator[str]:
    state, key = node["state"], node["unique_key"]
    handler = f"; handler {node['handler']}" if "handler" in node else ""
    if "final_handler" in node:
        handler += f", for the final half {node['final_handler']}"
    unique = "none" if key is None else ", ".join(map(format_name, key)) or "one row"
    yield f"node[{node['id']}] {node['node']}: unique key {unique}{handler}"
    yield f"  state bounded by {one_line(bounds(state))}: {size(state)}"
    if state["ttl_ms"]:
        yield f"    a key is forgotten {state['ttl_ms']} ms after its last change"
    if state["texts"]:
        own = f": its bytes and {state['bytes_per_text']} more" if state["compiled"] else ""
        yield f"    and each distinct text once in a bucket{own}"
    for part in state["parts"] if state["compiled"] else []:
        room = "a Python object" if part["bytes_per_key"] is None else f"{part['bytes_per_key']:>4}"
        entry = f", {part['bytes_per_entry']} an entry" if "entries" in part else ""
        texts = " and the bytes of its texts" if part.get("has_texts") else ""
        yield f"    {part['name']:<32} {part['kind']:<9} {room}{entry}{texts}"
    functions = state.get("functions", ()) if notes else ()
    yield from ["  your functions", *(f"    {line}" for line in functions)] if functions else []
    if node["rules"]:
        yield "  rules"
    for rule in node["rules"]:
        verdict = "fired" if rule["fired"] else "did not fire"
        yield one_line(f"    {rule['rule']} {verdict}: {rule['why']}")


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: type_name(field.type) for field in schema}


def _as_list(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
