"""The options of Iceberg as a source and as a sink: the one list of each.

The keywords of `read_iceberg`, the entries of a job's tables and our own words in CREATE TABLE follow from
`IcebergSource`; the entries of a sink and their words from `IcebergOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aggloom.errors import SpecError
from aggloom.masking import mask_repr
from aggloom.runtime.connectors.source_options import IN_SQL, KEYWORD, entry
from aggloom.runtime.lakes.options import LakeOptions, check_versions, lake_options
from aggloom.runtime.sinks.options import ELSEWHERE


@mask_repr
@dataclass(frozen=True, kw_only=True)
class IcebergSource:
    """Options of an Iceberg table as a source; `read_iceberg` describes each.

    Example: a name without the namespace.
        >>> IcebergSource(table="t").check("here")
        Traceback (most recent call last):
        ...
        aggloom.errors.SpecError: here: the path is 't'; write the table's name with its namespace, as in db.orders
    """

    table: str = field(metadata=entry("path"))
    start: str | int = field(default="snapshot", metadata=IN_SQL)
    streaming: bool = field(default=True, metadata=KEYWORD)
    max_versions_per_trigger: int | None = field(default=None, metadata=IN_SQL)
    catalog: str = "default"
    connect: Mapping[str, Any] | None = None

    def check(self, where: str) -> None:
        """Raise SpecError for an invalid option; where: begins the message."""
        if "." not in self.table:
            raise SpecError(
                f"{where}: the path is {self.table!r}; write the table's name with its namespace, as in db.orders"
            )
        self.parse_start(where)
        check_versions(self.max_versions_per_trigger, where)

    def parse_start(self, where: str) -> str | int:
        """Return the place where reading begins; raises SpecError, where: begins the message."""
        start = self.start
        if not isinstance(start, str) or start in ("snapshot", "latest"):
            return start
        if not start.isdigit():
            raise SpecError(
                f"{where}: start is {start!r}; it must be snapshot, latest, or the id of a snapshot"
            )
        return int(start)


@mask_repr
@dataclass(frozen=True, kw_only=True)
class IcebergOptions(LakeOptions):
    """Options of an Iceberg sink.

    table: its name, with its namespace (db.totals). catalog: the name of the catalog; connect: its properties, such as
    type, uri and warehouse.
    """

    table: str = field(metadata=ELSEWHERE)
    catalog: str = field(default="default", metadata=ELSEWHERE)
    connect: Mapping[str, str] = field(default_factory=dict, metadata=ELSEWHERE)
    kind: ClassVar[str] = "iceberg"


def iceberg_options(entries: Mapping[str, Any]) -> IcebergOptions:
    """The options of a mapping; raises SpecError for an unknown, a missing or an invalid one."""
    options = lake_options(IcebergOptions, "iceberg", entries, {"table": "db.totals"})
    if "." not in options.table:
        raise SpecError(
            f"sink iceberg: table is {options.table!r}; write it with its namespace, as in db.totals"
        )
    return options
