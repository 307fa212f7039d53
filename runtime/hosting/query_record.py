"""The query of a checkpoint, in a file of ours beside Spark's: the description of its state, by batch.

A description says what an operator's state is made from; `result`: what of the query is above its operators. The file
has the query of the last committed batch, and that which is to run from the next one on. It lies on a local disk only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aggloom.checkpoint_file import read_file, replace_file
from aggloom.errors import StateMismatchError
from aggloom.runtime.hosting.checkpoint_paths import QUERY_FILE, batches, corrupt, is_local, local
from aggloom.runtime.operators.comparison import LINE, Description
from aggloom.runtime.storage.checksums import with_checksum, without_checksum

_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
_ZONED = re.compile(
    r"\b(TIMESTAMP|DATE)\b|(?i:\w*(date|time|unix|hour|minute|second|day|week|month|quarter|year|now)\w*\()"
)
"""Types and functions that may ask for the time zone."""


@dataclass(frozen=True)
class Query:
    """A query: the description of each operator by its place, what is above them as {what: text}, the time zone.

    tables, columns: the names of the columns of each table, and of the result.
    """

    operators: tuple[Description, ...]
    result: Mapping[str, str]
    zone: str = ""
    tables: Mapping[str, list[str]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Version:
    """A query, and the batch from which it has run; query: None if it is not known."""

    since: int
    query: Query | None


def next_batch(checkpoint: str | Path) -> int:
    """The number of the batch that a query runs first when it starts from a checkpoint."""
    return max(batches(local(checkpoint) / "commits"), default=-1) + 1


def read_committed_query(checkpoint: str | Path) -> Query | None:
    """The query whose batch was committed last; None if there is none, or none that is known.

    Raises StateCorruptError if the file is damaged.
    """
    version = _read_committed_version(checkpoint)
    return version.query if version else None


def read_queries(checkpoint: str | Path) -> list[Query]:
    """The queries that a checkpoint knows, the newest last; raises StateCorruptError if the file is damaged."""
    return [version.query for version in _versions(local(checkpoint)) if version.query]


def known_buckets(checkpoint: str | Path) -> int | None:
    """The number of buckets into which the state of the newest query that is noted is cut; None if none is known."""
    versions = [version.query for version in _versions(local(checkpoint)) if version.query]
    return buckets_of(versions[-1]) if versions else None


def buckets_of(query: Query) -> int | None:
    """The number of buckets into which a query's state is cut: a global aggregate has one in any case."""
    return max((int(each["buckets"]) for each in query.operators), default=None)


def write(checkpoint: str | Path, query: Query | None) -> None:
    """Note in a local checkpoint the query that is about to start."""
    if not is_local(checkpoint):
        return
    former, next_one = _read_committed_version(checkpoint), Version(next_batch(checkpoint), query)
    goes_on = former is not None and former.query == query
    # A query that goes on unchanged has one entry: from when it first ran.
    versions = [asdict(each) for each in (former, None if goes_on else next_one) if each]
    text = json.dumps(versions, sort_keys=True)
    file = local(checkpoint) / QUERY_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, with_checksum(text))


def compare_queries(old: Query, new: Query) -> StateMismatchError | None:
    """The error for queries whose operators do not correspond; those that do are compared one by one."""
    was, now = ([each["operator"] for each in query.operators] for query in (old, new))
    lines = []
    if len(was) != len(now):
        lines = [f"operators: {', '.join(was) or 'none'} -> {', '.join(now) or 'none'}"]
    elif not was:
        lines = [f"{what}: {a or 'none'} -> {b or 'none'}" for what, a, b in _above(old, new)]
    if not lines:
        return _elsewhere(old, new)
    return StateMismatchError(
        "the query differs from the one that wrote the checkpoint. Run the query that this checkpoint belongs to, or "
        "give this one a checkpoint directory of its own." + "".join(LINE + line for line in lines)
    )


def _elsewhere(old: Query, new: Query) -> StateMismatchError | None:
    """The error for a query with days or hours in it, where the session's time zone is another than it was."""
    # Names of one zone: Spark says UTC in several ways.
    was, now = ("UTC" if query.zone in _UTC else query.zone for query in (old, new))
    if not was or was == now or not _ZONED.search(json.dumps(new.operators)):
        return None
    return StateMismatchError(
        f"the session's time zone is {now}, and that of the checkpoint {was}: the same rows would fall on other days "
        f"and hours. Set spark.sql.session.timeZone={was}, or give the query a checkpoint directory of its own."
    )


def changed_above(old: Query, new: Query) -> list[str]:
    """Return the differences above the operators, a line each: columns that only one query has do not count."""
    both = old.result.keys() & new.result.keys() | {"HAVING"}
    listed = [pair for pair in _above(old, new) if pair[0] in both]
    return [f"{what}: {was or 'none'} -> {now or 'none'}" for what, was, now in listed]


def _above(old: Query, new: Query) -> list[tuple[str, str, str]]:
    names = sorted(old.result.keys() | new.result.keys())
    pairs = [(name, old.result.get(name, ""), new.result.get(name, "")) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]


def _read_committed_version(checkpoint: str | Path) -> Version | None:
    last = next_batch(checkpoint) - 1
    # Versions noted for a batch that never committed do not count.
    known = [version for version in _versions(local(checkpoint)) if version.since <= last]
    return max(known, key=lambda version: version.since, default=None)


def _versions(root: Path) -> list[Version]:
    file = root / QUERY_FILE
    if not file.is_file():
        return []
    try:
        text = without_checksum(read_file(root, file))
        return [_version(each) for each in json.loads(text)]
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise corrupt(f"{QUERY_FILE} is damaged: {type(e).__name__}: {e}") from e


def _version(data: Mapping[str, Any]) -> Version:
    """The version that data say; raises KeyError, TypeError and ValueError."""
    if type(data["since"]) is not int:
        raise TypeError("a batch must be a number")
    return Version(data["since"], _query(data["query"]))


def _query(data: Mapping[str, Any] | None) -> Query | None:
    if data is None:
        return None
    operators, result, zone = tuple(data["operators"]), data["result"], data.get("zone", "")
    if not all(isinstance(each, dict) and isinstance(each["operator"], str) for each in operators):
        raise TypeError("an operator must have a name")
    texts = [*result, *result.values(), zone] if isinstance(result, dict) else [None]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("what is above the operators must be texts")
    tables, columns = data.get("tables", {}), data.get("columns", ())
    if not isinstance(tables, dict):
        raise TypeError("tables must be named")
    for names in (*tables.values(), columns):
        if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
            raise TypeError("columns must be names")
    return Query(operators, result, zone, tables, tuple(columns))
