"""A plan in the sections of Flink's EXPLAIN: the query as it was read, what rules made of it, and its stages.

A stage is an operator. Exchanges are none: they say how the rows of one stage get to the next, its ship strategy.
Advice is what rules that did not fire say of options.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aggloom.codegen.operators import Exchange, Node, Stateful, walk
from aggloom.codegen.operators.base import Title
from aggloom.codegen.operators.plan_text import shown_names
from aggloom.codegen.planner.plan import Plan
from aggloom.codegen.planner.tree import as_tree, line_of, mini_batches_of

_OF_INPUT, _OF_KEYS = "tasks of the input", "buckets"
"""The tasks of a stage, before and after rows lie by their keys: the run says the numbers."""


def as_sections(plan: Plan) -> str:
    """The syntax tree, the physical and the execution plan with advice, and the stages."""
    physical = as_tree(plan)
    advice = list(_advice(plan))
    sections = {
        "Abstract Syntax Tree": as_tree(replace(plan, root=plan.logical), with_changes=False),
        "Optimized Physical Plan": "\n".join([physical, *([""] if advice else []), *advice]),
        "Optimized Execution Plan": as_tree(plan, with_changes=False),
        "Physical Execution Plan": "\n\n".join(_Stages(plan).texts()),
    }
    return "\n\n".join(f"== {name} ==\n{text}" for name, text in sections.items())


def _advice(plan: Plan) -> Iterator[str]:
    """Yield a line for each option that keeps a rule from firing."""
    nodes = [node for node in walk(plan.root) if isinstance(node, Stateful)]
    notes = [note for node in nodes for note in plan.notes.of(node.subject)]
    reasons = [
        f"{note.rule}: {note.why}" for note in notes if not note.fired and "table." in note.why
    ]
    for number, reason in enumerate(dict.fromkeys(reasons), 1):
        yield f"advice[{number}]: [ADVICE] {reason}"


class _Stages:
    """The stages of a plan, numbered from the tables on; one that is read twice is there once."""

    def __init__(self, plan: Plan) -> None:
        self._texts: list[str] = []
        self._numbers: dict[int, int] = {}
        self._shared: dict[int, int] = {}
        self._parallelism: dict[int, str] = {}
        self._plan = plan

    def texts(self) -> list[str]:
        """The text of each stage."""
        self._number(self._plan.root)
        return self._texts

    def _number(self, node: Node) -> int:
        """Return the number of a node's stage, after those below it."""
        if id(node) in self._numbers:
            return self._numbers[id(node)]
        inputs = [self._ship(each) for each in node.inputs]
        number = self._add(node.title, inputs)
        assigner = mini_batches_of(self._plan, node)
        if assigner is not None:
            number = self._add(assigner, [(number, "FORWARD")])
        self._numbers[id(node)] = number
        return number

    def _add(self, title: Title, inputs: list[tuple[int, str]]) -> int:
        """Write a stage with the stages whose rows it gets, and return its number."""
        number = len(self._texts) + 1
        kind = "Operator" if inputs else "Data Source"
        lines = [f"Stage {number} : {kind}", f"    content : {line_of(title)}"]
        if inputs:
            shipped = ", ".join(f"{strategy} from {below}" for below, strategy in inputs)
            lines.append(f"    ship_strategy : {shipped}")
        self._parallelism[number] = self._spread(inputs)
        lines.append(f"    parallelism : {self._parallelism[number]}")
        self._texts.append("\n".join(lines))
        return number

    def _ship(self, node: Node) -> tuple[int, str]:
        """Return the stage whose rows come, and how they get there."""
        if not isinstance(node, Exchange):
            return self._number(node), "FORWARD"
        if node.reuse not in self._shared or not node.reuse:
            self._shared[node.reuse] = self._number(node.input)
        strategy = f"HASH[{', '.join(shown_names(node.keys))}]" if node.keys else "GLOBAL"
        return self._shared[node.reuse], strategy

    def _spread(self, inputs: list[tuple[int, str]]) -> str:
        """Return how many tasks run a stage with these inputs."""
        strategies = [strategy for _, strategy in inputs]
        if "GLOBAL" in strategies:
            return "1"
        if any(strategy.startswith("HASH") for strategy in strategies):
            return _OF_KEYS
        return self._parallelism[inputs[0][0]] if inputs else _OF_INPUT
