"""Templates are compiled once; what was kept of them never outlives a change, and is not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jinja2.bccache import Bucket

from aggloom.codegen.template_cache import CompiledTemplates
from aggloom.codegen.templating import template_environment


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of compiled templates."""
    monkeypatch.setenv("AGGLOOM_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    template_environment.cache_clear()
    return tmp_path / "templates"


def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates that a new environment compiles."""
    names: list[str] = []
    template_environment.cache_clear()
    made = template_environment()
    real = made.compile

    def noted(source: str, name: str, *more: Any) -> Any:
        names.append(name)
        return real(source, name, *more)

    monkeypatch.setattr(made, "compile", noted)
    made.get_template("expressions.py.j2")
    return names


def test_a_template_is_compiled_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled(monkeypatch) == ["expressions.py.j2"]
    assert len(list(kept.iterdir())) == 1
    assert compiled(monkeypatch) == []


def test_filters_that_changed_compile_it_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(monkeypatch)
    monkeypatch.setattr(
        CompiledTemplates, "__init__", lambda self, _: vars(self).update(_filters=b"changed")
    )
    assert compiled(monkeypatch) == ["expressions.py.j2"]


def test_what_is_damaged_is_compiled_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(monkeypatch)
    (file,) = kept.iterdir()
    file.write_bytes(file.read_bytes()[:-40])
    assert compiled(monkeypatch) == ["expressions.py.j2"]


def test_what_others_may_have_put_there_is_not_read(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(monkeypatch)
    monkeypatch.setattr(Bucket, "load_bytecode", lambda *_: pytest.fail("read"))
    kept.chmod(0o777)
    assert compiled(monkeypatch) == ["expressions.py.j2"]


def test_a_place_that_cannot_be_written_is_done_without(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.write_text("a file")
    assert compiled(monkeypatch) == ["expressions.py.j2"]
    assert compiled(monkeypatch) == ["expressions.py.j2"]
