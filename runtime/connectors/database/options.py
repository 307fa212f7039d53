"""The options of a database sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aggloom.codegen import mysql_arguments
from aggloom.errors import SpecError
from aggloom.runtime.connectors.database.dialects import dialect_of
from aggloom.runtime.sinks.options import ELSEWHERE, read_options

EXISTING = ("error", "keep", "replace")
_CONNECT_EXAMPLES = {
    "postgresql": "postgresql://USER@HOST:5432/DATABASE or host=HOST dbname=DATABASE user=USER",
    "mysql": "mysql://USER@HOST:3306/DATABASE",
    "sqlite": "the path of a file",
}


@dataclass(frozen=True)
class DatabaseOptions:
    """Options of a database sink.

    table: its name, perhaps with its schema. connect: what the driver connects with: a text, keywords, or a function
    that gives a connection. driver: a module of Python's database interface. dialect: its database's, where that is
    not known. create: whether the table is made if it is not there. existing: what to do about rows that a checkpoint
    finds in the table when it first writes to it: "error", "keep", or "replace" them. replay: whether a checkpoint
    that has gone back to an older batch may write its batches again. log_table: where the numbers of batches are.
    cast: whether columns of the table may change values: round numbers, cut times, and have NULL for NaN.
    lock_timeout: for how many seconds a lock of another connection is waited for. retry_timeout: for how many seconds a
    batch is tried again where the database is away; 0: not at all.
    """

    table: str = field(metadata=ELSEWHERE)
    connect: Any = field(repr=False, metadata=ELSEWHERE)
    driver: str = field(default="psycopg", metadata=ELSEWHERE)
    dialect: str | None = field(default=None, metadata=ELSEWHERE)
    create: bool = True
    existing: str = "error"
    replay: bool = False
    log_table: str = "aggloom_batches"
    cast: bool = False
    lock_timeout: int = 60
    retry_timeout: int = 60
    kind = "database"

    @property
    def needs_key(self) -> bool:
        """Tell whether nothing can be written without a key of the result."""
        return True


def database_options(entries: Mapping[str, Any]) -> DatabaseOptions:
    """The options of a mapping; raises SpecError for one that nobody reads, that is missing, or that cannot be."""
    needed = {"table": "totals", "connect": "dbname=shop"}
    options = read_options(DatabaseOptions, "database", entries, needed, {"existing": EXISTING})
    if options.lock_timeout < 1 or options.retry_timeout < 0:
        raise SpecError(
            f"sink database: lock_timeout is {options.lock_timeout} and retry_timeout {options.retry_timeout}; they "
            "are seconds, at least 1 and 0"
        )
    dialect = dialect_of(options.driver, options.dialect)
    if isinstance(options.connect, str) and options.connect.startswith("jdbc:"):
        raise SpecError(
            f"sink database: connect is a URL of Java's (jdbc:..), and driver {options.driver} takes its own: "
            f"{_CONNECT_EXAMPLES[dialect.name]}; the connector 'jdbc' of CREATE TABLE takes both"
        )
    if isinstance(options.connect, str) and dialect.name == "mysql":
        mysql_arguments(options.connect)
    return options
