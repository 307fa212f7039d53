"""Columns that no stored row can have, refused after all rules have run: what nothing reads is gone by then."""

from __future__ import annotations

from typing import Final

from aggloom.codegen.operators import Node, walk
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode
from aggloom.codegen.spec.dtypes import VARIANT, is_supported, type_name
from aggloom.codegen.sql.errors import refusal

_WORDS: Final = {"Match": "MATCH_RECOGNIZE", "OverAggregate": "OVER"}
"""Words of the query for nodes whose title is another word."""


def check_stored_columns(root: Node) -> None:
    """Refuse a MAP in the rows that an operator stores, by its name, which the operator itself does not know."""
    for node in walk(root):
        if not isinstance(node, KeyedRowsNode) or not node.stores_rows:
            continue
        for field in (field for each in node.inputs for field in each.schema):
            if field.type != VARIANT and not is_supported(field.type):
                name = _WORDS.get(node.title[0], node.title[0])
                what = f"column {field.name!r} of type {type_name(field.type)} in rows that {name} stores is"
                fix = "leave it out in a query below, or read it there as MAP_ENTRIES(..), an ARRAY of rows"
                raise refusal(None, what, fix)
