"""Flink's words of a schema registry (`avro-confluent`, `debezium-avro-confluent`), and what they mean here."""

from __future__ import annotations

from typing import Any

from aggloom.errors import SpecError
from aggloom.runtime.avro.settings import schema_registry
from aggloom.runtime.formats.registry import MESSAGES
from aggloom.table_options import Words

_PREFIXES = {
    "debezium-avro": ("debezium-avro-confluent.", "value.debezium-avro-confluent."),
    "avro-confluent": ("avro-confluent.", "value.avro-confluent."),
    "upsert-avro": ("value.avro-confluent.", "key.avro-confluent."),
}
"""Prefixes of the options of each format, by our name of it."""
_SAME = {
    "url": "url",
    "schema-registry.url": "url",
    "basic-auth.user-info": "user_info",
    "bearer-auth.token": "token",
    "ssl.truststore.location": "ca_file",
    "ssl.keystore.location": "certificate_file",
    "ssl.keystore.password": "certificate_password",
}
_REFUSED = {
    "subject": "messages read name their schemas by ids, and a sink's are TOPIC-key and TOPIC-value",
    "schema": "columns are found by name in the schema of each message, and a sink's follows from its columns",
    "ssl.truststore.password": "certificates are text (PEM), which has no password",
}


def registry_of(words: Words, format: str) -> dict[str, Any]:
    """The registry that the options of a format name, as an option of ours; raises SpecError."""
    if "registry" not in MESSAGES[format].options:
        return {}
    entries: dict[str, str] = {}
    prefixes = _PREFIXES[format]
    for begin in prefixes:
        for name, value in _take_options(words, begin).items():
            # Flink knows the options under several prefixes, and the same value under two is harmless; two values would
            # leave it to the order of this loop which registry is asked.
            if entries.setdefault(name, value) != value:
                raise words.wrong(f"'{begin}..' and '{prefixes[0]}..' are not the same registry.")
    more = {name: words.take(f"registry.{name}") for name in ("timeout", "attempts")}
    entries |= {name: value for name, value in more.items() if value is not None}
    if "url" not in entries:
        raise words.wrong(f"'{prefixes[0]}url' is missing; it says where the schema registry is.")
    try:
        return {"registry": schema_registry(entries)}
    except SpecError as error:
        raise words.wrong(str(error)) from None


def _take_options(words: Words, begin: str) -> dict[str, str]:
    """Take the registry's options that begin with a prefix, by our names; raises SpecError for one that is not
    supported.
    """
    entries = {}
    for option, own in _SAME.items():
        value = words.take(f"{begin}{option}")
        if value is not None:
            entries[own] = value
    for option, why in _REFUSED.items():
        words.refuse(f"{begin}{option}", why)
    for option in words.take_prefixed(f"{begin}properties."):
        raise words.wrong(f"'{option}' is not supported: the registry's client is another")
    _choose(words, f"{begin}basic-auth.credentials-source", ("USER_INFO", "URL"))
    _choose(words, f"{begin}bearer-auth.credentials-source", ("STATIC_TOKEN",))
    return entries


def _choose(words: Words, name: str, known: tuple[str, ...]) -> None:
    """Take where credentials come from, which what is given says as well; refuse what is not supported."""
    words.choice(name, {each.lower(): each for each in known}, None)
