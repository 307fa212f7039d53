"""The contract of a plan's nodes: frozen, printable data that answers the planner's questions about itself.

A node that leaves a question open cannot be made. Rows that come from other nodes are asked for through `inputs`, so
that an answer never depends on the kind of the operator below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

import pyarrow as pa

from aggloom.codegen.spec.agg_spec import AggSpec

Trend = Literal["constant", "increasing", "decreasing"]
Key = tuple[str, ...]
Title = tuple[str, dict[str, list[str]]]
Waker = Literal["", "time to live", "the clock", "the watermark"]
KINDS = ("I", "UB", "UA", "D")
"""The kinds of rows of a changelog, in the order in which they are listed."""


class WindowColumns(NamedTuple):
    """The columns in which the event-time window of a row starts and ends, and of its last millisecond.

    text: how windows are made.
    """

    start: str
    end: str
    time: str | None
    text: str


class Pruner(Protocol):
    """The calls that a node makes while it is pruned: to prune its inputs, and to note what was left out."""

    def input(self, node: Node, names: list[str]) -> Node: ...

    def note_dropped_calls(self, spec: AggSpec, pruned: AggSpec) -> None: ...

    def note_replacement(self, spec: Subject, pruned: Subject) -> None: ...


@dataclass(frozen=True)
class Node(ABC):
    """A step of a plan."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose rows it reads."""
        # Nodes with several inputs override this; one that reads none has no field `input`.
        single = getattr(self, "input", None)
        return () if single is None else (single,)

    def over(self, *inputs: Node) -> Node:
        """The same step over other inputs."""
        changes: dict[str, Any] = {"input": inputs[0]} if inputs else {}
        return replace(self, **changes)

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns that it emits."""

    @property
    @abstractmethod
    def changelog(self) -> tuple[str, ...]:
        """The kinds of rows that it may emit, of I, UB, UA, D."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """True if each retraction follows the row that it retracts."""

    @property
    @abstractmethod
    def never_deletes(self) -> bool:
        """True if a row is never deleted, but perhaps replaced by another one of the same origin."""

    @property
    def never_null(self) -> frozenset[str]:
        """Columns of which no row has NULL, as far as the plan says."""
        return frozenset()

    @property
    @abstractmethod
    def unique_keys(self) -> tuple[Key, ...]:
        """Sets of columns of which no two rows have the same values, the plainest first."""

    @property
    @abstractmethod
    def trends(self) -> dict[str, Trend]:
        """Trends of columns when a row is replaced; a column without a trend is left out."""

    @property
    @abstractmethod
    def clock_columns(self) -> frozenset[str]:
        """The columns that stand for the time at which a row is seen."""

    @property
    @abstractmethod
    def distribution(self) -> Key | None:
        """The columns by which rows lie together: rows that agree in them are in one place. None: nothing is known."""

    @property
    @abstractmethod
    def lineage(self) -> str:
        """The text by which a state above it knows the query that it was made from; empty if it changes no row."""

    @property
    @abstractmethod
    def title(self) -> Title:
        """The name in Flink's words, and what its line in EXPLAIN says, as lists of texts."""

    @abstractmethod
    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        """The node with at least these of its columns, over inputs with no more than it reads."""

    @property
    def appends_only(self) -> bool:
        """True if nothing is ever retracted."""
        return self.changelog == ("I",)

    @property
    def non_negative(self) -> frozenset[str]:
        """The columns that are known never to be below zero, or NULL at most."""
        return frozenset()

    @property
    def join_conditions(self) -> tuple[str, ...]:
        """The further conditions that joined rows meet, over the columns of all inputs."""
        return ()

    @property
    def unique_key(self) -> Key | None:
        """The plainest unique key, one whose changes come in order if there is any; None if there is none."""
        return next(iter((*self.ordered_keys, *self.unique_keys)), None)

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        """The unique keys of which a row leaves after the one that it replaces, as it was made in the same place.

        Of others, such as the order's of orders that were joined by customer, the new row may come first.
        """
        return ()

    @property
    def constants(self) -> set[str]:
        """The columns that stay as they are when a row is replaced."""
        return {name for name, trend in self.trends.items() if trend == "constant"}

    @property
    def awaits_watermark(self) -> bool:
        """True if it emits rows when the watermark passes them."""
        return False

    @property
    def shows_last_watermark(self) -> bool:
        """True if its rows are the state at the last watermark, which the end of input leaves as it is."""
        return False

    @property
    def asks_elsewhere(self) -> bool:
        """True if its rows depend on the answers of another system at the time when they arrive."""
        return False

    @property
    def follows_batches(self) -> bool:
        """True if its rows depend on which rows arrive in one batch."""
        return False

    @property
    def event_times(self) -> frozenset[str]:
        """The columns that the watermark goes by: rows on time are behind it in none of them, but for its delay."""
        return frozenset()

    @property
    def window_columns(self) -> WindowColumns | None:
        """The columns with the window of each row; None: rows are in no event-time windows, or lack the columns."""
        return None

    @property
    def watermark_delay(self) -> int:
        """Milliseconds by which the watermark is delayed for the rows that it emits."""
        return max((each.watermark_delay for each in self.inputs), default=0)

    @property
    def handlers(self) -> tuple[AggSpec, ...]:
        """The specs that the handlers that it runs are generated from."""
        return ()

    @property
    def accumulators(self) -> AggSpec | None:
        """The spec that the handler of its emitted accumulators is generated from; None: it emits rows."""
        return None

    @property
    def rows(self) -> Node:
        """The node whose rows these are: of accumulators, the node of the rows that were aggregated."""
        return self

    def emit_changes(self) -> Node:
        """The node where its lists are unnested right above it: its updates may have only the rows that changed."""
        return self

    @property
    def remark(self) -> str:
        """The remark on it that `explain` prints below the tree; empty if there is none."""
        return ""

    @property
    def lineage_data(self) -> Any:
        """The lineage as data, so that parts of it can be compared."""
        return self.lineage

    def insert_exchange(self) -> Node:
        """The node as it runs, over exchanged rows if it has keyed state."""
        return self

    def within(self, names: Key) -> tuple[dict[str, str], ...] | str:
        """The names of these columns in each input; or why rows cannot pass it inside of a stateful node."""
        return f"{self.title[0]} is between them"

    def without_before(self) -> Node:
        """The plan up to here for a reader that needs no -U: its last operators do not emit them."""
        return self


