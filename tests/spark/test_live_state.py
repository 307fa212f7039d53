"""Live state on disk: recognised or rebuilt, never mistaken; within its limit; and no query fails for want of it."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from live_states import QUERY, leave_live_state, takes

from aggloom.errors import StateCorruptError, StateRoomError
from aggloom.runtime.spark.node import live_state
from aggloom.runtime.spark.node.host import _wake
from aggloom.runtime.spark.node.live_state import (
    LiveState,
    clean_up,
    default_root,
    make_room,
    open_live_state,
)
from aggloom.runtime.storage import allocation
from aggloom.runtime.storage import arena as arena_module
from aggloom.runtime.storage.arena import Arena

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """Collect warnings as if each came for the first time."""
    monkeypatch.setattr(arena_module, "_warned", set())
    monkeypatch.setattr(live_state, "_warned", set())
    caplog.set_level(logging.WARNING, "aggloom")
    return caplog


def test_live_state_lies_where_the_user_says_or_with_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/a,{tmp_path}/b")
    monkeypatch.setenv("AGGLOOM_STATE_DIR", str(tmp_path / "mine"))
    assert default_root() == tmp_path / "mine"
    monkeypatch.delenv("AGGLOOM_STATE_DIR")
    assert default_root() == tmp_path / "a" / "aggloom"
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert default_root().name.startswith("aggloom-")


def test_an_arena_is_recognised_by_its_token_once(tmp_path: Path) -> None:
    leave_live_state(tmp_path, "t1")
    assert not takes(tmp_path, "t2")
    leave_live_state(tmp_path, "t1")
    assert takes(tmp_path, "t1")
    # Whoever has taken it has not said what it is now.
    assert not takes(tmp_path, "t1")


def test_another_boot_and_a_host_without_one_recognise_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for boots in (("a", "b"), (None, None)):
        monkeypatch.setattr(live_state, "_boot_id", lambda boots=boots: boots[0])
        leave_live_state(tmp_path, "t1")
        monkeypatch.setattr(live_state, "_boot_id", lambda boots=boots: boots[1])
        assert not takes(tmp_path, "t1")


def _replaced(path: Path) -> None:
    other = path.with_suffix(".other")
    shutil.copy2(path, other)
    other.replace(path)


def _written(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))
    os.utime(path, (time.time() + 5, time.time() + 5))


def _garbled(path: Path) -> None:
    """Another content of the same size, and the same time of change."""
    found = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "deleted": Path.unlink,
    "cut": lambda path: os.truncate(path, 100),
    "lengthened": lambda path: os.truncate(path, 1 << 20),
    "replaced": _replaced,
    "written to": _written,
    "garbled": _garbled,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["*.bin", "arrays", "token"])
def test_files_that_are_not_as_they_were_left_are_not_used(
    tmp_path: Path, kind: str, damage: str
) -> None:
    (path,) = leave_live_state(tmp_path, "t1").rglob(kind)
    DAMAGES[damage](path)
    if (kind, damage) == ("token", "replaced"):
        # It says the same.
        assert takes(tmp_path, "t1")
    elif kind == "*.bin":
        with pytest.raises(StateCorruptError, match=r"(?s)x\.0\.bin.*it is made again"):
            takes(tmp_path, "t1")
    elif (kind, damage) == ("arrays", "garbled"):
        with pytest.raises(StateCorruptError, match=r"checksum does not match.*it is made again"):
            takes(tmp_path, "t1")
    else:
        assert not takes(tmp_path, "t1")


@pytest.mark.parametrize("place", [0, 4095, 1 << 19, (8 << 20) - 1])
def test_a_large_array_is_known_by_some_of_its_pages(tmp_path: Path, place: int) -> None:
    rows = 1 << 20
    (path,) = leave_live_state(tmp_path, "t1", rows=rows).rglob("*.bin")
    found, data = path.stat(), bytearray(path.read_bytes())
    # A sixty-fourth of it, wherever it is.
    start = min(place, len(data) - (1 << 17) - 4096)
    data[start : start + (1 << 17) + 4096] = bytes((1 << 17) + 4096)
    path.write_bytes(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(StateCorruptError, match=r"x\.0\.bin was changed"):
        takes(tmp_path, "t1")


def test_small_arrays_have_no_files_until_they_are_large(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    arena.array("x", 16, "i8")[:] = 7
    arena.array("y", 0, "i8")
    arena.flush()
    assert [path.name for path in tmp_path.iterdir()] == ["arrays"]
    arena = Arena(tmp_path)
    assert arena.reopened and (arena.array("x", 0, "i8") == 7).all()
    assert arena.array("y", 1, "i8").size == 0
    # It is the caller's to change, as what is mapped is.
    grown = arena.resize("x", 10_000)
    assert (grown[:16] == 7).all() and not grown[16:].any() and list(tmp_path.glob("x.*.bin"))
    arena.replace("x", 16)[:] = 8
    arena.flush()
    assert [path.name for path in tmp_path.iterdir()] == ["arrays"]
    assert (Arena(tmp_path).array("x", 0, "i8") == 8).all()


@pytest.mark.parametrize("token", ["", "null", "[]", "{}", '{"token": "t1"}', "\0\xff"])
def test_a_token_that_is_none_is_not_believed(tmp_path: Path, token: str) -> None:
    (leave_live_state(tmp_path, "t1") / "token").write_text(token)
    assert not takes(tmp_path, "t1")


class Store:
    """A store from which `_wake` rebuilds; it counts how often."""

    def __init__(self) -> None:
        self.rebuilt = 0

    def rebuild(self, head: Any, operator: Any) -> None:
        self.rebuilt += 1


def woken(home: LiveState, store: Store, before_opening: Callable[[Path], None]) -> Any:
    """The operator that the host wakes; something happens between recognising its arena and opening it."""

    def opened(directory: Path | None, bucket: int) -> Any:
        if directory is not None and directory.exists():
            before_opening(directory)
        return SimpleNamespace(arenas=[Arena(directory)], take_late=list)

    factory: Any = SimpleNamespace(open=opened)
    head: Any = SimpleNamespace(token="t1")
    return _wake(factory, store, head, home, 0)  # type: ignore[arg-type]


def _emptied(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("happens", "rebuilds"),
    [(lambda directory: None, 0), (shutil.rmtree, 1), (_emptied, 1)],
    ids=["nothing", "deleted", "emptied"],
)
def test_an_arena_that_goes_while_it_is_opened_is_no_new_one(
    tmp_path: Path, happens: Callable[[Path], None], rebuilds: int
) -> None:
    leave_live_state(tmp_path, "t1")
    store = Store()
    with open_live_state(tmp_path, QUERY, 0) as home:
        assert home is not None
        operator = woken(home, store, happens)
        assert operator.arenas[0].reopened == (not rebuilds)
    assert store.rebuilt == rebuilds


def test_what_is_deleted_while_it_is_in_use_lives_on_and_is_not_recognised(
    tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    leave_live_state(tmp_path, "t1")
    with open_live_state(tmp_path, QUERY, 0) as home:
        assert home is not None and home.take("t1")
        arena = Arena(home.arena)
        shutil.rmtree(tmp_path)
        assert (arena.array("x", 0, "i8") == 7).all()
        assert (arena.resize("x", 50_000)[:10_000] == 7).all()
        arena.array("y", 10, "i8")[:] = 1
        arena.flush()
        home.mark_clean("t2", [arena])
    assert not takes(tmp_path, "t2")
    assert len(told.messages) == 1 and "No such file or directory" in told.messages[0]


def test_an_arena_of_which_a_part_is_on_the_heap_is_not_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: pytest.LogCaptureFixture
) -> None:
    def full(descriptor: int, offset: int, size: int) -> None:
        if size > 100_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.ftruncate(descriptor, offset + size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    with open_live_state(tmp_path, QUERY, 0) as home:
        assert home is not None
        arena = Arena(home.renew())
        arena.array("x", 10_000, "i8")[:] = 7
        for rows in (50_000, 70_000):
            assert (arena.resize("x", rows)[:10_000] == 7).all()
        arena.flush()
        home.mark_clean("t1", [arena])
    assert not takes(tmp_path, "t1")
    (warning,) = told.messages
    assert str(tmp_path) in warning and "No space left" in warning
    assert "320,000 bytes are needed" in warning and "Set AGGLOOM_STATE_DIR" in warning
    monkeypatch.setattr(arena_module, "available_memory", lambda: 1000)
    with pytest.raises(StateRoomError, match=r"800,000 bytes are needed.* and 1,000 in memory"):
        Arena(tmp_path / "other").array("x", 100_000, "i8")


def test_others_keep_a_tenth_of_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "free_bytes", lambda directory: 4 << 20)
    arena = Arena(tmp_path)
    arena.array("x", 400_000, "i8")
    assert arena.directory is not None
    arena.array("y", 500_000, "i8")
    assert arena.directory is None


@pytest.mark.parametrize("how", ["a file", "of another user"])
def test_without_a_directory_state_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: pytest.LogCaptureFixture, how: str
) -> None:
    root = tmp_path / "root"
    if how == "a file":
        root.write_text("")
    else:
        monkeypatch.setattr(live_state.os, "getuid", lambda: 12345)
    for _ in range(2):
        with open_live_state(root, QUERY, 0) as home:
            assert home is None
    assert (
        len(told.messages) == 1
        and str(root) in told.messages[0]
        and "is rebuilt for each batch" in told.messages[0]
    )


def test_a_held_residence_is_left_alone(tmp_path: Path) -> None:
    leave_live_state(tmp_path, "t1")
    with open_live_state(tmp_path, QUERY, 0) as home:
        assert home is not None
        held = FORK.Process(target=_cannot_have_it, args=(tmp_path,))
        held.start()
        held.join()
        assert held.exitcode == 0
        assert clean_up(tmp_path, older_than=-1) == 0
        assert make_room(tmp_path, 0) == 0
        assert home.take("t1")
    assert clean_up(tmp_path, older_than=3600) == 0
    assert clean_up(tmp_path, older_than=-1) == 1
    assert not list(tmp_path.iterdir())


def _cannot_have_it(root: Path) -> None:
    with open_live_state(root, QUERY, 0) as home:
        assert home is None
    assert clean_up(root, older_than=-1) == 0


def test_a_lock_that_was_deleted_keeps_nobody_out_and_is_not_taken_for_one(tmp_path: Path) -> None:
    with open_live_state(tmp_path, QUERY, 0) as first:
        assert first is not None
        shutil.rmtree(tmp_path / QUERY)
        with (
            open_live_state(tmp_path, QUERY, 0) as second,
            open_live_state(tmp_path, QUERY, 0) as third,
        ):
            assert second is not None and third is None


def test_what_was_not_used_for_longest_goes_first(
    tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    for bucket in (2, 0, 1):
        leave_live_state(tmp_path, "t1", bucket, rows=40_000)
        time.sleep(0.02)
    assert make_room(tmp_path, 10**9) == 0
    assert make_room(tmp_path, 700_000) == 1
    assert [takes(tmp_path, "t1", bucket) for bucket in range(3)] == [True, True, False]
    assert len(told.messages) == 1 and "over its limit of 700,000 bytes" in told.messages[0]
    assert make_room(tmp_path / "nowhere", 0) == 0
