"""A format of messages: it reads one message at a time, and gives the changes that are in it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, overload

import pyarrow as pa

from aggloom.codegen import WHOLE_IMAGES
from aggloom.errors import SpecError
from aggloom.runtime.avro.settings import SchemaRegistry
from aggloom.runtime.formats.blocks import MessageBlock
from aggloom.runtime.formats.texts import Texts
from aggloom.runtime.values import change_column
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import CHANGE_TYPES

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = CHANGE_TYPES
Values = list[Any]
Change = tuple[str, Values]


WHOLE_ROW = (
    "an update or a deletion has to tell the whole row, for NULL is not what was left out: "
    f'{WHOLE_IMAGES}, keep what the column had by images="partial" and the keys, or leave the column out of the schema'
)
"""The advice where a column is absent whose value was known before."""


class Unreadable(Exception):
    """A message that is not what its format says; the text is the reason."""


class Message(NamedTuple):
    """A message as it arrived: its value, its key if it has one, and where it lies, as far as that is known."""

    value: bytes | None
    key: bytes | None = None
    place: str = ""


class Fact(NamedTuple):
    """A fact that an envelope says beside its row: its type, and the function that takes it out of the object."""

    kind: pa.DataType
    read: Callable[[Mapping[str, Any]], Any]


class Messages(Sequence[Message]):
    """Messages in columns, which are put together where one is asked for.

    place: says where the nth lies. read_fact: the values of what the topic says of each message, by Flink's word.
    """

    def __init__(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None],
        place: Callable[[int], str],
        read_fact: Callable[[str], Sequence[Any]] | None = None,
    ) -> None:
        self.values, self._keys, self._place = values, keys, place
        self._read_fact = read_fact

    @property
    def texts(self) -> Texts:
        """The values in one buffer."""
        return self.values if isinstance(self.values, Texts) else Texts.copy(self.values)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> Message: ...

    @overload
    def __getitem__(self, at: slice) -> Messages: ...

    def __getitem__(self, at: int | slice) -> Message | Messages:
        if isinstance(at, slice):
            # The messages of a slice are counted from its start, their places from that of the whole.
            first = at.indices(len(self))[0]
            return Messages(self.values[at], self._keys[at], lambda n: self._place(first + n))
        return Message(self.values[at], self._keys[at], self._place(at))

    def read_fact(self, name: str) -> Sequence[Any]:
        """The values of what the topic says of the messages, in their order; raises SpecError where none says it."""
        if self._read_fact is None:
            raise SpecError(f"METADATA {name!r} is of topics, and these messages are of none")
        return self._read_fact(name)


def values_of(messages: Sequence[Message]) -> Sequence[bytes | None]:
    """The values of messages."""
    if isinstance(messages, Messages):
        return messages.values
    return [message.value for message in messages]


def texts_of(messages: Sequence[Message]) -> Texts:
    """The values of messages in one buffer."""
    if isinstance(messages, Messages):
        return messages.texts
    return Texts.copy([message.value for message in messages])


@dataclass(frozen=True)
class FormatSettings:
    """Settings by which messages are read: the table's columns, and the options.

    keys: columns that identify changes where messages lack the row before (upserts). time_unit: of integers that
    are times and do not say their unit. zone: of times in text that name none. missing: whether a column that a row
    lacks is an "error" or "null". concatenated: whether several objects in a message are a reason to "refuse" it, or
    "split". decimals: what texts in columns of decimals are: "text", "base64", or "auto", which refuses what may be
    both. truncate: whether the message that a table was emptied is an "error", or to "ignore". snapshot: whether to
    "read" a snapshot's rows, or an "error" says that the table is read anew. database, table: patterns of names;
    messages of others are passed over. registry: what knows the schemas that messages name. images: whether updates
    tell "whole" rows, or "partial" ones, which by keys keep what the columns had that they leave out. zero_dates:
    whether dates that are none, as MySQL's 0000-00-00, are an "error" or "null". change_column, change_values,
    markers: of rows that say their changes themselves, as ChangeWords has them. inferred: whether values of other rows
    suggested the types, so that what these would change is refused. text_documents: whether a document of JSON comes as
    its text, as databases send it; the format says so, and no option.
    """

    columns: pa.Schema
    keys: tuple[str, ...] = ()
    time_unit: str = "auto"
    zone: str = "UTC"
    missing: str = "error"
    concatenated: str = "refuse"
    decimals: str = "auto"
    truncate: str = "error"
    snapshot: str = "read"
    database: str | None = None
    table: str | None = None
    registry: SchemaRegistry | None = None
    images: str = "whole"
    zero_dates: str = "error"
    change_column: str | None = None
    change_values: Any = None
    markers: str = "refuse"
    inferred: bool = False
    text_documents: bool = False

    @cached_property
    def change_words(self) -> ChangeWords:
        """Return the words that say the change of a row; raises SpecError."""
        return ChangeWords.of(vars(self), "messages")

    @property
    def partial(self) -> bool:
        """True if updates may leave out columns, which keep what they had."""
        return self.images == "partial"

    @property
    def lenient(self) -> bool:
        """True if a column that is absent is NULL."""
        return self.missing == "null"


CHOICES = {
    "time_unit": ("auto", "s", "ms", "us", "ns"),
    "missing": ("error", "null"),
    "concatenated": ("refuse", "split"),
    "decimals": ("auto", "text", "base64"),
    "truncate": ("error", "ignore"),
    "snapshot": ("read", "error"),
    "images": ("whole", "partial"),
    "zero_dates": ("error", "null"),
    "markers": change_column.MARKER_CHOICES,
}
"""The values of options that are words."""
SHARED = ("time_unit", "missing", "concatenated", "decimals", "zero_dates")
CAPTURED = (*SHARED, "truncate", "database", "table", "images")
"""The options of formats of JSON, and of those that tell what became of a database's tables."""
FLAT = change_column.OPTIONS
"""Those of formats whose rows may say their changes themselves."""
AVRO = ("time_unit", "missing", "registry")
"""The options of formats of Avro."""


