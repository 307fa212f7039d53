"""The case runner: on the shared changelogs if they are there, on its own, and on wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aggloom.errors import CaseFormatError
from aggloom.runtime.cases import deviations, main, report, run_directory

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared" / "cases"
OWN = HERE / "cases"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared cases are not beside the repository")
def test_shared_cases_pass() -> None:
    outcomes = run_directory(SHARED, backends=("python",), known=deviations())
    assert [o for o in outcomes if o.status == "failed"] == []
    assert sum(o.status == "passed" for o in outcomes) >= 80


@pytest.mark.parametrize("backend", ["python", "numba"])
def test_own_cases_pass(backend: str) -> None:
    outcomes = run_directory(OWN, backends=(backend,))
    assert [(o.id, o.status, o.reason) for o in outcomes if o.status != "passed"] == []


def _write(folder: Path, *cases: dict[str, Any]) -> Path:
    (folder / "wrong.json").write_text(json.dumps(list(cases)), encoding="utf-8")
    return folder


def _own(identifier: str) -> dict[str, Any]:
    cases = [
        case for path in sorted(OWN.glob("*.json")) for case in json.loads(path.read_text("utf-8"))
    ]
    found: dict[str, Any] = next(case for case in cases if case["id"] == identifier)
    return found


@pytest.mark.parametrize(
    "identifier",
    [c["id"] for p in sorted(OWN.glob("*.json")) for c in json.loads(p.read_text("utf-8"))],
)
def test_a_wrong_expectation_fails(identifier: str, tmp_path: Path) -> None:
    case = _own(identifier)
    for phase in case.get("phases", [case]):
        expect = phase["expect"]
        if expect["mode"] == "accumulator_empty":
            phase["events"] = phase["events"][1:]
        elif expect["mode"] == "count":
            expect["message_count"] += 1
        elif expect["mode"] == "none":
            expect["materialized"] = [{"op": "+I", "row": ["nobody", 1]}]
        else:
            expect["rows"] = expect["rows"][1:] if expect["rows"] else [{"op": "+I", "row": [1]}]
    outcome = run_directory(_write(tmp_path, case))[0]
    assert outcome.status == "failed"
    assert outcome.reason


def test_a_listed_deviation_is_not_a_failure(tmp_path: Path) -> None:
    case = _own("ordered changes")
    case["expect"]["rows"] = []
    outcomes = run_directory(_write(tmp_path, case), known=frozenset([case["id"]]))
    assert [o.status for o in outcomes] == ["deviation"]
    assert (
        next(iter(report(outcomes, False)))
        == "wrong: 0 passed, 0 failed, 0 not supported, 1 deviations"
    )


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT k, MEDIANISH(v) FROM t GROUP BY k", "UnknownFunctionError"),
        ("SELECT k, v FROM (SELECT k, SUM(v) AS v FROM t GROUP BY k)", "UnsupportedSqlError"),
        ("SELECT a.k, COUNT(*) FROM t a JOIN t b ON a.k = b.k GROUP BY a.k", "UnsupportedSqlError"),
        ("SELECT k, SUM(v) OVER (ORDER BY v) FROM t", "UnsupportedSqlError"),
    ],
)
def test_what_is_missing_is_told_by_the_error_of_the_product(
    sql: str, reason: str, tmp_path: Path
) -> None:
    case = _own("ordered changes")
    case["params"]["sql"] = sql
    outcome = run_directory(_write(tmp_path, case))[0]
    assert (outcome.status, outcome.reason.partition(":")[0]) == ("not supported", reason)


def test_the_exit_code_tells(tmp_path: Path) -> None:
    good = CliRunner().invoke(main, [str(OWN), "--backend", "python"])
    assert (good.exit_code, "0 failed" in good.output) == (0, True)
    case = _own("ordered changes")
    case["expect"]["rows"] = []
    bad = CliRunner().invoke(main, [str(_write(tmp_path, case)), "--backend", "python"])
    assert bad.exit_code == 1
    assert "failed ordered changes" in bad.output


def test_a_malformed_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaseFormatError, match=r"wrong\.json, case 0"):
        run_directory(_write(tmp_path, {"id": "x"}))
