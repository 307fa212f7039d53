"""A decoder: messages in, columns of changes out, with a policy for messages that cannot be read.

Such a message stops the query with an error (the default), is dropped and counted, or is written with the reason into
a side table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from aggloom.codegen import spell_zone, to_schema, with_absent
from aggloom.errors import InputFormatError, SpecError
from aggloom.runtime.avro.settings import schema_registry
from aggloom.runtime.formats.base import Format, Message, Messages, Unreadable, values_of
from aggloom.runtime.formats.blocks import MessageBlock
from aggloom.runtime.formats.inferred_values import is_checked
from aggloom.runtime.formats.lines import NOTHING
from aggloom.runtime.formats.message_columns import TOPIC_FACTS, MessageColumns, message_columns
from aggloom.runtime.formats.registry import MESSAGES, format_of

if TYPE_CHECKING:
    from aggloom.codegen import SchemaLike

POLICIES: Final = ("error", "drop", "side")
"""Choices for messages that cannot be read."""
SIDE: Final = pa.schema(
    [("value", pa.binary()), ("key", pa.binary()), ("reason", pa.string()), ("place", pa.string())]
)
"""The columns of a side table."""
_SHOWN = 300
_AROUND = 250
"""Number of messages that are read at once next to one that is odd."""
_ODD = 3
"""The number of blocks in a row that Arrow could not read, after which it is not asked any more."""
_NONE = np.zeros(0, np.bool_)
_LONG = re.compile(rb"[0-9]{16}")
"""A part of each whole number that a DOUBLE may round."""


@dataclass(frozen=True)
class Decoded:
    """The content of some messages: columns, the words of changes, rows in each message, refused messages.

    notices: which messages have no row by their kind, such as heartbeats, or since they are of other tables.
    """

    columns: list[pa.Array]
    words: pa.Array
    lengths: np.ndarray[Any, np.dtype[np.int64]]  # int64[messages]
    refused: list[tuple[Message, str]]
    notices: np.ndarray[Any, np.dtype[np.bool_]]  # bool[messages]

    def side_table(self) -> pa.Table:
        """The messages that are refused, with the reasons."""
        return side_rows(self.refused)


def side_rows(refused: Sequence[tuple[Message, str]]) -> pa.Table:
    """The rows of a side table of messages that are refused, with the reasons."""
    rows = [(m.value, m.key, why, m.place) for m, why in refused]
    columns = list(zip(*rows, strict=True)) or [()] * len(SIDE)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SIDE, strict=True)]
    return pa.table(arrays, schema=SIDE)


class _Refused(NamedTuple):
    """A message that is refused, its place among those that are read with it, and the reason."""

    place: int
    message: Message
    why: str


@dataclass(frozen=True)
class Decoder:
    """Reads the messages of a table; created by `decoder`, which checks the options, and sent to workers unchanged."""

    format: str
    schema: pa.Schema
    keys: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    unreadable: str = "error"
    source: str = field(default="", compare=False)
    beside: MessageColumns | None = None

    def __getstate__(self) -> dict[str, Any]:
        cached = ("_format", "columns", "_image_columns")
        # Made anew where it is unpickled: readers are functions within functions, which do not travel.
        return {n: value for n, value in vars(self).items() if n not in cached}

    @cached_property
    def _format(self) -> Format:
        return format_of(self.format, self.schema, self.keys, dict(self.options))

    @property
    def separator(self) -> str | None:
        """The text between key and value of a message in a file, unless an option says so."""
        return self._format.separator

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of its output: the table's, one for omitted columns where rows may omit any, and metadata."""
        more = [] if self.beside is None else self.beside.fields
        return pa.schema([*self._image_columns, *more])

    @cached_property
    def _image_columns(self) -> pa.Schema:
        return with_absent(self.schema) if self._format.settings.partial else self.schema

    @property
    def topic_facts(self) -> frozenset[str]:
        """The metadata of topics that its columns need, by Flink's names."""
        columns = () if self.beside is None else self.beside.columns
        return frozenset(each.source for each in columns if each.source in TOPIC_FACTS)

    @property
    def sends_notices(self) -> bool:
        """True if there are messages that have no row by their kind."""
        return self._format.sends_notices

    @property
    def upserts(self) -> bool:
        """True if its changes lack the rows that they replace."""
        return bool(self.keys)

    def decode(self, messages: Iterable[Message]) -> Decoded:
        """The changes of messages, in their order; raises InputFormatError for one that cannot be read, by default."""
        listed = messages if isinstance(messages, Messages) else list(messages)
        parts, lengths, notices, refused = [], [], [], list[_Refused]()
        for some, block in self._blocks(listed):
            odd: list[_Refused] = []
            changes = self._part(some, block, odd)
            parts.append(changes)
            # By message, those without a change included.
            lengths.append(np.bincount(changes.owners, minlength=len(some)))
            notices.append(self._notices(some, lengths[-1], odd))
            refused += odd
        columns = [pa.concat_arrays(own) for own in zip(*(p.columns for p in parts), strict=True)]
        words = pa.concat_arrays([part.words for part in parts])
        why = [(each.message, each.why) for each in refused]
        content = Decoded(columns, words, np.concatenate(lengths), why, np.concatenate(notices))
        return content if self.beside is None else self._add_columns(listed, content, self.beside)

    def _add_columns(
        self, messages: Sequence[Message], content: Decoded, beside: MessageColumns
    ) -> Decoded:
        """Return the changes with the columns beside the rows; a message whose key cannot be read is refused, too."""
        lengths, refused = content.lengths.copy(), list(content.refused)
        columns, words = content.columns, content.words
        with_rows = np.flatnonzero(lengths)
        try:
            more = beside.read(messages, with_rows.tolist())
        except Unreadable:
            # One bad key fails the reading of all, so that each is read alone to see which it is.
            bad = self._refuse_keys(messages, with_rows.tolist(), refused)
            keep = pa.array(~np.isin(np.repeat(np.arange(len(lengths)), lengths), bad))
            columns, words = [each.filter(keep) for each in columns], words.filter(keep)
            lengths[bad] = 0
            with_rows = np.flatnonzero(lengths)
            more = beside.read(messages, with_rows.tolist())
        owners = pa.array(np.repeat(np.arange(len(with_rows)), lengths[with_rows]))
        values_beside = [each.take(owners) for each in more]
        return replace(
            content,
            columns=[*columns, *values_beside],
            words=words,
            lengths=lengths,
            refused=refused,
        )

    def _refuse_keys(
        self, messages: Sequence[Message], places: list[int], refused: list[tuple[Message, str]]
    ) -> list[int]:
        """Note the messages whose keys cannot be read, and return their places; raises InputFormatError by default."""
        assert self.beside is not None
        bad = []
        for at in places:
            try:
                self.beside.read(messages, [at])
            except Unreadable as error:
                if self.unreadable == "error":
                    raise InputFormatError(describe_failure(messages[at], str(error))) from None
                refused.append((messages[at], str(error)))
                bad.append(at)
        return bad

    def _notices(
        self, messages: Sequence[Message], lengths: np.ndarray[Any, Any], refused: list[_Refused]
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which messages have no row, and are neither refused nor tombstones (which follow a deletion)."""
        is_notice: np.ndarray[Any, np.dtype[np.bool_]] = np.zeros(len(messages), np.bool_)
        if self.sends_notices:
            values = values_of(messages)
            bare = np.flatnonzero(lengths == 0).tolist()
            is_notice[[at for at in bare if (values[at] or b"").strip() not in NOTHING]] = True
            is_notice[[each.place for each in refused]] = False
        return is_notice

    def _blocks(
        self, listed: Sequence[Message]
    ) -> Iterator[tuple[Sequence[Message], MessageBlock | None]]:
        """Yield some messages at a time, with the results of a block; an unusual one excludes its neighbours."""
        if self._format.settings.inferred and self._may_change(listed):
            yield listed, None
            return
        whole = self._format.block(listed)
        if whole is not None or len(listed) <= _AROUND:
            yield listed, whole
            return
        odd = 0
        for at in range(0, len(listed), _AROUND):
            if odd == _ODD:
                # Three in a row: the topic is of a kind that Arrow does not read.
                yield listed[at:], None
                return
            some = listed[at : at + _AROUND]
            block = self._format.block(some)
            odd = odd + 1 if block is None else 0
            yield some, block

    def _may_change(self, listed: Sequence[Message]) -> bool:
        """Tell whether Arrow might read a value that would change an inferred type."""
        kinds = self.schema.types
        if any(map(is_checked, kinds)):
            return True
        texts = values_of(listed) if any(map(pt.is_floating, kinds)) else []
        return any(text is not None and _LONG.search(text) for text in texts)

    def _part(
        self, messages: Sequence[Message], block: MessageBlock | None, refused: list[_Refused]
    ) -> MessageBlock:
        """Return the changes of a block of messages; those that the block cannot decode are read one by one."""
        if block is not None and len(self._image_columns) > len(self.schema):
            # A block has whole rows alone.
            whole = pa.nulls(len(block.words), pa.string())
            block = block._replace(columns=[*block.columns, whole])
        if block is not None and not block.left.any():
            return block
        left = range(len(messages)) if block is None else np.flatnonzero(block.left).tolist()
        owners: list[int] = []
        words: list[str] = []
        rows: list[list[Any]] = []
        for place in left:
            for word, row in self._changes(place, messages[place], refused):
                owners.append(place)
                words.append(word)
                # A whole row says nothing of what it leaves out.
                rows.append(row if len(row) == len(self._image_columns) else [*row, None])
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self._image_columns)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self._image_columns, strict=False)]
        alone = MessageBlock(
            np.array(owners, np.int64), pa.array(words, pa.string()), arrays, _NONE
        )
        return alone if block is None else _together(block, alone)

    def _changes(
        self, place: int, message: Message, refused: list[_Refused]
    ) -> Sequence[tuple[str, list[Any]]]:
        """The changes in one message, by the rules; none of one that is refused."""
        try:
            changes = self._format.changes(message)
            if self.keys:
                self._format.check_keys(changes)
        except Unreadable as error:
            if self.unreadable == "error":
                raise InputFormatError(describe_failure(message, str(error))) from None
            refused.append(_Refused(place, message, str(error)))
            return ()
        return changes


def _together(block: MessageBlock, alone: MessageBlock) -> MessageBlock:
    """The changes of both, by their messages."""
    owners = np.concatenate([block.owners, alone.owners])
    # Stable: the changes of one message stay in their order.
    order = pa.array(np.argsort(owners, kind="stable"))
    words = pa.concat_arrays([block.words, alone.words]).take(order)
    columns = [
        pa.concat_arrays(own).take(order) for own in zip(block.columns, alone.columns, strict=True)
    ]
    return MessageBlock(owners[order.to_numpy()], words, columns, _NONE)


def decoder(
    format: str,
    schema: SchemaLike,
    keys: str | Sequence[str] | None = None,
    unreadable: str = "error",
    source: str = "",
    metadata: Mapping[str, str] | None = None,
    **options: Any,
) -> Decoder:
    """The decoder of a format for a table's columns; raises SpecError and its kin.

    metadata: the columns that are no part of the row, each with its source (`message_columns`).
    """
    if unreadable not in POLICIES:
        raise SpecError(f"unknown unreadable {unreadable!r}; known are {', '.join(POLICIES)}")
    if options.get("registry") is not None:
        # From here on what is secret in it is in no text.
        options["registry"] = schema_registry(options["registry"])
    beside = None
    if metadata and format in MESSAGES:
        whole, zone = to_schema(schema), spell_zone(options.get("zone") or "UTC")
        beside = message_columns(metadata, whole, format, source or format, zone)
        schema = pa.schema([each for each in whole if each.name not in metadata])
    reader = format_of(format, schema, keys, options)
    # In one order: decoders with the same options are equal.
    settings = tuple(sorted((n, v) for n, v in options.items() if v is not None))
    own = reader.settings
    plain = Decoder(format, own.columns, own.keys, settings, unreadable, source)
    return plain if beside is None else replace(plain, beside=beside)


def describe_failure(message: Message, why: str) -> str:
    """Describe what is wrong with a message, in one line: its place, the reason, and the text as far as it fits."""
    text = (message.value or message.key or b"").decode(errors="replace")
    excerpt = " ".join(text[:_SHOWN].split("\n"))
    return f"{message.place}: {why}: {excerpt}" if message.place else f"{why}: {excerpt}"
