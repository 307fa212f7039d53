"""The settings by which the stateful nodes of a query are hosted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostSettings:
    """Hosting of a plan: buckets (None: twice the shuffle partitions), where live state is, the words for kinds.

    state_limit: how many bytes the directory for live state may take (None: by the host's settings).
    """

    buckets: int | None = None
    state_directory: str | None = None
    profile: str = "spark"
    state_limit: int | None = None
