"""The program of a case: its tables, and the plan of its query under given options."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from aggloom.codegen import AggSpec, register, unregister
from aggloom.codegen.planner import Plan, PlanOptions, plan_query, plan_spec
from aggloom.errors import SpecError
from cases.format import Case, NotSupported, computed_columns, reads, table_schema
from cases.functions import FUNCTIONS, spelled_out
from cases.source import key_positions

_FROM = re.compile(r"\bFROM\s+`?(\w+)", re.IGNORECASE)

_CLOCK = re.compile(r"(?i)\bproctime\b(?!\s*\()")
"""The name that cases give to the time at which a row is seen, where it is no column of the rows."""


@dataclass(frozen=True)
class Table:
    """A source: its name in the plan, the columns of its rows, and its key if it sends upserts.

    copies: places in the rows of events whose values the last columns hold once more.
    """

    name: str
    schema: pa.Schema
    key: tuple[int, ...] | None = None
    copies: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    """The tables by the names that events give them, and how the query is planned."""

    tables: Mapping[str, Table]
    plan: Callable[[PlanOptions], Plan]

    def table(self, event: Mapping[str, Any]) -> Table:
        """The source of an event, which need not say it if there is only one."""
        name = event.get("table", event.get("input"))
        if name is None and len(self.tables) == 1:
            return next(iter(self.tables.values()))
        found = self.tables.get(name or "")
        if found is None:
            raise NotSupported(f"an event of the table {name!r}")
        return found


def spec_program(spec: AggSpec) -> Program:
    """A single spec over the table t."""
    return Program({"t": Table("t", spec.schema)}, lambda options: plan_spec(spec, options=options))


def query_program(case: Case) -> Program:
    """The query of a case over its tables; what the product refuses is NotSupported when it is planned."""
    params, sql = case.params, query_text(case.params)
    declared = _declared(params, sql)
    tables: dict[str, Table] = {}
    changes: dict[str, str] = {}
    keys: dict[str, list[str]] = {}
    times: dict[str, str] = {}
    views = ""
    for name, columns in declared.items():
        extra = params.get("computed") or {}
        computed = computed_columns({**columns, **{k: f"AS {v}" for k, v in extra.items()}})
        computed = {k: text for k, text in computed.items() if reads(sql, k)}
        if _CLOCK.search(sql) and "proctime" not in columns:
            computed["proctime"] = "PROCTIME()"
        columns, copies = _with_rowtime(columns, params.get("rowtime"))
        schema = table_schema(columns, " ".join([sql, *computed.values()]))
        key = _key(params, name, schema, columns)
        upserts = _sends_upserts(params)
        table = Table(
            f"{name}$rows" if computed else name, schema, key if upserts else None, copies
        )
        tables[name] = table
        changes[table.name] = "append" if _inserts_only(case, name) else "retract"
        if key and upserts:
            changes[table.name] = "upsert"
        if key:
            keys[table.name] = [schema.names[place] for place in key]
        time = _event_time(case, columns, schema)
        if time:
            times[table.name] = time
        if computed:
            views += _view(name, table, computed, list(columns))
    schemas = {table.name: table.schema for table in tables.values()}

    @functools.cache
    def plan(options: PlanOptions) -> Plan:
        with planning(), _functions():
            return plan_query(
                views + sql,
                schemas,
                input_changes=changes,
                dialect="flink",
                options=options,
                keys=keys,
                watermarks=times,
            )

    return Program(tables, plan)


def query_text(params: Mapping[str, Any]) -> str:
    """The query of a case: its `sql`, or made of `aggs` by the keys that it names."""
    if params.get("sql"):
        return spelled_out(str(params["sql"]), params.get("udf") or {})
    if not params.get("aggs"):
        raise NotSupported("params without 'sql', and without 'aggs' to make it of")
    names = ("key", "keys", "group_by", "group_key", "grouping")
    keys: Any = next((params[name] for name in names if params.get(name)), [])
    keys = [keys] if isinstance(keys, str) else list(keys)
    where = f" WHERE {params['where']}" if params.get("where") else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = f" HAVING {params['having']}" if params.get("having") else ""
    items = ", ".join([*keys, *params["aggs"]])
    return f"SELECT {items} FROM {params.get('table') or 't'}{where}{group}{having}"


def _with_rowtime(
    columns: Mapping[str, str], said: Any
) -> tuple[Mapping[str, str], tuple[int, ...]]:
    """The columns with the time column that is declared beside them, and where its values are copied from.

    said: `rowtime` of the case, such as "b (epoch ms)" for one made of column b, or the type of one that rows hold.
    """
    if isinstance(said, Mapping):
        return {**columns, **{n: str(t) for n, t in said.items() if n not in columns}}, ()
    word = re.match(r"`?(\w+)`?", str(said or ""))
    if word is None or "rowtime" in columns:
        return columns, ()
    if word[1] not in columns:
        return {**columns, "rowtime": str(said)}, ()
    held = [name for name in columns if name.lower() != "primary key"]
    held = [name for name in held if name not in computed_columns(columns)]
    return {**columns, "rowtime": "TIMESTAMP(3)"}, (held.index(word[1]),)


def _declared(params: Mapping[str, Any], sql: str) -> dict[str, Mapping[str, str]]:
    """The columns of each table; a single schema without a name is that of the table in FROM."""
    if "tables" in params:
        return dict(params["tables"])
    found = _FROM.search(sql)
    return {params.get("table") or (found[1] if found else "t"): params["schema"]}


def _inserts_only(case: Case, table: str) -> bool:
    events = [event for phase in case.phases for event in phase.events]
    return all(e.get("op", "+I") == "+I" for e in events if e.get("table", table) == table)


def _key(
    params: Mapping[str, Any], table: str, schema: pa.Schema, columns: Mapping[str, str]
) -> tuple[int, ...] | None:
    """Find the positions of a source's key among its columns; None for a source without a key."""
    listed = params.get("primary_key")
    if isinstance(listed, Mapping):
        listed = listed.get(table)
    return tuple(key_positions(listed, schema.names, columns)) or None


