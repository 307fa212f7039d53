"""Connectors: Flink's words in CREATE TABLE .. WITH (..) as a source of changes, or a sink for a result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aggloom.codegen import CreatedTable, to_schema
from aggloom.codegen.planner.scripts.csv_options import CSV_WORDS, take_csv_options
from aggloom.codegen.spec.database_url import DatabaseUrl
from aggloom.errors import OptionError, SpecError, nearest
from aggloom.lake_tables import LAKES
from aggloom.made_tables import read_rules
from aggloom.metadata_words import refuse_metadata, take_key_columns
from aggloom.registry_options import registry_of
from aggloom.runtime.connectors.files.options import MESSAGE_OPTIONS, option_types
from aggloom.runtime.connectors.kafka.encodings import IN_AVRO
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.registry import SINKS, sink_options
from aggloom.runtime.connectors.source_options import own_words
from aggloom.runtime.formats.registry import FORMATS, MESSAGES
from aggloom.runtime.formats.whole_json import OPTION as MULTILINE
from aggloom.runtime.sinks.options import sink_words
from aggloom.runtime.values.change_column import OPTIONS as CHANGE_OPTIONS
from aggloom.table_options import Words
from aggloom.tables import TableSource, relative_to, table_source

_FORMATS = {
    **{name: name for name in FORMATS},
    "json": "jsonl",
    "debezium-avro-confluent": "debezium-avro",
}
"""Formats by Flink's names and by ours."""
_UPSERTS = {"upsert-json": "jsonl", "upsert-avro": "avro-confluent"}
"""Formats of upserts, and those that keys and values are in by themselves."""
_TRUTH = {"true": True, "false": False}
_OF_FILES = tuple(name for name in option_types() if name != "order")
"""Our own options of tables in files; the order of files is 'files.order' in Flink's manner."""
_OF_TOPICS = (*own_words(KafkaSource), "unreadable", "side", *MESSAGE_OPTIONS, *CHANGE_OPTIONS)
"""Those of messages in topics."""
_START = re.compile(r"partition:(\d+),offset:(\d+)")
_DRIVERS = {"postgresql": "psycopg", "sqlite": "sqlite3", "mysql": "pymysql", "mariadb": "pymysql"}


def source_of(
    table: CreatedTable, folder: Path | None = None, dialect: str = "spark"
) -> TableSource:
    """The source that a created table is; folder: to what relative paths are relative. Raises SpecError."""
    words = Words(table, folder)
    kind = _find_connector(_SOURCES, table, "read from")
    settings = kind(words)
    own = _OWN_OPTIONS.get(table.connector, ())
    settings |= {name: value for name in own if (value := words.take(name)) is not None}
    words.end()
    refuse_metadata(table)
    if metadata := {**table.metadata, **settings.pop("metadata", {})}:
        settings["metadata"] = metadata
    settings |= {"schema": table.columns, "changes": table.changes}
    table_of_words = table_source(table.name, settings, f"CREATE TABLE {table.name}", folder)
    schema = to_schema(table.columns, dialect, is_cut=True)
    return replace(table_of_words, schema=schema, keys=table.key, watermark=table.event_time)


def sink_of(table: CreatedTable, folder: Path | None = None) -> str | Mapping[str, Any]:
    """The sink that a created table is, as write_changes takes it. Raises SpecError."""
    words = Words(table, folder)
    sink: str | Mapping[str, Any] = _find_connector(_SINKS, table, "written into")(words)
    words.end()
    words.end_partitions()
    if isinstance(sink, Mapping):
        sink_options(sink)
    return sink


def _find_connector(
    kinds: Mapping[str, Any], table: CreatedTable, what: str
) -> Callable[[Words], Any]:
    if table.connector not in kinds:
        if table.connector == "values":
            # With its rows it is a part of the query, and is not asked for here.
            raise SpecError(
                f"CREATE TABLE {table.name}: connector 'values' has no rows to read; give it "
                "'rows' = '(1, ''a''), (2, NULL)'"
            )
        raise SpecError(
            f"CREATE TABLE {table.name}: a table of '{table.connector}' cannot be {what}; one of "
            f"{', '.join(map(repr, kinds))} can"
        )
    read: Callable[[Words], Any] = kinds[table.connector]
    return read


