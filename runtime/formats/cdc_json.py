"""CapturedJson: the base of formats whose messages are JSON objects about the rows of a database's tables."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from aggloom.runtime.formats.base import (
    WHOLE_ROW,
    Change,
    Format,
    FormatSettings,
    Message,
    Unreadable,
    Values,
)
from aggloom.runtime.formats.json_text import Object, objects, text_of
from aggloom.runtime.formats.rows import ImageReader


class CapturedJson(Format):
    """Objects, one a message, or several where they may be split; an empty message says nothing.

    texts: whether numbers may come as texts. text_documents: whether documents of JSON do.
    """

    texts: ClassVar[bool] = False
    text_documents: ClassVar[bool] = False
    sends_notices: ClassVar[bool] = True

    def __init__(self, settings: FormatSettings) -> None:
        settings = replace(settings, text_documents=self.text_documents)
        super().__init__(settings)
        self.rows = ImageReader(settings, self.texts)

    def changes(self, message: Message) -> list[Change]:
        """The changes of the message's rows."""
        if not message.value:
            return []
        contents = objects(text_of(message.value), self.settings.concatenated == "split")
        for one in contents:
            refuse_twice(one)
        return [change for one in contents for change in self._message(one, message)]

    def deleted_row(self, image: Any) -> Values:
        """The row of a deletion, which needs all columns of the table; with keys only those of the key."""
        needed = self.settings.keys if self.key_places else None
        return self.rows.row(image, "`data` ", fix=WHOLE_ROW, needed=needed)

    def partial_changes(self, data: Any, old: Any) -> list[Change]:
        """Return an update's changes; the row after, `data`, may lack columns; old: what changed of the row before."""
        if not isinstance(data, Object):
            raise Unreadable("`data` is no object")
        if not isinstance(old, Object):
            raise Unreadable("`old` is no object")
        own, was = self.rows.by_name(data, "`data` "), self.rows.spelling.of(old, "`old` ")
        keys = self.settings.keys
        after = self.rows.partial(own, "`data` ", keys, was)
        # The key is in `old` only if the update has changed it.
        key = {n: was.get(n, own.get(n)) for n in keys}
        return self.partial_update(self.rows.values(key), after)

    @abstractmethod
    def _message(self, content: Object, message: Message) -> list[Change]:
        """The changes in one object; raises Unreadable."""


def refuse_twice(content: Object) -> None:
    """Raise Unreadable for an object that says one thing twice: the last need not be what was meant."""
    if content.twice:
        raise Unreadable(f"`{content.twice[0]}` is there twice")
