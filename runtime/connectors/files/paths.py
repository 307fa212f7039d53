"""The place of a table's files: a directory, a pattern or one file, and what they say of their columns."""

from __future__ import annotations

from glob import glob, has_magic
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from aggloom.codegen import to_schema
from aggloom.errors import InputFormatError, SpecError
from aggloom.runtime.connectors.files.discovery import (
    NAMES,
    check_passed,
    files_at,
    files_in,
    is_hidden,
    suggest_sibling,
    which,
)
from aggloom.runtime.connectors.files.sink_log import LOG, read_committed
from aggloom.runtime.formats.partitions import check_as_spark_reads, read_partitions, split_columns
from aggloom.runtime.spark.disk import local, on_this_disk
from aggloom.runtime.spark.failures import explain_failure, translate_failures
from aggloom.runtime.values.change_column import ChangeWords


def locate_files(spark: Any, path: Any, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A path as Spark's streams read it, and the options with what that takes: of one file its directory, and its name.

    Raises SpecError where nothing is. A path that is another machine's, or may be, is left to Spark.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise SpecError(
            f"read_changes: path is {path!r}; it must be a directory, a file or a pattern."
        )
    text = str(path)
    place = local(text)
    if place is None or not on_this_disk(spark, text):
        return text, options
    if has_magic(text) or "{" in text:
        if place.exists():
            raise SpecError(
                f"read_changes: Spark reads {text!r} as a pattern, for there is one of *?[]{{}} in it. Rename what has "
                "it in its name, or write ? in its place."
            )
        # Path.glob takes no absolute patterns, and neither knows braces.
        if "{" not in text and not glob(str(place), recursive=True):  # noqa: PTH207
            raise SpecError(
                f"read_changes: nothing matches {text!r}. To wait for files name their directory, with "
                f"{NAMES} for their names."
            )
        return absolute_path(spark, text), options
    if not place.exists():
        raise SpecError(
            f"read_changes: there is no file or directory {text!r}.{suggest_sibling(place)}"
        )
    if place.is_dir():
        check_passed(place, **which(options))
        return absolute_path(spark, text), options
    if NAMES.lower() in map(str.lower, options):
        raise SpecError(f"read_changes: {text!r} is one file; leave {NAMES} out.")
    if is_hidden(place.name):
        raise SpecError(
            f"read_changes: Spark passes over files whose names begin with _ or ., as {text!r} does. Rename it."
        )
    place = place.absolute()
    if place not in files_in(place.parent).read:
        log = read_committed(place.parent)
        if log is not None and not log.has(Path(place.name)):
            raise SpecError(
                f"read_changes: {LOG} beside {text!r} does not name it, and Spark passes over it. Move it elsewhere."
            )
        raise SpecError(
            f"read_changes: {text!r} lies beside directories that are columns (day=1/) and have files, for which Spark "
            "passes over it or reads one of the same name in its place. Move it elsewhere."
        )
    # Spark's streams read directories; of a single file they would take the path for one, and find nothing.
    return str(place.parent), {**options, NAMES: place.name}


def absolute_path(spark: Any, path: str | Path) -> str:
    """Return a path relative to this process as an absolute one: an os.chdir here does not change Spark's directory."""
    text = str(path)
    place = local(text)
    if place is None or place.is_absolute() or not on_this_disk(spark, text):
        return text
    return str(place.absolute())


def parquet_columns(
    spark: SparkSession, path: str, options: dict[str, Any], words: ChangeWords
) -> StructType:
    """The columns that Parquet files have, all of them together, without those of changes.

    Raises InputFormatError if there is no file, or if two have a column in types that do not go together.
    """
    try:
        file_columns = spark.read.options(**{**options, "mergeSchema": True}).parquet(path).schema
    except (PySparkException, Py4JError) as failure:
        raise InputFormatError(
            f"read_changes: the columns of {path!r} cannot be read from its files ({explain_failure(failure)}). "
            'Give them as schema=, such as "name STRING, cnt INT".'
        ) from None
    return StructType([field for field in file_columns if not words.says_change(field.name)])


def split_by_directories(
    spark: SparkSession, path: str, options: dict[str, Any], columns: StructType
) -> tuple[StructType, StructType]:
    """Return the columns that files have, and those that their directories give (`day=1/`), as of the files of now.

    Raises InputFormatError where directories would say what kinds changes are, or have other columns than each other.
    """
    names = names_of_directories(spark, path, options)
    if names is None:
        with translate_failures(f"read_changes: {path}"):
            names = spark.read.options(**options).text(path).columns[1:]
    if not names:
        return columns, StructType([])
    _, directory_fields = split_columns(names, to_schema(columns), f"read_changes: {path}")
    parts = {field.name for field in directory_fields.values()}
    own = StructType([field for field in columns if field.name not in parts])
    return own, StructType([field for field in columns if field.name in parts])


def names_of_directories(
    spark: SparkSession, path: str, options: dict[str, Any]
) -> list[str] | None:
    """Return the columns that directories of this machine give, as of the files of now; None of another machine's.

    Raises InputFormatError where files have other columns than each other, and for names that Spark reads otherwise.
    """
    place = local(path)
    if place is None or not on_this_disk(spark, path):
        return None
    chosen = which(options)
    try:
        files = files_at(place, **chosen)
    except SpecError:
        return []
    partitions = read_partitions(place, files, chosen["deep"])
    names = list(next(iter(partitions.values()), {}))
    for file in partitions if names else ():
        check_as_spark_reads(file.parent)
    return names
