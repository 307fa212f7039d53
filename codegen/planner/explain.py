"""`explain`: the plan of a query and, for a single aggregate, its calls, its state by key, and what is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from sqlglot import exp

from aggloom.codegen.handler.class_notes import note_functions
from aggloom.codegen.handler.plan import plan_of
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.picture import as_svg
from aggloom.codegen.planner.plan import Plan, plan_query, plan_spec, plan_windows
from aggloom.codegen.planner.scripts.insertions import insertions
from aggloom.codegen.planner.scripts.script import read_script, without_explain
from aggloom.codegen.planner.sections import as_sections
from aggloom.codegen.planner.sources import as_sources
from aggloom.codegen.planner.tables import Keys, Times
from aggloom.codegen.planner.tree import as_json, as_text
from aggloom.codegen.spec.agg_call import describe_call
from aggloom.codegen.spec.agg_spec import AggSpec, SchemaLike
from aggloom.codegen.spec.choices import Backend, Dialect
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.spec.lookup_table import LookupTable
from aggloom.codegen.sql.depth import deep
from aggloom.codegen.sql.errors import underline_errors
from aggloom.codegen.sql.parameters import Arguments, bind_parameters
from aggloom.codegen.user.trust import NOT_TRIED
from aggloom.codegen.windows import Assigner, Windowing
from aggloom.display import html_plan, html_text
from aggloom.errors import SpecError, nearest

Format = Literal["text", "flink", "source", "json", "svg"]


class Explanation(str):
    """A plan as a text, which a notebook shows line by line, or as a picture."""

    def _repr_html_(self) -> str:
        return html_plan(self) if self.startswith("<svg") else html_text(self)


def explain(
    query: AggSpec | str,
    schema: SchemaLike | None = None,
    *,
    tables: Mapping[str, SchemaLike] | None = None,
    input_changes: str | Mapping[str, str] = "retract",
    dialect: Dialect = "spark",
    backend: Backend = "numba",
    format: Format = "text",
    window: Assigner | Windowing | None = None,
    options: PlanOptions | Mapping[str, Any] | None = None,
    keys: Keys | None = None,
    watermarks: Times | None = None,
    lookups: Mapping[str, LookupTable] | None = None,
    ordered: bool = False,
    args: Arguments | None = None,
    **keywords: Any,
) -> Explanation:
    """Explain the plan of a spec, or of SQL over tables: what runs, what it remembers, why each rule fired or did not.

    query: an AggSpec, or SQL. tables: schemas by name, for SQL; schema: that of the only table. input_changes:
    "append", "retract" or "upsert", of all tables or by table. dialect: "spark" or "flink". backend: "numba" or
    "python". keys: their primary keys, by table. watermarks: the columns of their watermarks. options, keywords: the
    planner's, by either name. format: text, which for a single aggregate also lists its calls with their types; flink,
    the sections of Flink's EXPLAIN; source, the modules that are generated; json or svg. Of a script with several
    queries each is explained, one after the other, unless the format is json or svg. window: the windows of a spec, an
    assigner or a whole Windowing. lookups: tables that are asked. args: values of the text's parameters, by name for
    `:name` or in order for `?`. ordered: whether ORDER BY may stand around the whole query, for a result that is sorted
    before it is shown. Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> text = al.explain("SELECT shop, SUM(n) AS s FROM t GROUP BY shop", tables={"t": "shop STRING, n INT"})
        >>> "GroupAggregate(groupBy=[shop]" in text
        True
    """
    if format not in get_args(Format):
        raise SpecError(f"explain: format is {format!r}. {nearest(str(format), get_args(Format))}")
    chosen = options if isinstance(options, PlanOptions) else PlanOptions.of(options or {})
    chosen = chosen.with_options(keywords)
    windowing = Windowing.of(window)
    if isinstance(query, str):
        query = bind_parameters(query, args, dialect)

    def explain_one(one: AggSpec | str) -> str:
        plan, spec = _plan_query(
            *(one, schema, tables, input_changes, dialect, windowing, chosen, keys, watermarks),
            lookups or {},
            ordered,
        )
        if format == "json":
            return as_json(plan, backend)
        if format == "svg":
            return as_svg(plan, backend)
        if format == "flink":
            return as_sections(plan)
        if format == "source":
            return as_sources(plan, backend)
        # The lines of a spec say it themselves.
        plain = ("backend plain Python",) if backend == "python" else ()
        lines = plain if spec is None else _lines(spec, backend)
        return "\n".join([*lines, *_plan(plan, backend, notes=spec is None)])

    queries = insertions(query) if isinstance(query, str) else [query]
    if len(queries) > 1 and format in ("json", "svg"):
        raise SpecError(
            f"explain: format {format!r} is of one query, and the script has {len(queries)}."
            " Take the others out, or ask for text."
        )
    return Explanation(deep(lambda: "\n\n".join(map(explain_one, queries))))


def _plan_query(
    query: AggSpec | str,
    schema: SchemaLike | None,
    tables: Mapping[str, SchemaLike] | None,
    input_changes: str | Mapping[str, str],
    dialect: Dialect,
    windowing: Windowing | None,
    chosen: PlanOptions,
    keys: Keys | None,
    watermarks: Times | None,
    lookups: Mapping[str, LookupTable],
    ordered: bool,
) -> tuple[Plan, AggSpec | None]:
    """The plan, and the spec if the query is no more than one."""
    if isinstance(query, AggSpec):
        if schema is not None or tables is not None:
            raise SpecError("explain: a spec has a schema already; leave out schema and tables.")
        if windowing is None:
            return plan_spec(query, options=chosen), query
        return plan_windows(query, windowing, options=chosen), query
    tables = _tables(query, schema, tables, lookups)
    plan = plan_query(
        query,
        tables,
        input_changes=input_changes,
        dialect=dialect,
        options=chosen,
        keys=keys,
        watermarks=watermarks,
        explained=True,
        lookups=lookups,
        ordered=ordered,
    )
    return plan, _single(query, tables, input_changes, dialect)


def _tables(
    sql: str,
    schema: SchemaLike | None,
    tables: Mapping[str, SchemaLike] | None,
    lookups: Mapping[str, LookupTable],
) -> Mapping[str, SchemaLike]:
    """The schemas of the tables by name; a schema alone is that of the one table that the query reads."""
    if tables is not None:
        if schema is not None:
            raise SpecError("explain: schema and tables both say what is read; leave out one.")
        return tables
    lookup_names = {name.casefold() for name in lookups}
    read = [name for name in tables_read(sql) if name.casefold() not in lookup_names]
    if schema is None and not read:
        return {}
    if schema is None:
        raise SpecError("explain: SQL needs a schema, such as 'name STRING, cnt INT', or tables.")
    if len(read) > 1:
        template = ", ".join(f"{name!r}: ..." for name in read)
        raise SpecError(
            f"explain: the query reads {' and '.join(map(repr, read))}; give tables={{{template}}}, or "
            "--table for each."
        )
    return dict.fromkeys(read, schema)


def tables_read(sql: str) -> list[str]:
    """The names of the tables that a script reads."""
    script = read_script(sql)
    with underline_errors(sql):
        queries = script.queries()
    froms = [source for query in queries for source in query.find_all(exp.From, exp.Join)]
    sources = [table for source in froms for table in source.find_all(exp.Table)]
    # A table function has a call in place of its name.
    read = [source.name for source in sources if isinstance(source.this, exp.Identifier)]
    defined = {cte.alias.casefold() for query in queries for cte in query.find_all(exp.CTE)}
    defined |= {*script.views}
    own = {each.casefold() for t in script.created.values() for each in (t.name, t.stored_name)}
    # Reversed, so that the first spelling of a name stays.
    listed = {name.casefold(): name for name in reversed(read) if name.casefold() not in own}
    read = list(listed.values())
    # A query in WITH may have the name of the table that it reads.
    return sorted(name for name in read if name.casefold() not in defined) or read[:1]


def _single(
    sql: str, tables: Mapping[str, SchemaLike], input_changes: Any, dialect: Any
) -> AggSpec | None:
    """The spec of a query that is no more than one, over one table."""
    if len(tables) != 1:
        return None
    ((name, schema),) = tables.items()
    if isinstance(input_changes, Mapping):
        input_changes = input_changes.get(name, "retract")
    try:
        return AggSpec.from_sql(without_explain(sql), schema, input_changes, dialect)
    except SpecError:
        # It has a plan, so what is wrong is only that a spec cannot say it.
        return None


def _plan(plan: Plan, backend: str, *, notes: bool) -> Iterator[str]:
    """The lines of a plan; notes: with those on users' functions."""
    yield "plan"
    for line in as_text(plan, backend, notes=notes).splitlines():
        yield f"  {line}".rstrip()


