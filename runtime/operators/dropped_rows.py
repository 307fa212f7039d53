"""Warnings of rows that did not reach the result: once for each kind and run, and with the total at its end."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import NamedTuple

from aggloom.errors import DroppedRowsWarning
from aggloom.runtime.operators.counts import ORPHAN, Counts

_OURS = "aggloom"


class Call(NamedTuple):
    """The line of a user's code that a warning is about, for the filters of Python's `warnings`."""

    file: str
    line: int
    module: str


class _Kind(NamedTuple):
    """A kind of dropped rows: one, several, why they are dropped, and what to do."""

    one: str
    several: str
    why: str
    fix: str


KINDS = {
    "orphans": _Kind(
        "orphan retraction",
        "orphan retractions",
        ORPHAN,
        "Give changes in the order in which they were made (of files by name: order='name'), or let "
        "on_orphan_retraction be 'keep' or 'error'",
    ),
    "late": _Kind(
        "late row",
        "late rows",
        "a late row comes behind the watermark, when its result is final",
        "Give the watermark a longer delay, keep windows for longer (allowed_lateness), or have late rows emitted "
        "(late_rows=True)",
    ),
    "refused": _Kind(
        "unreadable row",
        "unreadable rows",
        "unreadable='drop' and 'side' pass over messages that cannot be read",
        "unreadable='error' stops at the first and says what is wrong with it; a harness lists them in `unreadable`, "
        "and on Spark unreadable='side' writes them to the directory side=",
    ),
}
"""The kinds of dropped rows, by the names under which Counts has them."""


class DroppedReport:
    """The warnings of one run of a query.

    hands_out_late: whether late rows are given to the caller, and so are not lost. is_quiet: whether the caller reports
    dropped rows itself.
    """

    def __init__(self, hands_out_late: bool = False) -> None:
        self.is_quiet = False
        self._kinds = {n: k for n, k in KINDS.items() if n != "late" or not hands_out_late}
        self._warned: dict[str, int] = {}

    def is_due(self, totals: Mapping[str, int]) -> bool:
        """Return whether rows of a kind were dropped that no warning has named; totals: rows dropped by kind."""
        if self.is_quiet or not any(totals.values()):
            return False
        return any(totals.get(name) and name not in self._warned for name in self._kinds)

    def warn(self, counts: Counts, ended: bool, call: Call) -> None:
        """Warn of each kind whose rows occur for the first time; at the end of the run also of those since then.

        Raises DroppedRowsWarning where a filter makes an error of it; that kind is not warned of again.
        """
        if self.is_quiet:
            return
        for name, kind in self._kinds.items():
            total = getattr(counts, name)
            before = self._warned.get(name, 0)
            # Between its first and the end a kind stays quiet, however many rows follow.
            if total == before or (before and not ended):
                continue
            self._warned[name] = total
            text = _describe(name, kind, counts, total, ended)
            warnings.warn_explicit(text, DroppedRowsWarning, call.file, call.line, call.module)


def find_call() -> Call:
    """Return the innermost line under way that is not part of aggloom."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "<unknown>")
    return Call(frame.f_code.co_filename, frame.f_lineno, name)


def _is_ours(module: str) -> bool:
    # `with` and decorators of contextlib stand between a call and the code that it enters.
    return module == _OURS or module.startswith(f"{_OURS}.") or module == "contextlib"


def _describe(name: str, kind: _Kind, counts: Counts, total: int, ended: bool) -> str:
    """Return one warning: the number, the operators, the reason, and what to do."""
    by = {each.name: getattr(each, name, 0) for each in counts.operators}
    places = ", ".join(operator for operator, number in by.items() if number)
    where = f" by {places}" if places else ""
    so_far = "in all" if ended else "so far"
    return f"{total:,} {kind.one if total == 1 else kind.several} dropped {so_far}{where}: {kind.why}. {kind.fix}."
