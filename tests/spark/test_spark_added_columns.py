"""Tables that gain columns under a running query on Spark: carried along as on the local engine."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import changes_in
from widened import NARROW, WIDE, Widened, draw_widened, fold_changes, write_batch

import aggloom as al
from aggloom.errors import StateMismatchError

SQL = """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id DESC) AS r FROM t) AS a
    LEFT JOIN u ON a.k = u.k2 WHERE r = 1"""


def run(spark: Any, folder: Path, drawn: Widened, tables: dict[str, str], **options: Any) -> None:
    # Files of both kinds lie side by side.
    how = {"max_files_per_trigger": 1, "missing": "null"}
    frames = {
        name: al.read_changes(spark, folder / "in" / name, "jsonl", ddl, **how)
        for name, ddl in tables.items()
    }
    changes = al.sql(drawn.sql, tables=frames, backend="python", options=options)
    query = al.write_changes(changes, f"jsonl:{folder / 'out'}", folder / "state")
    assert query.awaitTermination(300)


@pytest.mark.thorough
def test_columns_are_carried_once_a_begun_batch_has_ended(spark: Any, tmp_path: Path) -> None:
    drawn = draw_widened(random.Random(7), retracts=True)
    drawn.sql = SQL
    for number, batch in enumerate(drawn.narrow):
        write_batch(tmp_path / "in", number, batch)
    run(spark, tmp_path, drawn, NARROW)
    # The sink has a batch that was not committed: it ends as it was begun.
    last = max((tmp_path / "state" / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    with pytest.raises(StateMismatchError, match=rf"batch {last.name} was begun.*'ignore' once"):
        run(spark, tmp_path, drawn, WIDE, added_columns="carry")
    run(spark, tmp_path, drawn, WIDE, added_columns="ignore")
    for number, batch in enumerate(drawn.wide, len(drawn.narrow)):
        write_batch(tmp_path / "in", number, batch)
    with pytest.raises(StateMismatchError, match=r"extra STRING, more INT.*added_columns='carry'"):
        run(spark, tmp_path, drawn, WIDE)
    run(spark, tmp_path, drawn, WIDE, added_columns="carry")
    assert fold_changes(changes_in(tmp_path / "out")) == drawn.expected()
