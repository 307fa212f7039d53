"""Windows as a picture: rows, windows, merges, watermarks and firings on a time axis, as SVG for light and dark pages.

A lane for each key: rows as dots over a line, below them their windows as bars that end with what they gave out; of windows
that are not of time, brackets under the rows of each firing. Below the lanes of event time, rows in the order in which
they came, and the watermark: what comes to the left of it comes too late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aggloom.codegen.planner import Plan
from aggloom.errors import AggloomError, nearest
from aggloom.runtime.pipeline import Handlers
from aggloom.runtime.windows.timeline_axis import Axis, OrderAxis, TimeAxis, moment
from aggloom.runtime.windows.timeline_lanes import Lane, key_text
from aggloom.runtime.windows.timeline_marks import circle, clipped, diamond, line, path, rect, text
from aggloom.runtime.windows.timeline_story import Story, story_of
