"""CREATE TABLE of a lookup table, with Flink's names of options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from aggloom.codegen.spec.database_url import DatabaseUrl
from aggloom.codegen.spec.lookup_table import LookupTable, lookup_table
from aggloom.codegen.sql.errors import located, span
from aggloom.codegen.sql.shape import refusal
from aggloom.errors import OptionError, SpecError, nearest

_CACHING = {
    "lookup.cache": "cache",
    "lookup.partial-cache.max-rows": "max_rows",
    "lookup.partial-cache.expire-after-write": "expire_after_write",
    "lookup.partial-cache.expire-after-access": "expire_after_access",
    "lookup.partial-cache.cache-missing-key": "cache_misses",
    "lookup.full-cache.periodic-reload.interval": "refresh",
    "lookup.max-retries": "attempts",
}
_CONNECTORS = {
    "jdbc": ("url", "table-name", "username", "password"),
    "filesystem": ("path", "format"),
}


def lookup_of(sql: str, tree: exp.Create) -> tuple[str, LookupTable]:
    """The name and the table of a CREATE TABLE; raises SpecError with its place."""
    target = tree.this
    if not isinstance(target, exp.Schema) or tree.expression is not None:
        fix = "write CREATE TABLE dim (id INT, ..) WITH ('connector' = 'jdbc', ..)"
        raise refusal(sql, span(tree), "CREATE TABLE without columns, or AS a query, is", fix)
    options = _options(sql, tree)
    name = target.this.name
    try:
        return name, _table(target, options)
    except SpecError as error:
        raise type(error)(located(f"CREATE TABLE {name}: {error}", sql, span(target))) from None


def _table(target: exp.Schema, options: dict[str, str]) -> LookupTable:
    connector = options.pop("connector", None)
    if connector not in _CONNECTORS:
        raise OptionError(
            f"'connector' is {connector!r}. {nearest(str(connector), _CONNECTORS)} Tables that stream are given as "
            "files or DataFrames, and not created."
        )
    known = (*_CONNECTORS[connector], *_CACHING)
    for key in options:
        if key not in known:
            raise OptionError(f"there is no option {key!r}. {nearest(key, known)}")
    columns, key_columns = [], list[str]()
    for part in target.expressions:
        if isinstance(part, exp.PrimaryKey):
            key_columns = [each.name for each in part.expressions]
        elif isinstance(part, exp.ColumnDef) and part.args.get("kind") is not None:
            columns.append(f"{part.this.sql('spark')} {part.args['kind'].sql('spark')}")
        else:
            raise SpecError(f"{part.sql('spark')} is no column with a type; leave it out.")
    settings: dict[str, Any] = {
        keyword: options[key] for key, keyword in _CACHING.items() if key in options
    }
    settings = _typed(settings)
    if connector == "filesystem":
        _need(options, "path")
        settings.pop("cache", None)
        settings |= {"files": options["path"], "format": options.get("format")}
        return lookup_table(", ".join(columns), key=key_columns, **settings)
    _need(options, "url", "table-name")
    url = DatabaseUrl(options["url"], options.get("username"), options.get("password"))
    return lookup_table(
        ", ".join(columns), key=key_columns, connect=url, table=options["table-name"], **settings
    )


def _typed(given: dict[str, Any]) -> dict[str, Any]:
    """Texts of options as what the keywords take."""
    found = dict(given)
    if "cache" in found:
        found["cache"] = str(found["cache"]).lower()
    for name in ("max_rows", "attempts"):
        if name in found:
            if not str(found[name]).isdigit():
                raise OptionError(f"{name} is {found[name]!r}; it is a number.")
            # Retries come after the first attempt.
            found[name] = int(found[name]) + (name == "attempts")
    if "cache_misses" in found:
        text = str(found["cache_misses"]).lower()
        if text not in ("true", "false"):
            raise OptionError(f"cache-missing-key is {text!r}; it must be true or false.")
        found["cache_misses"] = text == "true"
    return found


def _need(options: Mapping[str, str], *names: str) -> None:
    for name in names:
        if not options.get(name):
            raise OptionError(f"'{name}' is missing; say it in WITH (..).")


def _options(sql: str, tree: exp.Create) -> dict[str, str]:
    properties = tree.args.get("properties")
    found: dict[str, str] = {}
    for each in properties.expressions if properties is not None else ():
        key, value = each.this, each.args.get("value")
        if not isinstance(each, exp.Property) or not isinstance(value, exp.Literal):
            fix = "write WITH ('connector' = 'jdbc', ..)"
            raise refusal(sql, span(tree), f"{each.sql('spark')} of CREATE TABLE is", fix)
        found[str(key.name)] = str(value.this)
    return found
