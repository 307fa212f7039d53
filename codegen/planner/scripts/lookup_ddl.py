"""A created table that lookup joins ask, with Flink's names of options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aggloom.codegen.planner.scripts.create_table import CreatedTable
from aggloom.codegen.planner.scripts.csv_options import CSV_WORDS, take_csv_options
from aggloom.codegen.spec.database_url import DatabaseUrl
from aggloom.codegen.spec.lookup_table import LookupTable, lookup_table
from aggloom.codegen.spec.schemas import to_schema
from aggloom.codegen.sql.errors import place_error
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


def may_be_asked(table: CreatedTable) -> bool:
    """Tell whether lookup joins can ask it."""
    return table.connector in _CONNECTORS and table.watermark is None


def is_only_asked(table: CreatedTable) -> bool:
    """Tell whether it does not stream, wherever it stands."""
    return table.connector == "jdbc" or (
        may_be_asked(table) and any(key in _CACHING for key in table.options)
    )


def lookup_of(table: CreatedTable, dialect: str = "spark") -> LookupTable:
    """The lookup table of a created one, with the types of a dialect; raises SpecError with its place."""
    try:
        lookup = _table(table, {k: v for k, v in table.options.items() if k != "connector"})
    except SpecError as error:
        message = f"CREATE TABLE {table.name}: {error}"
        raise place_error(type(error)(message), table.place) from None
    return replace(lookup, columns=to_schema(table.columns, dialect, is_cut=True))


def _table(table: CreatedTable, options: dict[str, str]) -> LookupTable:
    known = (*_CONNECTORS[table.connector], *_CACHING)
    csv = {}
    if table.connector == "filesystem":
        csv, known = take_csv_options(options), (*known, *CSV_WORDS)
    for key in options:
        if key not in known and not key.startswith("sink."):
            raise OptionError(f"there is no option {key!r}. {nearest(key, known)}")
    if table.computed:
        raise SpecError(f"{next(iter(table.computed))!r} is computed; a lookup table has none.")
    settings: dict[str, Any] = {
        keyword: options[key] for key, keyword in _CACHING.items() if key in options
    }
    settings = _parse_options(settings)
    if table.connector == "filesystem":
        _require_options(options, "path")
        settings.pop("cache", None)
        settings |= {"files": options["path"], "format": options.get("format")}
        settings["format_options"] = csv
        return lookup_table(table.columns, key=list(table.key), **settings)
    _require_options(options, "url", "table-name")
    url = DatabaseUrl(options["url"], options.get("username"), options.get("password"))
    settings |= {"connect": url, "table": options["table-name"], "quote": url.quote}
    return lookup_table(table.columns, key=list(table.key), **settings)


def _parse_options(options: dict[str, Any]) -> dict[str, Any]:
    """Texts of options as what the keywords take."""
    parsed = dict(options)
    if "cache" in parsed:
        parsed["cache"] = str(parsed["cache"]).lower()
    for name in ("max_rows", "attempts"):
        if name in parsed:
            if not str(parsed[name]).isdigit():
                raise OptionError(f"{name} is {parsed[name]!r}; it is a number.")
            # Retries come after the first attempt.
            parsed[name] = int(parsed[name]) + (name == "attempts")
    if "cache_misses" in parsed:
        text = str(parsed["cache_misses"]).lower()
        if text not in ("true", "false"):
            raise OptionError(f"cache-missing-key is {text!r}; it must be true or false.")
        parsed["cache_misses"] = text == "true"
    return parsed


def _require_options(options: Mapping[str, str], *names: str) -> None:
    for name in names:
        if not options.get(name):
            raise OptionError(f"'{name}' is missing; say it in WITH (..).")
