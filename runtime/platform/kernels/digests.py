"""Digests of modules, which are part of the cache keys of compiled kernels: an edited module has others."""

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
    """The digest of the text of a module, and of the modules whose kernels it calls.

    Numba checks a function's own file alone: it would load code that was compiled with an older kernel of another file,
    and two kernels would disagree about a hash or a layout.
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
