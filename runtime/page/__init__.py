"""A page about checkpoints: their plans, batches, state and keys, for people, and numbers for Prometheus."""

from __future__ import annotations

from aggloom.runtime.page.background_reads import BackgroundReads
from aggloom.runtime.page.checkpoints import Checkpoints, Watched
from aggloom.runtime.page.report import write_report
from aggloom.runtime.page.server import PageServer

__all__ = ["BackgroundReads", "Checkpoints", "PageServer", "Watched", "write_report"]
