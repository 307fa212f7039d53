"""Lookup tables as data: the source that a lookup join queries, and its cache.

Planning reads nothing of them; `runtime/lookup/` queries them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal
from uuid import uuid4

import pyarrow as pa

from aggloom.codegen.spec.agg_spec import SchemaLike, to_schema
from aggloom.codegen.spec.declared_digits import Digits, declared_digits
from aggloom.codegen.spec.durations import format_duration, milliseconds
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.codegen.spec.schemas import without_variants
from aggloom.codegen.sql.argument_names import names_of
from aggloom.errors import OptionError, SpecError, nearest
from aggloom.masking import mask_repr

OnError = Literal["fail", "null", "skip"]
CacheKind = Literal["none", "partial", "full"]
ON_ERROR: tuple[OnError, ...] = ("fail", "null", "skip")
CACHES: tuple[CacheKind, ...] = ("none", "partial", "full")
_CSV_NAME = re.compile(r"\.(csv|tsv|tab)(\.(gz|bz2|zst))?$", re.IGNORECASE)
EVERY_BATCH = -1
"""The refresh of a table that is read again with every batch."""


@dataclass(frozen=True)
class GivenRows:
    """Rows in memory: tuples, an Arrow table, or a function that returns either at each reading."""

    rows: Any
    is_whole: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The name that `explain` gives it."""
        return "rows of a function" if callable(self.rows) else "given rows"


@dataclass(frozen=True)
class Files:
    """Parquet or CSV files: a path, a folder or a pattern.

    options: of CSV, as for streams. zone: of times of CSV without one; the engine sets it.
    """

    path: str
    format: Literal["parquet", "csv"]
    options: Mapping[str, Any] = field(default_factory=dict)
    zone: str = "UTC"
    is_whole: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The name that `explain` gives it."""
        return f"{self.format} files"


@mask_repr
@dataclass(frozen=True)
class Database:
    """A table that a DB-API connection reads. chunk: keys in a statement, at most; quote: around names."""

    connect: Callable[[], Any]
    table: tuple[str, ...]
    chunk: int = 500
    quote: str = '"'
    is_whole: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The name that `explain` gives it."""
        return f"database table {'.'.join(self.table)}"


@dataclass(frozen=True)
class Function:
    """A Python function of the key's values: `async def`, or a plain one, which threads call at the same time."""

    call: Callable[..., Any]
    is_whole: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The name that `explain` gives it."""
        return f"function {getattr(self.call, '__name__', type(self.call).__name__)}"


@dataclass(frozen=True)
class BatchFrame:
    """A batch DataFrame, which Spark reads again in every micro-batch."""

    df: Any
    is_whole: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The name that `explain` gives it."""
        return "batch DataFrame"


Source = GivenRows | Files | Database | Function | BatchFrame


@dataclass(frozen=True)
class Cache:
    """The cache of a worker process; times in milliseconds, 0: without end.

    partial: rows by key, of which the least recently used are dropped. full: the whole table.
    """

    kind: CacheKind = "none"
    max_rows: int = 10_000
    expire_after_write: int = 0
    expire_after_access: int = 0
    caches_misses: bool = True
    refresh: int = 0

    @property
    def label(self) -> str:
        """Its description in `explain`."""
        if self.kind == "none":
            return "no cache"
        if self.kind == "full":
            if self.refresh == EVERY_BATCH:
                return "the whole table is read with every batch"
            again = f", again every {format_duration(self.refresh)}" if self.refresh else " once"
            return f"the whole table is read{again} by each worker process"
        lives = (
            f" for {format_duration(self.expire_after_write)}" if self.expire_after_write else ""
        )
        return f"up to {self.max_rows} rows are kept{lives} by each worker process"


@dataclass(frozen=True)
class Asking:
    """The way in which a table is queried; times in milliseconds.

    capacity: calls of a function at the same time. timeout: of a call. attempts, delay: of calls that fail, and the
    time between them. misses, miss_delay: the same of calls without a result.
    """

    capacity: int = 1
    timeout: int = 180_000
    attempts: int = 1
    delay: int = 0
    misses: int = 1
    miss_delay: int = 0
    on_error: OnError = "fail"


