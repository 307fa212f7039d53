"""docs/plans.md: its plans are the planner's, and have the shape, the rules and the changes of Flink's beside them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from writers.plans import Shown, plan_shown, plans_of, rewritten, tables_of

from aggloom.codegen.planner import PlanOptions, as_tree, plan_query
from aggloom.codegen.planner.options import FLINK_NAMES
from aggloom.codegen.planner.plan import RULES

PATH = Path(__file__).parents[2] / "docs" / "plans.md"
PAGE = PATH.read_text(encoding="utf-8")
BESIDE = [shown for shown in plans_of(PAGE) if shown.flink]
beside = pytest.mark.parametrize("shown", BESIDE, ids=lambda shown: shown.name)

# What differs from Flink's nodes, from the result down: (Flink's, ours) for a run of nodes that occurs once.
NAMES = ("result GlobalGroupAggregate", "result Calc GlobalGroupAggregate")
BUCKETS = ("Calc TableSourceScan", "Expand Calc TableSourceScan")
DROPS = (
    "LocalGroupAggregate GlobalGroupAggregate",
    "LocalGroupAggregate Calc GlobalGroupAggregate",
)
INNER = ("LocalGroupAggregate Calc GlobalG", "LocalGroupAggregate Expand Calc GlobalG")
FILTERS = ("Calc Expand Calc", "Expand Calc")
DIFFERENCES: dict[str, list[tuple[str, str]]] = {
    "Query 2, split": [BUCKETS, DROPS],
    "Query 2, incremental": [BUCKETS],
    "Query 3, incremental": [NAMES, INNER],
    "Query 7, incremental": [NAMES, FILTERS],
}
# Where Flink expects deletions and no row can go.
UNDELETED = {"Query 2, split", "Query 2, incremental", "Query 7, incremental", "Query 8, plain"}


def kinds(tree: str) -> list[str]:
    """The nodes of a tree of text, from the result down, without the marks of bundles."""
    names = re.findall(r"^[ :+-]*(\w+)\(", tree, re.M)
    return [name for name in names if name != "MiniBatchAssigner"]


def modes(tree: str) -> list[tuple[str, set[str]]]:
    """The aggregates of a tree and the kinds of changes that leave them."""
    found = re.findall(r"^[ :+-]*(\w*Aggregate)\(.*changelogMode=\[([\w,]*)\]\)$", tree, re.M)
    return [(name, set(mode.split(","))) for name, mode in found]


# The page


def test_the_plans_on_the_page_are_the_planners() -> None:
    assert rewritten(PAGE) == PAGE, "run 'make docs'"


def test_a_plan_on_the_page_that_is_wrong_is_seen() -> None:
    for shown in BESIDE:
        first, *rest = shown.ours.splitlines()
        wrong = PAGE.replace(f"{shown.ours}\n", "\n".join([first.lower(), *rest, ""]))
        assert wrong != PAGE
        assert rewritten(wrong) == PAGE


def test_the_example_on_the_page() -> None:
    code, text = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.S)[0]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert out.getvalue() == text


def test_the_page_lists_the_rules_in_their_order() -> None:
    section = PAGE.split("\n## Rules\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == [rule.__name__ for rule in RULES]


def test_the_page_lists_the_options_with_names_and_defaults() -> None:
    section = PAGE.split("\n## Options\n")[1].split("\n## ")[0]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in section.splitlines()]
    flink = {keyword: name for name, keyword in FLINK_NAMES.items()}
    default = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in vars(PlanOptions()).items()
    }
    listed = [(row[0], row[1], row[2]) for row in rows if row and row[0] in default]
    assert listed == [(name, flink.get(name, ""), text) for name, text in default.items()]


# Beside Flink


def test_all_captured_plans_are_shown() -> None:
    assert len(BESIDE) == 12
    assert {int(shown.name.split()[1].rstrip(",")) for shown in BESIDE} == set(range(1, 9))


@beside
def test_the_shape_is_flinks(shown: Shown) -> None:
    expected = " ".join(["result", *kinds(shown.flink)])
    for theirs, ours in DIFFERENCES.get(shown.name, []):
        assert expected.count(theirs) == 1, f"{theirs!r} is no difference of {expected}"
        expected = expected.replace(theirs, ours)
    assert " ".join(["result", *kinds(shown.ours)]) == expected


@beside
def test_the_rules_that_fired_are_flinks(shown: Shown) -> None:
    plan = plan_shown(shown, tables_of(PAGE))
    fired = {note.rule for notes in plan.notes.by_spec.values() for note in notes if note.fired}
    signs = {
        "two_phase": "LocalGroupAggregate(",
        "split_distinct": "partialFinalType=[FINAL]",
        "incremental": "IncrementalGroupAggregate(",
    }
    assert fired - {"prune_calls", "monotonic_extremes"} == {
        rule for rule, sign in signs.items() if sign in shown.flink
    }


@pytest.mark.parametrize(
    "shown",
    [pytest.param(shown, id=shown.name) for shown in BESIDE],
)
def test_the_changes_are_flinks(shown: Shown) -> None:
    theirs, ours = modes(shown.flink), modes(shown.ours)
    (top, flink_top), (own_top, our_top) = theirs.pop(0), ours.pop(0)
    assert (own_top, ours) == (top, theirs)
    allowed = {"D"} if shown.name in UNDELETED else set()
    assert our_top == (flink_top | {"UB"}) - allowed


def test_max_of_a_count_needs_no_values() -> None:
    shown = next(each for each in BESIDE if each.name == "Query 8, plain")
    assert "select=[MAX(cnt)" in shown.flink and "select=[MAX(cnt)" in shown.ours
    plan = plan_query(
        "SELECT MAX(s) FROM (SELECT a, SUM(b) AS s FROM T GROUP BY a)",
        tables_of(PAGE),
        input_changes="append",
    )
    assert "MAX_RETRACT(s)" in as_tree(plan)
