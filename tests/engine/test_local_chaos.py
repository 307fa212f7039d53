"""A few kill runs on the local engine in the ordinary suite; `make chaos ENGINE=local` plays many."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.local_run import LocalRun, Servers
from chaos.run import Failure


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    made = Servers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        made.open_processes()
        yield made


# Windows and a cascade, each killed several times.
@pytest.mark.parametrize("seed", [5, 13])
@pytest.mark.sampled(1)
def test_nothing_is_lost_and_nothing_comes_twice(
    seed: int, servers: Servers, tmp_path: Path
) -> None:
    run = LocalRun(seed, tmp_path, servers)
    run.run()
    assert run.kills


def test_a_faulty_run_is_noticed(servers: Servers, tmp_path: Path) -> None:
    run = LocalRun(0, tmp_path, servers)
    expected = run.workload.expected()
    run.check_batches(expected)
    wrong = [*expected[:-1], expected[-1] + Counter([next(iter(expected[-1]))])]
    for batches in (expected[:-1], wrong, [*expected, expected[0]]):
        with pytest.raises(Failure, match="batch"):
            run.check_batches(batches)
