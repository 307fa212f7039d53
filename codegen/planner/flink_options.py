"""Options of Flink that mean nothing here: those of its cluster, its checkpoints and its planner's search.

No result depends on them, so a script of Flink's runs unchanged; a warning names each of them once.
"""

from __future__ import annotations

import warnings
from typing import Any

from aggloom.errors import IgnoredOptionWarning

_CLUSTER = "Spark's session says how many tasks there are and what they have"
_CHECKPOINTS = "each micro-batch is a checkpoint, in the directory that the run is given"
_CLIENT = "it is about Flink's client"
_SEARCH = "it is about Flink's planner, whose choices here do not depend on it"
_PREFIXES = {
    "parallelism.": _CLUSTER,
    "taskmanager.": _CLUSTER,
    "jobmanager.": _CLUSTER,
    "cluster.": _CLUSTER,
    "kubernetes.": _CLUSTER,
    "yarn.": _CLUSTER,
    "high-availability": _CLUSTER,
    "slotmanager.": _CLUSTER,
    "heartbeat.": _CLUSTER,
    "akka.": _CLUSTER,
    "pekko.": _CLUSTER,
    "rest.": _CLUSTER,
    "web.": _CLUSTER,
    "metrics.": _CLUSTER,
    "env.": _CLUSTER,
    "restart-strategy": "the run is started again with its checkpoint",
    "execution.checkpointing.": _CHECKPOINTS,
    "execution.savepoint.": _CHECKPOINTS,
    "execution.state-recovery.": _CHECKPOINTS,
    "state.": _CHECKPOINTS,
    "execution.": _CLUSTER,
    "pipeline.": _CLUSTER,
    "client.": _CLIENT,
    "sql-client.": _CLIENT,
    "table.exec.resource.": _CLUSTER,
    "table.exec.sink.keyed-shuffle": _CLUSTER,
    "table.exec.sink.not-null-enforcer": "NOT NULL is read, and not checked",
    "table.exec.sink.upsert-materialize": "a sink takes the net change of a batch by its key",
    "table.exec.sink.type-length-enforcer": "lengths of texts are not kept",
    "table.exec.async-": _CLUSTER,
    "table.exec.spill-compression.": _CLUSTER,
    "table.exec.sort.": _CLUSTER,
    "table.exec.shuffle-mode": _CLUSTER,
    "table.exec.disabled-operators": _SEARCH,
    "table.exec.operator-fusion-codegen.": _SEARCH,
    "table.exec.uid.": "operators are recognised by what they compute",
    "table.exec.simplify-operator-name-enabled": _SEARCH,
    "table.exec.window-agg.buffer-size-limit": _CLUSTER,
    "table.generated-code.": _SEARCH,
    "table.optimizer.adaptive-": _SEARCH,
    "table.optimizer.bushy-join-reorder-threshold": _SEARCH,
    "table.optimizer.dynamic-filtering.": _SEARCH,
    "table.optimizer.join-reorder-enabled": _SEARCH,
    "table.optimizer.join.": _SEARCH,
    "table.optimizer.multiple-input-enabled": _SEARCH,
    "table.optimizer.reuse-": _SEARCH,
    "table.optimizer.runtime-filter.": _SEARCH,
    "table.optimizer.skewed-join-": _SEARCH,
    "table.optimizer.source.": _SEARCH,
    "table.optimizer.sql2rel.": _SEARCH,
    "table.optimizer.union-all-as-breakpoint-enabled": _SEARCH,
    "table.plan.": _SEARCH,
    "table.dml-sync": _CLIENT,
    "table.dynamic-table-options.enabled": _CLIENT,
    "table.display.": _CLIENT,
    "table.resources.": _CLIENT,
    "table.rtas-ctas.": _CLIENT,
}
"""Beginnings of the names of such options, each with the reason; the first that fits is the one."""


def why_ignored(name: str, value: Any = None) -> str | None:
    """Return the reason for which an option means nothing here; None of any other option."""
    folded = name.lower()
    if folded == "table.sql-dialect" and str(value).lower() == "default":
        # Any other dialect reads the statements behind it otherwise, and is refused.
        return "statements are in Flink's own dialect"
    return next((why for begin, why in _PREFIXES.items() if folded.startswith(begin)), None)


def warn_ignored(name: str, why: str) -> None:
    """Warn of an option that means nothing here; Python shows a text once for each place that it comes from."""
    warnings.warn(f"{name!r} has no effect: {why}", IgnoredOptionWarning, stacklevel=1)
