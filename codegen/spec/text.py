"""A spec as text: canonical JSON for digests and generated modules, YAML for people."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from aggloom.codegen.catalogue import registry as catalogue
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.spec.content import Computed, SpecContent
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.user import definition
from aggloom.errors import SpecError, nearest

_Spec = TypeVar("_Spec", bound=SpecContent)


def dump_json(spec: SpecContent) -> str:
    """Sorted keys, no whitespace: equal specs give equal text."""
    return json.dumps(
        _content(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def dump_yaml(spec: SpecContent) -> str:
    """The same content in reading order."""
    import yaml

    content = _content(spec)
    content["schema"] = dict(content["schema"])
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    return text


def load_json(text: str) -> Any:
    """The content of JSON text; raises SpecError with the position of a fault."""
    if not isinstance(text, str | bytes):
        raise SpecError(f"the spec is a {type(text).__name__}; give its JSON text.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(f"the spec is not JSON: {error}.") from None


def load_yaml(source: str | Path) -> Any:
    """The content of YAML text or, for a Path or a name that ends in .yaml or .yml, of a file; raises SpecError."""
    if isinstance(source, Path) or (
        "\n" not in source and source.lower().endswith((".yaml", ".yml"))
    ):
        try:
            source = Path(source).read_text(encoding="utf-8")
        except OSError as error:
            raise SpecError(f"the spec file cannot be read: {error}.") from None
    import yaml

    try:
        return yaml.safe_load(source)
    except yaml.YAMLError as error:
        raise SpecError(f"the spec is not YAML: {error}") from None


def _is_texts(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
    )


def _is_constant(value: Any) -> bool:
    several = value if isinstance(value, list) else [value]
    return all(isinstance(each, str | int | float) for each in several)


def _are_options(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and _is_constant(option) for name, option in value.items()
    )


_SHAPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "function": ("the name of a function", lambda value: isinstance(value, str)),
    "args": ("a column or a list of columns", _is_texts),
    "distinct": ("true or false", lambda value: isinstance(value, bool)),
    "filter": ("a column or a condition", lambda value: isinstance(value, str | None)),
    "alias": ("a name", lambda value: isinstance(value, str | None)),
    "order_by": ("a text such as 'ts DESC NULLS LAST', or a list of them", _is_texts),
    "nulls": ("'ignore' or 'respect'", lambda value: isinstance(value, str | None)),
    "monotonic": ("true or false", lambda value: isinstance(value, bool)),
    "options": ("a mapping such as {separator: ', '}, of constants or lists of them", _are_options),
}
"""(description, check) of the values of a call's entries in JSON and YAML."""


def build(
    cls: type[_Spec], from_sql: Callable[..., _Spec], content: Any, form: str, trust: bool
) -> _Spec:
    """The spec of a mapping; `sql` may replace keys, calls and everything after them.

    from_sql: the spec of a query and a schema. trust: let the Python source of functions in it run.
    """
    if not isinstance(content, Mapping):
        raise SpecError(f"the {form} must be a mapping with `schema` and `calls`, or `sql`.")
    if "schema" not in content:
        raise SpecError(f"the {form} has no `schema`; add it as names and types.")
    with catalogue.use_definitions(
        definition.read_definitions(content.get("functions") or (), form, trust)
    ):
        return _build_spec(cls, from_sql, content, form)


def _build_spec(
    cls: type[_Spec], from_sql: Callable[..., _Spec], content: Mapping[str, Any], form: str
) -> _Spec:
    schema = content["schema"]
    # A list of pairs keeps the order of columns, which a mapping in JSON need not.
    if isinstance(schema, list):
        if not all(isinstance(each, list | tuple) and len(each) == 2 for each in schema):
            raise SpecError(f"the {form}, schema: a list has pairs of a name and a type.")
        schema = dict(map(tuple, schema))
    if isinstance(schema, Mapping) and not all(
        isinstance(each, str) for each in (*schema, *schema.values())
    ):
        raise SpecError(f"the {form}, schema: names and types are texts.")
    if "sql" in content:
        allowed = ("sql", "schema", "input_changes", "dialect", "functions")
        _refuse_unknown(content, allowed, f"{form} with `sql`")
        options = {key: content[key] for key in ("input_changes", "dialect") if key in content}
        return from_sql(content["sql"], schema, **options)
    _refuse_unknown(content, [*(field.name for field in fields(cls)), "functions"], form)
    built = ("calls", "computed", "functions")
    options = {key: value for key, value in content.items() if key not in built}
    calls = [_item(AggCall, item, f"{form}, calls") for item in content.get("calls") or ()]
    computed = [
        _item(Computed, item, f"{form}, computed") for item in content.get("computed") or ()
    ]
    return cls(**{**options, "schema": schema, "calls": calls, "computed": computed})


def _item(cls: type[Any], item: Any, where: str) -> Any:
    if not isinstance(item, Mapping):
        raise SpecError(
            f"{where}: {item!r} must be a mapping such as {{function: SUM, args: cnt}}."
        )
    # `entry` follows from the function's name; a file with it would bypass the catalogue.
    _refuse_unknown(item, [f.name for f in fields(cls) if f.name != "entry"], where)
    for key, value in item.items():
        if key in _SHAPES and not _SHAPES[key][1](value):
            raise SpecError(f"{where}: {key} is {value!r}; it must be {_SHAPES[key][0]}.")
    try:
        return cls(**item)
    except TypeError as error:
        raise SpecError(f"{where}: {dict(item)!r}: {error}.") from None


def _refuse_unknown(content: Mapping[Any, Any], allowed: Any, where: str) -> None:
    for key in content:
        if key not in allowed:
            raise SpecError(f"{where}: there is no entry {key!r}. {nearest(str(key), allowed)}")


def _content(spec: SpecContent) -> dict[str, Any]:
    content: dict[str, Any] = {
        "schema": [[field.name, _portable(field.type)] for field in spec.schema],
        "group_by": list(spec.group_by),
        "calls": [_call(call) for call in spec.calls],
        "functions": list(spec.functions),
        "input_changes": spec.input_changes,
        "dialect": spec.dialect,
        "computed": [
            {"name": c.name, "sql": c.sql, "type": _portable(c.type)} for c in spec.computed
        ],
        "where": spec.where,
        "having": spec.having,
        "namespace": spec.namespace or None,
        "select": None if spec.select is None else [list(pair) for pair in spec.select],
    }
    return {
        key: value
        for key, value in content.items()
        # Without defaults, so that a field that is added later changes no digest of an older spec.
        if value not in (None, []) or key in ("calls", "schema")
    }


def _portable(dtype: pa.DataType) -> str:
    """A type name that both dialects read alike: a bare TIMESTAMP is two different things."""
    return re.sub(r"\bTIMESTAMP\b", "TIMESTAMP_LTZ", type_name(dtype))


def _call(call: AggCall) -> dict[str, Any]:
    content: dict[str, Any] = {"function": call.function, "args": list(call.args)}
    if call.distinct:
        content["distinct"] = True
    if call.filter is not None:
        content["filter"] = call.filter
    if call.alias is not None:
        content["alias"] = call.alias
    if call.order_by:
        content["order_by"] = [key.text for key in call.order_by]
    if call.nulls is not None:
        content["nulls"] = call.nulls
    if call.options:
        content["options"] = {name: _as_lists(value) for name, value in call.options}
    if call.monotonic:
        content["monotonic"] = True
    return content


def _as_lists(value: Any) -> Any:
    return [_as_lists(item) for item in value] if isinstance(value, tuple) else value
