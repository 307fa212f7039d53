"""Templates, and the filters by which texts of users enter what they print."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

_ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def template_environment() -> Environment:
    """The environment of all templates; trimmed blocks make marks for white space unnecessary."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from aggloom.codegen.template_cache import CompiledTemplates

    templates = Environment(
        loader=FileSystemLoader(_ROOT / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        bytecode_cache=CompiledTemplates(Path(__file__)),
    )
    templates.filters["literal"] = literal
    templates.filters["comment"] = comment
    templates.filters["data"] = _data
    templates.filters["docstring"] = escape_docstring
    return templates


def literal(value: str) -> str:
    """A Python string literal, quoted as black does: the one way by which user text enters generated code."""
    text = ascii(value)
    return text if '"' in text else f'"{text[1:-1]}"'


def _data(value: object) -> str:
    """A literal of nested tuples, texts and numbers."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_data, value))}{',' * (len(value) == 1)})"
    return literal(value) if isinstance(value, str) else ascii(value)


def comment(text: str) -> str:
    """User text inside a comment: one line, no control characters."""
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+", " ", text)


def escape_docstring(text: str) -> str:
    """User text inside a docstring: one line, nothing that ends or escapes it."""
    return comment(text).replace("\\", "\\\\").replace('"', '\\"')
