"""The planner's options: Flink's names, this package's keywords, and how a value is read, in one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from aggloom.codegen.planner.flink_options import warn_ignored, why_ignored
from aggloom.codegen.spec.choices import OrphanPolicy
from aggloom.codegen.spec.durations import milliseconds
from aggloom.codegen.windows.zones import check_zone
from aggloom.errors import OptionError, nearest

PhaseStrategy = Literal["AUTO", "ONE_PHASE", "TWO_PHASE"]
AddedCalls = Literal["refuse", "empty"]
AddedColumns = Literal["refuse", "ignore", "carry"]
MultiJoins = Literal["AUTO", "TRUE", "FALSE"]


@dataclass(frozen=True)
class PlanOptions:
    """The options by which a query is to be run; durations in milliseconds.

    mini_batch_enabled: one change for a key and bundle; without it, one for every row. A bundle ends after
    mini_batch_size rows, with a watermark, after mini_batch_allow_latency, and at the end of the input; on Spark a
    micro-batch is a bundle. agg_phase_strategy: whether rows are aggregated before the exchange. distinct_agg_split_*:
    whether DISTINCT is spread over so many buckets a key. incremental_agg_enabled: whether the halves of a split
    aggregate that meet become one node. state_ttl: after how long without a change a key is forgotten; 0 is never.
    update_before: whether updates of the result come with the row that they replace. on_orphan_retraction: what
    becomes of a retraction from a key without rows: dropped and counted, an error, or kept as a negative count.
    fragments_enabled: whether operators whose rows can lie by the same columns run in one stateful node.
    added_calls: what becomes of a call that a checkpoint does not know, over rows that may be retracted: it is
    refused, or counts changes from now on.
    added_columns: what becomes of columns that tables have gained since a checkpoint was begun, where they come into
    the result: they are refused, left out as before, or carried along, NULL in the rows from before.

    Of Deduplicate: deduplicate_compact_changes: whether a bundle tells of a key's row by event time only what became
    of it in the end, and not every row that it had in between. deduplicate_insert: whether the first row of a key is
    distinguished from later ones, +I from +U, where updates come without -U. deduplicate_insert_only: whether the first
    row by event time waits for the watermark and then stays; rows behind the watermark are dropped.
    over_insert_only: whether window functions over insertions in order of one time wait for the watermark, which then
    gives each row out once; rows behind it are dropped.

    Of windows in SQL: early_fire_*, late_fire_*: whether a window emits results before its end and after it, and
    how long after the row that changes them; 0 is with every row. allow_lateness: how long after its end a window
    still takes rows. local_time_zone: on whose clocks windows over instants lie. source_idle_timeout: after how long
    without rows a source holds back the watermark no more; 0 is never. late_rows: whether rows that arrive too late for
    the windows of the last aggregate, or for the first row by event time, are handed out. rank_cache_size: taken so
    that Flink's scripts run; ranks have no cache beside their state, so that it changes nothing.

    join_match_limit: how many joined rows a join may retract and emit in one bundle; beyond it is an error that
    names the key most of them come from. join_spread_buckets: over how many buckets the rows of one join key are
    spread, where an aggregate stands above an inner join; 1 is over none. multi_join_enabled: whether joins that follow
    one another on one key become one operator without intermediate results; AUTO: in bundles, unless several inputs
    have several rows a key and a further condition drops pairs of them.
    """

    mini_batch_enabled: bool = True
    mini_batch_allow_latency: int = 0
    mini_batch_size: int = -1
    agg_phase_strategy: PhaseStrategy = "AUTO"
    distinct_agg_split_enabled: bool = False
    distinct_agg_split_bucket_num: int = 1024
    incremental_agg_enabled: bool = True
    state_ttl: int = 0
    update_before: bool = True
    fragments_enabled: bool = True
    on_orphan_retraction: OrphanPolicy = "drop"
    added_calls: AddedCalls = "refuse"
    added_columns: AddedColumns = "refuse"
    deduplicate_compact_changes: bool = True
    deduplicate_insert: bool = True
    deduplicate_insert_only: bool = False
    over_insert_only: bool = False
    early_fire_enabled: bool = False
    early_fire_delay: int = 0
    late_fire_enabled: bool = False
    late_fire_delay: int = 0
    allow_lateness: int = 0
    local_time_zone: str = "UTC"
    source_idle_timeout: int = 0
    late_rows: bool = False
    rank_cache_size: int = 10_000
    join_match_limit: int = 50_000_000
    join_spread_buckets: int = 1
    multi_join_enabled: MultiJoins = "AUTO"
    recursion_limit: int = 0

    @classmethod
    def of(cls, options: Mapping[str, Any], **keywords: Any) -> PlanOptions:
        """The options of a mapping by either name, and of keywords; raises OptionError naming the option."""
        if not isinstance(options, Mapping):
            raise OptionError(
                f"options is {options!r}; give a mapping, as in {{'state_ttl': '1 h'}}."
            )
        return cls().with_options({**options, **keywords})

    def with_options(self, options: Mapping[str, Any]) -> PlanOptions:
        """These options with others in place of some; a warning names those of Flink that mean nothing here."""
        changes = {}
        for name, value in options.items():
            keyword = FLINK_NAMES.get(str(name).lower(), name)
            why = None if keyword in _READERS else why_ignored(str(name), value)
            if why is not None:
                warn_ignored(str(name), why)
                continue
            if keyword not in _READERS:
                known = FLINK_NAMES if "." in str(name) else _READERS
                raise OptionError(f"there is no option {name!r}. {nearest(name, known)}")
            changes[keyword] = _READERS[keyword](name, value)
        return replace(self, **changes)

    @property
    def watermark_interval(self) -> int:
        """The milliseconds of a mini-batch, for whose end watermarks wait; 0: they do not."""
        return self.mini_batch_allow_latency if self.mini_batch_enabled else 0

    @property
    def changed_options(self) -> dict[str, Any]:
        """Options that differ from the defaults, by Flink's names."""
        flink = {keyword: name for name, keyword in FLINK_NAMES.items()}
        return {
            flink.get(field.name, field.name): getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


FLINK_NAMES = {
    "table.exec.mini-batch.enabled": "mini_batch_enabled",
    "table.exec.mini-batch.allow-latency": "mini_batch_allow_latency",
    "table.exec.mini-batch.size": "mini_batch_size",
    "table.optimizer.agg-phase-strategy": "agg_phase_strategy",
    "table.optimizer.distinct-agg.split.enabled": "distinct_agg_split_enabled",
    "table.optimizer.distinct-agg.split.bucket-num": "distinct_agg_split_bucket_num",
    "table.optimizer.incremental-agg-enabled": "incremental_agg_enabled",
    "table.exec.state.ttl": "state_ttl",
    "table.exec.deduplicate.mini-batch.compact-changes-enabled": "deduplicate_compact_changes",
    "table.exec.deduplicate.insert-update-after-sensitive-enabled": "deduplicate_insert",
    "table.exec.emit.early-fire.enabled": "early_fire_enabled",
    "table.exec.emit.early-fire.delay": "early_fire_delay",
    "table.exec.emit.late-fire.enabled": "late_fire_enabled",
    "table.exec.emit.late-fire.delay": "late_fire_delay",
    "table.exec.emit.allow-lateness": "allow_lateness",
    "table.optimizer.multi-join.enabled": "multi_join_enabled",
    "table.local-time-zone": "local_time_zone",
    "table.exec.source.idle-timeout": "source_idle_timeout",
    "table.exec.topn.cache-size": "rank_cache_size",
    "table.exec.rank.topn-cache-size": "rank_cache_size",
}


def _flag(name: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name} is {value!r}; it must be true or false.")
    return text == "true"


def _count(least: int) -> Callable[[str, Any], int]:
    def parse(name: str, value: Any) -> int:
        text = str(value).strip()
        if not re.fullmatch(r"-?\d+", text) or int(text) < least:
            raise OptionError(f"{name} is {value!r}; it must be a whole number from {least} on.")
        return int(text)

    return parse


def _choice(kind: Any, spelled: Callable[[str], str]) -> Callable[[str, Any], str]:
    def parse(name: str, value: Any) -> str:
        text = spelled(str(value).strip())
        if text not in get_args(kind):
            raise OptionError(f"{name} is {value!r}. {nearest(text, get_args(kind))}")
        return text

    return parse


def _length(name: str, value: Any) -> int:
    ms = milliseconds(name, value)
    if ms < 0:
        raise OptionError(f"{name} is {value!r}; it must be a duration that is not negative.")
    return ms


def _zone(name: str, value: Any) -> str:
    # A zone that nobody knows would otherwise fail with the first row.
    return check_zone(str(value).strip())


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "mini_batch_enabled": _flag,
    "mini_batch_allow_latency": _length,
    "mini_batch_size": _count(-1),
    "agg_phase_strategy": _choice(PhaseStrategy, str.upper),
    "distinct_agg_split_enabled": _flag,
    "distinct_agg_split_bucket_num": _count(1),
    "incremental_agg_enabled": _flag,
    "state_ttl": _length,
    "update_before": _flag,
    "fragments_enabled": _flag,
    "on_orphan_retraction": _choice(OrphanPolicy, str.lower),
    "added_calls": _choice(AddedCalls, str.lower),
    "added_columns": _choice(AddedColumns, str.lower),
    "deduplicate_compact_changes": _flag,
    "deduplicate_insert": _flag,
    "deduplicate_insert_only": _flag,
    "over_insert_only": _flag,
    "early_fire_enabled": _flag,
    "early_fire_delay": _length,
    "late_fire_enabled": _flag,
    "late_fire_delay": _length,
    "allow_lateness": _length,
    "local_time_zone": _zone,
    "source_idle_timeout": _length,
    "late_rows": _flag,
    "rank_cache_size": _count(1),
    "join_match_limit": _count(1),
    "join_spread_buckets": _count(1),
    "multi_join_enabled": _choice(MultiJoins, str.upper),
    "recursion_limit": _count(0),
}
