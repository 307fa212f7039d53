"""A bank whose transfers write two tables: topics of a Debezium that tells of them, on a real broker."""

from __future__ import annotations

import json
import random
from typing import Any

TOTALS = "SELECT a.id AS id, a.v + b.v AS total FROM a JOIN b ON a.id = b.id"
"""The sum that each account has in both tables, which no transfer changes."""
TOTAL = 100
_ACCOUNTS = 5


class Bank:
    """Accounts in two tables, and topics that a Debezium has told of them; a transfer moves money between the two."""

    def __init__(self, broker: Any, prefix: str) -> None:
        self.broker, self.prefix, self.rng = broker, prefix, random.Random(prefix)
        self.held = {(table, id): 50 for table in "ab" for id in range(_ACCOUNTS)}
        self.ends = f"{prefix}.transaction"
        self.number = 0
        self.queued: dict[str, list[Any]] = {}
        for name in (*map(self.topic, "ab"), self.ends):
            # Of `a` two partitions, so that shares of the topics are not alike.
            broker.topic(name, 2 if name == self.topic("a") else 1)
        for (table, id), v in self.held.items():
            body = {"op": "r", "before": None, "after": {"id": id, "v": v}, "transaction": None}
            self.send(table, id, body)

    def topic(self, table: str) -> str:
        """The topic of a table."""
        return f"{self.prefix}.public.{table}"

    def send(self, table: str, id: int, body: Any) -> None:
        """Queue an envelope of a table, with its schema as Connect may write it."""
        wrapped = json.dumps({"schema": {"type": "struct"}, "payload": body})
        place = id % 2 if table == "a" else 0
        queued = self.queued.setdefault(self.topic(table), [])
        queued.append((json.dumps({"id": id}), wrapped, place))

    def flush(self) -> None:
        """Send what is queued."""
        for topic, messages in self.queued.items():
            self.broker.send(topic, *messages)
        self.queued.clear()

    def transfer(self, *parts: str) -> None:
        """Move money between the tables; parts: what is sent now of `a`, `b` and `end`, all without one."""
        if not parts or "a" in parts:
            self.number += 1
            self.id, self.amount = self.rng.randrange(_ACCOUNTS), self.rng.randrange(1, 20)
        key = f"{700 + self.number}:{self.number}"
        for order, table in enumerate("ab", 1):
            if parts and table not in parts:
                continue
            was = self.held[table, self.id]
            now = self.held[table, self.id] = was + (self.amount if table == "b" else -self.amount)
            mark = {"id": key, "total_order": order, "data_collection_order": 1}
            rows = {"before": {"id": self.id, "v": was}, "after": {"id": self.id, "v": now}}
            self.send(table, self.id, {"op": "u", **rows, "transaction": mark})
        if not parts or "end" in parts:
            listed = [{"data_collection": f"public.{t}", "event_count": 1} for t in "ab"]
            end = {"status": "END", "id": key, "event_count": 2, "data_collections": listed}
            self.queued.setdefault(self.ends, []).append(json.dumps(end))
