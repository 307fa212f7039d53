"""`state` and `why`: the contents of a checkpoint, and how a key got its value, whichever engine wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aggloom.errors import CheckpointError, SpecError
from aggloom.runtime.hosting.arguments import check_checkpoint
from aggloom.runtime.hosting.checkpoint_paths import (
    is_local,
    is_local_checkpoint,
    local,
    require_directory,
)
from aggloom.runtime.inspection.look import Look, StatefulNode
from aggloom.runtime.inspection.report import StateReport, Why
from aggloom.runtime.inspection.stored import StateReader


def state(
    checkpoint: str | Path,
    *,
    key: Mapping[str, Any] | None = None,
    operator: int | str | None = None,
    batch: int | None = None,
    limit: int | None = None,
    trust: bool = False,
    spark: Any = None,
) -> StateReport:
    """The state of a checkpoint's operators after a batch, and what they keep of a key.

    checkpoint: its directory. key: values by column, or text that is read as the column's type; None is NULL. In
    windows the start or the end of one may be among them. operator: by its number; of operators that share a stateful
    node by that of the node, or as 0.1 by its place in it. batch: the number of the batch (None: the last). limit: how
    many values of a view are shown. trust: run Python source that lies in the checkpoint. spark: a session to read a
    checkpoint of Spark's with; one of the local engine needs none. Raises CheckpointError and its kin.

    Example:
        >>> import aggloom as al
        >>> from aggloom import local
        >>> orders = local.from_rows([("+I", "Ada", 30), ("+I", "Ada", 12)], "customer STRING, amount INT")
        >>> totals = local.sql("SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer", orders=orders,
        ...                    backend="python")
        >>> local.await_end(local.write_changes(totals, "table", "state/"))
        >>> print(al.state("state/", key={"customer": "Ada"}).text())  # doctest: +ELLIPSIS
        operator 0: GROUP BY customer
          keys      customer: not counted
          calls     SUM(amount) AS s
        ...
        key customer=Ada, bucket ...
          s=42 (2 records)
        ...
    """
    looks = looks_at(checkpoint, operator, batch, trust, spark)
    if key is not None:
        looks = _select_by_key(looks, key)
    return StateReport(str(checkpoint), tuple(look.state(key, limit) for look in looks))


def why(
    checkpoint: str | Path,
    *,
    key: Mapping[str, Any],
    operator: int | str | None = None,
    batch: int | None = None,
    trust: bool = False,
    spark: Any = None,
) -> Why:
    """The changes of a key since its bucket's snapshot, replayed, each with the value before and after.

    checkpoint, key, operator, batch, trust, spark: as in `state`; of several operators the one with such a key. Raises
    CheckpointError and its kin.

    Example:
        >>> import aggloom as al
        >>> from aggloom import local
        >>> orders = local.from_rows([("+I", "Ada", 30), ("+I", "Ada", 12)], "customer STRING, amount INT")
        >>> totals = local.sql("SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer", orders=orders,
        ...                    backend="python")
        >>> local.await_end(local.write_changes(totals, "table", "state/"))
        >>> print(al.why("state/", key={"customer": "Ada"}).text().splitlines()[-1])
        now: s=42 (2 records)
    """
    looks = _select_by_key(looks_at(checkpoint, operator, batch, trust, spark), key)
    if len(looks) > 1:
        listed = "; ".join(f"{look.number}: {look.description.operator}" for look in looks)
        raise CheckpointError(
            f"{checkpoint}: several operators have such a key. Name one with --operator: {listed}."
        )
    return looks[0].why(key)


def looks_at(
    checkpoint: str | Path, operator: int | str | None, batch: int | None, trust: bool, spark: Any
) -> list[Look]:
    """A look at each operator of a checkpoint, or at those that are named; raises CheckpointError."""
    check_checkpoint("state", checkpoint)
    # type(): True is an int, and would be batch 1.
    if batch is not None and type(batch) is not int:
        raise SpecError(f"state: batch is {batch!r}; it must be the number of a batch")
    opened = open_state(checkpoint, spark)
    operators = opened.operators()
    # An operator of several parts has them behind a point: 2.1 is the second part of operator 2.
    number = str(operator).partition(".")[0]
    chosen = [each for each in operators if operator is None or number == str(each.number)]
    looks = every = [
        look for each in chosen for look in StatefulNode(opened, each, batch, trust).looks
    ]
    # The parts are known only after the node was opened, so the full number is compared here.
    if "." in str(operator):
        looks = [look for look in every if look.number == operator]
    if not looks:
        # With no node opened, the numbers of the nodes are all that can be suggested.
        known = ", ".join(
            [look.number for look in every] or [str(each.number) for each in operators]
        )
        raise CheckpointError(
            f"{checkpoint}: there is no operator {operator} of aggloom; there is {known}."
        )
    return looks


def open_state(checkpoint: str | Path, spark: Any = None) -> StateReader:
    """The reader of a checkpoint's state; raises CheckpointError, and SparkMissingError where Spark has to read it.

    spark: the session that reads a checkpoint of Spark's (None: the active one, else one that is made).
    """
    require_directory(checkpoint)
    # A directory that only Spark can reach, as in an object store, is never one of the local engine.
    if is_local(checkpoint) and is_local_checkpoint(local(checkpoint)):
        # Imported here: reading a checkpoint of one engine must not load the other, least of all Spark.
        from aggloom.runtime.engine.state_reader import LocalStateReader

        return LocalStateReader(str(checkpoint))
    from aggloom.runtime.spark.watch.state_reader import open_spark_state

    return open_spark_state(checkpoint, spark)


def _select_by_key(looks: list[Look], key: Mapping[str, Any]) -> list[Look]:
    """The operators with the columns of a key; the first, which will say what is wrong, if none has."""
    if not isinstance(key, Mapping):
        raise SpecError(f"state: key is {key!r}; give its values by column: {{'name': 'a'}}")
    # A key of windows has more columns than the operator: its start and end choose among the windows.
    fitting = [look for look in looks if set(look.description.key_names) <= set(key)]
    # One that has exactly these columns is meant, rather than one whose key is a part of them.
    exact = [look for look in fitting if set(look.description.key_names) == set(key)]
    return exact or fitting or looks[:1]