@dataclass(frozen=True)
class LookupTable:
    """A table that a lookup join queries.

    key: columns of a unique key. digits: columns of times with fewer declared fractional digits than values may have,
    to which results are cut.
    """

    columns: pa.Schema
    source: Source
    key: tuple[str, ...] = ()
    cache: Cache = Cache()
    asking: Asking = Asking()
    identity: str = field(default_factory=lambda: uuid4().hex)
    """The name under which a worker process finds its connection and its cache."""
    digits: Digits = ()

    @property
    def label(self) -> str:
        """The words of `explain` for it."""
        parts = [self.source.label]
        if not isinstance(self.source, BatchFrame):
            parts.append(self.cache.label)
        if self.asking.on_error != "fail":
            parts.append(f"on_error={self.asking.on_error}")
        return ", ".join(parts)

    def with_hint(self, **changes: Any) -> LookupTable:
        """The same table with changed options of `Asking`."""
        return replace(self, asking=replace(self.asking, **changes))


def lookup_table(
    schema: SchemaLike,
    *,
    rows: Any = None,
    files: str | None = None,
    format: Literal["parquet", "csv"] | None = None,
    format_options: Mapping[str, Any] | None = None,
    connect: Callable[[], Any] | None = None,
    table: str | Sequence[str] | None = None,
    chunk: int = 500,
    quote: str = '"',
    function: Callable[..., Any] | None = None,
    key: str | Sequence[str] = (),
    cache: CacheKind | None = None,
    max_rows: int = 10_000,
    expire_after_write: Any = None,
    expire_after_access: Any = None,
    cache_misses: bool = True,
    refresh: Any = None,
    capacity: int | None = None,
    timeout: Any = "3 min",
    attempts: int = 1,
    delay: Any = 0,
    miss_attempts: int = 1,
    miss_delay: Any = 0,
    on_error: OnError = "fail",
) -> LookupTable:
    """A table for `JOIN name FOR SYSTEM_TIME AS OF PROCTIME()`, and for `al.lookup`.

    schema: its columns, as DDL; PRIMARY KEY (..) NOT ENFORCED or `key` says that no two rows have the same there. One
    source: `rows` (tuples, an Arrow table, or a function that gives either); `files`, with their `format` and
    `format_options` such as {"sep": ";"}; `connect`, which makes a DB-API connection, with `table`, a name or [schema,
    name]; or `function`, of the values of `key`, async or not. chunk: how many keys a query of a database asks for.
    quote: its quotation mark of names. cache: "none", "partial" or "full". max_rows, expire_after_write,
    expire_after_access, cache_misses: of a partial cache. refresh: when a table is read whole again. capacity,
    timeout: of calls of a function: how many at once, for how long. attempts, delay, miss_attempts, miss_delay: how
    often, and how long after, a call that failed or found nothing is repeated. on_error: "fail", "null" or "skip".
    docs/lookup.md has more about each. Lengths of time are milliseconds, or text such as "10 min". Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> shops = al.lookup_table("shop INT, city STRING", rows=[(1, "Bonn"), (2, "Köln")], key="shop")
        >>> query = '''SELECT o.id, s.city FROM orders AS o
        ...     LEFT JOIN shops FOR SYSTEM_TIME AS OF PROCTIME() AS s ON o.shop = s.shop'''
        >>> with al.Harness.from_sql(query, {"orders": "id INT, shop INT"}, lookups={"shops": shops}, backend="python",
        ...                          input_changes="append") as harness:
        ...     harness.process([("+I", 7, 2), ("+I", 8, 9)])
        ...     harness.flush()
        ...     print(harness.table())
        [(7, 'Köln'), (8, None)]
    """
    declared: tuple[str, ...] = ()
    digits = declared_digits(schema)
    if isinstance(schema, str):
        schema, declared = without_primary_key(schema)
    columns = without_variants(to_schema(schema, is_cut=True))
    known = tuple(names_of("lookup_table: key", key)) or declared
    for name in known:
        if name not in columns.names:
            hint = nearest(name, columns.names)
            raise SpecError(f"lookup_table: the key names column {name!r}. {hint}")
    source = _source(
        rows,
        files,
        format_=format,
        connect=connect,
        table=table,
        chunk=chunk,
        quote=quote,
        function=function,
    )
    if format_options:
        source = _with_options(source, format_options)
    if isinstance(source, Function) and not known:
        raise SpecError(
            "lookup_table: a function is called with the values of the key; name its columns: key=['id']."
        )
    _check_choices(cache, on_error)
    kind = _kind_of_cache(cache, source)
    _check_counts(
        max_rows=max_rows,
        attempts=attempts,
        miss_attempts=miss_attempts,
        chunk=chunk,
        capacity=1 if capacity is None else capacity,
    )
    cache_settings = Cache(
        kind,
        max_rows,
        _length("expire_after_write", expire_after_write),
        _length("expire_after_access", expire_after_access),
        cache_misses,
        EVERY_BATCH if refresh == "batch" else _length("refresh", refresh),
    )
    if cache_settings.refresh and kind != "full":
        raise OptionError("lookup_table: refresh is for tables that are read whole: cache='full'.")
    asking = Asking(
        capacity or 1,
        _length("timeout", timeout),
        attempts=attempts,
        delay=_length("delay", delay),
        misses=miss_attempts,
        miss_delay=_length("miss_delay", miss_delay),
        on_error=on_error,
    )
    return LookupTable(columns, source, known, cache_settings, asking, digits=digits)


