"""Every kind of node answers what the planner asks of it; one that does not cannot be made."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from aggloom.codegen.operators import Node, Scan


@dataclass(frozen=True)
class TopN(Node):
    """A kind of node that says nothing but its columns."""

    input: Node

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


def test_a_node_that_leaves_questions_open_is_refused_by_their_names() -> None:
    scan = Scan("t", pa.schema([("v", pa.int64())]), "append")
    with pytest.raises(TypeError, match=r"abstract.*changelog.*is_complete.*never_deletes.*trends"):
        TopN(scan)  # type: ignore[abstract]


def test_no_question_has_an_answer_that_a_new_node_would_inherit() -> None:
    open_ = {"changelog", "is_complete", "never_deletes", "unique_keys", "trends", "distribution"}
    assert (
        open_ | {"clock_columns", "lineage", "title", "prune_columns", "schema"}
        == Node.__abstractmethods__
    )
