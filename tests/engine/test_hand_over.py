"""A checkpoint that is written for another engine: the rows of each bucket, in whatever order the buckets come."""

from __future__ import annotations

from pathlib import Path

from aggloom.runtime.engine.hand_over import BucketState, HandOver, states_of, write_checkpoint


def test_buckets_come_in_any_order(tmp_path: Path) -> None:
    """Another engine reads its operators in an order of its own."""
    below = BucketState((1, 0), "head of 1.0", [b"aa"])
    above = BucketState((0, 1), "head of 0.1", [b"b", b"ccc"])
    write_checkpoint(tmp_path / "moved", HandOver("an id", 3), [below, above])
    assert [*states_of(tmp_path / "moved")] == [above, below]
