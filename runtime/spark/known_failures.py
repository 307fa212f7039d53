"""Known failures: words of Spark that say one thing, and the error that they are here."""

from __future__ import annotations

import re

from aggloom.errors import (
    AggloomError,
    CheckpointError,
    DataError,
    ExecutorError,
    InputFormatError,
    SinkError,
    SparkVersionError,
    SpecError,
    StateCorruptError,
    WorkerStartError,
)

RESTORE = "Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
TOO_SLOW = "Python worker failed to connect back"

Known = tuple[tuple[re.Pattern[str], type[AggloomError], str], ...]
"""Words of Spark with the error that they are, and its text: `{1}` is what the first parenthesis of the words holds."""
OF_WORKERS: Known = (
    (
        re.compile(r"(?:ModuleNotFoundError: )?No module named '?([\w.]+)"),
        ExecutorError,
        "the Python of Spark's executors has no package {1!r}. Install it where they run, or send "
        "aggloom with al.ship(spark) and modules of yours with spark.sparkContext.addPyFile (docs/clusters.md).",
    ),
    (
        re.compile(r"cannot cache function .*no locator available"),
        ExecutorError,
        "Spark's executors have no directory for compiled code: they have no home directory that they can write to. "
        "Set spark.executorEnv.NUMBA_CACHE_DIR and spark.executorEnv.AGGLOOM_CACHE (docs/clusters.md).",
    ),
)
OF_COLUMNS: Known = (
    (
        re.compile(
            r"reading file ([^\n]*?)\.\s+Data type mismatches when reading Parquet column \[?([^\n]*?)\]?\. "
            r"Expected Spark type ([^\n]*?), actual Parquet type ([^\n.]*)"
        ),
        InputFormatError,
        "{1}: column {2!r} is {4} in the file, not {3}. "
        "Declare the column with the file's type, and cast afterwards.",
    ),
    (
        re.compile(
            r"CSV header does not conform to the schema\.\s+Header: ([^\n]*)\n\s*Schema: ([^\n]*)\n[\s\S]*?"
            r"CSV file: ([^\n]*)"
        ),
        InputFormatError,
        "{3}: the header is {1}, where the first file has {2}. "
        "Leave out whole_files=False and options of Spark's reader: each file is then read by its own header.",
    ),
)
OF_QUERIES: Known = (
    (
        re.compile(r"\[(CANNOT_LOAD_STATE_STORE[\w.]*)\]"),
        StateCorruptError,
        f"the checkpoint's state cannot be loaded ({{1}}). {RESTORE}",
    ),
    (
        re.compile(r"native zStandard library not available"),
        InputFormatError,
        "a .zst file has come since the query was started, and this Spark cannot unpack one. Nothing is lost; "
        "start the query again from the same checkpoint, and such files are unpacked by aggloom.",
    ),
    (
        re.compile(TOO_SLOW),
        WorkerStartError,
        "a Python process of Spark's did not start within ten seconds, Spark's limit: the machine is busy. "
        "Nothing is lost; start the query again from the same checkpoint.",
    ),
    (
        re.compile(r'Initial schema:\s*"(STRUCT<.*?>)"\s*Schema that cannot [^"]*"(STRUCT<.*?>)"'),
        InputFormatError,
        "files have columns of other types: {1} and {2}",
    ),
    (
        re.compile(r"Wrong basePath (\S+) for the root path: ([^\s]+)"),
        CheckpointError,
        "the checkpoint has read {2}, and the query reads {1} now. Put the files where they were, "
        "or start over with an empty checkpoint.",
    ),
    (
        re.compile(r"Some data may have been lost.*?Reason: ([^\n]*?)\.*(?:\n|\Z)", re.DOTALL),
        DataError,
        "Kafka does not have messages any more that were to be read: {1}. Keep messages for "
        "longer than a query may rest. Start over with an empty checkpoint, or go on without them: "
        'lost_data="ignore", which is read_kafka\'s.',
    ),
    (
        re.compile(
            r"startingOffsets contains specific offsets.*?Set\((.*?)\) Assigned: \w*Set\((.*?)\)",
            re.DOTALL,
        ),
        SpecError,
        "read_kafka: start has offsets of {1}, and there are {2}; give each partition one "
        "(-2: its earliest, -1: its latest)",
    ),
    (
        re.compile("CONCURRENT_STREAM_LOG_UPDATE"),
        CheckpointError,
        "another run goes on from the same checkpoint at the same time, and has written this batch. Let one of "
        "them end; nothing is lost.",
    ),
    (
        re.compile("UNSUPPORTED_TIME_TYPE"),
        SparkVersionError,
        "this session has no type TIME: set spark.sql.timeType.enabled to true, as al.session does, on Spark 4.1 "
        "or newer, or read the column as a STRING.",
    ),
    (
        re.compile(r"Race while writing batch \d+ to the file sink metadata log at ([^\n]*?): "),
        SinkError,
        "another query writes files into {1} at the same time. Give each a directory of its own.",
    ),
)


def known_error(known: Known, text: str) -> AggloomError | None:
    """The error of the first words that a text has in it."""
    for words, kind, message in known:
        match = words.search(text)
        if match:
            return kind(message.format(match[0], *match.groups()))
    return None
