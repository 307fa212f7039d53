"""One operator that has seen a sample, as it will be after all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aggloom.runtime.sizing.distinct_keys import expect_distinct
from aggloom.runtime.sizing.report import OperatorEstimate, PartEstimate
from aggloom.runtime.sizing.state_counts import Entries, Holdings, holdings_of
from aggloom.runtime.storage.arena import Array


class Grown:
    """An operator that has seen a sample, as it will be after `factor` times as many rows, or with `keys` keys."""

    def __init__(
        self,
        operator: Any,
        described: dict[str, Any],
        factor: float,
        keys: int | None,
        by_rows: bool,
    ) -> None:
        self.operator, self.described, self.state = operator, described, described["state"]
        self.holdings = holdings_of(operator)
        self.sampled_keys = self.holdings[0].keys
        self.factor, self.by_rows = factor, by_rows or keys is None
        self.keys = self._keys() if keys is None else keys
        # With a number of keys, everything else grows in proportion to them.
        if not self.by_rows:
            self.factor = self.keys / max(1, self.sampled_keys)

    def estimate(self, buckets: int) -> OperatorEstimate:
        now, later = self._parts(grown=False), self._parts(grown=True)
        before, after = (sum(part.bytes for part in parts) for parts in (now, later))
        # The plain backend has no bytes of a key: its objects are measured by their snapshot alone.
        compiled = self.state["bytes_per_key"] is not None
        ratio = after / max(1, before) if compiled else self.keys / max(1, self.sampled_keys)
        return OperatorEstimate(
            id=self.described["id"],
            node=self.described["node"],
            bounded_by=tuple(self.state["bounded_by"]),
            per=self.state.get("per", "key"),
            keys=self.keys,
            keys_in_sample=self.sampled_keys,
            bytes=after if compiled else None,
            # A larger state has no smaller snapshot, even where the rounded estimate is.
            checkpoint_bytes=round(len(self.operator.snapshot()) * max(1.0, ratio)),
            buckets=buckets,
            parts=later if compiled else (),
        )

    def _keys(self) -> int:
        # A global aggregate has its one row however long it runs.
        if not self.described["keys"] and "per" not in self.state:
            return self.sampled_keys
        return round(_more(self.holdings[0].met, self.sampled_keys, self.factor))

    def _parts(self, *, grown: bool) -> tuple[PartEstimate, ...]:
        """Estimate the parts of all states, in the sample or, if `grown`, later."""
        if self.state["bytes_per_key"] is None:
            return ()
        by_key = {part["name"]: part["bytes_per_key"] for part in self.state["parts"]}
        # Last emitted results are a state of their own, with keys of its own.
        emitted = by_key.pop("emitted", 0)
        parts: list[PartEstimate] = []
        for place, holdings in enumerate(self.holdings):
            # Keys of the second state keep their ratio to those of the first.
            scale = self.keys / max(1, self.sampled_keys) if grown else 1.0
            name, each = ("emitted", emitted) if place else ("keys", sum(by_key.values()))
            number = round(holdings.keys * scale)
            parts.append(PartEstimate(name, number, number * each))
            parts += self._inside(holdings, number, self.factor if grown else 1.0)
        return tuple(_add_parts(parts))

    def _inside(self, holdings: Holdings, keys: int, factor: float) -> Iterator[PartEstimate]:
        """The entries of views, and texts."""
        # A text may have several holders, so the number of holders grows first, and texts follow from it.
        texts, holders = (float(holdings.texts_by_key * number) for number in (holdings.keys, keys))
        for part in self.state["parts"]:
            if "entries" not in part:
                continue
            view = holdings.views[part["name"]]
            number = round(self._entries(view, keys, factor))
            own = view.text_bytes / max(1, view.live)
            yield PartEstimate(
                part["name"], number, round(number * (part["bytes_per_entry"] + own))
            )
            # Entries of pooled views are holders too, each of one text for each pooled word.
            texts, holders = texts + view.pooled * view.live, holders + view.pooled * number
        if self.state["texts"] and len(holdings.texts):
            number = round(expect_distinct(holdings.texts, holders / max(1.0, texts)))
            length = holdings.text_bytes / len(holdings.texts)
            size = self.state["bytes_per_text"] + length
            yield PartEstimate("texts", number, round(number * size))

    def _entries(self, view: Entries, keys: int, factor: float) -> float:
        number = _more(view.met if self.by_rows else None, view.live, factor)
        # A sketch is bounded for each key, and its entries do not grow beyond that.
        return number if view.most is None else min(number, float(max(view.live, keys * view.most)))


def _more(met: Array | None, live: int, factor: float) -> float:
    """Estimate the number of things there will be; without counts of their rows (None), they grow as rows do."""
    return live * factor if met is None else expect_distinct(met, factor)


def _add_parts(parts: list[PartEstimate]) -> list[PartEstimate]:
    """Parts of the same name as one."""
    parts_by_name: dict[str, PartEstimate] = {}
    for part in parts:
        had = parts_by_name.get(part.name, replace(part, number=0, bytes=0))
        parts_by_name[part.name] = replace(
            part, number=had.number + part.number, bytes=had.bytes + part.bytes
        )
    return list(parts_by_name.values())