def _format(words: Words, *names: str) -> str:
    """The format that one of these options names, by our name."""
    given_names = [name for name in names if name in words.options]
    for name in names[1:]:
        words.known.append(name)
    format_name = words.require(given_names[0] if given_names else names[0])
    if format_name not in _FORMATS:
        raise words.wrong(f"'{names[0]}' is {format_name!r}. {nearest(format_name, _FORMATS)}")
    return _FORMATS[format_name]


def _translate_options(words: Words, format: str) -> dict[str, Any]:
    """Translate Flink's options of a format that concern reading into those of the reader."""
    # Flink calls rows of JSON "json"; our own name for them is taken as well.
    names = {format, "json"} if format == "jsonl" else {format}
    options_of_source: dict[str, Any] = {}
    for name in sorted(names):
        # Flink writes options of a topic's format with "value." once the key has a format of its own.
        for begin in (f"{name}.", f"value.{name}."):
            if words.choice(f"{begin}ignore-parse-errors", _TRUTH, False):
                options_of_source["unreadable"] = "drop"
            if not words.choice(f"{begin}fail-on-missing-field", _TRUTH, True):
                options_of_source["missing"] = "null"
            # Both forms of each are read.
            words.choice(f"{begin}schema-include", _TRUTH, False)
            words.choice(f"{begin}timestamp-format.standard", {"sql": 0, "iso-8601": 0}, 0)
            for option in ("database", "table"):
                pattern = words.take(f"{begin}{option}.include")
                if pattern is not None:
                    options_of_source[option] = pattern
    if format == "csv":
        words.known += CSV_WORDS
        try:
            options_of_source |= take_csv_options(words.options)
        except OptionError as error:
            raise words.wrong(str(error)) from None
    return options_of_source


def _files(words: Words) -> dict[str, Any]:
    path, format = words.require("path"), _format(words, "format")
    words.pass_over("source.monitor-interval", "a trigger says how often files are looked for")
    order = words.take("files.order")
    ordered = {} if order is None else {"order": order}
    whole = words.take(MULTILINE) if format in MESSAGES else None
    if whole is not None:
        ordered[MULTILINE] = whole
    return {"path": path, "format": format, **ordered, **_translate_options(words, format)}


def _properties(words: Words) -> tuple[str, dict[str, str]]:
    """Take the broker's addresses and the other options of Kafka's client, without their prefix `properties.`."""
    servers = words.require("properties.bootstrap.servers")
    # A checkpoint knows how far a topic is read; Flink's group would only learn of it.
    words.take("properties.group.id")
    names = [name for name in words.options if name.startswith("properties.")]
    return servers, {name.removeprefix("properties."): words.options.pop(name) for name in names}


def _topic(words: Words) -> dict[str, Any]:
    if words.options.get("scan.bounded.mode") == "latest-offset":
        words.pass_over("scan.bounded.mode", "a run without --continuous ends where its topics end")
    words.choice("scan.bounded.mode", {"unbounded": None, "latest-offset": None}, None)
    pattern = words.take("topic-pattern")
    if pattern is not None:
        return {"topic": pattern, "pattern": True}
    return {"topic": [name.strip() for name in words.require("topic").split(";")]}


def _kafka(words: Words) -> dict[str, Any]:
    servers, properties = _properties(words)
    format = _format(words, "format", "value.format")
    if format not in MESSAGES:
        raise words.wrong(f"format {format!r} is one of files; of messages: {', '.join(MESSAGES)}")
    entries = {"connector": "kafka", "servers": servers, "properties": properties, **_topic(words)}
    # Flink begins at the offsets of the consumer group; there is no group here, as offsets are in the checkpoint.
    mode = words.take("scan.startup.mode") or "earliest-offset"
    starts = ("earliest-offset", "latest-offset", "timestamp", "specific-offsets")
    if mode not in starts:
        raise words.wrong(
            f"'scan.startup.mode' is {mode!r}. {nearest(mode, starts)} (Its checkpoint says where a query goes on, and "
            "no group.)"
        )
    millis = words.number("scan.startup.timestamp-millis")
    # Taken although another mode may not read them: what is left in `words` at the end is refused as an unknown option,
    # and Flink allows these beside any mode.
    offsets = words.take("scan.startup.specific-offsets")
    if mode == "timestamp":
        if millis is None:
            raise words.wrong("'scan.startup.timestamp-millis' is missing.")
        entries["start"] = millis
    elif mode == "specific-offsets":
        if offsets is None:
            raise words.wrong("'scan.startup.specific-offsets' is missing.")
        pieces = [_START.fullmatch(each.strip()) for each in offsets.split(";")]
        if not all(pieces):
            raise words.wrong(
                f"'scan.startup.specific-offsets' is {offsets!r}; write 'partition:0,offset:42;partition:1,offset:300'."
            )
        entries["start"] = {int(each[1]): int(each[2]) for each in pieces if each}
    else:
        entries["start"] = mode.removesuffix("-offset")
    options = _translate_options(words, format) | registry_of(words, format)
    return {**entries, "format": format, "metadata": take_key_columns(words), **options}


