"""Columns by which other systems mark what became of a row: where no rule reads them, their rows are refused.

A deletion that passes as a row makes every later number wrong. A column that the schema declares is data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aggloom.errors import InputFormatError
from aggloom.runtime.values.changelog import CHANGE_COLUMNS

_BY_SYSTEM = {
    "Debezium, flattened": ("__op", "__deleted"),
    "Snowflake": ("metadata$action", "metadata$isupdate"),
    "SQL Server": ("__$operation",),
    "Fivetran": ("_fivetran_deleted",),
    "Airbyte": ("_ab_cdc_deleted_at",),
    "Stitch": ("_sdc_deleted_at",),
    "Hudi": ("_hoodie_operation", "_hoodie_is_deleted"),
    "GoldenGate": ("op_type",),
    "Qlik": ("header__change_oper",),
    "Datastream": ("_metadata_change_type", "_metadata_deleted"),
    "PeerDB": ("_peerdb_is_deleted",),
    "Oracle change data capture": ("operation$",),
    "BigQuery": ("_change_sequence_number",),
    "Hevo": ("__hevo__marked_deleted",),
}
MARKERS = tuple(name for names in _BY_SYSTEM.values() for name in names)
"""Their names in small letters."""
MARKER_HINT = (
    "marks what became of a row, as Debezium's flattened records do, and is not read as that: deletions would count "
    "as rows. Where files and messages are read, change_column= and change_values= say what it means; or send whole "
    'envelopes (format="debezium-json"), or the kind of change in a column _change_type. If it is a column like '
    'others, declare it in the schema, or say markers="data" there'
)


def says_change(name: str) -> bool:
    """Tell whether an undeclared column is about changes: one that readers heed, or a marker that they refuse."""
    return name.lower() in (*CHANGE_COLUMNS.values(), *MARKERS)


def check_markers(names: Iterable[str], declared: Sequence[str], where: str) -> None:
    """Raise InputFormatError for a marker among the names of a lake's table that is not declared.

    `op` is one, too, as in files: tables of lakes say their changes in `_change_type`.
    """
    columns_of_schema = {name.lower() for name in declared}
    for name in names:
        if name.lower() in columns_of_schema:
            continue
        if name.lower() in MARKERS:
            raise InputFormatError(f"{where}: column {name!r} {MARKER_HINT}")
        if name.lower() == CHANGE_COLUMNS["flink"]:
            raise InputFormatError(
                f"{where}: column {name!r} marks what became of a row, as in changelogs of Flink, and is not read. "
                "Name the kind of change _change_type; if it is a column like others, declare the columns as schema=, "
                "with this one"
            )
