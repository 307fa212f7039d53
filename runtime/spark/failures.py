"""A query's failure in a few lines: what aggloom or Spark said first, without the traces of three processes."""

from __future__ import annotations

import errno
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import aggloom.errors as errors
from aggloom.errors import (
    AggloomError,
    InputFormatError,
    StateCorruptError,
    StateError,
    StateRoomError,
)
from aggloom.runtime.spark.arguments import check_query
from aggloom.runtime.spark.known_failures import (
    OF_COLUMNS,
    OF_QUERIES,
    OF_WORKERS,
    RESTORE,
    TOO_SLOW,
    known_error,
)
from aggloom.runtime.spark.read.records import RECORD_SHOWN
from aggloom.runtime.spark.watch.followers import raise_warning, wait_for_follower
from aggloom.runtime.spark.watch.query_html import add_notebook_view

# What a worker raises is one line, perhaps with those of a comparison; the query's plan and offsets may follow.
_OURS = re.compile(r"aggloom\.(?:\w+\.)*(\w+Error): ([^\n]*(?:\n  - [^\n]*)*)")
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (\w+Error): ([^\n]*?)(?= SQLSTATE|\n|\Z)")
_FILE = re.compile(
    r"\[FAILED_READ_FILE(?!\.FILE_NOT_EXIST)[\w.]*\] Encountered error while reading file (.*?)\.(?:[ \n]|\Z)"
    r" *([^\n]*)"
)
_RECORD = re.compile(r'in record parsing: \[(.*?)\](?:.*For input string: "(.*?)")?')
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ([^\n]*)")
_WRAPPERS = {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "USER_RAISED_EXCEPTION"}
# What Spark says of a checkpoint that it cannot read, in as many ways as there are files in it.
_DAMAGE = re.compile(
    r"Checksum error|ChecksumException|log file|Unexpected end-of-input|Unexpected character|"
    r"No content to map|batch \d+ doesn't exist|batches .* don't +exist|doesn't exist \(latestId|"
    r"/_stateSchema/|/_metadata/|CHECKPOINT_MISSING_METADATA_FILE|OPERATOR_METADATA|"
    r"INVALID_CONFIG_AFTER_RESTART|STATE_STORE_\w*(?:SCHEMA|CHECKSUM|CHECKPOINT)\w*|assertion failed"
)
_IN_A_WORKER = re.compile(r"pyspark[\w./]*/worker|python worker", re.IGNORECASE)
_STARTS = 3
_NOT_RUN = "CheckpointInfo length: 0"
_THROWN = re.compile(r".*(?:terminated with exception: |calling \S+\n: )(.*)", re.DOTALL)
_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?!py4j\.protocol)(\S.*)")
_CAUSED = re.compile(r"^Caused by: (?:[\w.$]+: )?(.*)", re.MULTILINE)
_WAITED = "Exception thrown in awaitResult"
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SHOWN = 400
_FAREWELL_SECONDS = 2
"""The time that a Java that no longer answers may take to end."""
_JAVA_ENDED = (
    "Spark's Java has ended: it was killed, as by a kernel without memory (spark.driver.memory says how much "
    "it takes). Nothing is lost; start the query again from the same checkpoint."
)


