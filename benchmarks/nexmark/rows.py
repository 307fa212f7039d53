"""The rows of a block of events: persons, auctions and bids as Arrow tables, drawn from a seed, a column at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Draw = np.random.Generator

EPOCH, PERSONS, AUCTIONS = 50, 1, 3
"""Numbers of events in fifty: one person and three auctions; the others are bids."""
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1_000, 10, 5
START = 1_714_607_990_000
"""2024-05-01 23:59:50: ten seconds in, a day begins."""
DISORDER, DISORDERED = 2_000, 0.2
"""A fifth of the events carry a time that is up to so many milliseconds too early."""
IN_FLIGHT, ACTIVE, HOT_EVERY = 100, 1_000, 100
"""Auctions that are bid on, people who act, and of how many ids one is hot."""
HOT_AUCTION, HOT_BIDDER, HOT_SELLER, HOT_CHANNEL = 0.5, 0.75, 0.75, 0.5
INSTANT = pa.timestamp("us", "UTC")

_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
_FIRST = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon", "Kay", "Lou")
_LAST = ("Abel", "Blum", "Cole", "Dorn", "Egan", "Frost", "Gray", "Hahn", "Ives")
_CHANNELS = ("google", "facebook", "baidu", "apple", "Google", "FACEBOOK", "Baidu", "Apple")
"""The hot ones; some stand in capitals."""
_OTHERS = 10_000


def moments(draw: Draw, numbers: Ints, rate: int) -> Ints:
    """The time that each event carries, in milliseconds."""
    early = draw.integers(1, DISORDER, len(numbers)) * (draw.random(len(numbers)) < DISORDERED)
    times: Ints = START + numbers * 1000 // rate - early
    return times


def persons(draw: Draw, numbers: Ints, times: Ints) -> pa.Table:
    """Those who come in; the id says the order."""
    count = len(numbers)
    first = draw.integers(0, len(_FIRST), count)
    last = draw.integers(0, len(_LAST), count)
    names = _pick([f"{a} {b}" for a in _FIRST for b in _LAST], first * len(_LAST) + last)
    mails = [f"{a}.{b}@example.org".lower() for a in _FIRST for b in _LAST]
    cards = [f"{draw.integers(0, 10**4):04}" for _ in range(1_000)]
    groups = [_pick(cards, draw.integers(0, len(cards), count)) for _ in range(4)]
    return pa.table(
        {
            "id": FIRST_ID + numbers // EPOCH,
            "name": names,
            "email": _pick(mails, first * len(_LAST) + last),
            "credit_card": pa.compute.binary_join_element_wise(*groups, " "),
            "city": _pick(_CITIES, draw.integers(0, len(_CITIES), count)),
            "state": _pick(_STATES, draw.integers(0, len(_STATES), count)),
            "date_time": _instants(times),
            "extra": _letters(draw, count, 90, 150),
        }
    )


def auctions(draw: Draw, numbers: Ints, times: Ints, rate: int) -> pa.Table:
    """Draw the auctions: their items, sellers and ends."""
    count = len(numbers)
    last = numbers // EPOCH
    seller = _by_people(draw, last, HOT_SELLER, 0)
    initial = _prices(draw, count)
    return pa.table(
        {
            "id": FIRST_ID + last * AUCTIONS + numbers % EPOCH - PERSONS,
            "item_name": _letters(draw, count, 5, 20),
            "description": _letters(draw, count, 50, 100),
            "initial_bid": initial,
            "reserve": initial + _prices(draw, count),
            "date_time": _instants(times),
            "expires": _instants(times + 1 + draw.integers(0, 2 * lifetime(rate), count)),
            "seller": FIRST_ID + seller,
            "category": categories(draw, count),
            "extra": _letters(draw, count, 220, 330),
        }
    )


def bids(draw: Draw, numbers: Ints, times: Ints) -> pa.Table:
    """Who bids how much on what, and where they saw it; `id` is the event's number."""
    count = len(numbers)
    epoch = numbers // EPOCH
    newest = (epoch + 1) * AUCTIONS - 1
    spread = newest - (draw.random(count) * np.minimum(newest + 1, IN_FLIGHT)).astype(np.int64)
    hot = draw.random(count) < HOT_AUCTION
    auction = np.where(hot, newest // HOT_EVERY * HOT_EVERY, spread)
    known = draw.random(count) < HOT_CHANNEL
    channel = np.where(
        known,
        draw.integers(0, len(_CHANNELS), count),
        len(_CHANNELS) + draw.integers(0, _OTHERS, count),
    )
    names = [*_CHANNELS, *(f"channel-{number}" for number in range(_OTHERS))]
    item = _letters(draw, count, 5, 5)
    base = pa.compute.binary_join_element_wise(
        "https://www.nexmark.example",
        _letters(draw, count, 5, 5),
        _letters(draw, count, 5, 5),
        pa.compute.binary_join_element_wise(item, ".html?query=1", ""),
        "/",
    )
    ids = ["", *(f"&channel_id={number * 7919}" for number in range(_OTHERS))]
    tail = _pick(ids, np.where(known, 0, channel - len(_CHANNELS) + 1))
    return pa.table(
        {
            "id": numbers,
            "auction": FIRST_ID + auction,
            "bidder": FIRST_ID + _by_people(draw, epoch, HOT_BIDDER, 1),
            "price": _prices(draw, count),
            "channel": _pick(names, channel),
            "url": pa.compute.binary_join_element_wise(base, tail, ""),
            "date_time": _instants(times),
            "extra": _letters(draw, count, 55, 80),
        }
    )


def lifetime(rate: int) -> int:
    """Milliseconds in which as many auctions open as are in flight."""
    return max(IN_FLIGHT * EPOCH * 1000 // (AUCTIONS * rate), 1)


def categories(draw: Draw, count: int) -> Ints:
    """Those of so many auctions."""
    return FIRST_CATEGORY + draw.integers(0, CATEGORIES, count)


def _by_people(draw: Draw, newest: Ints, hot_share: float, hot_place: int) -> Ints:
    """People's places: often the hot one, else one of the last who came in."""
    count = len(newest)
    hot = newest // HOT_EVERY * HOT_EVERY + hot_place
    spread = newest - (draw.random(count) * np.minimum(newest + 1, ACTIVE)).astype(np.int64)
    chosen: Ints = np.where(draw.random(count) < hot_share, np.minimum(hot, newest), spread)
    return chosen


def prices(draw: Draw, count: int) -> Ints:
    """From a dollar to a million, in cents, as many of each magnitude."""
    made: Ints = np.round(10 ** (draw.random(count) * 6) * 100).astype(np.int64)
    return made


_prices = prices


def _instants(ms: Ints) -> pa.Array:
    return pa.array(ms * 1000).cast(INSTANT)


def _pick(values: Sequence[str], places: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values).take(pa.array(places))


def _letters(draw: Draw, count: int, least: int, most: int) -> pa.Array:
    """Random small letters, of random length."""
    lengths = draw.integers(least, most + 1, count)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    letters = draw.integers(97, 123, int(offsets[-1]), dtype=np.uint8)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    return pa.StringArray.from_buffers(count, *buffers[1:])
