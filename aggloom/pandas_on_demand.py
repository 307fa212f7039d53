"""pandas for pyarrow when something else imports it, and not before.

pyarrow asks for pandas as soon as a list, a NumPy array or a scalar becomes Arrow's, to know its objects. Importing it
takes longer than a small query. Where nothing else has imported pandas there are no such objects.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_NAME = "pandas"


def put_off_pandas() -> None:
    """Let pyarrow do without pandas until something else imports it: for processes that are a command's own."""
    import pyarrow as pa

    if _NAME in sys.modules:
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    # It asks once.
    pa.array([], pa.null())
    finder.is_hiding = False


class _Finder(MetaPathFinder):
    """Hides pandas while pyarrow asks for it, and tells pyarrow when something else has imported it."""

    is_hiding = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find pandas as the other finders do, with a loader that tells pyarrow."""
        if fullname != _NAME:
            return None
        if self.is_hiding:
            raise ModuleNotFoundError(f"{_NAME} is put off", name=_NAME)
        sys.meta_path.remove(self)
        spec = find_spec(_NAME)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Loads pandas by another loader; then pyarrow looks for it again."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module as the other loader does."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module as the other loader's, and let pyarrow convert something to pandas."""
        import pyarrow as pa

        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        pa.nulls(0).to_pandas()
