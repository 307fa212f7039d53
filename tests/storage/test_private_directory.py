"""Modules, their byte code and Numba's pickles are loaded only from where nobody else can have put them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import aggloom as al
from aggloom.errors import GeneratedSourceError
from aggloom.private_directory import cache_directory, refuse_foreign

SPEC = al.AggSpec("k STRING, v INT", ("k",), (al.AggCall("SUM", "v"),))
SOMEBODY = 54321

needs_root = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files to another user"
)


def test_a_directory_of_ones_own_is_fine(tmp_path: Path) -> None:
    source = al.generate(SPEC, "python", tmp_path)
    assert al.load(source).spec() == SPEC


@pytest.mark.parametrize("mode", [0o777, 0o1777], ids=["anyone's", "sticky"])
@pytest.mark.parametrize("inner", ["", "__pycache__"])
def test_where_anyone_may_write_nothing_is_loaded(tmp_path: Path, mode: int, inner: str) -> None:
    source = al.generate(SPEC, "python", tmp_path)
    place = tmp_path / inner if inner else tmp_path
    place.mkdir(exist_ok=True)
    place.chmod(mode)
    with pytest.raises(GeneratedSourceError, match="can be written by anyone"):
        al.load(source)


@needs_root
@pytest.mark.parametrize("group", [0, SOMEBODY], ids=["own", "another"])
@pytest.mark.parametrize("inner", ["", "__pycache__"])
def test_where_another_group_may_write_nothing_is_loaded(
    tmp_path: Path, inner: str, group: int
) -> None:
    source = al.generate(SPEC, "python", tmp_path)
    place = tmp_path / inner if inner else tmp_path
    place.mkdir(exist_ok=True)
    os.chown(place, -1, group)
    place.chmod(0o770)
    if group == 0:
        assert al.load(source)
        return
    with pytest.raises(GeneratedSourceError, match=r"can be written by the group 54321.*chmod g-w"):
        al.load(source)


def test_a_module_below_a_directory_of_anyones_is_not_loaded(tmp_path: Path) -> None:
    source = al.generate(SPEC, "python", tmp_path / "open" / "mine")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(GeneratedSourceError, match="which anyone can write to"):
        al.load(source)
    (tmp_path / "open").chmod(0o1777)
    assert al.load(source)


@needs_root
@pytest.mark.parametrize(
    "name", ["module", "", "__pycache__"], ids=["the module", "its directory", "what is compiled"]
)
def test_what_is_another_users_is_not_loaded(tmp_path: Path, name: str) -> None:
    source = al.generate(SPEC, "python", tmp_path)
    (tmp_path / "__pycache__").mkdir()
    place = source.path if name == "module" else tmp_path / name
    os.chown(place, SOMEBODY, SOMEBODY)
    with pytest.raises(GeneratedSourceError, match="belongs to another user"):
        al.load(source)


def test_a_cache_in_a_sticky_directory_is_one_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.setenv("AGGLOOM_CACHE", str(tmp_path))
    own = cache_directory()
    assert own.parent == tmp_path and own.stat().st_mode & 0o777 == 0o700
    assert al.load(al.generate(SPEC, "python")).SOURCE_PATH.parent == own
    tmp_path.chmod(0o777)
    with pytest.raises(GeneratedSourceError, match="which anyone can write to"):
        cache_directory()


@needs_root
def test_a_private_directory_that_another_user_made_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o1777)
    made = tmp_path / f"aggloom-{os.getuid()}"
    made.mkdir()
    os.chown(made, SOMEBODY, SOMEBODY)
    monkeypatch.setenv("AGGLOOM_CACHE", str(tmp_path))
    with pytest.raises(GeneratedSourceError, match="belongs to another user"):
        cache_directory()


@pytest.mark.parametrize("open_to_all", [True, False])
def test_numbas_own_cache_is_looked_at_before_it_is_read(tmp_path: Path, open_to_all: bool) -> None:
    cache = tmp_path / "numba"
    cache.mkdir()
    cache.chmod(0o777 if open_to_all else 0o700)
    (tmp_path / "kernels.py").write_text(
        "from aggloom.runtime.storage.jit import kernel\n@kernel\ndef one(x):\n    return x + 1\nprint(one(1))\n",
        encoding="utf-8",
    )
    found = subprocess.run(
        [sys.executable, str(tmp_path / "kernels.py")],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    if open_to_all:
        assert "anyone" in found.stderr and found.stdout == ""
    else:
        assert found.stdout == "2\n", found.stderr


def test_what_is_not_there_yet_is_no_fault(tmp_path: Path) -> None:
    refuse_foreign(tmp_path / "nothing" / "here")


@needs_root
@pytest.mark.parametrize("kind", ["parent", "link", "in a link"])
@pytest.mark.parametrize(
    ("mode", "owner", "group", "said"),
    [
        (0o777, 0, 0, "anyone"),
        (0o770, 0, SOMEBODY, "the group 54321"),
        (0o755, SOMEBODY, SOMEBODY, "another user"),
    ],
    ids=["anyone's", "a group's", "another user's"],
)
def test_parents_and_what_links_lead_to_are_the_users_own(
    tmp_path: Path, kind: str, mode: int, owner: int, group: int, said: str
) -> None:
    foreign = tmp_path / "foreign"
    place = foreign / "mine"
    place.mkdir(parents=True)
    module = al.generate(SPEC, "python", foreign if kind == "link" else place).path
    link = tmp_path / "link"
    link.symlink_to(foreign if kind == "link" else place)
    os.chown(foreign, owner, group)
    foreign.chmod(mode)
    looked_at = place if kind == "parent" else link
    for each in (looked_at, looked_at / module.name):
        with pytest.raises(GeneratedSourceError, match=said):
            refuse_foreign(each)


@needs_root
@pytest.mark.parametrize(
    ("mode", "owner", "group", "said"),
    [(0o770, 0, SOMEBODY, "the group 54321"), (0o755, SOMEBODY, SOMEBODY, "another user")],
    ids=["a group's", "another user's"],
)
@pytest.mark.parametrize("below", ["", "new"], ids=["itself", "below"])
def test_a_cache_that_others_can_write_to_is_refused_before_it_is_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    below: str,
    mode: int,
    owner: int,
    group: int,
    said: str,
) -> None:
    place = tmp_path / "cache"
    place.mkdir()
    os.chown(place, owner, group)
    place.chmod(mode)
    monkeypatch.setenv("AGGLOOM_CACHE", str(place / below))
    with pytest.raises(GeneratedSourceError, match=said):
        cache_directory()


@needs_root
def test_another_users_compiled_file_is_not_loaded(tmp_path: Path) -> None:
    source = al.generate(SPEC, "python", tmp_path)
    compiled = tmp_path / "__pycache__" / f"{source.path.stem}.cpython-311.pyc"
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(b"")
    os.chown(compiled, SOMEBODY, SOMEBODY)
    with pytest.raises(GeneratedSourceError, match="belongs to another user"):
        refuse_foreign(source.path)
