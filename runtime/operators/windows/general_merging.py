"""Merging of the windows of a key: sessions, and windows of a user's assigner that merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from aggloom.codegen.windows import Assigner, Session, Window
from aggloom.errors import AggloomError, DataError
from aggloom.runtime.operators.windows.general_assignment import instants_of
from aggloom.runtime.operators.windows.general_registry import LiveWindow, WindowRegistry
from aggloom.runtime.operators.windows.general_trigger import format_window

Merged = tuple[list[Window], Window]
Merger = Callable[[list[LiveWindow], Window, Window], LiveWindow]
"""A function from live windows and the bounds of the result (wall clock, instants) to the window that replaces them."""


def merge_windows(
    assigner: Assigner,
    registry: WindowRegistry,
    merge: Merger,
    slot: int,
    window: tuple[Window, Window],
) -> LiveWindow | None:
    """Merge the window of a row of the key at a slot with its other windows, and return it; None if it is over.

    window: the row's own, on the wall clock and in instants. Raises DataError if an assigner merges nonsense.
    """
    own, instants = window
    key = registry.keys.get(slot)
    if isinstance(assigner, Session):
        touched = [each for each in key.windows.values() if each.local.touches(own)] if key else []
        for each in touched:
            own, instants = own.cover(each.local), instants.cover(each.window)
        if touched:
            return merge(touched, own, instants)
    else:
        live_of_row: LiveWindow | None = None
        for parts, whole in _merges(assigner, [own, *(key.windows if key else ())]):
            lives = [key.windows[part] for part in parts if key and part in key.windows]
            whole_instants = instants_of(whole, assigner.zone)
            if lives and registry.is_late(whole_instants):
                raise DataError(
                    f"assigner {assigner.text}: merge_windows makes {format_window(whole_instants)} of windows that "
                    "are live, which is over by the watermark; merge into a later one"
                )
            live = merge(lives, whole, whole_instants) if lives else None
            if window[0] in parts:
                live_of_row, own, instants = live, whole, whole_instants
        if live_of_row is not None:
            return live_of_row
    return None if registry.is_late(instants) else registry.open_window(slot, own, instants)


def _merges(assigner: Assigner, windows: Iterable[tuple[int, int]]) -> list[Merged]:
    """(windows, what they become) for all that change; windows: those of a key, and a row's own.

    Raises DataError if the assigner fails, or if what it says is no partition of the windows.
    """
    # In order, so that a user's assigner sees the same in each run.
    windows_of_key = sorted({Window(*window) for window in windows})
    merges: list[Merged] = []

    def merge(parts: Sequence[Window], whole: Window) -> None:
        merges.append(([Window(*part) for part in parts], Window(*whole)))

    try:
        assigner.merge_windows(windows_of_key, merge)
    except AggloomError:
        raise
    except Exception as error:
        raise DataError(
            f"assigner {assigner.text} failed in merge_windows: {type(error).__name__}: {error}"
        ) from error
    left = set(windows_of_key)
    for parts, whole in merges:
        if not parts or not set(parts) <= left or len(set(parts)) < len(parts):
            raise _wrong(assigner, f"{parts} are not all windows that were given, each once")
        left -= set(parts)
        if whole.start >= whole.end:
            raise _wrong(assigner, f"{whole} has no time in it")
    result = [whole for _, whole in merges]
    if len({*result, *left}) < len(result) + len(left):
        raise _wrong(assigner, "two of the windows that result are the same")
    # A window that becomes itself needs no merge.
    return [(parts, whole) for parts, whole in merges if parts != [whole]]


def _wrong(assigner: Assigner, what: str) -> DataError:
    return DataError(f"assigner {assigner.text}: merge_windows: {what}")