class Subject(Protocol):
    """The subject of the rules' notes."""

    @property
    def digest(self) -> str: ...


class Stateful(Node):
    """A node that becomes an operator with state. Each input comes over an Exchange, or from operators of its fragment.

    merges: its input are accumulators.
    """

    merges: bool

    @property
    @abstractmethod
    def subject(self) -> Subject:
        """The subject of the rules' notes on it."""

    @property
    @abstractmethod
    def keys(self) -> Key:
        """The columns of the key of its state."""

    @abstractmethod
    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        """Return its state as data: the parts, what bounds them, and the bytes of a key."""

    @property
    def distribution(self) -> Key | None:
        return self.inputs[0].distribution

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        # All rows of such a key are in one task, whose changes come in order (decision 034).
        return tuple(key for key in self.unique_keys if set(self.keys) <= set(key))

    @property
    def name(self) -> str:
        """Name of its operator in messages."""
        return f"GROUP BY {', '.join(self.keys) or '()'}"

    def below(self, names: Key) -> tuple[dict[str, str], ...]:
        """The names in each input of those of these columns that are in its key."""
        return tuple({name: name for name in names if name in self.keys} for _ in self.inputs)

    @property
    def onward(self) -> tuple[Node, ...]:
        """The steps that its changes pass before they are aggregated into accumulators, each over a scan."""
        return ()

    @property
    def spreads(self) -> bool:
        """True if it distributes the rows of a key over several tasks, and so shares no fragment with what is above."""
        return False

    def wakes_by(self, ttl: int) -> Waker:
        """Return what calls it without input rows; ttl: the milliseconds after which it forgets a key (0: never)."""
        if self.awaits_watermark:
            return "the watermark"
        return "time to live" if ttl else ""

    @property
    @abstractmethod
    def local_obstacle(self) -> str:
        """The reason why its rows cannot be aggregated before they are exchanged; empty if they can."""

    @abstractmethod
    def local_half(self, rows: Node) -> Node:
        """The node that aggregates its rows before the exchange."""

    @property
    @abstractmethod
    def state_description(self) -> dict[str, Any]:
        """Return the data that its state depends on, besides the plan below it."""


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with `change` applied to every node, inputs first."""
    inputs = tuple(transform(each, change) for each in node.inputs)
    # By identity: a node that has not changed stays the same object, with what it has computed of itself.
    changed = inputs and any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
    return change(node.over(*inputs) if changed else node)


def walk(node: Node) -> list[Node]:
    """All nodes, each after its inputs."""
    # Each node is listed before its inputs, and the list is then turned around.
    nodes, waiting = [], [node]
    while waiting:
        nodes.append(waiting.pop())
        waiting += nodes[-1].inputs
    return nodes[::-1]


def mark(*schemas: pa.Schema) -> str:
    """Return the start of a planner's own names: `$`, or as many of them as no name of these columns starts with."""
    prefix = "$"
    # A user's column may begin with $, and one of an earlier step of the planner does.
    while any(name.startswith(prefix) for schema in schemas for name in schema.names):
        prefix += "$"
    return prefix


def sort_kinds(kinds: set[str]) -> tuple[str, ...]:
    """Kinds of rows in their order."""
    return tuple(kind for kind in KINDS if kind in kinds)


def constant(names: list[str] | Key) -> dict[str, Trend]:
    """The trends of columns that stay as they are."""
    return dict.fromkeys(names, "constant")
