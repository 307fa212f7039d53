"""The room that live state takes on a host: what is deleted, by whom, and beside whom."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from live_states import QUERY, leave_live_state, takes

from aggloom.errors import OptionError, StateCorruptError
from aggloom.runtime.spark.node import live_state
from aggloom.runtime.spark.node.live_state import (
    clean_up,
    default_limit,
    make_room,
    open_live_state,
    size_of,
)
from aggloom.runtime.storage.arena import Arena

FORK = multiprocessing.get_context("fork")


def test_clean_up_deletes_only_what_is_ours_and_old(tmp_path: Path) -> None:
    foreign = [
        tmp_path / "photos" / "1" / "lock",
        tmp_path / QUERY.replace("0123", "9999") / "0" / "lock",
        tmp_path / QUERY.replace("0123", "9999") / "notes" / "lock",
        tmp_path / "elsewhere" / "0" / "lock",
    ]
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / QUERY.replace("0123", "8888")).symlink_to(tmp_path / "elsewhere")
    old, new = QUERY, QUERY.replace("cdef-0", "cdef-1")
    (tmp_path / ".deleted-half").mkdir()
    leave_live_state(tmp_path, "t1")
    with open_live_state(tmp_path, new, 0):
        pass
    for path in (tmp_path / old, tmp_path / old / "0"):
        os.utime(path, (1, 1))
    assert clean_up(tmp_path) == 1
    assert clean_up(tmp_path, older_than=-1) == 1
    assert all(path.exists() for path in foreign)
    assert not (tmp_path / ".deleted-half").exists()
    assert clean_up(tmp_path / "nowhere") == 0


def test_the_limit_is_half_of_what_would_be_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_live_state(tmp_path, "t1", rows=100_000)
    for free, deleted in ((1_000_000, 0), (500_000, 1)):
        monkeypatch.setattr(
            live_state.shutil, "disk_usage", lambda root, free=free: SimpleNamespace(free=free)
        )
        assert make_room(tmp_path) == deleted


def test_an_arena_that_has_grown_makes_room(tmp_path: Path) -> None:
    leave_live_state(tmp_path, "t1", 0, rows=40_000)
    time.sleep(0.02)
    with open_live_state(tmp_path, QUERY, 1, limit=400_000) as home:
        assert home is not None
        arena = Arena(home.renew())
        arena.array("x", 40_000, "i8")[:] = 7
        arena.array("small", 100, "i2", 3)[:] = 7
        arena.flush()
        home.mark_clean("t1", [arena])
    assert [takes(tmp_path, "t1", bucket) for bucket in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("given", "size"), [(5, 5), ("5", 5), ("20g", 20 << 30), ("1 MiB", 1 << 20), ("3KB", 3 << 10)]
)
def test_sizes(given: str | int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert size_of(given) == size
    monkeypatch.setenv("AGGLOOM_STATE_LIMIT", str(given))
    assert default_limit() == size
    monkeypatch.delenv("AGGLOOM_STATE_LIMIT")
    assert default_limit() is None


@pytest.mark.parametrize("given", ["", "much", "-1", "2x", "1.5g"])
def test_what_is_no_size_is_refused(given: str) -> None:
    with pytest.raises(OptionError, match="is no size; give a number of bytes"):
        size_of(given)


def test_processes_that_delete_and_processes_that_work(tmp_path: Path) -> None:
    """Counters in mapped arrays, committed to a file; directories go at any moment, and some processes are killed."""
    root, store = tmp_path / "root", tmp_path / "store"
    store.mkdir()
    workers = [FORK.Process(target=_count, args=(root, store, seed)) for seed in range(3)]
    for worker in workers:
        worker.start()
    rng, reused = random.Random(1), 0
    while any(worker.is_alive() for worker in workers):
        rng.choice([_remove, _remove_some, _clean, _make])(root, rng)
        time.sleep(rng.random() * 0.02)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    for path in store.glob("*.reused"):
        reused += path.stat().st_size
    assert reused > 20


def _remove(root: Path, rng: random.Random) -> None:
    if rng.random() < 0.2:
        shutil.rmtree(root, ignore_errors=True)


def _remove_some(root: Path, rng: random.Random) -> None:
    if rng.random() < 0.5:
        for path in list(root.rglob("*")) if root.is_dir() else ():
            if rng.random() < 0.1 and path.name != "lock":
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(True)


def _clean(root: Path, rng: random.Random) -> None:
    if rng.random() < 0.3:
        clean_up(root, older_than=-1)


def _make(root: Path, rng: random.Random) -> None:
    make_room(root, rng.choice([0, 20_000, 10**6, 10**6]))


def _count(root: Path, store: Path, seed: int) -> None:
    """Raise counters; each step is right only if the arena is what the last commit to the store left."""
    logging.disable()
    rng = random.Random(seed)
    for _ in range(150):
        bucket = rng.randrange(2)
        with open_live_state(root, QUERY, bucket) as home:
            number = _committed(store, bucket)
            if home is None:
                continue
            arena = None
            if home.take(f"{number}"):
                try:
                    arena = Arena(home.arena)
                except StateCorruptError:
                    arena = None
            if arena is not None and arena.reopened:
                with (store / f"{bucket}.reused").open("a") as f:
                    f.write(".")
            else:
                arena = Arena(home.renew())
                for name, rows in (("large", 10_000), ("small", 100)):
                    arena.array(name, rows, "i8")[:] = number
            counters = [counter for _, counter in arena]
            assert all((counter == number).all() for counter in counters), (counters, number)
            for counter in counters:
                counter[: len(counter) // 2] += 1
            if rng.random() < 0.1:
                # As if killed in the middle: the other halves are never written.
                continue
            for counter in counters:
                counter[len(counter) // 2 :] += 1
            # As Spark does, the store takes one of several commits of a version: another process may have been first.
            with (store / f"{bucket}.{number + 1}").open("a"):
                arena.flush()
                home.mark_clean(f"{number + 1}", [arena])


def _committed(store: Path, bucket: int) -> int:
    return max((int(p.suffix[1:]) for p in store.glob(f"{bucket}.[0-9]*")), default=0)
