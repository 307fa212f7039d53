"""One kill run on real Spark in the ordinary suite, and what its judgement is worth; `make chaos` plays many."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chaos import servers
from chaos.run import Failure, Run, play
from chaos.workload import QUERIES, Workload, folded

from aggloom.errors import AggloomError, SinkError

pytest.importorskip("pyspark")

from aggloom.runtime.spark.failures import while_java_lives


@pytest.mark.spark
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    # A rank over a join over an aggregate, one stateful node. This seed strikes workers, and spares the driver, whose
    # start takes longest.
    said = play(1338, tmp_path)
    assert said.startswith("seed 1338: joined")
    assert "no strike" not in said


@pytest.mark.parametrize("seed", range(len(QUERIES)))
@pytest.mark.sampled(1)
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


def ended(*seconds: float) -> Any:
    """A session whose Java is a process that ends after some seconds; or of a Java that somebody else has started."""
    java = [subprocess.Popen(["sleep", str(each)]) for each in seconds]
    return SimpleNamespace(_sc=SimpleNamespace(_gateway=SimpleNamespace(proc=(*java, None)[0])))


def test_a_java_that_has_ended_is_told() -> None:
    with pytest.raises(AggloomError, match="Spark's Java has ended"), while_java_lives(ended(0)):
        raise ConnectionRefusedError
    for session in (ended(), SimpleNamespace()):
        with pytest.raises(ConnectionRefusedError), while_java_lives(session):
            raise ConnectionRefusedError
    with pytest.raises(SinkError), while_java_lives(ended(0)):
        raise SinkError("its own")


def told(op: str, *row: object) -> tuple[bytes, bytes]:
    image = dict(zip(("country", "orders", "total"), row, strict=True))
    sides = {"before": None, "after": image} if op == "c" else {"before": image, "after": None}
    return b"", json.dumps({**sides, "op": op}).encode()


def test_a_changelog_that_cannot_be_is_noticed() -> None:
    changes = [told("c", "CH", 1, 2), told("d", "CH", 1, 2), told("c", "CH", 2, 3)]
    assert servers.changelog(changes) == Counter([("CH", 2, 3)])
    for wrong in (changes[0], changes[1], changes[2]):
        with pytest.raises(Failure, match="message 3"):
            servers.changelog([*changes, wrong])


@pytest.mark.parametrize("engine", servers.PARTS)
def test_a_few_plans_strike_every_part(engine: str) -> None:
    parts = servers.PARTS[engine]
    for seed in range(50):
        assert servers.plan(seed, engine) == servers.plan(seed, engine)
        plans = [servers.plan(each, engine) for each in range(seed, seed + len(parts))]
        assert {strike.part for plan in plans for strike in plan} == set(parts)
    ways = {
        (strike.part, strike.how) for seed in range(50) for strike in servers.plan(seed, engine)
    }
    assert ("database", "SIGKILL") in ways
    assert (("driver", "jvm") in ways) == (("worker", "daemon") in ways) == (engine == "spark")
