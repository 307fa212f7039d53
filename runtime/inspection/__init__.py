"""Inspection of the state of an operator, and replay of the changes that led to it; it does not depend on Spark."""

from __future__ import annotations

from aggloom.runtime.inspection.description import FragmentDescription
from aggloom.runtime.inspection.facts import BucketSize, KeyState, OperatorState, PartContents
from aggloom.runtime.inspection.heaviest import Heaviest, KeyWeight, KeyWindow, weigh
from aggloom.runtime.inspection.keys import WindowFilter, bucket_of, nearest_keys, split_key
from aggloom.runtime.inspection.parts import describe_parts, keys_of, parts_of
from aggloom.runtime.inspection.replay import ReplayedEntry, replay, times
from aggloom.runtime.inspection.report import StateReport, Why

__all__ = [
    "BucketSize",
    "FragmentDescription",
    "Heaviest",
    "KeyState",
    "KeyWeight",
    "KeyWindow",
    "OperatorState",
    "PartContents",
    "ReplayedEntry",
    "StateReport",
    "Why",
    "WindowFilter",
    "bucket_of",
    "describe_parts",
    "keys_of",
    "nearest_keys",
    "parts_of",
    "replay",
    "split_key",
    "times",
    "weigh",
]
