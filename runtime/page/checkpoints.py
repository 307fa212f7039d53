"""The checkpoints that a page is about, and the facts of each that are known without Spark and without its state."""

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

_DEPTH, _MAX_DIRECTORIES = 2, 5000


@dataclass(frozen=True)
class CheckpointFacts:
    """The content of a checkpoint's page. plan: as data; problems: sentences about faults and unreadable parts.

    clocks: the watermarks of tables, the least one first.
    """

    history: History
    operators: Sequence[OperatorProgress] = ()
    query: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    clocks: Sequence[TableClock] = ()


class Watched:
    """A checkpoint on the page, by its number; trust: run the Python source in it."""

    def __init__(self, number: int, path: str, trust: bool = False) -> None:
        self.number, self.path, self.trust = number, path, trust
        self.name = path.rstrip("/").rpartition("/")[2] or path

    def is_there(self) -> bool:
        """Tell whether a checkpoint is there, as far as this machine can see."""
        return not is_local(self.path) or _has_query(local(self.path))

    @property
    def is_of_local_engine(self) -> bool:
        """True if the local engine wrote it: no Spark is needed to read its state."""
        return is_local(self.path) and is_local_checkpoint(local(self.path))

    def read_facts(self, *, with_plan: bool = True) -> CheckpointFacts:
        """Read its history and clocks; with_plan: its plan, and its operators with their sources, too."""
        if not is_local(self.path):
            problem = f"{self.path} is not on this machine's disk: only its state can be read."
            return CheckpointFacts(History((), "unknown", "", None, {}, 0), problems=[problem])
        root = local(self.path)
        problems: list[str] = []
        if not root.is_dir():
            problems.append(f"{self.path}: there is no such directory.")
        else:
            # A running query may add or delete a record during the check.
            for check in _list_checks(root, problems):
                _try_call(partial(check, root), problems, may_vanish=True)
        history = history_of(root)
        if history.unread:
            problems.append(f"{history.unread} lines of the query's log cannot be read.")
        operators: Sequence[OperatorProgress] = ()
        plan: Mapping[str, Any] = {}
        if with_plan:
            operators = _try_call(lambda: operators_of(root, self.trust), problems) or ()
            plan = _try_call(lambda: read_plan(root), problems, "the record of the plan") or {}
        # The checks have reported a damaged commit already.
        clocks = _try_call(lambda: find_clocks(root), []) or ()
        listed = list(dict.fromkeys(problems))
        query = str(plan.get("query") or "")
        return CheckpointFacts(history, operators, query, plan, listed, clocks)


class Checkpoints:
    """The checkpoints under some paths: each path is one, or a directory with some in it.

    A checkpoint keeps its number when others appear later.
    """

    def __init__(self, paths: Iterable[str], trust: bool = False) -> None:
        self._paths, self._trust = list(paths), trust
        self._known: dict[str, Watched] = {}
        self._lock = threading.Lock()

    def all(self) -> list[Watched]:
        """The checkpoints that exist now, or did before, in the order in which they appeared."""
        with self._lock:
            for path in self._paths:
                for each in find_checkpoints(path):
                    if each not in self._known:
                        self._known[each] = Watched(len(self._known), each, self._trust)
            return list(self._known.values())

    def number(self, number: int) -> Watched | None:
        """The checkpoint of a number, if there is one."""
        watched = self.all()
        return watched[number] if 0 <= number < len(watched) else None


def find_checkpoints(path: str) -> list[str]:
    """The checkpoints at a path: itself, or those in a directory that is none; a wrong path is one too."""
    root = local(path)
    if not is_local(path) or not root.is_dir() or _has_query(root):
        return [path]
    # The number is bounded: a home directory that is named by mistake has millions.
    checkpoints = [
        str(each)
        for each in islice(_walk_directories(root, _DEPTH), _MAX_DIRECTORIES)
        if _has_query(each)
    ]
    return checkpoints or ([path] if any(root.iterdir()) else [])


def _walk_directories(root: Path, depth: int) -> Iterator[Path]:
    """Yield the directories below one, down to some depth; without those inside a checkpoint."""
    try:
        inner = sorted(each for each in root.iterdir() if each.is_dir() and each.name[0] != ".")
    except OSError:
        return
    yield from inner
    for each in inner:
        # A checkpoint has thousands of directories, and no checkpoint among them.
        if depth > 1 and not _has_query(each):
            yield from _walk_directories(each, depth - 1)


def _has_query(root: Path) -> bool:
    return is_checkpoint(root) or (root / QUERY_FILE).is_file()


def _list_checks(root: Path, problems: list[str]) -> list[Callable[[Path], None]]:
    """The checks of a checkpoint by its engine; none, and a problem, where Spark is not installed."""
    if is_local_checkpoint(root):
        from aggloom.runtime.engine.checkpoint import check_commits

        return [check_commits]
    try:
        from aggloom.runtime.spark.checkpoint import check_directory, check_records
    except AggloomError as error:
        problems.append(str(error))
        return []
    return [check_directory, check_records]


def _try_call(call: Any, problems: list[str], name: str = "", may_vanish: bool = False) -> Any:
    """Return the result of a call; if it fails None, and the reason is added to the problems.

    name: of the file that it reads. may_vanish: a missing file is no problem.
    """
    try:
        return call()
    except AggloomError as error:
        problems.append(str(error))
    except (OSError, ValueError) as error:
        if not (may_vanish and isinstance(error, FileNotFoundError)):
            problems.append(f"{name} cannot be read: {error}" if name else str(error))
    return None


def require_checkpoints(path: str) -> str:
    """Return a path to a checkpoint, to a directory with some in it, or to an empty one that a query has yet to fill.

    Raises CheckpointError for any other path.
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
    # An empty directory is no error: the page may be started before the query has written for the first time.
    if any(root.iterdir()) and not any(_has_query(local(each)) for each in find_checkpoints(path)):
        raise CheckpointError(
            f"{path}: there is no checkpoint in it, nor in the directories below it. Name the directory that the query "
            "has as its checkpoint (`checkpoint:` in a job, --checkpoint, checkpoint= in Python)."
        )
    return path
