"""How an assigner of the user's is asked which windows of a key become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aggloom.codegen.windows import Assigner, Window
from aggloom.errors import AggloomError, DataError

Merged = tuple[list[Window], Window]


def merges(assigner: Assigner, windows: Iterable[tuple[int, int]]) -> list[Merged]:
    """(windows, what they become) for all that change; windows: those of a key, and a row's own.

    Raises DataError if the assigner fails, or if what it says is no partition of the windows.
    """
    given = sorted({Window(*window) for window in windows})
    said: list[Merged] = []

    def merge(parts: Sequence[Window], whole: Window) -> None:
        said.append(([Window(*part) for part in parts], Window(*whole)))

    try:
        assigner.merge_windows(given, merge)
    except AggloomError:
        raise
    except Exception as error:
        raise DataError(
            f"assigner {assigner.text} failed in merge_windows: {type(error).__name__}: {error}"
        ) from error
    left = set(given)
    for parts, whole in said:
        if not parts or not set(parts) <= left or len(set(parts)) < len(parts):
            raise _wrong(assigner, f"{parts} are not all windows that were given, each once")
        left -= set(parts)
        if whole.start >= whole.end:
            raise _wrong(assigner, f"{whole} has no time in it")
    result = [whole for _, whole in said]
    if len({*result, *left}) < len(result) + len(left):
        raise _wrong(assigner, "two of the windows that result are the same")
    return [(parts, whole) for parts, whole in said if parts != [whole]]


def _wrong(assigner: Assigner, what: str) -> DataError:
    return DataError(f"assigner {assigner.text}: merge_windows: {what}")
