"""Internal consistency: a bank whose transfers are booked twice has a total of 0 after every batch, in every plan."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from aggloom.runtime.local.harness import Harness

LEDGER = """
    WITH entries AS (
        SELECT payer AS account, -amount AS amount FROM transfers
        UNION ALL
        SELECT payee, amount FROM transfers
    ),
    balances AS (SELECT account, SUM(amount) AS balance, COUNT(*) AS bookings FROM entries GROUP BY account)
"""
TOTAL = LEDGER + "SELECT SUM(balance) AS total, SUM(bookings) AS bookings FROM balances"
BALANCES = LEDGER + "SELECT account, balance FROM balances"
SPREAD = LEDGER + (
    "SELECT balance > 0 AS rich, COUNT(DISTINCT balance) AS different, SUM(balance) AS total, "
    "MAX(balance) AS top FROM balances GROUP BY balance > 0"
)
SCHEMA = "id INT, payer INT, payee INT, amount {}"
PLANS: dict[str, dict[str, Any]] = {
    "per record": {"mini_batch_enabled": False},
    "one phase": {"agg_phase_strategy": "ONE_PHASE"},
    "two phases": {"on_orphan_retraction": "keep"},
    "split": {"distinct_agg_split_enabled": True, "incremental_agg_enabled": False},
    "incremental": {
        "distinct_agg_split_enabled": True,
        "distinct_agg_split_bucket_num": 3,
        "on_orphan_retraction": "keep",
    },
}
Change = tuple[Any, ...]


def batches(seed: int) -> list[list[Change]]:
    """Transfers that come, are corrected and go."""
    rng = random.Random(seed)
    live: dict[int, Change] = {}
    out = []
    for _ in range(8):
        batch: list[Change] = []
        for _ in range(rng.randint(0, 12)):
            if live and rng.random() < 0.5:
                number = rng.choice(sorted(live))
                old = live.pop(number)
                if rng.random() < 0.5:
                    batch.append(("-D", *old))
                    continue
                batch.append(("-U", *old))
                live[number] = (number, *_transfer(rng))
                batch.append(("+U", *live[number]))
            else:
                number = len(out) * 100 + len(batch)
                live[number] = (number, *_transfer(rng))
                batch.append(("+I", *live[number]))
        out.append(batch)
    return out


def _transfer(rng: random.Random) -> tuple[int, int, float]:
    return rng.randint(1, 5), rng.randint(1, 5), rng.choice([1, 2, 5, 0.25])


def balances(changes: list[Change]) -> dict[int, float]:
    """Add up the bookings of each account that has any."""
    sums: Counter[int] = Counter()
    rows: Counter[int] = Counter()
    for kind, _, payer, payee, amount in changes:
        sign = -1 if kind in ("-U", "-D") else 1
        for account, booked in ((payer, -amount), (payee, amount)):
            sums[account] += sign * booked
            rows[account] += sign
    return {account: sums[account] for account, count in rows.items() if count}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("amount", ["DOUBLE", "DECIMAL(10,2)"])
@pytest.mark.sampled(4)
def test_the_total_is_zero_after_every_batch(plan: str, amount: str) -> None:
    schema = {"transfers": SCHEMA.format(amount)}
    for seed in range(3):
        options = {"backend": "python", "buckets": seed + 1, "partitions": 3 - seed, **PLANS[plan]}
        opened = {
            sql: Harness.from_sql(sql, schema, **options) for sql in (TOTAL, BALANCES, SPREAD)
        }
        so_far: list[Change] = []
        for batch in batches(seed):
            so_far += batch
            for harness in opened.values():
                harness.process([(*row[:4], _money(row[4], amount)) for row in batch])
                harness.flush()
            expected = balances(so_far)
            rows = sum(-1 if row[0] in ("-U", "-D") else 1 for row in so_far)
            assert opened[TOTAL].table() == [(0, 2 * rows) if rows else (None, None)]
            assert dict(opened[BALANCES].table()) == expected
            assert opened[SPREAD].table() == _spread(expected)


def _money(value: float, amount: str) -> Any:
    from decimal import Decimal

    return Decimal(str(value)) if amount.startswith("DECIMAL") else float(value)


def _spread(expected: dict[int, float]) -> list[tuple[Any, ...]]:
    found = []
    for rich in (False, True):
        group = [balance for balance in expected.values() if (balance > 0) == rich]
        if group:
            found.append((rich, len(set(group)), sum(group), max(group)))
    return found
