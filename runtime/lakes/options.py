"""The options that tables of files share, as sources and as sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aggloom.errors import SpecError
from aggloom.runtime.sinks.options import ELSEWHERE, read_options

FORMS = ("table", "changelog")
EXISTING = ("error", "keep", "replace")


@dataclass(frozen=True, kw_only=True)
class LakeOptions:
    """Options of each of these sinks.

    form: "table" (the result's rows, by its key) or "changelog" (each change, with `_change_type`). existing: what to
    do about rows that a checkpoint finds in the table when it first writes to it: "error", "keep", or "replace" them.
    replay: whether a checkpoint that has gone back to an older batch may write its batches again. create: whether the
    table is made if it is not there, by partition_by and properties. attempts: how often a batch is written that
    others keep from being committed. cast: whether values may be rounded and cut to the types of a table that is there.
    """

    form: str = "table"
    existing: str = "error"
    replay: bool = False
    create: bool = True
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, metadata=ELSEWHERE)
    attempts: int = 10
    cast: bool = False

    @property
    def needs_key(self) -> bool:
        """Tell whether nothing can be written without a key of the result."""
        return self.form == "table"


OptionsT = TypeVar("OptionsT", bound=LakeOptions)


def lake_options(
    options_class: type[OptionsT], kind: str, values: Mapping[str, Any], needed: Mapping[str, str]
) -> OptionsT:
    """The options of a mapping; raises SpecError for one that nobody reads, that is missing, or that cannot be."""
    options = read_options(
        options_class, kind, values, needed, {"form": FORMS, "existing": EXISTING}
    )
    if options.attempts < 1:
        raise SpecError(f"sink {kind}: attempts is {options.attempts}; it must be 1 at least")
    return options


def check_versions(most: int | None, where: str) -> None:
    """Raise SpecError for a number of versions in a batch that is none; where: begins the message."""
    if most is not None and (type(most) is not int or most < 1):
        raise SpecError(
            f"{where}: max_versions_per_trigger is {most!r}; it must be a whole number, 1 at least"
        )
