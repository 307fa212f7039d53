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

    form: "table" (the result's rows, by its key) or "changelog" (each change, with `_change_type`). existing: the fate
    of rows that a checkpoint finds in the table at its first batch: "error", "keep" or "replace". replay: let a
    checkpoint that was restored to an older batch write its batches again. create: create a missing table, with
    partition_by and properties. attempts: of a batch whose commit conflicts with others. cast: let values be rounded
    and cut to the types of an existing table.
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
        """True if the result needs a key."""
        return self.form == "table"


OptionsT = TypeVar("OptionsT", bound=LakeOptions)


def lake_options(
    options_class: type[OptionsT], kind: str, values: Mapping[str, Any], needed: Mapping[str, str]
) -> OptionsT:
    """The options of a mapping; raises SpecError for an unknown, a missing or an invalid one."""
    options = read_options(
        options_class, kind, values, needed, {"form": FORMS, "existing": EXISTING}
    )
    if options.attempts < 1:
        raise SpecError(f"sink {kind}: attempts is {options.attempts}; it must be 1 at least")
    return options


def check_versions(most: int | None, where: str) -> None:
    """Raise SpecError for an invalid number of versions in a batch; where: begins the message."""
    if most is not None and (type(most) is not int or most < 1):
        raise SpecError(
            f"{where}: max_versions_per_trigger is {most!r}; it must be a whole number, 1 at least"
        )
