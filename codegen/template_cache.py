"""Templates as Jinja compiled them, in the user's cache."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

from aggloom.errors import GeneratedSourceError
from aggloom.private_directory import cache_directory, refuse_foreign


class CompiledTemplates(BytecodeCache):
    """A cache of templates: it takes longer to compile one than to print a module.

    filters: the file of their filters, which what Jinja compiles knows, too.
    """

    def __init__(self, filters: Path) -> None:
        self._filters = filters.read_bytes()

    def get_source_checksum(self, source: str) -> str:
        return hashlib.sha256(self._filters + source.encode()).hexdigest()

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
