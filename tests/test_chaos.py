"""One kill run on real Spark in the ordinary suite, and what its judgement is worth; `make chaos` plays many."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from chaos.run import Failure, Run, play
from chaos.workload import QUERIES, Workload, folded

pytest.importorskip("pyspark")


@pytest.mark.spark
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    # A rank over a join over an aggregate, one stateful node. This seed strikes workers, and spares the driver, whose
    # start takes longest.
    said = play(1338, tmp_path)
    assert said.startswith("seed 1338: joined")
    assert "no strike" not in said


@pytest.mark.parametrize("seed", range(len(QUERIES)))
def test_the_harness_agrees_with_duckdb(seed: int) -> None:
    workload = Workload.of_seed(seed)
    expected = workload.expected()
    assert folded(expected) == workload.table()
    kinds = {row[0] for batch in expected for row in batch}
    assert kinds >= {"+I", "-U", "+U"}


def keep(directory: Path, batches: dict[str, Counter[tuple[object, ...]]]) -> None:
    directory.mkdir()
    for name, batch in batches.items():
        (directory / f"{name}.json").write_text(json.dumps(list(batch.elements())))


@pytest.mark.parametrize("fault", ["lost", "short", "twice", "another time"])
def test_a_faulty_run_is_noticed(tmp_path: Path, fault: str) -> None:
    run = Run(0, tmp_path)
    expected = run.workload.expected()
    kept = {f"{number:04d}-1": batch for number, batch in enumerate(expected)}
    last = f"{len(expected) - 1:04d}-1"
    row = next(iter(expected[-1]))
    if fault == "lost":
        del kept[last]
    elif fault == "short":
        kept[last] = expected[-1] - Counter([row])
    elif fault == "twice":
        kept[last] = expected[-1] + Counter([row])
    else:
        kept["0000-2"] = expected[1]
    keep(tmp_path / "out", kept)
    with pytest.raises(Failure):
        run.check()
