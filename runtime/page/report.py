"""A report: one HTML file about some checkpoints, without scripts and without links to other files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aggloom.errors import AggloomError, CheckpointError
from aggloom.runtime.page.background_reads import BackgroundReads
from aggloom.runtime.page.checkpoints import Checkpoints, Watched
from aggloom.runtime.page.pages import about
from aggloom.runtime.page.render import page, policy
from aggloom.runtime.page.views import PageView, view_of


def write_report(
    checkpoints: Checkpoints,
    file: Path,
    *,
    key: Mapping[str, Any] | None = None,
    reading: BackgroundReads | None = None,
) -> None:
    """Write a report. key: values by column of a key to show too. reading: None leaves out state and keys.

    Raises CheckpointError if none of the checkpoints exists.
    """
    listed = checkpoints.all()
    if not any(each.is_there() for each in listed):
        looked = ", ".join(repr(each.path) for each in listed) or "what was named"
        raise CheckpointError(
            f"report: there is no checkpoint in {looked}; name the directory that the query has as its checkpoint."
        )
    entries = [_entry(each, key, reading) for each in listed]
    names = ", ".join(each.name for each in listed)
    values = {**about(), "policy": policy(live=False)}
    text = page("page_report.html.j2", live=False, title=names, entries=entries, **values)
    # Renamed when it is complete: nobody opens half a report, and a failure leaves the former one.
    draft = file.with_name(f".{file.name}.new")
    try:
        # Names of files may hold bytes that no encoding has.
        draft.write_text(text, encoding="utf-8", errors="replace")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def _entry(
    watched: Watched, key: Mapping[str, Any] | None, reading: BackgroundReads | None
) -> dict[str, Any]:
    view = view_of(watched, prefix=f"c{watched.number}-", is_file=True)
    states: list[dict[str, Any]] = []
    problems: list[str] = []
    keys: list[dict[str, Any]] = []
    if reading is None:
        problems.append("The state was left out (--no-state).")
    else:
        known = {each.place: each for each in view.sources}
        try:
            states = reading.states(watched, known, links=False)
        except (AggloomError, OSError) as error:
            # One checkpoint that cannot be read must not take the others out of the report.
            problems.append(str(error))
        if key is not None:
            keys, key_problems = _keys(watched, view, key, reading)
            problems += key_problems
    return {"view": view, "states": states, "problems": problems, "keys": keys}


def _keys(
    watched: Watched, view: PageView, key: Mapping[str, Any], reading: BackgroundReads
) -> tuple[list[dict[str, Any]], list[str]]:
    """The key in each operator with these key columns, and problems."""
    operators = [each for each in view.sources if set(each.keys) == set(key)]
    if not operators:
        named = "; ".join(", ".join(each.keys) or "()" for each in view.sources) or "none"
        return [], [f"No operator has the key {', '.join(key)}; keys are: {named}."]
    keys: list[dict[str, Any]] = []
    problems: list[str] = []
    for place, operator in enumerate(operators):
        try:
            finding = reading.key(watched, operator, key, place)
            keys.append({**finding, "id": f"{view.id}key{place}"})
        except (AggloomError, OSError) as error:
            problems.append(str(error))
    return keys, problems
