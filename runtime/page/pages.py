"""The pages of a server, each a function from a request to HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import urlencode

from aggloom.errors import AggloomError, CheckpointError
from aggloom.runtime.hosting.checkpoint_paths import is_local, local
from aggloom.runtime.page.background_reads import BackgroundReads, NotYet
from aggloom.runtime.page.changes_view import changes_of
from aggloom.runtime.page.checkpoints import Checkpoints, Watched
from aggloom.runtime.page.formatting import moment, now_ms
from aggloom.runtime.page.health import LEVELS
from aggloom.runtime.page.render import page
from aggloom.runtime.page.result_view import Results
from aggloom.runtime.page.sources import OperatorProgress
from aggloom.runtime.page.summaries import summarise
from aggloom.runtime.page.views import PageView, view_of

Query = Mapping[str, list[str]]
"""The parameters of an address."""
_COUNTED = {"bad": "failed", "warn": "to look at", "good": "running well", "rest": "ended"}
"""The verdicts as they are counted."""


class Pages:
    """The pages about some checkpoints."""

    def __init__(self, checkpoints: Checkpoints, reading: BackgroundReads) -> None:
        self.checkpoints, self.reading = checkpoints, reading
        self._results = Results()

    def index(self) -> str:
        """All checkpoints; of a single one its own page."""
        listed = self.checkpoints.all()
        if len(listed) == 1:
            return self.checkpoint(listed[0])
        lines = sorted(map(summarise, listed), key=lambda each: (LEVELS[each.level], each.name))
        counted = Counter(each.level for each in lines)
        parts = [f"{counted[level]} {_COUNTED[level]}" for level in LEVELS if counted[level]]
        return page(
            "page_index.html.j2",
            live=True,
            follows=True,
            checkpoints=lines,
            units=list(dict.fromkeys(unit for each in lines for unit in each.lag)),
            announcement=f"{len(lines)} checkpoints: {', '.join(parts)}.",
            level=next((level for level in LEVELS if counted[level]), "rest"),
            counted=[
                (level, counted[level], _COUNTED[level]) for level in LEVELS if counted[level]
            ],
            **about(),
        )

    def checkpoint(self, watched: Watched, query: Query | None = None) -> str:
        """A checkpoint: its batches in the range of the query, its plan, operators and sources."""
        view = view_of(watched, query)
        values: dict[str, Any] = {"view": view, "announcement": view.announcement, "typed": {}}
        return page("page_checkpoint.html.j2", live=True, follows=True, **values, **about())

    def state(self, watched: Watched) -> str:
        """The state of a checkpoint, and its heaviest keys."""
        view = view_of(watched)
        known = {each.place: each for each in view.sources}
        states: list[dict[str, Any]] = []
        problems: list[str] = []
        try:
            states = self.reading.states(watched, known, links=True)
        except NotYet:
            return _waiting_page(view, "state")
        except (AggloomError, OSError) as error:
            problems.append(str(error))
        values: dict[str, Any] = {"view": view, "states": states, "problems": problems, "typed": {}}
        return page("page_state.html.j2", live=True, **values, **about())

    def result(self, watched: Watched, query: Query) -> str:
        """The rows and the last changes of a result that have a text, or why there are none to show."""
        find = query.get("find", [""])[0]
        problems: list[str] = []
        result = changes = None
        try:
            if not is_local(watched.path):
                raise CheckpointError(f"{watched.path} is not on this machine's disk.")
            changes = changes_of(local(watched.path), find)
            result = self._results.find(local(watched.path), find)
        except (AggloomError, OSError) as error:
            problems.append(str(error))
        view = summarise(watched)
        values: dict[str, Any] = {"view": view, "find": find, "result": result, "changes": changes}
        values |= {"announcement": f"{view.word}. Batch {view.batch}.", "problems": problems}
        return page("page_result.html.j2", live=True, follows=True, **values, **about())

    def key(self, watched: Watched, query: Query) -> str:
        """A key of a checkpoint, or why it cannot be shown."""
        view = view_of(watched)
        place = query.get("operator", [""])[0]
        operator = next((each for each in view.sources if each.place == place), None)
        problems: list[str] = []
        keys: list[dict[str, Any]] = []
        typed = {} if operator is None else {place: _parse_form(operator, query)}
        try:
            if operator is None:
                raise CheckpointError("There is no such operator; choose one below.")
            keys.append(self.reading.key(watched, operator, _key(operator, typed[place])))
        except NotYet:
            return _waiting_page(view, f"key?{urlencode(query, doseq=True)}")
        except (AggloomError, OSError) as error:
            problems.append(str(error))
        values: dict[str, Any] = {"view": view, "keys": keys, "problems": problems, "typed": typed}
        return page("page_key.html.j2", live=True, **values, **about())


def _waiting_page(view: PageView, address: str) -> str:
    """The page that reloads until the state has been read; address: below the checkpoint's, such as "state"."""
    values = {"view": view, "address": f"/c/{view.number}/{address}"}
    return page("page_wait.html.j2", live=True, follows=True, **values, **about())


def about() -> dict[str, Any]:
    """Return the text at the foot of every page."""
    try:
        installed = version("aggloom")
    except PackageNotFoundError:
        installed = ""
    return {"version": installed, "time": moment(now_ms()), "policy": ""}


def _parse_form(operator: OperatorProgress, query: Query) -> dict[int, tuple[str, bool]]:
    """Return the input typed into a form, by the number of the column: (text, whether NULL)."""
    return {
        at: (query.get(f"v{at}", [""])[0], f"n{at}" in query) for at in range(len(operator.keys))
    }


def _key(
    operator: OperatorProgress, typed: Mapping[int, tuple[str, bool]]
) -> dict[str, str | None]:
    return {name: None if typed[at][1] else typed[at][0] for at, name in enumerate(operator.keys)}