def _with_options(source: Source, options: Mapping[str, Any]) -> Files:
    """Return files with options of their format; raises SpecError for a source that has none."""
    if not isinstance(options, Mapping):
        raise SpecError(
            f"lookup_table: format_options is {options!r}; name each option: format_options={{'sep': ';'}}."
        )
    if not isinstance(source, Files) or source.format != "csv":
        raise SpecError(
            f"lookup_table: format_options are of CSV files; {source.label} have none. Leave them out."
        )
    return replace(source, options=dict(options))


def _kind_of_cache(cache: CacheKind | None, source: Source) -> CacheKind:
    kind: CacheKind = cache or ("full" if source.is_whole else "none")
    if source.is_whole and kind != "full":
        raise OptionError(f"lookup_table: {source.label} are read whole; leave cache={kind!r} out.")
    if isinstance(source, Function) and kind == "full":
        raise OptionError(
            "lookup_table: a function cannot be read whole; use cache='partial', or rows=..."
        )
    return kind


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        # True is an int in Python, and would be a cache of one row.
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise OptionError(f"lookup_table: {name} is {value!r}; it is a number of at least 1.")


def _check_choices(cache: str | None, on_error: str) -> None:
    if cache is not None and cache not in CACHES:
        raise OptionError(f"lookup_table: cache is {cache!r}. {nearest(str(cache), CACHES)}")
    if on_error not in ON_ERROR:
        raise OptionError(
            f"lookup_table: on_error is {on_error!r}. {nearest(str(on_error), ON_ERROR)}"
        )


def _source(
    rows: Any,
    files: str | None,
    format_: str | None,
    connect: Callable[[], Any] | None,
    table: str | Sequence[str] | None,
    chunk: int,
    quote: str,
    function: Callable[..., Any] | None,
) -> Source:
    sources = {"rows": rows, "files": files, "connect": connect, "function": function}
    names = [name for name, value in sources.items() if value is not None]
    if len(names) != 1:
        what = " and ".join(names) or "none"
        raise SpecError(f"lookup_table: give one of rows, files, connect, function, not {what}.")
    if (table is None) == (connect is not None):
        raise SpecError("lookup_table: connect and table go together: connect=..., table='dim'.")
    if rows is not None:
        return GivenRows(rows)
    if files is not None:
        # Inferred from the name alone: the directory may be on a machine that only the executors reach.
        kind = format_ or ("csv" if _CSV_NAME.search(str(files)) else "parquet")
        if kind not in ("parquet", "csv"):
            hint = nearest(str(kind), ("parquet", "csv"))
            raise SpecError(f"lookup_table: no format {kind!r}. {hint}")
        return Files(str(files), "csv" if kind == "csv" else "parquet")
    for name, value in (("connect", connect), ("function", function)):
        if value is not None and not callable(value):
            raise SpecError(f"lookup_table: {name} is {value!r}; give a function.")
    if function is not None:
        return Function(function)
    assert connect is not None and table is not None
    listed = isinstance(table, str | Sequence)
    # A name with a dot in it can be given as a list of its parts.
    parts = tuple(table.split(".") if isinstance(table, str) else table) if listed else ()
    if not parts or not all(isinstance(part, str) and part for part in parts):
        raise SpecError(f"lookup_table: table is {table!r}; give its name, such as 'public.dim'.")
    return Database(connect, parts, chunk, quote)


def _length(name: str, value: Any) -> int:
    length = 0 if value is None else milliseconds(f"lookup_table: {name}", value)
    if length < 0:
        raise OptionError(f"lookup_table: {name} is {value!r}; it must not be negative.")
    return length


def check_lookups(lookups: Mapping[str, Any] | None) -> dict[str, LookupTable]:
    """The lookup tables of an argument by name; raises SpecError for any other value."""
    if not isinstance(lookups or {}, Mapping):
        raise SpecError(
            f"lookups is {lookups!r}; name each: lookups={{'r': al.lookup_table(...)}}."
        )
    for name, each in (lookups or {}).items():
        if not isinstance(each, LookupTable):
            raise SpecError(
                f"lookups names {name!r}, which is a {type(each).__name__}; give al.lookup_table(...)."
            )
    return dict(lookups or {})