def start_query(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query; raises the typed error where its checkpoint cannot be read.

    Over Connect this starts a process for foreachBatch, which may be too slow for Spark: it is warm at the next try.
    """
    for left in reversed(range(_STARTS)):
        try:
            return add_notebook_view(writer.start())
        except AnalysisException:
            raise
        except Exception as failure:
            if left and TOO_SLOW in str(failure):
                continue
            raise explain_failure(failure) from failure
    raise AssertionError("unreachable")


def await_end(query: StreamingQuery) -> None:
    """Wait until a query ends.

    query: what `write_changes` has started. Raises the typed error of one that failed, SpecError if it is no streaming
    query, and DroppedRowsWarning where a filter of Python's `warnings` makes an error of it.

    Example: see `write_changes`.
    """
    check_query("await_end", query)
    try:
        query.awaitTermination()
    except (PySparkException, Py4JJavaError) as failure:
        raise explain_failure(failure) from failure
    except (ConnectionError, Py4JError) as failure:
        raise AggloomError(_JAVA_ENDED) from failure
    finally:
        wait_for_follower(query)
    raise_warning(query)


@contextmanager
def translate_failures(what: str) -> Iterator[None]:
    """Raise a failure inside as one typed error; of one in a sink foreachBatch keeps nothing but the text.

    what: the sink, and what it writes, for a disk that is full.
    """
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        raise explain_failure(failure) from None
    except OSError as failure:
        if failure.errno not in _FULL:
            raise
        raise no_room(f"{what}: {failure.strerror or failure}") from None


@contextmanager
def while_java_lives(spark: SparkSession) -> Iterator[None]:
    """Says in words that Spark's Java is gone: what is asked of it afterwards fails with the words of a socket."""
    try:
        yield
    except AggloomError:
        raise
    except (ConnectionError, Py4JError) as failure:
        # A gateway that somebody else has started has no process here, and a session over Connect no gateway.
        java: Any = getattr(getattr(spark, "_sc", None), "_gateway", None)
        try:
            java.proc.wait(_FAREWELL_SECONDS)
        except (AttributeError, subprocess.TimeoutExpired):
            raise failure from None
        raise AggloomError(_JAVA_ENDED) from failure


def explain_failure(failure: BaseException) -> AggloomError:
    """The typed error behind a failed query: the one raised in a worker, else one that names Spark's cause.

    Raise it `from` the failure, which keeps the whole text.
    """
    if isinstance(failure, AggloomError):
        return failure
    text = _whole_text(failure)
    # First of all: Spark wraps an error of a worker in errors of its own, which would be recognised below.
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        return _make_error(name, _with_line(message))
    raised = _RAISED.search(text)
    if raised:
        return _make_error(raised[1], _with_line(raised[2].strip()))
    of_worker = known_error(OF_WORKERS, text) if _IN_A_WORKER.search(text) else None
    return (
        of_worker
        or known_error(OF_COLUMNS, text)
        or _unreadable(text)
        or known_error(OF_QUERIES, text)
        or _by_cause(text)
    )


def _unreadable(text: str) -> AggloomError | None:
    """The error of a file that cannot be read, unless it is one that had no room."""
    file_match = _FILE.search(text)
    if file_match is None or _NO_ROOM.search(text):
        return None
    why = _of_file(file_match[2], text)
    return InputFormatError(
        f"{file_match[1]}{_line_of_record(file_match[1], why)} cannot be read: {why}"[:_SHOWN]
    )


def _by_cause(text: str) -> AggloomError:
    """The error of any other failure, by what Spark says first."""
    cause = _cause(text)
    # Before damage: a disk that is full leaves files that end too early, and is the cause of that.
    if _NO_ROOM.search(text):
        return no_room(cause or _NO_ROOM.findall(text)[0])
    if _NOT_RUN in cause:
        return StateError(
            "the sink did not run its batch, so that there is no state to commit. Let foreachBatch run every batch, "
            "one that it has seen before too (df.count() will do), and start again from the same checkpoint."
        )
    if not cause:
        return _corrupt(
            "Spark does not say why, as where one of its processes was killed, or where a file of the checkpoint ends "
            "too early. Start again from the same checkpoint; if that fails too, the checkpoint is damaged"
        )
    if _DAMAGE.search(cause):
        return _corrupt(f"the checkpoint cannot be read ({cause})")
    return AggloomError(f"the query failed: {cause}")


def no_room(what: str) -> StateRoomError:
    """The error of a disk that is full."""
    return StateRoomError(
        f"the disk has no room: {what}. Make room and start again from the same checkpoint; the batch is not lost."
    )


def _whole_text(failure: BaseException) -> str:
    """Return the text of a failure, and those of its causes in the JVM, a line for each."""
    texts: list[str] = []
    cause: BaseException | None = failure
    # A bound, since nothing says that a chain of causes ends.
    while cause is not None and len(texts) < 20:
        if str(cause) not in texts:
            texts.append(str(cause))
        cause = getattr(cause, "_cause", None)
    return "\nCaused by: ".join(texts)


def _of_file(message: str, text: str) -> str:
    """The reason why a file cannot be read: what Spark says of it, then its causes, each once."""
    causes: list[str] = []
    for line in (message, *_CAUSED.findall(text[text.index("[FAILED_READ_FILE") :])):
        line = _bare(re.sub(r"^\[[A-Z0-9_.]+\] ", "", line))
        if line and line not in causes and "Encountered error while reading" not in line:
            causes.append(line)
    return ": ".join(dict.fromkeys([*causes[:1], *causes[-1:]])) or "Spark does not say why"


def _make_error(name: str, message: str) -> AggloomError:
    """The error of a name, whether raised in a worker or by an expression."""
    kind = getattr(errors, name, AggloomError)
    return kind(message.strip()) if issubclass(kind, AggloomError) else AggloomError(message)


def _with_line(message: str) -> str:
    """The message with the number of the line that it ends with, if the file is on this machine."""
    place, _, rest = message.partition(": ")
    path = Path(unquote(place.removeprefix("file:")))
    if not place.startswith("file:") or not path.is_file():
        return message
    # Spark's lines end with \n; Python would count \r as well, and the numbers would differ.
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            record = line.rstrip("\r\n")[:RECORD_SHOWN].strip()
            if record and rest.endswith(f": {record}"):
                return f"{place}, line {number}: {rest}"
    return message


def _line_of_record(place: str, why: str) -> str:
    """The number of the one line of a file that has all values of a record that Spark's reader of CSV refuses."""
    path, record = Path(unquote(place.removeprefix("file:"))), _RECORD.search(why)
    if record is None or not place.startswith("file:") or not path.is_file():
        return ""
    values = [each for each in (*record[1].split(","), record[2]) if each not in ("", "null")]
    patterns = [re.compile(rf"(?<![^\W_]){re.escape(each)}(?![^\W_])") for each in values]
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        numbers = [n for n, line in enumerate(lines, 1) if all(w.search(line) for w in patterns)]
    return f", line {numbers[0]}," if len(numbers) == 1 else ""


def _corrupt(what: str) -> StateCorruptError:
    return StateCorruptError(f"{what}. {RESTORE}")


def _cause(text: str) -> str:
    """The one line of a failure that says most: of a worker's trace the last, else what Spark said first."""
    raised = _TRACE.search(text)
    if raised:
        return raised[1].strip()[:_SHOWN]
    thrown = _THROWN.search(text)
    inner = thrown[1] if thrown else text
    conditions = [
        f"[{name}] {rest}" for name, rest in _CONDITION.findall(inner) if name not in _WRAPPERS
    ]
    first = conditions[0] if conditions else inner.strip().partition("\n")[0]
    if _WAITED in first:
        first = next(iter(_CAUSED.findall(inner)), first)
    return _bare(first)[:_SHOWN]


def _bare(line: str) -> str:
    """A line of Spark's without the state of SQL at its end."""
    return re.sub(r"\s*SQLSTATE:.*", "", line).strip().rstrip(".")
