"""Clauses with sub-queries: what these ask of the FROM that they stand below, and of what builds a query's blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlglot import exp

from aggloom.codegen.operators import Node
from aggloom.codegen.planner.builders.join_tree import Tree
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.sql.relations import Relations


class ClauseBuilder(Protocol):
    """The builder of the blocks of a query."""

    dialect: str
    notes: Notes

    def relation(self, source: exp.Expression) -> tuple[Node, set[str]]: ...

    def over(self, tree: exp.Select, source: Node, names: set[str]) -> Node: ...

    def block(self, tree: exp.Select, source: Node, names: set[str]) -> Node: ...

    def query(self, tree: exp.Expression) -> Node: ...

    def within(self, tree: exp.Expression) -> ClauseBuilder: ...

    def with_tables(self, rows: Mapping[str, Node]) -> ClauseBuilder: ...


class Clause(Protocol):
    """A FROM on its way: its rows, what they are called, and the conditions that tie it to the query around it."""

    builder: ClauseBuilder
    tree: Tree
    relations: Relations
    names_in_use: set[str]
    correlated: list[exp.Expression]
    known: dict[tuple[str, bool], exp.Expression]

    def sub(self, builder: ClauseBuilder, query: exp.Select) -> Clause: ...

    def over(self, tree: Tree, relations: Relations) -> Clause: ...

    def read_clause(self) -> None: ...

    def conditions(self) -> list[exp.Expression]: ...

    def filter(self, conditions: list[exp.Expression]) -> None: ...

    def rewrite_query(self) -> exp.Select: ...

    def join_values(self, node: exp.Expression) -> exp.Expression: ...

    def fresh(self, stem: str) -> str: ...

    def apart(self, node: Node, names: set[str]) -> tuple[Node, dict[str, str]]: ...
