"""The checkpoints that a page is about, and what can be said of each without starting anything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from aggloom.errors import AggloomError, CheckpointError
from aggloom.runtime.hosting.checkpoint_paths import (
    QUERY_FILE,
    is_checkpoint,
    is_local,
    is_local_checkpoint,
    local,
)
from aggloom.runtime.hosting.journal_files import read_plan
from aggloom.runtime.page.analysis import TableClock, find_clocks
from aggloom.runtime.page.history import History, history_of
from aggloom.runtime.page.sources import OperatorProgress, operators_of

_DEEP, _LOOKED_AT = 2, 5000


@dataclass(frozen=True)
class CheckpointFacts:
    """The content of a checkpoint's page. plan: as data; problems: what cannot be shown, and why.

    clocks: the watermarks of tables, that which is furthest behind first.
    """

    history: History
    operators: Sequence[OperatorProgress] = ()
    query: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    clocks: Sequence[TableClock] = ()


class Watched:
    """A checkpoint by its number on the page; Python source in it runs only where that is trusted."""

    def __init__(self, number: int, path: str, trust: bool = False) -> None:
        self.number, self.path, self.trust = number, path, trust
        self.name = path.rstrip("/").rpartition("/")[2] or path

    def is_there(self) -> bool:
        """Tell whether a checkpoint is there, as far as this machine can see."""
        return not is_local(self.path) or _is_one(local(self.path))

    @property
    def is_of_local_engine(self) -> bool:
        """True if the local engine wrote it: no Spark is needed to read its state."""
        return is_local(self.path) and is_local_checkpoint(local(self.path))

    def read_facts(self, *, with_plan: bool = True) -> CheckpointFacts:
        """All that is known of it; with_plan: its operators, with their sources, and its plan too."""
        if not is_local(self.path):
            problem = f"{self.path} is not on this machine's disk: only its state can be read."
            return CheckpointFacts(History((), "unknown", "", None, {}, 0), problems=[problem])
        root = local(self.path)
        problems: list[str] = []
        if not root.is_dir():
            problems.append(f"{self.path}: there is no such directory.")
        else:
            # A record may come or go while it is looked at.
            for check in _list_checks(root, problems):
                _try_call(partial(check, root), problems, gone=True)
        history = history_of(root)
        if history.unread:
            problems.append(f"{history.unread} lines of what the query noted cannot be read.")
        operators: Sequence[OperatorProgress] = ()
        plan: Mapping[str, Any] = {}
        if with_plan:
            operators = _try_call(lambda: operators_of(root, self.trust), problems) or ()
            plan = _try_call(lambda: read_plan(root), problems, "what is noted of the plan") or {}
        # What is wrong with the last commit has been said by the checks.
        clocks = _try_call(lambda: find_clocks(root), []) or ()
        listed = list(dict.fromkeys(problems))
        query = str(plan.get("query") or "")
        return CheckpointFacts(history, operators, query, plan, listed, clocks)


class Checkpoints:
    """The checkpoints under the paths that were given: each is one, or a directory with some in it.

    A number stays that of its checkpoint, also where more are found later.
    """

    def __init__(self, paths: Iterable[str], trust: bool = False) -> None:
        self._paths, self._trust = list(paths), trust
        self._known: dict[str, Watched] = {}
        self._lock = threading.Lock()

    def all(self) -> list[Watched]:
        """Those that are there now, in the order in which they were found."""
        with self._lock:
            for path in self._paths:
                for each in found_in(path):
                    if each not in self._known:
                        self._known[each] = Watched(len(self._known), each, self._trust)
            return list(self._known.values())

    def number(self, number: int) -> Watched | None:
        """The checkpoint of a number, if there is one."""
        watched = self.all()
        return watched[number] if 0 <= number < len(watched) else None


def found_in(path: str) -> list[str]:
    """The checkpoints at a path: itself, or those in a directory that is none; a path that is wrong is named too."""
    root = local(path)
    if not is_local(path) or not root.is_dir() or _is_one(root):
        return [path]
    # Only so many are looked at: a home directory that was given by mistake has millions.
    checkpoints = [
        str(each) for each in islice(_directories(root, _DEEP), _LOOKED_AT) if _is_one(each)
    ]
    return checkpoints or ([path] if any(root.iterdir()) else [])


def _directories(root: Path, deep: int) -> Iterator[Path]:
    """The directories below one, down to so many levels; what is in a checkpoint is its own."""
    try:
        inner = sorted(each for each in root.iterdir() if each.is_dir() and each.name[0] != ".")
    except OSError:
        return
    yield from inner
    for each in inner:
        # The directories of a checkpoint are not searched: there are thousands of them, and no checkpoint among them.
        if deep > 1 and not _is_one(each):
            yield from _directories(each, deep - 1)


def _is_one(root: Path) -> bool:
    return is_checkpoint(root) or (root / QUERY_FILE).is_file()


def _list_checks(root: Path, problems: list[str]) -> list[Callable[[Path], None]]:
    """The checks that the engine of a checkpoint makes of it; none, with the reason, where Spark is not installed."""
    if is_local_checkpoint(root):
        from aggloom.runtime.engine.checkpoint import check_commits

        return [check_commits]
    try:
        from aggloom.runtime.spark.checkpoint import check_directory, check_records
    except AggloomError as error:
        problems.append(str(error))
        return []
    return [check_directory, check_records]


def _try_call(call: Any, problems: list[str], what: str = "", gone: bool = False) -> Any:
    """Return the result of a call; None where it fails, with the reason among the problems."""
    try:
        return call()
    except AggloomError as error:
        problems.append(str(error))
    except (OSError, ValueError) as error:
        if not (gone and isinstance(error, FileNotFoundError)):
            problems.append(f"{what} cannot be read: {error}" if what else str(error))
    return None


def split_checkpoints(path: str) -> str:
    """A path of a checkpoint, of a directory with some in it, or of an empty one that a query has yet to fill.

    Raises CheckpointError for any other.
    """
    if not is_local(path):
        return path
    root = local(path)
    if not root.exists():
        raise CheckpointError(f"{path}: there is no such directory.")
    if not root.is_dir():
        raise CheckpointError(
            f"{path}: this is a file. Name the directory of a checkpoint, or one with some in it."
        )
    # An empty directory is let in: the page may be started before the query has written for the first time.
    if any(root.iterdir()) and not any(_is_one(local(each)) for each in found_in(path)):
        raise CheckpointError(
            f"{path}: there is no checkpoint in it, nor in the directories below it. Name the directory that the query "
            "has as its checkpoint (`checkpoint:` in a job, --checkpoint, checkpoint= in Python)."
        )
    return path
