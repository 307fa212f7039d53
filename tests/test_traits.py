"""Every kind of node answers for every trait; one that does not is told, not guessed at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import isabstract

import pyarrow as pa
import pytest

from aggloom.codegen.planner import nodes
from aggloom.codegen.planner.nodes import Node, Scan
from aggloom.codegen.planner.traits import TRAITS, Trait, changelog, never_deletes
from aggloom.errors import InternalError


def kinds(base: type[Node] = Node) -> Iterator[type[Node]]:
    """The kinds of node that the planner has."""
    for kind in base.__subclasses__():
        if kind.__module__ == nodes.__name__ and not isabstract(kind):
            yield kind
        yield from kinds(kind)


@pytest.mark.parametrize("trait", TRAITS, ids=lambda trait: trait.name)
def test_every_kind_of_node_has_an_answer(trait: Trait[object]) -> None:
    found = set(kinds())
    assert len(found) >= 12
    assert found == set(trait._answers)


@dataclass(frozen=True)
class TopN(Node):
    """A kind of node that nobody has told the planner about."""

    input: Node

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@pytest.mark.parametrize("trait", TRAITS, ids=lambda trait: trait.name)
def test_a_node_without_an_answer_is_named_with_the_trait(trait: Trait[object]) -> None:
    scan = Scan("t", pa.schema([("v", pa.int64())]), "append")
    with pytest.raises(InternalError, match=f"TopN do not say their trait '{trait.name}'"):
        trait(TopN(scan))


def test_answers_are_kept_with_the_node() -> None:
    scan = Scan("t", pa.schema([("v", pa.int64())]), "append")
    assert changelog(scan) == ("I",) and never_deletes(scan)
    assert scan.__dict__["_changelog"] == ("I",)
