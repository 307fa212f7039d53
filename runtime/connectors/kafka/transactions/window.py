"""Messages ahead of a position by their transactions, and where a batch may end so that it cuts none of them."""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from aggloom.errors import DataError
from aggloom.runtime.connectors.kafka.broker import TopicPlace
from aggloom.runtime.connectors.kafka.offsets import Offsets, cap_offsets

_log = logging.getLogger("aggloom")
_REMEMBERED = 100_000
"""The number of transactions that are remembered once they were read, in case Debezium sends them again."""


@dataclass(slots=True)
class MessageRun:
    """Messages of a partition that follow one another, of one transaction or of none (None).

    end: the offset behind the last of them. count: how many they are.
    """

    key: str | None
    end: int
    count: int


@dataclass(slots=True)
class Transaction:
    """A transaction of which a part is ahead.

    counts: its events by topic, as its end says; None before that is read. number: of its end, in the order in which
    ends are read. orders: the numbers of its events that have come, by topic. places: the number of its first run in
    each partition that has one.
    """

    counts: dict[str, int] | None = None
    number: int = -1
    orders: dict[str, array[int]] = field(default_factory=dict)
    places: dict[TopicPlace, int] = field(default_factory=dict)
    is_whole: bool = False

    def count_arrived(self, topic: str) -> int:
        """The number of events of a topic that have come; Debezium may write some of them twice."""
        return len(set(self.orders.get(topic, ())))

    def lacks(self, topic: str) -> bool:
        """Tell whether events of a topic that the end counts have not come."""
        count = (self.counts or {}).get(topic, 0)
        return len(self.orders.get(topic, ())) < count or self.count_arrived(topic) < count


