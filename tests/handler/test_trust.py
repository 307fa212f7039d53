"""Python source that comes as data: it is shown, explained and written down without being run, until it is trusted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import aggloom as al
from aggloom.cli import main
from aggloom.errors import UntrustedCodeError

EXPLOITS = {
    "a module behind a module": "datetime.sys.modules['os'].system('touch {mark}')",
    "a module in a package": "numpy.f2py.os.system('touch {mark}')",
    "a function that writes": "numpy.save('{mark}', numpy.zeros(1))",
}
YAML = """
schema: {{k: STRING, v: BIGINT}}
group_by: [k]
calls: [{{function: EVIL, args: [v], alias: e}}]
functions:
- name: EVIL
  arguments: [[x, BIGINT]]
  result: BIGINT
  source: |
    import datetime
    import numpy

    class Evil:
        def create():
            {does}
            return 0

        def accumulate(state, x):
            return state + x

        def retract(state, x):
            return state - x

        def merge(state, other):
            return state + other

        def value(state):
            return state
"""


@pytest.fixture(params=EXPLOITS)
def evil(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], bool]]:
    """A spec's text, and whether its source has run."""
    mark = tmp_path / "ran.npy"
    does = EXPLOITS[request.param].format(mark=mark)
    return YAML.format(does=does), mark.exists


def call(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments), prog_name="aggloom", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_reading_explaining_and_generating_run_nothing(
    evil: tuple[str, Callable[[], bool]], tmp_path: Path
) -> None:
    text, ran = evil
    spec = al.AggSpec.from_yaml(text)
    assert spec.untrusted_functions == ("EVIL",)
    again = al.AggSpec.from_json(spec.to_json())
    assert again == spec and repr(again) and again.to_yaml() and again.functions
    text = al.explain(spec)
    assert "is not trusted, and was not tried" in text and "cannot be compiled" not in text
    assert al.explain(spec, format="json") and al.explain(spec, format="svg")
    assert al.explain(spec, window=al.Tumble(1000))
    source = al.generate(spec, directory=tmp_path / "made", name="made")
    assert (source.backend, source.untrusted) == ("python", ("EVIL",))
    assert not ran()


def test_the_command_line_runs_nothing(
    evil: tuple[str, Callable[[], bool]], tmp_path: Path
) -> None:
    text, ran = evil
    file, out = tmp_path / "spec.yaml", str(tmp_path / "out")
    file.write_text(text, encoding="utf-8")
    said = call("generate", "--yaml", str(file), "-o", out, "--name", "made")
    assert "EVIL: not tried whether it compiles" in said
    call("explain", "--yaml", str(file))
    for form in ("json", "svg"):
        call("explain", "--yaml", str(file), "--format", form)
    call("inspect", "--yaml", str(file))
    call("inspect", "--yaml", str(file), "--plan")
    made = f"{out}/made.py"
    call("inspect", made)
    call("inspect", made, "--plan")
    call("refresh", made)
    assert not ran()


def test_running_it_needs_the_word(evil: tuple[str, Callable[[], bool]]) -> None:
    text, ran = evil
    spec = al.AggSpec.from_yaml(text)
    runs: list[Callable[[], object]] = [
        lambda: al.Harness(spec),
        lambda: al.Harness(spec, backend="python"),
        lambda: al.Harness(spec, window=al.Tumble(1000)),
        lambda: al.load(al.generate(spec)),
    ]
    for run in runs:
        with pytest.raises(UntrustedCodeError, match=r"EVIL: its Python source.*--trust"):
            run()
    assert not ran()
    with al.Harness(al.AggSpec.from_yaml(text, trust=True), backend="python") as trusted:
        trusted.process([("+I", "a", 4)])
        trusted.flush()
        assert trusted.table() == [("a", 4)]
    assert ran()
    # Said once: the same source is trusted in this process from then on.
    assert spec.untrusted_functions == ()


def test_a_compiled_module_is_written_again_only_if_its_source_may_run(tmp_path: Path) -> None:
    text = YAML.format(does="pass").replace("Evil", "Good")
    file = tmp_path / "spec.yaml"
    file.write_text(text, encoding="utf-8")
    made = call("generate", "--yaml", str(file), "--trust", "-o", str(tmp_path), "--name", "made")
    assert "numba" in made
    module = tmp_path / "made.py"
    from aggloom.codegen.user import trust as user_trust

    user_trust._TRUSTED.clear()
    refused = CliRunner().invoke(main, ["refresh", str(module)], prog_name="aggloom")
    assert refused.exit_code == 2 and "--trust" in refused.output
    call("refresh", str(module), "--trust")


def test_what_a_program_registers_needs_no_word(registry: None) -> None:
    text = YAML.format(does="n = 1")
    definition = al.AggSpec.from_yaml(text).functions[0]
    al.register(definition)
    spec = al.AggSpec.from_sql("SELECT k, EVIL(v) AS e FROM t GROUP BY k", "k STRING, v BIGINT")
    assert spec.untrusted_functions == () and "evil(v): compiled" in al.explain(spec).lower()
