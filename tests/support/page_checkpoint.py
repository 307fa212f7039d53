"""A checkpoint as a query leaves it, made without Spark: its logs, its query, its plan, and what was noted."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from aggloom.codegen.planner import Plan, list_stateful_nodes, plan_query
from aggloom.runtime.hosting import query_record
from aggloom.runtime.hosting.factory import factory_of
from aggloom.runtime.hosting.handler_text import handler_texts
from aggloom.runtime.hosting.journal_files import PLAN_FILE, PROGRESS_FILE
from aggloom.runtime.operators.fragment import fragment_of
from aggloom.runtime.spark.plan.metrics import Totals
from aggloom.runtime.spark.watch.journal import describe_made
from aggloom.runtime.spark.watch.records import line_of
from aggloom.runtime.storage.checksums import with_checksum

SQL = "SELECT name, SUM(cnt) AS total, MAX(cnt) AS top FROM t GROUP BY name"
DDL = "name STRING, cnt INT"
START = 1_700_000_000_000


def made_by(sql: str, tables: Mapping[str, str]) -> Any:
    """A stand-in for the lowered plan of a query: each stateful node is a fragment of its own."""
    plan: Plan = plan_query(sql, tables, input_changes="retract", options=None)
    nodes = {place: (node,) for place, node in enumerate(list_stateful_nodes(plan))}
    return SimpleNamespace(plan=plan, nodes=nodes, text=sql)


def described(made: Any) -> query_record.Query:
    """Return a query as a checkpoint describes it."""
    texts, found = handler_texts("numba"), []
    for place, (node,) in made.nodes.items():
        fragment, _, nodes = fragment_of(node, made.plan.options)
        handlers = tuple(None if s is None else texts(s) for s in fragment.handler_specs)
        found.append(json.loads(factory_of(nodes, place, 4, handlers, fragment).description))
    return query_record.Query(tuple(found), {})


def progress(batch: int, rows: int, operator: str, lag: Any = None) -> dict[str, Any]:
    """A batch's progress as Spark tells it."""
    at = dt.datetime.fromtimestamp(START / 1000 + batch, dt.UTC)
    return {
        "batchId": batch,
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "numInputRows": rows,
        "durationMs": {"addBatch": 300 + batch, "walCommit": 20, "triggerExecution": 400 + batch},
        "eventTime": {"watermark": "2023-11-14T22:13:10.000Z"},
        "sources": [{"description": "Files[in]", "numInputRows": rows, "metrics": lag or {}}],
        "stateOperators": [
            {
                "numRowsTotal": 9,
                "memoryUsedBytes": 4096,
                "allUpdatesTimeMs": 70,
                "commitTimeMs": 30,
            }
        ],
        "observedMetrics": {
            # The bucket; rows, changes, orphans, late, expired, evicted; keys, windows, bytes.
            f"aggloom operators 0 #1: {json.dumps([4, operator])}": Row(
                counts=[f"{batch % 4},{rows},2,1,0,0,0,2,0,1000"]
            ),
            "aggloom result #1": Row(changes=2),
        },
    }


def write(
    root: Path,
    batches: int = 3,
    sql: str = SQL,
    tables: Mapping[str, str] | None = None,
    *,
    ended: bool = True,
    error: str | None = None,
) -> Path:
    """Make a checkpoint of so many batches, of 10, 11, ... rows; returns its directory."""
    made = made_by(sql, tables or {"t": DDL})
    write_logs(root, batches)
    query_record.write(root, described(made))
    # The query ran from the first batch on.
    file = root / query_record.QUERY_FILE
    text = json.loads(file.read_text().partition(" ")[2])
    file.write_text(with_checksum(json.dumps([{**text[-1], "since": 0}])))
    (root / PLAN_FILE).write_text(with_checksum(json.dumps(describe_made(made))))
    name = next(iter(described(made).operators))["parts"][0]["operator"]
    totals = Totals()
    lines: list[Any] = [{"start": START, "run": "r"}]
    for number in range(batches):
        told = progress(number, 10 + number, name, {"numFilesOutstanding": str(max(0, 5 - number))})
        totals.add(told)
        lines.append(line_of(told, totals, {}))
    if ended:
        lines.append({"end": START + 1000 * batches, "error": error})
    (root / PROGRESS_FILE).write_text("".join(json.dumps(each) + "\n" for each in lines))
    return root


def write_logs(root: Path, batches: int) -> None:
    """Spark's own logs of so many batches."""
    for name in ("offsets", "commits"):
        (root / name).mkdir(parents=True)
    (root / "metadata").write_text('{"id":"x"}')
    for number in range(batches):
        told = {"batchWatermarkMs": 0, "batchTimestampMs": START + 1000 * number, "conf": {}}
        (root / "offsets" / str(number)).write_text(f"v1\n{json.dumps(told)}\n{{}}")
        (root / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
