"""The net change of each key in a batch, for any changes of any types, beside a plain model."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.sinks.net import net_by_key
from aggloom.runtime.values.changelog import ChangelogLawError, same_value

NAN, NOON = float("nan"), dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
TYPES: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "i": (pa.int32(), (1, 2, -1, None)),
    "b": (pa.bool_(), (True, False, None)),
    "s": (pa.string(), ("", "a", "é", "z", None)),
    "y": (pa.binary(), (b"", b"\0", b"\xff", None)),
    "f": (pa.float64(), (0.0, -0.0, NAN, 1.5, float("inf"), None)),
    "d": (pa.decimal128(10, 2), (Decimal("1.00"), Decimal("-2.50"), None)),
    "day": (pa.date32(), (dt.date(2020, 1, 1), dt.date(1, 1, 1), None)),
    "at": (pa.timestamp("us", "UTC"), (NOON, NOON.replace(hour=1), None)),
    "clock": (pa.time64("us"), (dt.time(1), None)),
    "list": (pa.list_(pa.int32()), ([1], [], [None], None)),
    "map": (pa.map_(pa.string(), pa.int32()), ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)], None)),
    "row": (pa.struct([("a", pa.float64())]), ({"a": 0.0}, {"a": -0.0}, {"a": None}, None)),
}


def model(changes: list[tuple[int, Any, Any]], has_old_rows: bool) -> dict[Any, Any]:
    """The key and row of each key that changes, by what equals it; raises ChangelogLawError."""
    weights: dict[Any, int] = {}
    shown: dict[Any, Any] = {}
    found: dict[Any, Any] = {}
    for kind, key, row in changes:
        same = same_value(key)
        if has_old_rows:
            both = same, same_value(row)
            weights[both] = weights.get(both, 0) + (-1 if kind & 1 else 1)
            shown[both] = key, row
        elif kind != 1:
            found[same] = (key, None if kind == 3 else row)
    for both, weight in sorted(weights.items(), key=lambda each: each[1]):
        if weight > 1 or (weight > 0 and found.get(both[0], (None, None))[1] is not None):
            raise ChangelogLawError("several rows")
        if weight > 0 or (weight < 0 and both[0] not in found):
            found[both[0]] = (shown[both][0], None if weight < 0 else shown[both][1])
    return found


def test_any_changes_of_any_types() -> None:
    draw, refused, kept = random.Random(3), 0, 0
    for _ in range(600):
        names = draw.sample(list(TYPES), draw.randint(1, 4))
        schema = pa.schema([(name, TYPES[name][0]) for name in names])
        key = draw.sample(names, draw.randint(0, min(2, len(names))))
        count, before = draw.randint(0, 12), draw.random() < 0.5
        rows = [tuple(draw.choice(TYPES[name][1]) for name in names) for _ in range(count)]
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        table, cut = pa.table(arrays, schema=schema), draw.randint(0, count)
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
        kinds = np.array([draw.randrange(4) for _ in range(count)], np.int8)
        read = list(zip(*(c.to_pylist() for c in table.columns), strict=True))
        told = [
            (int(kind), tuple(row[names.index(name)] for name in key), row)
            for kind, row in zip(kinds, read, strict=True)
        ]
        try:
            wanted = model(told, before)
        except ChangelogLawError:
            wanted = None
        try:
            found = net_by_key(table, kinds, key, before, "t")
        except ChangelogLawError as error:
            assert wanted is None and "has several rows" in str(error)
            refused += 1
            continue
        assert wanted is not None
        kept += len(found)
        assert sorted(map(repr, found)) == sorted(
            f"NetRow(key={k!r}, row={r!r})" for k, r in wanted.values()
        )
        at = [each.key[0] for each in found if key and each.key[0] == each.key[0]]
        if key and key[0] not in ("list", "map", "row"):
            there = [value for value in at if value is not None]
            assert at == [None] * (len(at) - len(there)) + sorted(there)
    assert refused > 50 and kept > 500