def _upsert_kafka(words: Words) -> dict[str, Any]:
    if not words.table.key:
        raise words.wrong("upserts need a key; declare PRIMARY KEY (..) NOT ENFORCED.")
    format = _upsert_format(words)
    servers, properties = _properties(words)
    entries = {"connector": "kafka", "servers": servers, "properties": properties, **_topic(words)}
    options = _translate_options(words, _UPSERTS[format]) | registry_of(words, format)
    return {**entries, "format": format, **options}


def _upsert_format(words: Words) -> str:
    """The format of keys and values, which are in the same."""
    format_name = _format(words, "value.format")
    own = {flat: upserts for upserts, flat in _UPSERTS.items()}.get(format_name, format_name)
    if own not in _UPSERTS:
        raise words.wrong(f"'value.format' is {format_name!r}; known are json, avro-confluent")
    called = "json" if own == "upsert-json" else "avro-confluent"
    words.choice("key.format", {called: called}, called)
    words.choice("value.fields-include", {"all": "ALL"}, "ALL")
    return own


def _delta(words: Words) -> dict[str, Any]:
    entries: dict[str, Any] = {"connector": "delta", "path": words.require("table-path")}
    words.need_one("startingVersion", "startingTimestamp", "start")
    version, time = words.number("startingVersion"), words.take("startingTimestamp")
    if version is not None or time is not None:
        entries["start"] = time if version is None else version
    storage = words.storage()
    return {**entries, "storage": storage} if storage else entries


def _iceberg_place(words: Words) -> tuple[str, dict[str, Any]]:
    """The name of an Iceberg table, and its catalog."""
    space, name = words.take("catalog-database"), words.take("catalog-table")
    options = {
        n.removeprefix("catalog."): value for n, value in words.take_prefixed("catalog.").items()
    }
    for option, own in (("catalog-type", "type"), ("uri", "uri"), ("warehouse", "warehouse")):
        value = words.take(option)
        if value is not None:
            options[own] = value
    about = {"catalog": words.require("catalog-name"), "connect": options}
    return f"{space or 'default'}.{name or words.table.name}", about


def _iceberg(words: Words) -> dict[str, Any]:
    table, about = _iceberg_place(words)
    entries: dict[str, Any] = {"connector": "iceberg", "path": table, **about}
    words.choice("streaming", {"true": True}, True)
    words.pass_over("monitor-interval", "a trigger says how often snapshots are looked for")
    words.need_one("start-snapshot-id", "start")
    snapshot = words.number("start-snapshot-id")
    return entries if snapshot is None else {**entries, "start": snapshot}


def _take_sink_options(words: Words, kind: str) -> dict[str, Any]:
    """Take the options of a sink that are not given in a way of its connector's own."""
    values = {name: words.take(word) for name, word in sink_words(SINKS[kind]).items()}
    return {name: value for name, value in values.items() if value is not None}


def _into_files(words: Words) -> str:
    path, format = relative_to(words.folder, words.require("path")), _format(words, "format")
    if format not in ("jsonl", "parquet"):
        raise words.wrong(f"'format' of a sink is {format!r}; known are json, parquet")
    return f"{format}:{path}"


def _into_database(words: Words) -> dict[str, Any]:
    if not words.table.key:
        raise words.wrong("a result is written by its key; declare PRIMARY KEY (..) NOT ENFORCED.")
    credentials = words.require("url"), words.take("username"), words.take("password")
    try:
        url = DatabaseUrl(*credentials)
    except OptionError as error:
        raise words.wrong(str(error)) from None
    entries = {"kind": "database", "table": words.require("table-name"), "connect": url}
    entries["driver"] = _DRIVERS[url.kind]
    for option in ("buffer-flush.max-rows", "buffer-flush.interval"):
        words.pass_over(f"sink.{option}", "each batch is one transaction")
    return entries | _take_sink_options(words, "database")


