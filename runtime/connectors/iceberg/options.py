"""The options of Iceberg as a source and as a sink: the one list of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aggloom.errors import SpecError
from aggloom.masking import mask_repr
from aggloom.runtime.lakes.options import LakeOptions, lake_options
from aggloom.runtime.sinks.options import ELSEWHERE


@mask_repr
@dataclass(frozen=True, kw_only=True)
class IcebergOptions(LakeOptions):
    """Options of an Iceberg sink.

    table: its name, with its namespace (db.totals). catalog: the name of the catalog; connect: what is said to it, as
    type, uri and warehouse.
    """

    table: str = field(metadata=ELSEWHERE)
    catalog: str = field(default="default", metadata=ELSEWHERE)
    connect: Mapping[str, str] = field(default_factory=dict, metadata=ELSEWHERE)
    kind: ClassVar[str] = "iceberg"


def iceberg_options(given: Mapping[str, Any]) -> IcebergOptions:
    """The options of a mapping; raises SpecError for one that nobody reads, that is missing, or that cannot be."""
    made = lake_options(IcebergOptions, "iceberg", given, {"table": "db.totals"})
    if "." not in made.table:
        raise SpecError(
            f"sink iceberg: table is {made.table!r}; write it with its namespace, as in db.totals"
        )
    return made
