"""The operators of a checkpoint's query with their generated modules, of which nothing is run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from aggloom.codegen import AggSpec, Backend, generate, lines_of_calls
from aggloom.errors import AggloomError
from aggloom.runtime.hosting.checkpoint_paths import QUERY_FILE, corrupt
from aggloom.runtime.hosting.query_record import read_committed_query
from aggloom.runtime.inspection import FragmentDescription
from aggloom.runtime.page.formatting import ranges

_SHOWN_CALLS = 40


@dataclass(frozen=True)
class SourceProgress:
    """A generated module. lines: (number, text, numbers of its calls); calls: (text, ranges of lines)."""

    digest: str
    backend: str
    lines: list[tuple[int, str, list[int]]]
    calls: list[tuple[str, list[tuple[int, int]]]]


@dataclass(frozen=True)
class OperatorProgress:
    """An operator of a query by its place ("0.1": the second one of the fragment that emits the result).

    keys: the columns of its key. source: None where it has none that can be shown, for the reason in `note`.
    """

    place: str
    name: str
    keys: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    windows: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: SourceProgress | None = None
    note: str = ""


def operators_of(root: Path, trust: bool = False) -> list[OperatorProgress]:
    """The operators of the query of a local checkpoint. Raises StateCorruptError."""
    try:
        return list(_operators(root, trust))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        # The checksum is right, but the content is not what this version writes.
        raise corrupt(f"{QUERY_FILE} cannot be read ({type(error).__name__})") from error


def _operators(root: Path, trust: bool) -> Iterator[OperatorProgress]:
    query = read_committed_query(root)
    if query is None:
        return
    for place, about in enumerate(query.operators):
        described = FragmentDescription.parse(json.dumps(about).encode(), trust)
        parts: list[Any] = list(about["parts"])
        for number, part in enumerate(described.parts):
            known: dict[str, Any] = {"keys": part.key_names, "windows": str(part.windows or "")}
            try:
                known |= {"calls": part.call_names, "settings": part.plain_settings}
                if part.settings_of.handler_spec is None:
                    known["note"] = (
                        "no code is generated for it: it is one of the built-in operators"
                    )
                else:
                    backend = "python" if parts[number].get("backend") == "python" else "numba"
                    known["source"] = _source(part.agg_spec, backend)
            except AggloomError as error:
                known["note"] = str(error)
            yield OperatorProgress(f"{place}.{number}", part.operator, **known)


@lru_cache(maxsize=32)
def _source(spec: AggSpec, backend: Backend) -> SourceProgress:
    module = generate(spec, backend)
    by_call = lines_of_calls(module.text, spec)
    calls_by_line: dict[int, list[int]] = {}
    for number, lines in enumerate(list(by_call.values())[:_SHOWN_CALLS]):
        for line in lines:
            calls_by_line.setdefault(line, []).append(number)
    return SourceProgress(
        module.digest,
        module.backend,
        [
            (number, text, calls_by_line.get(number, []))
            for number, text in enumerate(module.text.splitlines(), 1)
        ],
        [(call, ranges(lines)) for call, lines in by_call.items()],
    )
