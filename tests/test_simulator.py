"""The fault simulator: some hundred seeds hold, and it would notice if they did not."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from typing import Any

import pytest
from simulator import Failure, play

from aggloom.runtime.spark import residency, store
from aggloom.runtime.spark.host import OperatorProcessor
from aggloom.runtime.spark.residency import Residence
from aggloom.runtime.spark.store import BucketStore, Head

SEEDS, CHUNK = 160, 20
ENOUGH, _FOUND = 150, 7
"""A fault shows within so many seeds."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_faults_change_nothing(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed)


def _recognises_anything(home: Residence, token: str) -> bool:
    found = home.directory / "token"
    text = found.read_text() if found.exists() else ""
    home._arena = next((path.name for path in home.directory.glob("arena-*")), "")
    return bool(home._arena) and bool(text)


def _without_the_head(self: BucketStore, old: Head, head: Head) -> None:
    if head.log_entries != 2:
        _UPDATE_HEAD(self, old, head)


def _forgets_the_log(self: BucketStore, head: Head, operator: Any) -> None:
    _REPLAY(self, Head(head.token, head.description), operator)


_UPDATE_HEAD, _REPLAY = BucketStore._update_head, BucketStore.rebuild

FAULTS: dict[str, tuple[Any, str, Any]] = {
    "nobody marks an arena that is being changed": (Residence, "mark_dirty", lambda self: None),
    "any version will do": (Residence, "holds", _recognises_anything),
    "any boot will do": (residency, "_boot_id", lambda: "the same"),
    "files are not looked at": (residency.Identity, "of", lambda path: residency.Identity(1, 1, 1)),
    "every commit has the same token": (store, "uuid", type("uuid", (), {"uuid4": lambda: _Same})),
    "a commit without its head": (BucketStore, "_update_head", _without_the_head),
    "the log is not replayed": (BucketStore, "rebuild", _forgets_the_log),
    "no timer is set": (OperatorProcessor, "_set_timer", lambda self, operator: None),
    "the lock keeps nobody out": (residency.fcntl, "flock", lambda descriptor, how: None),
}


class _Same:
    hex = "0" * 32


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    # In a process of its own: state that is not what it should be may well crash a kernel.
    process = multiprocessing.get_context("fork").Process(target=_play_until_it_fails)
    process.start()
    process.join(100)
    assert process.exitcode in (_FOUND, -signal.SIGSEGV, -signal.SIGBUS)


def _play_until_it_fails() -> None:
    for seed in range(ENOUGH):
        try:
            play(seed)
        except Failure as e:
            os._exit(_FOUND if re.search(rf"query: (?s:.*)again: make simulate SEED={seed}", str(e)) else 1)
