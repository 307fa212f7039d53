"""The modules that the generator writes: the committed examples, names, edits by hand, and shipped text."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import black
import pytest

from aggloom.codegen import AggCall, AggSpec, generate, load, load_text, plan_of
from aggloom.codegen.handler.emit import refresh
from aggloom.codegen.handler.render import render, stated_digest, text_digest
from aggloom.errors import GeneratedSourceError, HandlerEditedWarning
from aggloom.runtime.local.harness import Harness

EXAMPLES = sorted((Path(__file__).parents[2] / "generated").glob("[!_]*.py"))
SPEC = AggSpec("name STRING, cnt INT", ["name"], [AggCall("SUM", ["cnt"], alias="total")])
NOTE = "\n# a note of my own\n"


def edited(path: Path) -> Path:
    path.write_text(path.read_text(encoding="utf-8") + NOTE, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_what_the_generator_writes(path: Path) -> None:
    handler: Any = load(path)
    text = render(plan_of(handler.spec(), handler.BACKEND))
    same = path.read_text(encoding="utf-8") == text
    assert same, f"{path.name} is not what the generator writes now; run: make generated"


def test_templates_print_short_lines_as_black_would(monkeypatch: pytest.MonkeyPatch) -> None:
    # What black changes it formats twice, which takes longer than everything else together.
    given: list[str] = []
    formatted = black.format_str
    monkeypatch.setattr(
        black, "format_str", lambda text, mode: given.append(text) or formatted(text, mode=mode)
    )
    handlers = (
        ("COUNT(*)", "append"),
        ("SUM(cnt), MAX(cnt)", "retract"),
        ("ARRAY_AGG(cnt)", "append"),
    )
    for calls, changes in handlers:
        query = f"SELECT name, {calls} FROM t GROUP BY name"
        spec = AggSpec.from_sql(query, schema=SPEC.schema, input_changes=changes)
        text = render(plan_of(spec, "numba"))
        assert given[-1] == text.replace(f'"{stated_digest(text)}"', '""', 1)


def test_what_was_formatted_is_not_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = generate(SPEC, directory=tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(black, "format_str", lambda text, mode: pytest.fail("formatted again"))
        assert generate(SPEC, directory=tmp_path) == first
    # What somebody edited, or removed, is no text of ours.
    edited(first.path)
    assert generate(SPEC, directory=tmp_path).text == first.text
    first.path.unlink()
    assert generate(SPEC, directory=tmp_path) == first and first.path.read_text() == first.text


def test_the_seed_has_four_parts_in_its_accumulator() -> None:
    seed: Any = load(next(path for path in EXAMPLES if path.stem == "sum_max_by_name"))
    fields = [field.name for field in seed.FIELDS]
    views = [view.name for view in seed.VIEWS]
    assert [*fields, *views] == ["records", "count_cnt", "sum_cnt", "ordered_cnt"]


@pytest.mark.parametrize("backend", ["numba", "python"])
def test_the_seed_runs(backend: str) -> None:
    stem = "sum_max_by_name" if backend == "numba" else "sum_max_by_name_plain"
    with Harness(load(next(path for path in EXAMPLES if path.stem == stem))) as harness:
        harness.process([("+I", "a", 3), ("+I", "a", 7), ("-D", "a", 7), ("+I", None, None)])
        harness.flush()
        assert harness.table() == [(None, None, None), ("a", 3, 3)]


def test_a_named_module_is_replaced_by_a_newer_text_but_never_when_edited(tmp_path: Path) -> None:
    source = generate(SPEC, backend="python", directory=tmp_path, name="totals")
    assert source.path == tmp_path / "totals.py"
    other = AggSpec("name STRING, cnt INT", ["name"], [AggCall("MAX", ["cnt"])])
    assert generate(other, backend="python", directory=tmp_path, name="totals").path == source.path
    assert other.to_json() == load(source.path).SPEC_JSON
    text = edited(source.path).read_text(encoding="utf-8")
    with pytest.raises(GeneratedSourceError, match="was edited by hand, and is not overwritten"):
        generate(SPEC, backend="python", directory=tmp_path, name="totals")
    assert source.path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["", "../up", "a b", "a.b", "größe/"])
def test_a_hostile_module_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(GeneratedSourceError, match="is a Python identifier"):
        generate(SPEC, backend="python", directory=tmp_path, name=name)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "totals.py").write_text("print('mine')\n")
    with pytest.raises(GeneratedSourceError, match="is not overwritten"):
        generate(SPEC, backend="python", directory=tmp_path, name="totals")


def test_refresh_writes_an_outdated_module_again(tmp_path: Path) -> None:
    path = generate(SPEC, backend="python", directory=tmp_path, name="totals").path
    now = path.read_text(encoding="utf-8")
    older = now.replace("Add a row (a tuple) or a batch.", "Add rows.")
    path.write_text(older.replace(str(stated_digest(now)), text_digest(older)), encoding="utf-8")
    refresh(path)
    assert path.read_text(encoding="utf-8") == now
    with pytest.raises(GeneratedSourceError):
        refresh(edited(path))
    with pytest.raises(GeneratedSourceError, match="named by its digest"):
        refresh(generate(SPEC, backend="python", directory=tmp_path).path)


def test_an_edit_shows_wherever_the_file_is_moved(tmp_path: Path) -> None:
    source = generate(SPEC, backend="python", directory=tmp_path)
    moved = Path(shutil.copy(source.path, tmp_path / "mine.py"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(moved)
    with pytest.warns(HandlerEditedWarning, match=r"mine\.py was edited"):
        load(edited(moved))


def test_a_compiled_module_that_is_edited_is_compiled_anew(tmp_path: Path) -> None:
    source = generate(SPEC, directory=tmp_path, name="totals")
    script = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from aggloom.codegen import load\n"
        "handler = load(sys.argv[1])()\n"
        "handler.setAccumulators(handler.createAccumulators())\n"
        "handler.accumulate(('a', 3)); print(handler.getValue())"
    )

    def value() -> str:
        command = [sys.executable, "-c", script, str(source.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        return done.stdout.strip() or done.stderr

    assert value() == "(3,)"
    assert list((tmp_path / "__pycache__").glob("totals.*.nbi"))
    text = source.text.replace("sum_cnt + number", "sum_cnt + 2 * number")
    source.path.write_text(text, encoding="utf-8")
    assert value() == "(6,)"


def test_shipped_text_leaves_an_edited_file_alone(tmp_path: Path) -> None:
    source = generate(SPEC, backend="python", directory=tmp_path)
    edited(source.path)
    handler = load_text(source.text, source.digest, tmp_path)
    assert Path(handler.SOURCE_PATH).read_text(encoding="utf-8") == source.text
    assert source.path.read_text(encoding="utf-8").endswith(NOTE)
    with pytest.raises(GeneratedSourceError, match="another digest"):
        load_text(source.text + NOTE, source.digest, tmp_path)
