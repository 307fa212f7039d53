"""A job: tables of changes in files, a query over them, its options and a sink, as `aggloom run` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from aggloom.codegen import bind_parameters, insertions, read_script
from aggloom.codegen.spec.choices import (
    BACKENDS,
    DIALECTS,
    TABLE_CHANGES,
    Backend,
    Dialect,
    TableChanges,
)
from aggloom.errors import SpecError, nearest
from aggloom.masking import mask_repr
from aggloom.runtime.connectors.registry import destination
from aggloom.tables import TableSource, relative_to, table_source
from aggloom.text_file import read_text


@mask_repr
@dataclass(frozen=True)
class Job:
    """A query or script to run, with its tables; `options` are the planner's, by Flink's names or by keyword.

    checkpoint: the directory for progress and state; without one a run starts from the beginning and keeps nothing.
    key: the key columns of the sink, if they are declared; into: the table of the script's INSERT INTO.
    keep_open: whether unfinished windows stay open at the end of the input, for files that are added later.
    engine: `spark` or `local`; empty: Spark if it is installed.
    json: whether the counts of the run, and the table of sink `table`, are printed as JSON.
    """

    sql: str
    tables: tuple[TableSource, ...]
    checkpoint: Path | None = None
    sink: str | Mapping[str, Any] = "console"
    changes: TableChanges = "retract"
    dialect: Dialect = "spark"
    backend: Backend = "numba"
    continuous: bool = False
    keep_open: bool = False
    json: bool = False
    engine: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    into: str = ""

    @property
    def ends(self) -> bool:
        """Tell whether the input ends with the rows that exist now; topics of Kafka have no end."""
        goes_on = self.continuous or any(table.kafka for table in self.tables)
        return not goes_on and not self.keep_open


def read_job(path: Path, **overrides: Any) -> Job:
    """Return the job of a YAML file; entries of `overrides` that are not None or empty replace those of the file.

        sql: SELECT name, SUM(cnt) AS total FROM t GROUP BY name
        tables:
          t: {path: changes/, format: debezium-json, schema: "name STRING, cnt INT"}
        sink: table
        checkpoint: state/
        options:
          table.exec.state.ttl: 1 d

    `args` has the values of the parameters in `sql`: a mapping, for `:name`, or a list, for `?`. Relative paths are
    relative to the file's folder; those of `overrides` to the caller's. Raises SpecError naming the file and the entry.
    """
    try:
        content = yaml.load(read_text(path), OnceEach)
    except yaml.YAMLError as error:
        raise SpecError(f"{path}: the job file cannot be read: {error}") from None
    if not isinstance(content, Mapping):
        raise SpecError(
            f"{path}: a job is a mapping with `sql`, `tables` and `checkpoint` (a script of SQL is named *.sql)."
        )
    # These two follow from the script (the key and the table of INSERT INTO), so a file may not say them.
    known = [*(each.name for each in fields(Job) if each.name not in ("key", "into")), "args"]
    for key in content:
        if key not in known:
            raise SpecError(f"{path}: there is no entry {key!r}. {nearest(str(key), known)}")
    entries = dict(content)
    tables = entries.get("tables", {} if _creates(entries.get("sql")) else None)
    if not isinstance(tables, Mapping):
        raise SpecError(
            f"{path}: `tables` must be a mapping of names to {{path: ..., format: ...}}."
        )
    # Paths of the file are resolved here, before the overrides are laid over them: those of the command line are
    # relative to the caller's directory and must not be moved.
    entries["tables"] = tuple(
        table_source(name, settings, f"{path}, table {name}", path.parent)
        for name, settings in tables.items()
    )
    if isinstance(entries.get("checkpoint"), str):
        entries["checkpoint"] = relative_to(path.parent, entries["checkpoint"])
    if "sink" in entries:
        entries["sink"] = _resolve_sink_path(entries["sink"], path.parent)
    options = entries.get("options") or {}
    if not isinstance(options, Mapping):
        raise SpecError(f"{path}: `options` must be a mapping of names to values.")
    # Options are merged one by one: a single `--set` must not lose all those of the file.
    entries["options"] = {**options, **(overrides.pop("options", None) or {})}
    if named_values := overrides.pop("args", None):
        values = entries.get("args") or {}
        if not isinstance(values, Mapping):
            raise SpecError(f"{path}: `args` is a list of values; --arg gives one by its name")
        entries["args"] = {**values, **named_values}
    # click passes False for a missing flag; it must not turn off an option that the file turns on.
    entries |= {key: value for key, value in overrides.items() if value not in (None, (), False)}
    return complete(entries, str(path))


def _resolve_sink_path(sink: Any, folder: Path) -> Any:
    """Return a sink entry with its path relative to a folder."""
    if isinstance(sink, str):
        kind, colon, place = sink.partition(":")
        return kind + colon + relative_to(folder, place) if place and "," not in kind else sink
    if isinstance(sink, Mapping) and isinstance(sink.get("path"), str):
        return {**sink, "path": relative_to(folder, sink["path"])}
    return sink


def complete(entries: Mapping[str, Any], where: str) -> Job:
    """Return the job with these entries; raises SpecError for one that is missing or invalid."""
    if not entries.get("sql"):
        raise SpecError(f"{where}: there is no `sql`; a job needs sql and tables.")
    if "args" in entries and isinstance(entries["sql"], str):
        # What runs, and what the checkpoint shows, is the text with its values.
        dialect = str(entries.get("dialect", "spark"))
        sql = bind_parameters(entries["sql"], entries["args"], dialect)
        entries = {name: value for name, value in entries.items() if name != "args"} | {"sql": sql}
    if not entries.get("tables") and not _creates(entries["sql"]):
        # A word that is misspelt in the script, CREATE for one, comes before what follows from it.
        for text in insertions(entries["sql"]) if isinstance(entries["sql"], str) else ():
            read_script(text)
        fix = "`tables` of a job, --table NAME=PATH, or CREATE TABLE in the script"
        raise SpecError(f"{where}: there is no `tables`; a job needs sql and tables: {fix}.")
    entries = {"tables": (), **entries}
    for name, allowed in _CHOICES.items():
        if entries.get(name, allowed[0]) not in allowed:
            raise SpecError(
                f"{where}: {name} is {entries[name]!r}. {nearest(str(entries[name]), allowed)}"
            )
    for name, kind in _KINDS.items():
        if not isinstance(entries.get(name, kind()), kind):
            raise SpecError(f"{where}: {name} is {entries[name]!r}; it must be {_WORDS[kind]}.")
    if not isinstance(entries.get("checkpoint") or "", str | Path):
        raise SpecError(f"{where}: checkpoint is {entries['checkpoint']!r}; it must be a path.")
    check_names(entries["tables"], where)
    job = Job(**entries)
    sink = _sink(job.sink, where)
    whole_job = replace(job, sink=sink, checkpoint=Path(job.checkpoint) if job.checkpoint else None)
    return check_job(whole_job, where)


def check_names(tables: Iterable[TableSource], where: str) -> None:
    """Raise SpecError for a table that is given twice: one of them would be passed over."""
    names = [table.name for table in tables]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"{where}: table {name!r} is given twice; leave one out.")


def check_job(job: Job, where: str) -> Job:
    """The job; raises SpecError where its sink needs a checkpoint that it does not have."""
    kind = job.sink if isinstance(job.sink, str) else job.sink.get("kind")
    if not job.checkpoint and kind not in _SHOWN:
        raise SpecError(
            f"{where}: there is no `checkpoint`; a sink that keeps what it is given needs one, or each run would give "
            "it everything again."
        )
    return job


def _creates(sql: Any) -> bool:
    """Tell whether a script has tables of its own."""
    return isinstance(sql, str) and re.search(r"(?i)\bcreate\s+(\w+\s+)?table\b", sql) is not None


def _sink(content: Any, where: str) -> str | Mapping[str, Any]:
    """A sink as text, or of a kind with options: a mapping, or KIND,OPTION=VALUE,...; raises SpecError."""
    if isinstance(content, str):
        kind, *rest = _OPTION.split(content)
        if not rest or ":" in kind:
            destination(content)
            return content
        pairs = [part.partition("=") for part in rest]
        options = {"kind": kind, **{name: value for name, _, value in pairs}}
        if len(options) <= len(pairs):
            raise SpecError(f"{where}: sink {content!r} says something twice; leave one out.")
        content = options
    if not isinstance(content, Mapping):
        raise SpecError(
            f"{where}: sink is {content!r}; it must be text, or a mapping with its kind."
        )
    destination(content)
    return dict(content)


_CHOICES = {
    "changes": TABLE_CHANGES,
    "dialect": DIALECTS,
    "backend": BACKENDS,
    "engine": ("", "spark", "local"),
}
_SHOWN = ("console", "table", "print", "blackhole")
"""Sinks that show what they are given, or keep nothing."""
_OPTION = re.compile(r",(?=\w+=)")
_KINDS = {"sql": str, "continuous": bool, "keep_open": bool, "json": bool}
_WORDS = {str: "text", bool: "true or false"}


class OnceEach(yaml.SafeLoader):
    """YAML whose mappings name each entry once; where one comes twice, the last would win without a word."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """The mapping; raises MarkedYAMLError at an entry that is there already."""
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise yaml.MarkedYAMLError(
                    problem=f"{name!r} is there twice", problem_mark=node.value[place][0].start_mark
                )
        return super().construct_mapping(node, deep)