class TransactionWindow:
    """The messages between a position and what is known of partitions, as runs.

    starts: the position. end_topic: the topic of ends. A batch takes a beginning of each partition, such that of each
    transaction all parts are in these beginnings, or none.

    Example: of two transactions over two topics the second has not ended.
        >>> a, b, ends = (TopicPlace(name, 0) for name in ("a", "b", "ends"))
        >>> window = TransactionWindow({a: 0, b: 0, ends: 0}, "ends", "table a")
        >>> window.add_events(a, [0, 1], ["1", "2"], [1, 1])
        >>> window.add_events(b, [0], ["1"], [2])
        >>> window.add_end(ends, 1, "1", {"a": 1, "b": 1})
        >>> {str(place): at for place, at in window.cut(None).items()}
        {'a-0': 1, 'b-0': 1, 'ends-0': 2}
    """

    def __init__(self, starts: Offsets, end_topic: str, where: str) -> None:
        self._end_topic, self._where = end_topic, where
        self.starts: Offsets = {}
        self._runs: dict[TopicPlace, list[MessageRun]] = {}
        self._gone: dict[TopicPlace, int] = {}
        """The number of runs of each partition that were read."""
        self.transactions: dict[str, Transaction] = {}
        self._numbers = 0
        self._read: OrderedDict[str, None] = OrderedDict()
        self._has_warned = False
        for place, at in starts.items():
            self.add_place(place, at)

    def add_place(self, place: TopicPlace, at: int) -> None:
        """Note a partition, which is read from an offset on."""
        self.starts[place], self._runs[place], self._gone[place] = at, [], 0

    def add_events(
        self,
        place: TopicPlace,
        offsets: Sequence[int],
        keys: Iterable[str | None],
        orders: Sequence[int],
    ) -> None:
        """Add messages of a table behind those that are known; keys: of their transactions."""
        at = 0
        for key, same in groupby(keys):
            begin, at = at, at + sum(1 for _ in same)
            transaction = self._add_run(place, key, offsets[at - 1] + 1, at - begin)
            if transaction is not None:
                known = transaction.orders.setdefault(place.topic, array("q"))
                known.extend(orders[begin:at])

    def add_end(
        self, place: TopicPlace, offset: int, key: str | None, counts: Mapping[str, int]
    ) -> None:
        """Add a message of the topic of ends; key: None of a beginning; counts: events by topic that is read."""
        transaction = self._add_run(place, key, offset + 1, 1)
        if key is not None and (transaction is None or transaction.counts is not None):
            self._warn_of_replay(key)
        if transaction is None:
            return
        if transaction.counts is None:
            transaction.number = self._numbers
            self._numbers += 1
            transaction.counts = dict(counts)
            return
        # Of an end that is there twice the greater count, which waits for more.
        topics = dict.fromkeys([*transaction.counts, *counts])
        transaction.counts = {
            topic: max(transaction.counts.get(topic, 0), counts.get(topic, 0)) for topic in topics
        }
        transaction.is_whole = False

    def _warn_of_replay(self, key: str) -> None:
        """Warn once that Debezium sends changes a second time, and what that means for results."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "%s: %s has the end of transaction %s once more, as after a restart of Debezium that had not noted how "
                "far it was; until all is written again, rows may be as they were before, and not all together",
                *(self._where, self._end_topic, key),
            )

    def _add_run(
        self, place: TopicPlace, key: str | None, end: int, count: int
    ) -> Transaction | None:
        """Add messages of one transaction; return it, or None for those that may be read with any batch."""
        if key in self._read:
            # Debezium sends again what was read whole.
            key = None
        runs = self._runs[place]
        if runs and runs[-1].key == key:
            runs[-1].end, runs[-1].count = end, runs[-1].count + count
        else:
            runs.append(MessageRun(key, end, count))
        if key is None:
            return None
        transaction = self.transactions.setdefault(key, Transaction())
        transaction.places.setdefault(place, self._gone[place] + len(runs) - 1)
        return transaction

    def cut(self, most: int | None, unread: Iterable[TopicPlace] = ()) -> Offsets:
        """The offsets up to which a batch may read: of so many messages, more if one transaction has more.

        unread: partitions of which more is there than is known. Messages of no transaction go first: those of a
        snapshot are older than what transactions have changed since. Raises DataError where counts contradict events.
        """
        free = self._agree(frozenset())
        if most is not None and self.size(free) > most:
            return cap_offsets(self.starts, free, most)
        if any(place.topic != self._end_topic and self._is_free(place) for place in unread):
            return free
        ended = self._find_ended()
        ends = self._agree(frozenset(ended))
        if most is None or self.size(ends) <= most:
            return ends

        def size_at(number: int) -> int:
            return self.size(self._agree(frozenset(ended[:number])))

        # More transactions never read less, so that their number can be searched for.
        numbers = range(len(ended) + 1)
        fitting = bisect_left(numbers, most + 1, key=size_at) - 1
        least = bisect_left(numbers, 1, key=size_at)
        return self._agree(frozenset(ended[: max(fitting, least)]))

    def _is_free(self, place: TopicPlace) -> bool:
        return all(run.key is None for run in self._runs[place])

    def _find_ended(self) -> list[str]:
        """The transactions of which everything has come, in the order of their ends; raises DataError."""
        for key, each in self.transactions.items():
            if each.counts is None or each.is_whole:
                continue
            for topic in each.orders:
                if each.count_arrived(topic) > each.counts.get(topic, 0):
                    raise self._contradiction(key, topic)
            each.is_whole = not any(map(each.lacks, each.counts))
        ended = [key for key, each in self.transactions.items() if each.is_whole]
        return sorted(ended, key=lambda key: self.transactions[key].number)

    def _contradiction(self, key: str, topic: str) -> DataError:
        transaction = self.transactions[key]
        counted = (transaction.counts or {}).get(topic, 0)
        return DataError(
            f"{self._where}: topic {topic} has {transaction.count_arrived(topic)} events of transaction {key}, and its "
            f"end in {self._end_topic} counts {counted}. Topics must have the names that Debezium gives them "
            "(PREFIX.DATA_COLLECTION), without a transform that routes events elsewhere; else leave "
            "transaction_topic out."
        )

    def size(self, ends: Offsets) -> int:
        """The number of messages of tables up to offsets."""
        size = 0
        for place, runs in self._runs.items():
            at = self.starts[place]
            for run in runs if place.topic != self._end_topic else ():
                if at >= ends[place]:
                    break
                # A limit may end a batch within messages of no transaction.
                size += run.count if run.end <= ends[place] else min(run.count, ends[place] - at)
                at = run.end
        return size

    def _agree(self, chosen: frozenset[str]) -> Offsets:
        """The furthest offsets in front of which all parts of a transaction are, or none, and none of unchosen ones."""
        cuts = {place: len(runs) for place, runs in self._runs.items()}
        waiting = [key for key in self.transactions if key not in chosen]
        out = set(waiting)
        # What is out ends each partition in front of its first part, and takes out whatever has a part behind that.
        while waiting:
            for place, number in self.transactions[waiting.pop()].places.items():
                first = number - self._gone[place]
                for run in self._runs[place][first : cuts[place]]:
                    if run.key is not None and run.key not in out:
                        out.add(run.key)
                        waiting.append(run.key)
                cuts[place] = min(cuts[place], first)
        return {
            place: self._runs[place][cut - 1].end if cut else self.starts[place]
            for place, cut in cuts.items()
        }

    def drop(self, ends: Offsets) -> None:
        """Take the messages up to offsets for read."""
        for place, end in ends.items():
            runs = self._runs[place]
            number = sum(1 for run in runs if run.end <= end)
            if place.topic == self._end_topic:
                for run in runs[:number]:
                    self._take(run.key)
            del runs[:number]
            if runs:
                # Of a run of no transaction a part may have been read.
                runs[0].count = min(runs[0].count, runs[0].end - end)
            self._gone[place] += number
            self.starts[place] = end

    def _take(self, key: str | None) -> None:
        """Take a transaction for read."""
        transaction = None if key is None else self.transactions.pop(key, None)
        if key is not None and transaction is not None and transaction.counts:
            self._remember(key)

    def _remember(self, key: str) -> None:
        self._read[key] = None
        while len(self._read) > _REMEMBERED:
            self._read.popitem(last=False)

    def take_read(self, keys: Iterable[str]) -> None:
        """Mark the transactions before the position as read: their messages are sent a second time."""
        read = set(keys)
        for key in read:
            self.transactions.pop(key, None)
            self._remember(key)
        for runs in self._runs.values():
            for run in runs:
                run.key = None if run.key in read else run.key

    def list_blocking(self) -> list[str]:
        """The transactions that hold up others: the first in each partition that is not whole."""
        first = (self._first_open(runs) for runs in self._runs.values())
        return list(dict.fromkeys(key for key in first if key is not None))

    def _first_open(self, runs: Iterable[MessageRun]) -> str | None:
        keys = (run.key for run in runs if run.key is not None)
        return next((key for key in keys if not self.transactions[key].is_whole), None)

    def find_loss(self, key: str) -> tuple[str, set[str]] | None:
        """Say what of a transaction will never come, with the transactions that show it; None if it may still come.

        A connector writes transactions one after the other: behind what a later one has written nothing is missing.
        Partitions of the topic of ends have no common order, so that several of them show nothing.
        """
        if sum(place.topic == self._end_topic for place in self._runs) != 1:
            return None
        transaction = self.transactions[key]
        if transaction.counts is None:
            other = next(self._later(transaction, transaction.places), None)
            return None if other is None else (f"its end in {self._end_topic}", {other})
        for topic in filter(transaction.lacks, transaction.counts):
            places = [place for place in self._runs if place.topic == topic]
            later = [next(self._later(transaction, [place]), None) for place in places]
            shown_by = {each for each in later if each is not None}
            if places and None not in later:
                count = transaction.counts[topic]
                gone = (
                    f"{count - transaction.count_arrived(topic)} of its {count} events in {topic}"
                )
                return gone, shown_by
        return None

    def _later(self, transaction: Transaction, places: Iterable[TopicPlace]) -> Iterator[str]:
        """Yield transactions that have ended, and have events in partitions behind those of another one."""
        for place in places:
            begin = transaction.places.get(place, self._gone[place]) - self._gone[place]
            for run in self._runs[place][begin:]:
                other = self.transactions.get(run.key or "")
                if other is None or other is transaction or other.counts is None:
                    continue
                is_behind = other.places[place] >= begin + self._gone[place]
                if is_behind and (transaction.counts is None or other.number > transaction.number):
                    yield str(run.key)

    def describe(self, key: str) -> str:
        """Say what is known of a transaction."""
        transaction = self.transactions[key]
        if transaction.counts is None:
            return f"transaction {key}, of which {self._end_topic} has no end yet"
        parts = [
            f"{transaction.count_arrived(topic)} of {count} events in {topic}"
            for topic, count in transaction.counts.items()
            if transaction.lacks(topic)
        ]
        return f"transaction {key}, of which there are {', '.join(parts)}"
