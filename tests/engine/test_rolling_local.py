"""Rolling horizons on the local engine: the model's table at each watermark, restarts, `why`, the end of input."""

from __future__ import annotations

from pathlib import Path

from rolling_model import COLUMNS, QUERY, Row, random_batches, write_batch

from aggloom.job import Job
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.inspection.checkpoint import state, why
from aggloom.script import jobs_of

TABLE = """CREATE TABLE t (k STRING, v INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '3' MINUTE)
  WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'changes' = 'retract');"""


def table_of(checkpoint: Path) -> list[Row]:
    return sorted(
        tuple(row[name] for name in COLUMNS) for row in read_table(checkpoint).to_pylist()
    )


def test_each_batch_has_what_its_watermark_says(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "nothing.json").write_text("")
    checkpoint = tmp_path / "c"
    job = Job(TABLE + QUERY, (), checkpoint=checkpoint, sink="table", backend="python")
    (asked,), _ = jobs_of(job, tmp_path)
    query = open_query(asked, checkpoint)
    for number, (changes, table) in enumerate(random_batches(4, 13)):
        write_batch(tmp_path / "in", number, changes)
        # The watermark of rows is that of the batch after them, which has none where something is due by it.
        while query.run_batch():
            pass
        assert table_of(checkpoint) == table, number
        if number % 4 == 3:
            query.close()
            query = open_query(asked, checkpoint)
    query.close_windows()
    query.close()
    # The end of input is no time that passes.
    assert table_of(checkpoint) == table != []
    key = {"k": table[0][0]}
    (operator,) = state(checkpoint, key=key).operators
    assert operator.name == "GROUP BY k over rolling horizons" and operator.key is not None
    assert any(part.given for part in operator.key.parts)
    told = why(checkpoint, key=key)
    assert told.bundles and all(each.agrees for each in told.bundles)
