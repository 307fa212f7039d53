"""The options of Delta as a source and as a sink: the one list of each.

The keywords of `read_delta`, the entries of a job's tables and our own words in CREATE TABLE follow from `DeltaSource`;
the entries of a sink and their words from `DeltaOptions`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from aggloom.errors import SpecError
from aggloom.masking import mask_repr
from aggloom.runtime.connectors.source_options import IN_SQL, KEYWORD
from aggloom.runtime.lakes.options import LakeOptions, check_versions, lake_options
from aggloom.runtime.sinks.options import ELSEWHERE

Start = str | int | dt.datetime
"""A place in the versions of a table: "snapshot", "latest", a version, or the time of one."""


@mask_repr
@dataclass(frozen=True, kw_only=True)
class DeltaSource:
    """Options of a Delta table as a source; `read_delta` describes each.

    Example: a place that no table has.
        >>> DeltaSource(path="t", start=-1).check("table t")
        Traceback (most recent call last):
        ...
        aggloom.errors.SpecError: table t: start is version -1; the first one is 0
    """

    path: str | Path
    start: str | int = field(default="snapshot", metadata=IN_SQL)
    streaming: bool = field(default=True, metadata=KEYWORD)
    max_versions_per_trigger: int | None = field(default=None, metadata=IN_SQL)
    metadata: bool = False
    storage: Mapping[str, Any] | None = None

    def check(self, where: str) -> None:
        """Raise SpecError for an invalid option; where: begins the message."""
        self.parse_start(where)
        check_versions(self.max_versions_per_trigger, where)

    def parse_start(self, where: str) -> Start:
        """Return the place where reading begins; raises SpecError, where: begins the message."""
        start = self.start
        if isinstance(start, str) and start not in ("snapshot", "latest"):
            return int(start) if start.isdigit() else _moment(start, where)
        if isinstance(start, int) and start < 0:
            raise SpecError(f"{where}: start is version {start}; the first one is 0")
        return start


def _moment(text: str, where: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise SpecError(
            f"{where}: start is {text!r}; it must be snapshot, latest, a version, or a time as 2026-01-31T12:00:00"
        ) from None


@mask_repr
@dataclass(frozen=True, kw_only=True)
class DeltaOptions(LakeOptions):
    """Options of a Delta sink.

    path: the table's directory, or its URL in an object store. storage: options of the object store. Properties are
    Delta's, such as delta.enableChangeDataFeed.
    """

    path: str = field(metadata=ELSEWHERE)
    storage: Mapping[str, str] = field(default_factory=dict, metadata=ELSEWHERE)
    kind: ClassVar[str] = "delta"


def delta_options(entries: Mapping[str, Any]) -> DeltaOptions:
    """The options of a mapping; raises SpecError for an unknown, a missing or an invalid one."""
    path = entries.get("path")
    options = entries if path is None else {**entries, "path": str(path)}
    return lake_options(DeltaOptions, "delta", options, {"path": "lake/totals"})
