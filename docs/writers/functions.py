"""Write the page on all aggregate functions from the catalogue."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from aggloom.codegen.catalogue import registry as catalogue
from aggloom.codegen.catalogue.entry import Aggregate, Argument, Example, Field, Option, Shape, View
from aggloom.codegen.catalogue.registry import CATALOGUE, REFUSED
from aggloom.codegen.spec.agg_call import ON_NULL, AggCall, places
from aggloom.codegen.spec.call_types import result_type
from aggloom.codegen.spec.choices import DIALECTS
from aggloom.codegen.spec.dtypes import parse_type, type_name
from aggloom.codegen.sql.calls import OVER_SORTED
from aggloom.codegen.views import VIEW_FUNCTIONS, VIEW_KINDS

_ANY = ("INT", "BIGINT", "DOUBLE", "DECIMAL(10,2)", "STRING")
_SAMPLES = {
    "any": _ANY,
    "scalar": _ANY,
    "number": ("INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)"),
    "integer": ("INT", "BIGINT"),
    "boolean": ("BOOLEAN",),
}
_KINDS = {
    "any": "any type",
    "scalar": "any type except ARRAY, STRUCT and BINARY",
    "number": "a number",
    "integer": "an integer",
    "boolean": "BOOLEAN",
}
_VALUES = {
    "text": "a text",
    "whole": "an integer, {least} or more",
    "fraction": "a number between 0 and 1",
    "fractions": "a number from 0 to 1, or an array of them (then the result is an array)",
}
_NOTHING = {"join": "NULL", "json_array": "`[]`", "json_object": "`{}`", "map": "an empty map"}
_INTRO = """\
# Aggregate functions

An aggregate function computes one value from all rows of a key: a count, a sum, a list. Use it in a query with
GROUP BY, in a window, or in an `AggCall`. The value stays right while rows are added and retracted:

```python
import aggloom as al

query = "SELECT shop, COUNT(*) AS sales, MAX(price) AS highest FROM t GROUP BY shop"
with al.Harness.from_sql(query, tables={"t": "shop STRING, price INT"}) as harness:
    harness.process([("+I", "Oslo", 5), ("+I", "Oslo", 9), ("+I", "Rome", 2), ("-D", "Oslo", 9)])
    harness.flush()
    print(sorted(harness.table()))
```

```text
[('Oslo', 1, 5), ('Rome', 1, 2)]
```

How to read the entries:

- Parts in `[...]` are optional.
- Every function takes `FILTER (WHERE condition)` after its parentheses.
- `DISTINCT` stands before the arguments. An entry says so if it has no effect.
- An option is a constant. It is given by position or by name (`k => 3`).
- Without `ORDER BY`, the order is the order of arrival.
- A live value is one that was added and not retracted. n is the number of live values of a key.
- "Over changes" means over an input with retractions. Without that note a line holds for every input.
- All functions can merge accumulators, as two-phase aggregation and session windows need.

