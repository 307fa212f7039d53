"""The tables of a job: where their files are, in what format, with which options they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.codegen import to_schema, with_absent
from aggloom.codegen.spec.choices import TABLE_CHANGES, Dialect
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.errors import DataError, SpecError, nearest
from aggloom.file_formats import guess_format, set_separator
from aggloom.lake_tables import LAKES, group_options, lake_columns, lake_frame, lake_source
from aggloom.made_tables import refuse_spark, take_made_source
from aggloom.masking import mask_repr
from aggloom.runtime.avro.settings import schema_registry
from aggloom.runtime.connectors.datagen.options import DatagenSource
from aggloom.runtime.connectors.files.discovery import (
    check_caps,
    files_at,
    is_by_name,
    suggest_sibling,
    which,
)
from aggloom.runtime.connectors.files.options import option_types
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.source_options import job_types
from aggloom.runtime.formats.csv_dialect import CSV_OPTIONS
from aggloom.runtime.formats.registry import FORMATS, MESSAGES, check_in_lines
from aggloom.runtime.formats.whole_json import take_option
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.table_entries import (
    SPARK_OPTIONS,
    convert_entry,
    read_keys,
    read_watermark,
    remove_quotes,
    split_entries,
)
from aggloom.table_inference import (
    INFERRED,
    InferredColumns,
    add_partition_columns,
    infer_columns,
    is_here,
    parquet_schema,
)
from aggloom.table_metadata import check_sources, refuse_files, take_metadata
from aggloom.topic_tables import take_topic

_ENTRIES = (
    "connector",
    *job_types(KafkaSource),
    "path",
    "format",
    "schema",
    "watermark",
    "keys",
    "changes",
    "metadata",
    "options",
)
_FORM = (
    "t=PATH[,format=FORMAT][,schema=DDL][,watermark=COLUMN DELAY][,keys=COLUMN,...][,changes=KIND]"
    "[,option=value ...]"
)
_REMOTE = re.compile(r"[a-zA-Z][\w+.-]+:")


@mask_repr
@dataclass(frozen=True)
class TableSource:
    """A table of the query and the files, the topics of Kafka, or the table of a lake, that its changes are in.

    lake: its connector, its path and the other arguments of its reader. kafka: servers, topic and the other arguments
    of read_kafka; None of files. watermark: its event-time column, and how far rows may be out of order. keys: its
    primary key. changes: append, retract or upsert, where the job says something else of its other tables. metadata:
    columns that no row has, each with its source. datagen: how its rows are made, if they are.
    """

    name: str
    path: str
    format: str
    schema: str | pa.Schema | None = None
    options: dict[str, Any] = field(default_factory=dict)
    watermark: tuple[str, str] | None = None
    keys: tuple[str, ...] = ()
    changes: str | None = None
    kafka: Mapping[str, Any] | None = None
    lake: Mapping[str, Any] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    datagen: DatagenSource | None = None

    def frame(self, spark: Any, dialect: Dialect = "spark") -> Any:
        """Its changes, as a stream. dialect: in whose words the columns are declared."""
        if self.datagen is not None:
            refuse_spark(self.name)
        if self.lake is not None:
            return lake_frame(spark, self.lake, self.schema)
        columns = self._own_columns
        columns = columns if dialect == "spark" else to_schema(columns, dialect)
        if self.kafka is not None:
            from aggloom.runtime.connectors.kafka.source import read_kafka

            about = {**self.kafka, "format": self.format, "schema": columns, **self.reader_options}
            return read_kafka(spark, metadata=self.metadata or None, **about)
        refuse_files(self.name, self.metadata)
        from aggloom.runtime.connectors.files.source import read_changes

        options = {**self.checks, **self.reader_options}
        return read_changes(spark, self.path, self.format, columns, **options)

    @property
    def is_by_time(self) -> bool:
        """True if it is read from files in the order of their times of modification."""
        elsewhere = (self.kafka, self.lake, self.datagen)
        # Copied files have new times: where rows were dropped, a message then names the order as a possible cause.
        return all(each is None for each in elsewhere) and self.options.get("order") != "name"

    @property
    def sends(self) -> str | None:
        """Kinds of changes that the table sends, if they are declared or follow from its format."""
        # What the table says itself wins over what its format suggests: a topic of upserts may hold insertions alone.
        own = self.format in MESSAGES and MESSAGES[self.format].needs_keys
        own |= self._is_partial or self.change_words.lacks_before
        return self.changes or ("upsert" if own else None)

    @property
    def _is_partial(self) -> bool:
        """True if its rows may leave columns out."""
        return self.options.get("images") == "partial"

    @property
    def change_words(self) -> ChangeWords:
        """Return what says the change of its rows; raises SpecError."""
        return ChangeWords.of(self.options, f"table {self.name}")

    @property
    def reader_options(self) -> dict[str, Any]:
        """Options of the reader, with the keys of upserts, which lack the rows before."""
        keys = {"keys": self.keys} if self.sends == "upsert" and self.keys else {}
        return self.options | keys

    @property
    def checks(self) -> dict[str, Any]:
        """Options of the reader about columns that nobody gave: later values must not be changed by their types."""
        if self.schema is not None or self.lake is not None or self.format not in INFERRED:
            return {}
        return {"inferred": True} if self._inferred_columns.by_values else {}

    def describe_inferred(self) -> str | None:
        """Describe the columns that were inferred from the files; None if no column was."""
        if self.schema is not None or self.lake is not None or self.format == "parquet":
            return None
        return self._inferred_columns.describe_columns(self.name, self.format)

    def check_place(self) -> None:
        """Refuse a file or directory of this machine that is not there, with names like its; raises SpecError."""
        # A colon may begin another file system's path, and a pattern may match later: neither is missing for certain.
        is_elsewhere = self.kafka is not None or self.lake is not None or ":" in self.path
        if is_elsewhere or has_magic(self.path) or "{" in self.path or Path(self.path).exists():
            return
        missing = f"there is no file or directory {self.path!r}"
        raise SpecError(f"table {self.name}: {missing}.{suggest_sibling(Path(self.path))}")

    @cached_property
    def _inferred_columns(self) -> InferredColumns:
        """The columns that the files say, asked once: a file that comes later must not change those of a run."""
        # Spark takes the names of its options in any case.
        known = {name.lower() for name in CSV_OPTIONS}
        pairs = ((name, str(value)) for name, value in self.options.items())
        dialect = tuple(sorted(pair for pair in pairs if pair[0].lower() in known))
        inferred = None
        if self.kafka is None and is_here(self.path):
            chosen = which(self.options)
            whole, _ = take_option(self.options, None, f"table {self.name}")
            about: dict[str, Any] = {
                "words": self.change_words,
                "whole": whole and self.format in MESSAGES,
            }
            inferred = infer_columns(self.path, self.format, **chosen, dialect=dialect, **about)
        if inferred is None:
            self.check_place()
            raise SpecError(
                f"table {self.name}: {self.format} does not say its types; add schema=DDL,"
                f' as in schema="name STRING, cnt INT". Nothing at {self.path!r} tells them.'
            )
        return inferred

    def columns(self) -> str | pa.Schema:
        """The columns of its rows: those that it has, and one for what a row leaves out, where it may."""
        own = self._own_columns
        return with_absent(to_schema(own)) if self._is_partial else own

    @cached_property
    def _own_columns(self) -> str | pa.Schema:
        """The columns: as given, or as local Parquet files have them, all of them together."""
        if self.lake is not None:
            return lake_columns(self.lake, self.schema)
        if self.schema is not None:
            return self.schema
        if self.format != "parquet":
            return self._inferred_columns.schema
        schemas = [parquet_schema(file) for file in self._parquet_files()]
        if not schemas:
            raise SpecError(
                f"table {self.name}: there is no Parquet file at {self.path!r} to tell the columns; add schema=DDL."
            )
        try:
            # Permissive: files of a growing table get new columns, and INT becomes BIGINT.
            whole = pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as error:
            raise SpecError(
                f"table {self.name}: the files at {self.path!r} disagree on a column ({error}); add schema=DDL."
            ) from None
        own = pa.schema(
            [column for column in whole if not self.change_words.says_change(column.name)]
        )
        chosen = which(self.options)
        return add_partition_columns(own, self.path, self._parquet_files(), chosen["deep"])

    def _parquet_files(self) -> list[Path]:
        try:
            return files_at(self.path, **which(self.options))
        except (SpecError, DataError):
            return []


def read_table_option(text: str) -> TableSource:
    """Read the text of --table: a comma ends a value only where `word=` follows; quotes around one are dropped."""
    # Names of tables have no "=", paths may: the first one ends the name.
    first, *rest = split_entries(text)
    name, _, path = first.partition("=")
    pairs = [part.split("=", 1) for part in rest]
    settings = {key: remove_quotes(value) for key, value in pairs}
    if not name or not path or not all(settings.values()):
        raise SpecError(f"--table {text!r}: it must read {_FORM}.")
    if len(settings) < len(pairs) or "path" in settings:
        raise SpecError(f"--table {text!r}: it says something twice; leave one out.")
    options = {
        key.removeprefix("options."): settings.pop(key) for key in list(settings) if "." in key
    }
    entries: dict[str, Any] = {"path": path, **settings}
    return table_source(
        name, entries | ({"options": options} if options else {}), f"--table {name}"
    )


def table_source(name: str, settings: Any, where: str, folder: Path | None = None) -> TableSource:
    """The table of a mapping with path, format, schema and the reader's options; `where` opens messages.

    folder: to what a relative path is relative. Raises SpecError, for an entry that nobody reads too.
    """
    entries = dict(settings) if isinstance(settings, Mapping) else {}
    if entries.get("connector") in LAKES:
        return _lake(name, entries, where, folder)
    # Before the path is asked for: neither rows that are made nor tables of a lake have one on the disk.
    if (made_rows := take_made_source(entries, where)) is not None:
        schema, watermark, _, changes = _take_row_entries(entries, where)
        for entry in entries:
            raise SpecError(f"{where}: rows that are made have no entry {entry!r}; leave it out")
        # The colon says that this is no place on the disk.
        table = TableSource(str(name), "datagen:", "datagen", schema, {}, watermark)
        return replace(table, changes=changes or "append", datagen=made_rows)
    kafka, metadata = take_topic(entries, where), take_metadata(entries, where)
    path = entries.pop("path", "" if kafka else None)
    if not isinstance(path, str) or not (path or kafka):
        raise SpecError(f"{where}: give it a path and a format.")
    path = relative_to(folder, path) if path else path
    chosen = entries.pop("format", None)
    registry = _registry(entries, chosen, where)
    options = {**_options(entries, where), **registry}
    check_caps(options, where)
    if "order" in options:
        if kafka:
            raise SpecError(f"{where}: order is of files; a topic has its own order. Leave it out.")
        is_by_name(options["order"], where)
    if kafka and (chosen not in MESSAGES or path or "schema" not in entries):
        raise SpecError(
            f"{where}: a topic has a schema, no path, and a format of messages: {', '.join(MESSAGES)}"
        )
    if not kafka:
        check_in_lines(str(chosen), where)
    chosen = chosen or guess_format(path, where)
    if chosen == "csv":
        set_separator(options, path)
    if chosen in LAKES:
        raise SpecError(f"{where}: {chosen!r} is no format of files; say connector={chosen}.")
    if chosen not in FORMATS:
        raise SpecError(f"{where}: no format {chosen!r}. {nearest(str(chosen), FORMATS)}")
    schema, watermark, keys, changes = _take_row_entries(entries, where)
    check_sources(metadata, bool(kafka), schema, chosen, where)
    table = TableSource(str(name), path, chosen, schema, options, watermark)
    return replace(table, keys=keys, changes=changes, kafka=kafka, metadata=metadata)


def _registry(entries: dict[str, Any], format: Any, where: str) -> dict[str, Any]:
    """The schema registry, taken out of the entries; from here on what is secret in it is in no text."""
    own = entries.pop("registry", None)
    if own is None:
        return {}
    if format not in MESSAGES or "registry" not in MESSAGES[format].options:
        raise SpecError(f"{where}: a registry has the schemas of Avro; {format} has no use for it.")
    return {"registry": schema_registry(own)}


def _take_row_entries(entries: dict[str, Any], where: str) -> tuple[Any, ...]:
    """Take the entries that describe the rows of any table out of `entries`: schema, watermark, keys, changes."""
    schema = entries.pop("schema", None)
    if not isinstance(schema, str | None):
        raise SpecError(f'{where}: schema must be DDL, as in "name STRING, cnt INT".')
    schema, declared = (None, ()) if schema is None else without_primary_key(schema)
    watermark = read_watermark(entries.pop("watermark", None), where)
    keys = read_keys(entries.pop("keys", None), where) or declared
    changes = _changes(entries, where)
    return schema, watermark, keys, changes


def _changes(entries: dict[str, Any], where: str) -> str | None:
    changes = entries.pop("changes", None)
    if changes is not None and changes not in TABLE_CHANGES:
        raise SpecError(f"{where}: changes is {changes!r}. {nearest(str(changes), TABLE_CHANGES)}")
    return None if changes is None else str(changes)


def _lake(name: str, entries: dict[str, Any], where: str, folder: Path | None) -> TableSource:
    """A table of a lake."""
    connector, path = entries.pop("connector"), entries.pop("path", None)
    if not isinstance(path, str) or not path:
        raise SpecError(f"{where}: a table of {connector} needs a path.")
    # The path of an Iceberg table is its name in a catalogue, and no path on a disk.
    place = relative_to(folder, path) if connector == "delta" else path
    lake: dict[str, Any] = {"connector": connector, "path": place}
    options = entries.pop("options", None) or {}
    if not isinstance(options, Mapping):
        raise SpecError(f"{where}: `options` must be a mapping of names to values.")
    entries |= group_options(options)
    types = job_types(LAKES[connector])
    # Taken out of `entries`: what is left at the end is what nobody knows.
    for entry in types.keys() & entries.keys():
        lake[entry] = convert_entry(entry, entries.pop(entry), types[entry], where)
    lake_source(lake).check(where)
    schema, watermark, keys, changes = _take_row_entries(entries, where)
    # It gives both images of a row; as upserts a state would remember them again.
    if changes == "upsert":
        raise SpecError(f"{where}: {connector} tells the rows that it replaces; leave changes out.")
    for entry in entries:
        known = ("connector", "schema", "watermark", "keys", "changes", *types)
        raise SpecError(f"{where}: there is no entry {entry!r}. {nearest(str(entry), known)}")
    return TableSource(
        str(name),
        lake["path"],
        connector,
        schema,
        watermark=watermark,
        keys=keys,
        changes=changes,
        lake=lake,
    )


def relative_to(folder: Path | None, path: str) -> str:
    """A path as seen from a folder, unless it is absolute or another file system's; raises SpecError for a variable."""
    variable = re.search(r"\$\{\w+\}|(?<![^/])\$[A-Za-z_]\w*", path)
    if variable and not Path(path).exists():
        raise SpecError(
            f"the path {path!r} has {variable[0]} in it, and variables of the environment are not read here. Write its "
            "value, or give the path on the command line, where the shell puts it in."
        )
    return path if folder is None or _REMOTE.match(path) else str(folder / path)


def _options(entries: dict[str, Any], where: str) -> dict[str, Any]:
    """Take the reader's options out of the entries; raises SpecError for an unknown name."""
    types = option_types()
    explicit = entries.pop("options", None) or {}
    if not isinstance(explicit, Mapping):
        raise SpecError(f"{where}: `options` must be a mapping of names to values.")
    spark = {name.lower() for name in SPARK_OPTIONS}
    options = {str(key): value for key, value in explicit.items()}
    for key in [key for key in entries if key not in _ENTRIES]:
        if key not in types and str(key).lower() not in spark:
            known = [*_ENTRIES, *types, *SPARK_OPTIONS]
            raise SpecError(
                f"{where}: there is no entry {key!r}. {nearest(str(key), known)} "
                "An option of Spark's that is not known here goes under `options`."
            )
        # Spark reads options in any case of letters: of two spellings the last one would win without a word.
        if str(key).lower() in map(str.lower, options):
            raise SpecError(f"{where}: {key!r} is given twice; leave one out.")
        value = entries.pop(key)
        options[key] = convert_entry(key, value, types[key], where) if key in types else value
    return options
