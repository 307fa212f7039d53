"""Templates, and the filters by which texts of users enter what they print."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from aggloom.errors import GeneratedSourceError
from aggloom.private_directory import cache_directory, refuse_foreign

_ROOT = Path(__file__).resolve().parent.parent


class _Compiled(BytecodeCache):
    """Templates as Jinja compiled them, in the user's cache: it takes longer to compile one than to print a module."""

    def get_source_checksum(self, source: str) -> str:
        # What Jinja compiles knows the filters of this file, too.
        return hashlib.sha256(_filters() + source.encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError, GeneratedSourceError), _place(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError, GeneratedSourceError):
            path = _place(bucket)
            path.parent.mkdir(exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    bucket.write_bytecode(file)
                Path(draft).replace(path)
            finally:
                Path(draft).unlink(missing_ok=True)


def _place(bucket: Bucket) -> Path:
    """The file of a template; raise GeneratedSourceError if others may put one there."""
    directory = cache_directory() / "templates"
    refuse_foreign(directory if directory.exists() else directory.parent)
    return directory / bucket.key


@functools.cache
def _filters() -> bytes:
    return Path(__file__).read_bytes()


@functools.cache
def environment() -> Environment:
    """The environment of all templates; trimmed blocks make marks for white space unnecessary."""
    templates = Environment(
        loader=FileSystemLoader(_ROOT / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        bytecode_cache=_Compiled(),
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