`make docs` writes this page from the catalogue, which specs, SQL and error messages use as well. Do not edit it.
"""


def page() -> str:
    """Return the whole page."""
    parts = [_INTRO, *_contents()]
    for family in catalogue._FAMILIES:
        parts += [f"## {_title(family)}", *(_section(entry) for entry in family.ENTRIES)]
    return "\n\n".join(part.strip() for part in [*parts, _approximate(), _refused()]) + "\n"


def _title(family: ModuleType) -> str:
    return str(family.__doc__).strip().splitlines()[0].rstrip(".")


def _anchor(heading: str) -> str:
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _contents() -> Iterator[str]:
    lines = []
    for family in catalogue._FAMILIES:
        names = ", ".join(f"[{e.name}](#{_anchor(e.name)})" for e in family.ENTRIES)
        lines.append(f"- [{_title(family)}](#{_anchor(_title(family))}): {names}")
    lines.append("- [Approximate functions over changes](#approximate-functions-over-changes)")
    lines.append("- [Functions that are no aggregates](#functions-that-are-no-aggregates)")
    yield "\n".join(lines)


def _section(entry: Aggregate) -> str:
    rows = [
        ("Arguments", _arguments(entry)),
        ("Options", "<br>".join(_option(option) for option in entry.options)),
        ("Result", _result(entry)),
        ("NULL", _nulls(entry)),
        ("DISTINCT", "has no effect" if entry.ignores_distinct else ""),
        ("Retraction", retraction(entry)),
        ("State per key", entry.keeps),
        ("Cost", entry.cost),
        ("Example", "<br>".join(_example(entry, example) for example in entry.examples)),
        ("Also called", ", ".join(f"`{alias}`" for alias in entry.aliases)),
    ]
    table = "\n".join(
        f"| {name} | {text.replace('|', chr(92) + '|')} |" for name, text in rows if text
    )
    head = f"### {entry.name}\n\n{entry.doc}\n\n```sql\n{signature(entry)}\n```"
    return f"{head}\n\n| | |\n| --- | --- |\n{table}"


def signature(entry: Aggregate) -> str:
    """Return the call as SQL, with optional parts in brackets."""
    text = ""
    for name in places(entry):
        shown, needed = _place(entry, name)
        piece = f", {shown}" if text else shown
        text += piece if needed else f"[{piece}]"
    clauses = []
    if entry.ordered is not None:
        clauses.append("[ORDER BY column [DESC] [NULLS FIRST | NULLS LAST], ...]")
    if entry.option(ON_NULL) is not None:
        clauses.append("[NULL ON NULL | ABSENT ON NULL]")
    if entry.nulls is not None:
        clauses.append("[IGNORE NULLS | RESPECT NULLS]")
    distinct = "" if entry.ignores_distinct or not entry.arguments else "[DISTINCT] "
    inner = " ".join([distinct + text, *clauses])
    text = f"{entry.name}({inner})"
    if entry.name == "COUNT":
        return f"COUNT(*)\n{text}"
    if entry.name in OVER_SORTED:
        fraction = ", ".join(name for name in places(entry)[1:])
        text += f"\n{entry.name}({fraction}) WITHIN GROUP (ORDER BY {places(entry)[0]})"
    return text


def _place(entry: Aggregate, name: str) -> tuple[str, bool]:
    """Return the text for a position of a call, and whether it is required."""
    argument = next((a for a in entry.arguments if a.name == name), None)
    if argument is not None:
        # COUNT without a column is COUNT(*), which has a line of its own.
        return name + ", ..." * argument.many, argument.many or not argument.optional
    option = entry.option(name)
    assert option is not None
    return name, option.required


def _arguments(entry: Aggregate) -> str:
    return "; ".join(f"`{a.name}`: {_argument(a)}" for a in entry.arguments)


def _argument(argument: Argument) -> str:
    many = ", one or more" if argument.many else ""
    return (
        _KINDS.get(argument.kind, argument.kind)
        + many
        + ", optional" * (argument.optional and not argument.many)
    )


def _option(option: Option) -> str:
    wanted = _VALUES.get(option.kind, " or ".join(f"`{c}`" for c in option.choices))
    text = f"`{option.name}`: {wanted.format(least=option.least)}"
    if option.column:
        text += ", or a column"
    if option.required:
        return text
    text += f"; default `{option.default!r}`"
    return text + (f", in flink `{option.flink!r}`" if option.flink is not None else "")


def _result(entry: Aggregate) -> str:
    found = {dialect: _results(entry, dialect) for dialect in DIALECTS}
    if found["spark"] == found["flink"]:
        return found["spark"]
    return "<br>".join(f"{dialect}: {text}" for dialect, text in found.items())


def _results(entry: Aggregate, dialect: str) -> str:
    """Return the result types over sample arguments, shortened if one rule describes them all."""
    kinds = _SAMPLES[entry.arguments[0].kind] if entry.arguments else ("INT",)
    found = {kind: _result_over(entry, kind, dialect) for kind in kinds}
    argument = f"the type of `{entry.arguments[0].name}`"
    if len(set(found.values())) == 1:
        return f"`{found[kinds[0]]}`"
    if all(kind == result for kind, result in found.items()):
        return argument
    generic = {result.replace(kind, "T", 1) for kind, result in found.items()}
    if len(generic) == 1:
        return f"`{generic.pop()}`, where T is {argument}"
    grouped: dict[str, list[str]] = {}
    for kind, result in found.items():
        grouped.setdefault(result, []).append(kind)
    return ", ".join(f"`{result}` of {' and '.join(of)}" for result, of in grouped.items())


def _result_over(entry: Aggregate, kind: str, dialect: str) -> str:
    needed = [a for a in entry.arguments if not a.optional] or list(entry.arguments[:1])
    types = [kind, *(_SAMPLES[a.kind][0] for a in needed[1:])]
    options = {o.name: 0.5 for o in entry.options if o.required}
    names = tuple(f"c{place}" for place in range(len(types)))
    call = AggCall(entry.name, names, options=tuple(options.items()))
    return type_name(result_type(call, tuple(map(parse_type, types)), dialect))


def _nulls(entry: Aggregate) -> str:
    rules = {dialect: _null_rule(entry, place) for place, dialect in enumerate(DIALECTS)}
    empty = {dialect: empty_value(entry, dialect) for dialect in DIALECTS}
    rule, nothing = _by_dialect(rules), _by_dialect(empty)
    return f"{rule}; without rows: {nothing}"


def _by_dialect(texts: dict[str, str]) -> str:
    if texts["spark"] == texts["flink"]:
        return texts["spark"]
    return ", ".join(f"{text} in {dialect}" for dialect, text in texts.items())


def _null_rule(entry: Aggregate, dialect: int) -> str:
    if entry.nulls is not None:
        kept = entry.nulls[dialect] == "respect"
        return "kept unless IGNORE NULLS" if kept else "skipped unless RESPECT NULLS"
    on_null = entry.option(ON_NULL)
    skips = [a.name for a in entry.arguments] if entry.skips is None else list(entry.skips)
    text = f"skips rows where {' or '.join(f'`{name}`' for name in skips)} is NULL"
    if on_null is None:
        return text
    kept = on_null.default == "null"
    values = "a NULL value is written as `null`" if kept else "NULLs are left out"
    other = "ABSENT ON NULL" if kept else "NULL ON NULL"
    return (text + "; " if entry.skips else "") + f"{values} unless {other}"


def empty_value(entry: Aggregate, dialect: str) -> str:
    """Return the result of the function without a row, in words."""
    shape = entry.append
    function = shape.value.partition("(")[0]
    form = VIEW_FUNCTIONS[function].form if function in VIEW_FUNCTIONS else ""
    if (shape.empty is not None and dialect in entry.empty_in) or form in ("found", "single"):
        return "NULL"
    if form == "list":
        return _NOTHING.get(entry.returns, "an empty array")
    return "0"


def retraction(entry: Aggregate) -> str:
    """Return how the function retracts rows, in words."""
    if entry.instead:
        return f"not possible; over changes use {entry.instead}"
    plain = _kept(entry.shape(True, False))
    ordered = _kept(entry.shape(True, True))
    if entry.ordered is not None and ordered != plain:
        return f"{plain}; with ORDER BY {ordered}"
    return plain


def _kept(shape: Shape) -> str:
    views = [VIEW_KINDS[state.kind].holds for state in shape.state if isinstance(state, View)]
    sums = [state for state in shape.state if isinstance(state, Field)]
    texts = [f"keeps {' and '.join(views)}"] if views else []
    if sums and not views:
        texts.append("subtracts from counts and sums, which are exact")
    return "; ".join(texts)


def _example(entry: Aggregate, example: Example) -> str:
    names = [chr(ord("x") + place) for place in range(len(example.types))]
    if entry.arguments:
        given = [a.name for a in entry.arguments][: len(names) - len(example.order_by)]
        names = [*given, *names[len(given) :]]
    args = tuple(names[: len(names) - len(example.order_by)])
    call = AggCall(entry.name, args, order_by=example.order_by, options=example.options)
    rows = ", ".join(_shown(row) for row in example.rows)
    return f"`{call.text}` over {rows} is `{_shown(example.result)}`"


def _shown(value: Any) -> str:
    """Return a value as it is written in SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(inner)}" for key, inner in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _approximate() -> str:
    rows = [f"| `{e.name}` | {e.instead} |" for e in CATALOGUE.values() if e.instead]
    text = (
        "These functions cannot retract a row. A query over an input with retractions refuses them "
        "and names the function to use."
    )
    return "\n".join(
        [
            "## Approximate functions over changes\n",
            f"{text}\n",
            "| Function | Use instead |",
            "| --- | --- |",
            *rows,
        ]
    )


def _refused() -> str:
    rows = [f"| `{name}` | {reason} |" for name, reason in REFUSED.items()]
    return "\n".join(
        [
            "## Functions that are no aggregates\n",
            "| Function | Reason and fix |",
            "| --- | --- |",
            *rows,
        ]
    )


def main(arguments: list[str]) -> None:
    """Print the page, or write it to the file that is named."""
    if arguments:
        Path(arguments[0]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main(sys.argv[1:])
