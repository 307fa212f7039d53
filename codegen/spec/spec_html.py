"""A spec as HTML for notebooks: its result, its conditions and its input."""

from __future__ import annotations

from aggloom.codegen.spec.agg_call import describe_call
from aggloom.codegen.spec.content import SpecContent
from aggloom.codegen.spec.dtypes import type_name
from aggloom.display import html_block, html_fold, html_line, html_table


def spec_html(spec: SpecContent, about: str) -> str:
    """The spec under a line about it."""
    computed = {each.name: each.sql for each in spec.computed}
    read = [(f.name, type_name(f.type), computed.get(f.name, "")) for f in spec.input_schema]
    of = [*("key" for _ in spec.group_by), *map(describe_call, spec.calls)]
    columns = zip(spec.aggregate_schema, of, strict=True)
    results = [(field.name, type_name(field.type), what) for field, what in columns]
    conditions = [
        f"{n} {sql}" for n, sql in (("WHERE", spec.where), ("HAVING", spec.having)) if sql
    ]
    select = [f"{sql} AS {name}" for name, sql in spec.select or ()]
    lines = [*conditions, *([f"SELECT {', '.join(select)}"] if select else [])]
    return html_block(
        html_line(about),
        html_table(("result", "type", "of"), results, as_text=True),
        *map(html_line, lines),
        html_fold("input", html_table(("column", "type", "computed"), read, as_text=True)),
    )
