"""The options of Delta as a source and as a sink: the one list of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aggloom.masking import mask_repr
from aggloom.runtime.lakes.options import LakeOptions, lake_options
from aggloom.runtime.sinks.options import ELSEWHERE


@mask_repr
@dataclass(frozen=True, kw_only=True)
class DeltaOptions(LakeOptions):
    """Options of a Delta sink.

    path: the table's directory, or where it is in an object store. storage: options of the object store. Properties
    are Delta's, as delta.enableChangeDataFeed.
    """

    path: str = field(metadata=ELSEWHERE)
    storage: Mapping[str, str] = field(default_factory=dict, metadata=ELSEWHERE)
    kind: ClassVar[str] = "delta"


def delta_options(given: Mapping[str, Any]) -> DeltaOptions:
    """The options of a mapping; raises SpecError for one that nobody reads, that is missing, or that cannot be."""
    path = given.get("path")
    told = given if path is None else {**given, "path": str(path)}
    return lake_options(DeltaOptions, "delta", told, {"path": "lake/totals"})