def _lines(spec: AggSpec, backend: str) -> Iterator[str]:
    plan = plan_of(spec, backend)
    keys = ", ".join(spec.group_by) or "nothing: one group"
    yield f"GROUP BY {keys}"
    yield f"input   {'retracting' if plan.has_retractions else 'append-only'}, dialect {spec.dialect}"
    yield "calls"
    for call in spec.calls:
        yield f"  {describe_call(call)}: {type_name(spec.result_type(call))}"
    yield "state of a key"
    for line in plan.describe().splitlines():
        yield f"  {line}"
    why = ""
    if backend == "numba":
        strange = _list_functions(text for text, why in plan.verdicts if why == NOT_TRIED)
        slow = _list_functions(text for text, why in plan.verdicts if why not in ("", NOT_TRIED))
        reasons = [f"{names} cannot be compiled" for names in slow]
        reasons += [f"{names} is not trusted, and was not tried" for names in strange]
        why = ", because " * bool(reasons) + ", and ".join(reasons)
    yield f"backend {'compiled by Numba' if plan.is_compiled else 'plain Python'}{why}"
    notes = note_functions(plan)
    yield from ["your functions", *(f"  {line}" for line in notes)] if notes else []


def _list_functions(texts: Iterable[str]) -> list[str]:
    """The functions of calls, in one text; none if there are no calls."""
    names = list(dict.fromkeys(text.partition("(")[0].upper() for text in texts))
    return [" and ".join(names)] if names else []
