"""Tables of a job whose rows are generated: `connector: datagen`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aggloom.errors import SpecError
from aggloom.runtime.connectors.datagen.options import DatagenSource
from aggloom.table_entries import convert_entry

CONNECTOR: Final = "datagen"
_TYPES: Final = {"rows_per_second": int, "number_of_rows": int, "seed": int, "rules": dict}
_PIECE: Final = 100_000


def take_made_source(entries: dict[str, Any], where: str) -> DatagenSource | None:
    """Take the options of made rows out of a table's entries; None for a table of another connector."""
    if entries.get("connector") != CONNECTOR:
        return None
    del entries["connector"]
    if "schema" not in entries:
        raise SpecError(f"{where}: rows that are made need a schema.")
    settings = {
        name: convert_entry(name, entries.pop(name), kind, where)
        for name, kind in _TYPES.items()
        if name in entries
    }
    source = DatagenSource(**settings)
    source.check(where)
    return source


def read_rules(options: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Flink's options `fields.NAME.RULE` of CREATE TABLE by column."""
    rules: dict[str, dict[str, str]] = {}
    for option, value in options.items():
        path, _, rule = option.removeprefix("fields.").rpartition(".")
        rules.setdefault(path, {})[rule] = value
    return rules


def feed_made_rows(harness: Any, name: str, source: DatagenSource) -> int:
    """Give a harness all rows of a table, at once; how many there are. Raises SpecError for one without end."""
    import time

    from aggloom.runtime.connectors.datagen.rows import RowMaker

    maker = RowMaker(source, harness.plan.scans[name].schema, f"table {name}")
    if maker.total is None:
        raise SpecError(
            f"table {name}: its rows have no end; say 'number-of-rows', or run it by `aggloom run --engine local`"
        )
    at = time.time_ns() // 1_000_000
    for start in range(0, maker.total, _PIECE):
        harness.process(maker.make(start, min(start + _PIECE, maker.total), at), table=name)
    return maker.total


def refuse_spark(name: str) -> None:
    """Raise SpecError for a table whose rows Spark would have to make."""
    raise SpecError(
        f"table {name}: rows of datagen are made on the local engine; run with --engine local"
    )
