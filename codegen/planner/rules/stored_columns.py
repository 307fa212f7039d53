"""Columns that no stored row can have, refused after all rules have run: what nothing reads is gone by then."""

from __future__ import annotations

from aggloom.codegen.operators import Deduplicate, MatchRows, Node, Over, walk
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode
from aggloom.codegen.spec.dtypes import VARIANT, is_supported, type_name
from aggloom.codegen.sql.errors import refusal


def check_stored_columns(root: Node) -> None:
    """Refuse a MAP in the rows that an operator stores, by its name, which the operator itself does not know."""
    for node in walk(root):
        if not isinstance(node, KeyedRowsNode) or _stores_no_rows(node):
            continue
        for field in (field for each in node.inputs for field in each.schema):
            if field.type != VARIANT and not is_supported(field.type):
                what = f"column {field.name!r} of type {type_name(field.type)} in rows that {_name(node)} stores is"
                fix = "leave it out in a query below, or read it there as MAP_ENTRIES(..), an ARRAY of rows"
                raise refusal(None, what, fix)


def _stores_no_rows(node: KeyedRowsNode) -> bool:
    """Tell whether of a key it is only remembered that a row of it has been emitted."""
    return isinstance(node, Deduplicate) and not node.holds_rows


def _name(node: KeyedRowsNode) -> str:
    if isinstance(node, MatchRows):
        return "MATCH_RECOGNIZE"
    return "OVER" if isinstance(node, Over) else node.title[0]
