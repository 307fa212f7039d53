"""The key by which a sink writes the rows of a result."""

from __future__ import annotations

from collections.abc import Sequence

from aggloom.codegen.planner import Plan
from aggloom.errors import SpecError
from aggloom.runtime.connectors.registry import Options


def find_key(
    plan: Plan | None, names: Sequence[str], key_columns: Sequence[str] | None, options: Options
) -> tuple[tuple[str, ...] | None, bool | None]:
    """The columns by which rows are written, and whether the changes contain each row that is replaced (None: unknown).

    plan: of the query (None: not known). Raises SpecError where no key distinguishes the rows and one is needed.
    """
    where = f"sink {options.kind}"
    for name in key_columns or ():
        if name not in names:
            raise SpecError(f"{where}: key_columns names {name!r}, which the result does not have")
    if plan is None:
        if key_columns is None and options.needs_key:
            raise SpecError(
                f"{where}: what the DataFrame was made of is not known any more, so that its key is not; give "
                "key_columns=, or write it as al.sql made it"
            )
        return None if key_columns is None else tuple(key_columns), None
    known = plan.root.unique_keys
    if not options.needs_key:
        return tuple(key_columns) if key_columns is not None else plan.key, plan.has_old_rows
    if key_columns is not None:
        if not any(set(key) <= set(key_columns) for key in known):
            keys = "; ".join(", ".join(key) or "(one row)" for key in known) or "none"
            raise SpecError(
                f"{where}: key_columns (a table's PRIMARY KEY) {', '.join(key_columns)} do not tell the result's rows "
                f"apart; keys of it: {keys}. Declare one of these, or GROUP BY the key's columns"
            )
        key = tuple(key_columns)
    elif plan.key is None:
        raise SpecError(
            f"{where}: no columns tell the rows of the result apart, so that they cannot be written by a key. Select "
            "the columns of GROUP BY (or of the table's PRIMARY KEY), or write the changes: jsonl:, parquet:, or "
            "into a table of Delta's or Iceberg's with form=changelog"
        )
    else:
        key = plan.key
    if not plan.has_old_rows and not plan.is_ordered(key):
        raise SpecError(
            f"{where}: a row of a key may come before the one that it replaces has gone, and update_before=False does "
            "not tell that one; leave update_before=False out"
        )
    return key, plan.has_old_rows
