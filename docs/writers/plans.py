"""Write the plans in docs/plans.md: the planner makes them from the queries and tables on the page itself."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from aggloom.codegen.planner.plan import Plan, plan_query
from aggloom.codegen.planner.tree import as_tree
from aggloom.errors import SpecError

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Shown:
    """A plan on the page: its heading, the script, and the two plans, each as a tree of text."""

    name: str
    script: str
    flink: str
    ours: str


def tables_of(page: str) -> dict[str, str]:
    """Return the tables of the page as DDL, from the lines of its block `tables`."""
    (block,) = (text for kind, text in _BLOCK.findall(page) if kind == "tables")
    pairs = (re.fullmatch(r"(\w+) \((.*)\)", line) for line in block.splitlines())
    return {pair[1]: pair[2] for pair in pairs if pair}


def plans_of(page: str) -> list[Shown]:
    """Return the plans on the page: the blocks sql, flink and aggloom under a heading `### name`."""
    found = []
    for section in re.split(r"^### ", page, flags=re.M)[1:]:
        blocks = dict(_BLOCK.findall(section))
        if "aggloom" in blocks:
            texts = (blocks.get(kind, "").rstrip("\n") for kind in ("sql", "flink", "aggloom"))
            found.append(Shown(section.partition("\n")[0].strip(), *texts))
    return found


def plan_shown(shown: Shown, tables: dict[str, str]) -> Plan:
    """Plan a script of the page, over append-only tables, in Flink's dialect."""
    return plan_query(shown.script, tables, input_changes="append", dialect="flink")


def rewritten(page: str) -> str:
    """Return the page with the planner's current plans in its blocks `aggloom`."""
    tables = tables_of(page)
    for shown in plans_of(page):
        head, heading, rest = page.partition(f"### {shown.name}\n")
        tree = as_tree(plan_shown(shown, tables))
        old = f"```aggloom\n{shown.ours}\n```" if shown.ours else "```aggloom\n```"
        page = head + heading + rest.replace(old, f"```aggloom\n{tree}\n```", 1)
    return page


def main(arguments: list[str]) -> None:
    """Update the plans in the named page."""
    if len(arguments) != 1:
        raise SpecError("plans: name one page, such as docs/plans.md.")
    path = Path(arguments[0])
    path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