def _event_time(case: Case, columns: Mapping[str, str], schema: pa.Schema) -> str | None:
    """The column of a table that its declaration calls the row time, if the case says what its watermark is."""
    said = "watermark" in case.params or any(
        "watermark" in e for p in case.phases for e in p.events
    )
    named = (name for name in schema.names if re.search(r"(?i)\browtime\b", str(columns.get(name))))
    time = next(named, None) if said else None
    return time if time and pa.types.is_timestamp(schema.field(time).type) else None


def _sends_upserts(params: Mapping[str, Any]) -> bool:
    """Tell whether sources send new rows alone, by their keys, and not the rows that they replace."""
    kinds = [kind.strip() for kind in str(params.get("source_changelog") or "").split(",")]
    told = params.get("source_mode") == "upsert" or ("UA" in kinds and "UB" not in kinds)
    return bool(params.get("normalize", told))


def _view(name: str, table: Table, computed: Mapping[str, str], order: list[str]) -> str:
    """The table with its computed columns as a view over its rows."""
    names = [each for each in order if each in table.schema.names or each in computed]
    names += [each for each in computed if each not in names]
    items = [f"{computed[n]} AS `{n}`" if n in computed else f"`{n}`" for n in names]
    return f"CREATE TEMPORARY VIEW `{name}` AS SELECT {', '.join(items)} FROM `{table.name}`;\n"


@contextmanager
def planning() -> Iterator[None]:
    """Turn the errors by which the product refuses a query into NotSupported."""
    try:
        yield
    except SpecError as error:
        raise NotSupported(f"{type(error).__name__}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """An error's text without the place that it shows."""
    return (str(error).strip().splitlines() or [""])[0]


@contextmanager
def _functions() -> Iterator[None]:
    """Let the functions that cases call by name be registered for a moment; a spec keeps what it uses."""
    names = [register(definition).name for definition in FUNCTIONS]
    try:
        yield
    finally:
        for name in names:
            unregister(name)
