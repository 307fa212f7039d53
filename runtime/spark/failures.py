"""A query's failure in a few lines: what aggloom or Spark said first, without the traces of three processes."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

import aggloom.errors as errors
from aggloom.errors import AggloomError, InputFormatError, StateCorruptError

# What a worker raises is one line; the query's plan and offsets may follow.
_OURS = re.compile(r"aggloom\.errors\.(\w+): ([^\n]*)")
_INPUT = re.compile(r"\[USER_RAISED_EXCEPTION\] InputFormatError: ([^\n]*?)(?= SQLSTATE|\n|\Z)")
_STORE = re.compile(r"\[(CANNOT_LOAD_STATE_STORE[\w.]*)\]")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ([^\n]*)")
_WRAPPERS = {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "USER_RAISED_EXCEPTION"}
_SHOWN = 400


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
    text = str(failure)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, AggloomError)
        return kind(message.strip()) if issubclass(kind, AggloomError) else AggloomError(message)
    found = _INPUT.search(text)
    if found:
        return InputFormatError(found[1].strip())
    found = _STORE.search(text)
    if found:
        return StateCorruptError(
            f"the checkpoint's state cannot be loaded ({found[1]}). "
            "Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
        )
    said = [f"[{name}] {rest}" for name, rest in _CONDITION.findall(text) if name not in _WRAPPERS]
    first = said[0] if said else text.strip().partition("\n")[0]
    return AggloomError(f"the query failed: {first[:_SHOWN]}")
