"""Columns of VARIANT where they come in and leave: texts of JSON in the one form, and JSON as others have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import DataError
from aggloom.runtime.scalar.variant_documents import (
    parse_document,
    read_document,
    to_json,
    write_document,
)
from aggloom.runtime.scalar.variants import VARIANT

_SHOWN = 80
_MARKED = r"[0-9]E|[0-9]\.0(?:[,\]}]|$)"
"""Numbers in the one form that may say more than in JSON: 1.5E0 is a DOUBLE, and 2.0 a DECIMAL."""


def variant_text(text: str) -> str:
    """A text of JSON in the one form; raises ValueError for what is no JSON, DataError for what nests too deep."""
    try:
        return write_document(parse_document(text))
    except ValueError as error:
        raise ValueError(f"{text[:_SHOWN]!r} is no JSON ({error})") from None


def read_variants(texts: pa.Array) -> pa.Array:
    """Texts of JSON as VARIANTs; raises as `variant_text` does."""
    values = [None if text is None else variant_text(text) for text in texts.to_pylist()]
    return pa.array(values, VARIANT)


def written_variants(values: Sequence[Any]) -> pa.Array:
    """Documents of Python's values as texts of the one form; raises DataError for one that JSON has no words for."""
    try:
        texts = [None if value is None else write_document(value) for value in values]
    except ValueError as error:
        raise DataError(
            f"a VARIANT has a value that JSON has not ({error}); CAST it before"
        ) from None
    return pa.array(texts, pa.string())


def shown_document(text: str) -> str:
    """A text of JSON as TO_JSON writes it; raises as `variant_text` does."""
    return to_json(read_document(variant_text(text)))


def shown_variants(rows: pa.Table) -> pa.Table:
    """Rows as they leave: their VARIANTs are JSON as TO_JSON writes it, still of Arrow's type of JSON."""
    for place, field in enumerate(rows.schema):
        if field.type == VARIANT:
            chunks = [json_texts(chunk).cast(VARIANT) for chunk in rows.column(place).chunks]
            rows = rows.set_column(place, field, pa.chunked_array(chunks, VARIANT))
    return rows


def json_texts(column: pa.Array) -> pa.Array:
    """VARIANTs as texts of JSON, as TO_JSON writes them.

    >>> json_texts(pa.array(['{"a":1.5E0}', None], VARIANT)).to_pylist()
    ['{"a":1.5}', None]
    """
    texts = column.storage
    # Most texts are their own JSON, and a search takes far less than reading them.
    marked = pc.match_substring_regex(texts, _MARKED)
    if not pc.any(marked).as_py():
        return texts
    json = [
        to_json(read_document(text)) if again else text
        for text, again in zip(texts.to_pylist(), marked.to_pylist(), strict=True)
    ]
    return pa.array(json, pa.string())
