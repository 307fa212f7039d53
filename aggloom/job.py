"""A job: tables of changes in files, a query over them, its options and a sink, as `aggloom run` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from aggloom.errors import SpecError, nearest
from aggloom.run import TableSource, table_source

Changes = Literal["append", "retract"]


@dataclass(frozen=True)
class Job:
    """What is to be run; `options` are the planner's, by Flink's names or by keyword."""

    sql: str
    tables: tuple[TableSource, ...]
    checkpoint: Path
    sink: str = "console"
    changes: Changes = "retract"
    dialect: Literal["spark", "flink"] = "spark"
    backend: Literal["numba", "python"] = "numba"
    continuous: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def read_job(path: Path, **overrides: Any) -> Job:
    """The job of a YAML file; what `overrides` gives (other than None and nothing) wins.

        sql: SELECT name, SUM(cnt) AS total FROM t GROUP BY name
        tables:
          t: {path: changes/, format: debezium-json, schema: "name STRING, cnt INT"}
        sink: table
        checkpoint: state/
        options:
          table.exec.state.ttl: 1 d

    Raises SpecError naming the file and the entry.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SpecError(f"{path}: the job file cannot be read: {error}") from None
    if not isinstance(content, Mapping):
        raise SpecError(f"{path}: a job is a mapping with `sql`, `tables` and `checkpoint`.")
    known = [each.name for each in fields(Job)]
    for key in content:
        if key not in known:
            raise SpecError(f"{path}: there is no entry {key!r}. {nearest(str(key), known)}")
    given = dict(content)
    tables = given.get("tables")
    if not isinstance(tables, Mapping):
        raise SpecError(
            f"{path}: `tables` must be a mapping of names to {{path: ..., format: ...}}."
        )
    given["tables"] = tuple(
        table_source(name, settings, f"{path}, table {name}") for name, settings in tables.items()
    )
    options = given.get("options") or {}
    if not isinstance(options, Mapping):
        raise SpecError(f"{path}: `options` must be a mapping of names to values.")
    given["options"] = {**options, **(overrides.pop("options", None) or {})}
    given |= {key: value for key, value in overrides.items() if value not in (None, (), False)}
    return complete(given, str(path))


def complete(given: Mapping[str, Any], where: str) -> Job:
    """The job of these entries; raises SpecError for one that is missing or cannot be."""
    for name in ("sql", "tables", "checkpoint"):
        if not given.get(name):
            raise SpecError(
                f"{where}: there is no `{name}`; a job needs sql, tables and a checkpoint."
            )
    for name, allowed in _CHOICES.items():
        if given.get(name, allowed[0]) not in allowed:
            raise SpecError(
                f"{where}: {name} is {given[name]!r}. {nearest(str(given[name]), allowed)}"
            )
    job = Job(**given)
    return replace(job, checkpoint=Path(job.checkpoint))


_CHOICES = {
    "changes": ("retract", "append"),
    "dialect": ("spark", "flink"),
    "backend": ("numba", "python"),
}
