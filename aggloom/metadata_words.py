"""Flink's words for columns that are no part of a row: those of keys, and the connectors that have METADATA."""

from __future__ import annotations

from aggloom.codegen import CreatedTable
from aggloom.errors import SpecError, nearest
from aggloom.table_options import Words

_WITH_METADATA = ("filesystem", "kafka", "upsert-kafka")


def take_key_columns(words: Words) -> dict[str, str]:
    """Take Flink's options of the key: the columns that only keys have, each with its source. Raises SpecError."""
    form, fields = words.take("key.format"), words.take("key.fields")
    prefix = words.take("key.fields-prefix") or ""
    choices = {"all": "ALL", "except_key": "EXCEPT_KEY"}
    include = words.choice("value.fields-include", choices, "ALL")
    for option in ("ignore-parse-errors", "fail-on-missing-field"):
        why = "a key that cannot be read is refused with its message"
        words.pass_over(f"key.json.{option}", why)
    if form is None and fields is None and include == "ALL":
        return {}
    if form != "json":
        raise words.wrong(f"'key.format' is {form!r}; known is 'json'")
    if not fields:
        raise words.wrong("'key.fields' is missing: the columns that keys have, with ';' between.")
    if prefix and include == "ALL":
        raise words.wrong("'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY'.")
    columns = {}
    own = [n for n in words.table.order if n not in {*words.table.computed, *words.table.metadata}]
    for name in fields.split(";"):
        if name not in own or not name.startswith(prefix):
            begin = f" with {prefix!r} before it" if prefix else ""
            hint = nearest(name, own)
            raise words.wrong(f"'key.fields' names {name!r}, which is no column{begin}. {hint}")
        columns[name] = f"key.{name.removeprefix(prefix)}"
    # Fields of keys that values have, too, are read of the values, as Flink does.
    return columns if include == "EXCEPT_KEY" else {}


def refuse_metadata(table: CreatedTable) -> None:
    """Raise SpecError where a connector says nothing of its rows beside them."""
    if table.metadata and table.connector not in _WITH_METADATA:
        name, source = next(iter(table.metadata.items()))
        raise SpecError(
            f"CREATE TABLE {table.name}: column {name!r} is METADATA {source!r}, of which '{table.connector}' has "
            f"none; one of {', '.join(map(repr, _WITH_METADATA))} has"
        )
