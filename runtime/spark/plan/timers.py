"""The timers of Spark that a fragment has, which Spark fixes for the life of a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from aggloom.checkpoint_file import read_text
from aggloom.errors import StateMismatchError
from aggloom.runtime.hosting.checkpoint_paths import local
from aggloom.runtime.operators.base import TimeMode
from aggloom.runtime.operators.fragment import FragmentSpec

_MODE = re.compile(r'\\"timeMode\\":\\"(\w+)\\"')
_CLOCK = "ProcessingTime"


def is_stamped(fragment: FragmentSpec, awaits_watermark: bool) -> bool:
    """Tell whether a fragment's times to live go by the times of batches, for want of timers.

    Windows by the watermark need batches without rows, for which timers by the clock would ask without end.
    """
    return bool(fragment.ttls) and awaits_watermark


def time_mode(fragment: FragmentSpec, awaits_watermark: bool) -> TimeMode:
    """Return the timers of a fragment of a query that streams."""
    return "None" if is_stamped(fragment, awaits_watermark) else fragment.time_mode


def check_timers(
    checkpoint: str | Path, fragments: Sequence[FragmentSpec], awaits_watermark: bool
) -> None:
    """Raise StateMismatchError where a state in a local checkpoint has timers by the clock and the query has none."""
    if not any(is_stamped(each, awaits_watermark) for each in fragments):
        return
    root = local(checkpoint)
    noted_modes = []
    for directory in root.glob("state/*/_metadata/v*"):
        files = sorted(directory.glob("[0-9]*"), key=lambda file: int(file.name))
        noted_modes += _MODE.findall(read_text(root, files[-1])) if files else []
    modes: list[str] = [time_mode(each, awaits_watermark) for each in fragments]
    if noted_modes.count(_CLOCK) > modes.count(_CLOCK):
        raise StateMismatchError(
            f"{checkpoint}: its state was written with timers by the clock, for a time to live beside windows in event "
            "time. The query has no such timers now, and Spark does not change them in a checkpoint. Read the input "
            "again with an empty checkpoint directory, or run the version that wrote this one."
        )