def _into_kafka(words: Words) -> dict[str, Any]:
    format = _format(words, "format", "value.format")
    words.refuse("key.fields", "the PRIMARY KEY is the key of messages")
    return _into_topic(words, format)


def _into_upsert_kafka(words: Words) -> dict[str, Any]:
    if not words.table.key:
        raise words.wrong("upserts need a key; declare PRIMARY KEY (..) NOT ENFORCED.")
    return _into_topic(words, _upsert_format(words))


def _into_topic(words: Words, format: str) -> dict[str, Any]:
    servers, properties = _properties(words)
    entries = {
        "kind": "kafka",
        "servers": servers,
        "topic": words.require("topic"),
        "format": format,
    }
    if properties:
        entries["properties"] = properties  # type: ignore[assignment]
    if format in IN_AVRO:
        entries |= registry_of(words, format)
    guarantees = {"exactly-once": "exactly-once", "at-least-once": "at-least-once"}
    entries["guarantee"] = words.choice("sink.delivery-guarantee", guarantees, "exactly-once")
    return entries | _take_sink_options(words, "kafka")


def _into_delta(words: Words) -> dict[str, Any]:
    entries = {"kind": "delta", "path": relative_to(words.folder, words.require("table-path"))}
    lake_entries = _into_lake(words, entries, "delta.")
    storage = words.storage()
    return {**lake_entries, "storage": storage} if storage else lake_entries


def _into_iceberg(words: Words) -> dict[str, Any]:
    table, about = _iceberg_place(words)
    return _into_lake(words, {"kind": "iceberg", "table": table, **about}, "write.")


def _into_lake(words: Words, entries: dict[str, Any], properties: str) -> dict[str, Any]:
    """Add the options of a sink that is a table of files to `entries`, and return them.

    properties: the prefix of options that become properties of the table itself. Raises SpecError if the partitions are
    given twice, or if the result needs a primary key and the table has none.
    """
    entries |= _take_sink_options(words, entries["kind"])
    if partitions := words.take_partitions():
        if "partition_by" in entries:
            raise words.wrong("'sink.partition_by' is PARTITIONED BY once more; leave one out.")
        entries["partition_by"] = partitions
    if not words.table.key and entries.get("form") != "changelog":
        raise words.wrong(
            "a result is written by its key; declare PRIMARY KEY (..) NOT ENFORCED, or say 'sink.form' = 'changelog'."
        )
    own = words.take_prefixed(properties)
    return {**entries, "properties": own} if own else entries


def _into_console(words: Words) -> str | dict[str, Any]:
    words.pass_over("sink.parallelism", "one process writes")
    options = _take_sink_options(words, "print")
    return {"kind": "print", **options} if options else "console"


def _into_nothing(words: Words) -> dict[str, Any]:
    return {"kind": "blackhole"}


def _read_made_rows(words: Words) -> dict[str, Any]:
    """Flink's options of made rows."""
    entries: dict[str, Any] = {
        "connector": "datagen",
        "rules": read_rules(words.take_prefixed("fields.")),
    }
    for option in ("rows-per-second", "number-of-rows", "seed"):
        value = words.number(option)
        if value is not None:
            entries[option.replace("-", "_")] = value
    words.pass_over("scan.parallelism", "one process makes the rows")
    return entries


_SOURCES: dict[str, Callable[[Words], dict[str, Any]]] = {
    "filesystem": _files,
    "delta": _delta,
    "iceberg": _iceberg,
    "kafka": _kafka,
    "upsert-kafka": _upsert_kafka,
    "datagen": _read_made_rows,
}
_OWN_OPTIONS = {
    "filesystem": _OF_FILES,
    "kafka": _OF_TOPICS,
    "upsert-kafka": _OF_TOPICS,
    **{connector: own_words(source) for connector, source in LAKES.items()},
}
_SINKS: dict[str, Callable[[Words], Any]] = {
    "filesystem": _into_files,
    "jdbc": _into_database,
    "delta": _into_delta,
    "iceberg": _into_iceberg,
    "kafka": _into_kafka,
    "upsert-kafka": _into_upsert_kafka,
    "print": _into_console,
    "blackhole": _into_nothing,
    "values": _into_console,
}
