"""A query over rolling horizons with random changes for it, and its table at each watermark from all rows."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROLLING = """TABLE(ROLLING(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE,
    INTERVAL '10' MINUTE, INTERVAL '1' HOUR))"""
QUERY = f"""SELECT k, SUM(v) FILTER (WHERE horizon = '10 minutes') AS short,
    COUNT(*) FILTER (WHERE horizon = '1 hour') AS n, MAX(v) FILTER (WHERE horizon = '1 hour') AS top
  FROM {ROLLING} GROUP BY k"""
COLUMNS = ("k", "short", "n", "top")
START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
DELAY, STEP = 3, 5
Change = tuple[str, str, int, int]
Row = tuple[Any, ...]


def random_batches(seed: int, count: int) -> Iterator[tuple[list[Change], list[Row]]]:
    """Yield the changes of each batch, and the table at the watermark that they bring."""
    draw, rows, now, newest = random.Random(seed), list[tuple[str, int, int]](), 0, 0
    for _ in range(count):
        changes: list[Change] = []
        for _ in range(draw.randint(1, 4)):
            if rows and draw.random() < 0.3:
                changes.append(("-D", *rows.pop(draw.randrange(len(rows)))))
                continue
            # Some rows come late, and are in a horizon still.
            row = draw.choice("xyz"), draw.randrange(9), max(0, now - draw.choice([0, 1, 20, 50]))
            rows.append(row)
            changes.append(("+I", *row))
        newest = max(newest, *(change[3] for change in changes))
        yield changes, expected(rows, newest)
        now += draw.choice([0, 4, 11, 75])


def expected(rows: list[tuple[str, int, int]], newest: int) -> list[Row]:
    """The table of QUERY when the newest row was of that minute."""
    edge = (newest - DELAY) // STEP * STEP
    found = []
    for key in sorted({k for k, _, _ in rows}):
        hour, short = (
            [v for k, v, at in rows if k == key and edge - length <= at < edge]
            for length in (60, 10)
        )
        if hour:
            found.append((key, sum(short) if short else None, len(hour), max(hour)))
    return found


def write_batch(folder: Path, number: int, changes: list[Change]) -> None:
    """Write a file of changes, later than those before it."""
    folder.mkdir(exist_ok=True)
    kinds = {"+I": "insert", "-D": "delete"}
    lines = []
    for kind, k, v, minute in changes:
        ts = (START + dt.timedelta(minutes=minute)).isoformat()
        lines.append(json.dumps({"k": k, "v": v, "ts": ts, "_change_type": kinds[kind]}) + "\n")
    file = folder / f"{number:03d}.json"
    file.write_text("".join(lines))
    os.utime(file, (1_700_000_000 + number,) * 2)
