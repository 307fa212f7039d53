"""Columns as JSON, in an operator's description in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from aggloom.codegen import parse_type, type_name


def columns_data(columns: Iterable[pa.Field]) -> list[list[str]]:
    """Return names and types of columns as JSON can hold them."""
    return [[field.name, type_name(field.type)] for field in columns]


def columns_from(data: Any) -> pa.Schema:
    """Return the columns of what `columns_data` gave; raises SpecError, TypeError or ValueError."""
    return pa.schema([(name, parse_type(text)) for name, text in data])
