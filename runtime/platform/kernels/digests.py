"""Digests of modules, by which compiled kernels are kept: a change of their text gives other names."""

from __future__ import annotations

import hashlib
from functools import cache
from sys import modules
from typing import Any

from numba.core.dispatcher import Dispatcher

from aggloom.runtime.platform.kernels.interpreting import Kernel


@cache
def digest_text(loader: Any, path: str) -> str:
    """The digest of a module's text, which may be in an archive."""
    return hashlib.sha256(loader.get_data(path)).hexdigest()[:16]


@cache
def digest_module(name: str) -> str:
    """The digest of the text of a module, and of those whose kernels its own have in them.

    Numba looks at a function's own file alone: code that is compiled with a kernel of another file would stay as it is
    when that file changes, and two kernels would disagree about one hash or one layout.
    """
    module = modules[name]
    digest = hashlib.sha256()
    if module.__spec__ is not None and module.__file__ is not None:
        digest.update(digest_text(module.__spec__.loader, module.__file__).encode())
    others = {
        value.py_func.__module__
        for value in vars(module).values()
        if isinstance(value, (Dispatcher, Kernel)) and value.py_func.__module__ != name
    }
    for other in sorted(others):
        digest.update(digest_module(other).encode())
    return digest.hexdigest()[:16]