class Format(ABC):
    """A format of messages, made for one table.

    name: as users write it. summary: what it is, in a line of the documentation. options: the settings that it reads.
    needs_keys: whether it cannot distinguish rows without `keys`. in_lines: whether files can hold it, a message a
    line. separator: what is between key and value of a message in a file, unless an option says so. sends_notices:
    whether there are messages that have no row by their kind, such as heartbeats. facts: what its envelopes say
    beside the row, by Flink's words for METADATA.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = CAPTURED
    needs_keys: ClassVar[bool] = False
    takes_keys: ClassVar[bool] = True
    in_lines: ClassVar[bool] = True
    separator: ClassVar[str | None] = None
    sends_notices: ClassVar[bool] = False
    facts: ClassVar[Mapping[str, Fact]] = {}

    def __init__(self, settings: FormatSettings) -> None:
        self.settings = settings
        names = settings.columns.names
        self.key_places = [names.index(name) for name in settings.keys]

    @abstractmethod
    def changes(self, message: Message) -> Sequence[Change]:
        """The changes in a message, as (word, values of the columns); raises Unreadable."""

    def block(self, messages: Sequence[Message]) -> MessageBlock | None:
        """Return the block that `changes` would make of many messages at once; None where they are not plain enough."""
        return None

    def update(self, before: Values | None, after: Values) -> list[Change]:
        """Return an update's changes: the rows before and after, or by keys the row after, and the old key's end."""
        if not self.key_places:
            if before is None:
                raise Unreadable("the row before is missing")
            return [(UPDATE_BEFORE, before), (UPDATE_AFTER, after)]
        # The old key has to end by itself: no later message names it.
        if before is not None and self.key(before) != self.key(after):
            return [self.delete(before), (UPDATE_AFTER, after)]
        return [(UPDATE_AFTER, after)]

    def partial_update(self, before: Values | None, after: Values) -> list[Change]:
        """Return a keyed update's changes, whose row may leave columns out; before: a row of which the key counts."""
        # The last value of a partial row names the columns that it leaves out.
        if before is not None and self.key(before) != self.key(after) and after[-1] is not None:
            raise Unreadable(
                f"an update of the key leaves out {after[-1]}, which no row of the new key says: {WHOLE_IMAGES}"
            )
        return self.update(before, after)

    def insert(self, row: Values) -> Change:
        """Return the change of a new row; by keys it may replace one, so that it is an upsert."""
        return UPDATE_AFTER if self.key_places else INSERT, row

    def delete(self, before: Values) -> Change:
        """Return the change of a deletion: the row; by keys, no more than its key counts."""
        return DELETE, before

    def key(self, values: Values) -> tuple[Any, ...]:
        """A row's values of the key."""
        return tuple(values[place] for place in self.key_places)

    def check_keys(self, changes: Sequence[Change]) -> None:
        """Raise Unreadable for a row without its key: rows that have NULL there would take one another's place."""
        for word, values in changes:
            lacks = [place for place in self.key_places if values[place] is None]
            if lacks:
                name = self.settings.columns.names[lacks[0]]
                raise Unreadable(
                    f"column {name!r} of the key is NULL ({word}); keys= has to name columns that every message has"
                )

    def empty_table(self, what: str) -> list[Change]:
        """Return the changes of a message that a table was emptied, which takes away rows that it does not name."""
        if self.settings.truncate == "ignore":
            return []
        raise Unreadable(
            f"{what}: the table was emptied, and no change retracts its rows one by one. Start over with an empty "
            'checkpoint from what the table has now, or pass truncate="ignore" to keep the rows'
        )

    def is_other(self, database: Any, table: Any) -> bool:
        """Tell whether a message is of a table that is not asked for."""
        return _differs(self.settings.database, database) or _differs(self.settings.table, table)


def _differs(pattern: str | None, name: Any) -> bool:
    # The whole name has to match, or a pattern of `orders` would let `orders_old` in.
    return pattern is not None and not re.fullmatch(pattern, str(name))
