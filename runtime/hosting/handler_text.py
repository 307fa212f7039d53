"""A generated module on its way to a worker."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from aggloom.codegen import AggSpec, Backend, generate, load_text

_BACKEND = re.compile(r"^BACKEND = [\"'](\w+)", re.MULTILINE)


@dataclass(frozen=True)
class HandlerText:
    """A generated module as a worker needs it: the text, not the class."""

    text: str
    text_digest: str

    @property
    def backend(self) -> str:
        """The backend that the module says it runs on."""
        match = _BACKEND.search(self.text)
        return match[1] if match else ""

    def load(self) -> type[Any]:
        """The handler class."""
        return _load_class(self.text, self.text_digest)


@lru_cache(maxsize=64)
def _load_class(text: str, digest: str) -> type[Any]:
    """The class of a text; looking for it among the files of a full cache takes longer than a small batch."""
    return load_text(text, digest)


HandlerTexts = Callable[[AggSpec], HandlerText]
"""The function from the spec of a handler to its text."""


def handler_texts(backend: Backend) -> HandlerTexts:
    """The generated texts of specs, each generated when it is first asked for."""

    @cache
    def text(spec: AggSpec) -> HandlerText:
        source = generate(spec, backend=backend)
        source.refuse_untrusted()
        return HandlerText(source.text, source.digest)

    return text
