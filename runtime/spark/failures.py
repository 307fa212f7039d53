"""A query's failure in a few lines: what aggloom or Spark said first, without the traces of three processes."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import aggloom.errors as errors
from aggloom.errors import AggloomError, InputFormatError, StateCorruptError, StateError
from aggloom.runtime.spark.records import RECORD_SHOWN

# What a worker raises is one line, perhaps with those of a comparison; the query's plan and offsets may follow.
_OURS = re.compile(r"aggloom\.errors\.(\w+): ([^\n]*(?:\n  - [^\n]*)*)")
_INPUT = re.compile(r"\[USER_RAISED_EXCEPTION\] InputFormatError: ([^\n]*?)(?= SQLSTATE|\n|\Z)")
_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: ([^\n]*)\n\s*Schema: ([^\n]*)\n[\s\S]*?CSV file: ([^\n]*)"
)
_TYPE = re.compile(
    r"reading file ([^\n]*?)\.\s+Data type mismatches when reading Parquet column \[?([^\n]*?)\]?\. "
    r"Expected Spark type ([^\n]*?), actual Parquet type ([^\n.]*)"
)
_STORE = re.compile(r"\[(CANNOT_LOAD_STATE_STORE[\w.]*)\]")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ([^\n]*)")
_WRAPPERS = {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "USER_RAISED_EXCEPTION"}
# What Spark says of a checkpoint that it cannot read, in as many ways as there are files in it.
_DAMAGE = re.compile(
    r"Checksum error|ChecksumException|log file|Unexpected end-of-input|Unexpected character|"
    r"No content to map|batch \d+ doesn't exist|batches .* don't +exist|doesn't exist \(latestId|"
    r"/_stateSchema/|/_metadata/|CHECKPOINT_MISSING_METADATA_FILE|OPERATOR_METADATA|"
    r"INVALID_CONFIG_AFTER_RESTART|STATE_STORE_\w*(?:SCHEMA|CHECKSUM|CHECKPOINT)\w*|assertion failed"
)
_NOT_RUN = "CheckpointInfo length: 0"
_THROWN = re.compile(r"(?:terminated with exception: |calling \S+\n: )(.*)", re.DOTALL)
_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_SHOWN = 400


def started(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query; raises the typed error where its checkpoint cannot be read."""
    try:
        return writer.start()
    except AnalysisException:
        raise
    except Exception as failure:
        raise explained(failure) from failure


def await_end(query: StreamingQuery) -> None:
    """Wait until a query ends; raises the typed error of one that failed."""
    try:
        query.awaitTermination()
    except PySparkException as failure:
        raise explained(failure) from failure


def explained(failure: BaseException) -> AggloomError:
    """The typed error behind a failed query: the one raised in a worker, else one that names Spark's cause.

    Raise it `from` the failure, which keeps the whole text.
    """
    if isinstance(failure, AggloomError):
        return failure
    text = str(failure)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, AggloomError)
        return kind(message.strip()) if issubclass(kind, AggloomError) else AggloomError(message)
    found = _INPUT.search(text)
    if found:
        return InputFormatError(_with_line(found[1].strip()))
    found = _TYPE.search(text)
    if found:
        return InputFormatError(
            f"{found[1]}: column {found[2]!r} is {found[4]} in the file, not {found[3]}. "
            "Declare the column with the file's type, and cast afterwards."
        )
    found = _HEADER.search(text)
    if found:
        return InputFormatError(
            f"{found[3]}: the header is {found[1]}, where the first file has {found[2]}. "
            "Leave out whole_files=False and options of Spark's reader: each file is then read by its own header."
        )
    found = _STORE.search(text)
    if found:
        return _corrupt(f"the checkpoint's state cannot be loaded ({found[1]})")
    cause = _cause(text)
    if _NOT_RUN in cause:
        return StateError(
            "the sink did not run its batch, so that there is no state to commit. Let foreachBatch run every batch, "
            "one that it has seen before too (df.count() will do), and start again from the same checkpoint."
        )
    if not cause:
        return _corrupt("Spark does not say why, as where a file of the checkpoint ends too early")
    if _DAMAGE.search(cause):
        return _corrupt(f"the checkpoint cannot be read ({cause})")
    return AggloomError(f"the query failed: {cause}")


def _with_line(message: str) -> str:
    """The message with the number of the line that it ends with, if the file is on this machine."""
    place, _, rest = message.partition(": ")
    path = Path(unquote(place.removeprefix("file:")))
    if not place.startswith("file:") or not path.is_file():
        return message
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            shown = line.rstrip("\r\n")[:RECORD_SHOWN].strip()
            if shown and rest.endswith(f": {shown}"):
                return f"{place}, line {number}: {rest}"
    return message


def _corrupt(what: str) -> StateCorruptError:
    return StateCorruptError(
        f"{what}. Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
    )


def _cause(text: str) -> str:
    """The one line of a failure that says most: of a worker's trace the last, else what Spark said first."""
    raised = _TRACE.search(text)
    if raised:
        return raised[1].strip()[:_SHOWN]
    thrown = _THROWN.search(text)
    inner = thrown[1] if thrown else text
    said = [f"[{name}] {rest}" for name, rest in _CONDITION.findall(inner) if name not in _WRAPPERS]
    first = said[0] if said else inner.strip().partition("\n")[0]
    return re.sub(r"\s*SQLSTATE:.*", "", first).strip()[:_SHOWN]
