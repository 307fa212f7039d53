"""Trust in the Python source of users' functions: it may run if this process registered it, or the user trusts it.

Reading a source cannot show that it is harmless. A source in the text of a spec is data: it is shown, explained and
written into modules, and runs only after its reader trusts it.
"""

from __future__ import annotations

from collections.abc import Iterable

from aggloom.codegen.catalogue.entry import Aggregate
from aggloom.errors import UntrustedCodeError

NOT_TRIED = "its source is not trusted, so that it was not tried (--trust, trust=True)"

_TRUSTED: set[str] = set()
"""The sources that may run."""


def trust(entry: Aggregate) -> None:
    """Let the source of a function run from now on."""
    if entry.code is not None:
        _TRUSTED.add(entry.code.source)


def is_trusted(entry: Aggregate) -> bool:
    """Tell whether a function may run: it has no source of its own, or one that is trusted."""
    return entry.code is None or entry.code.source in _TRUSTED


def find_untrusted(entries: Iterable[Aggregate]) -> tuple[str, ...]:
    """The names of the functions that may not run."""
    return tuple(dict.fromkeys(entry.name for entry in entries if not is_trusted(entry)))


def refuse(names: Iterable[str]) -> None:
    """Raise UntrustedCodeError if there are names of functions that may not run."""
    listed = ", ".join(names)
    if listed:
        raise UntrustedCodeError(
            f"{listed}: its Python source is in the text of a spec, and would run here. If you trust whoever wrote "
            "it, pass --trust (trust=True to from_yaml and from_json)."
        )
