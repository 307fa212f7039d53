"""The reports of `state` and `why`: `to_dict` for machines, `text` for people."""

from __future__ import annotations

from dataclasses import dataclass

from aggloom.runtime.inspection.facts import KeyBundle, OperatorState, PartContents, Report, Row
from aggloom.runtime.inspection.html import HtmlPage
from aggloom.runtime.inspection.text import (
    NOT_THERE,
    Page,
    TextPage,
    absent,
    key_text,
    part_text,
    write_bundle,
    write_key,
    write_operator,
)


@dataclass(frozen=True)
class StateReport(Report):
    """The state of a checkpoint's operators at a batch."""

    checkpoint: str
    operators: tuple[OperatorState, ...]

    def text(self, limit: int = 20) -> str:
        """Format it as tables; views are cut after `limit` values."""
        page = TextPage()
        self._write(page, limit)
        return page.text

    def _repr_html_(self) -> str:
        page = HtmlPage()
        self._write(page, 20)
        return page.text

    def _write(self, page: Page, limit: int) -> None:
        for number, operator in enumerate(self.operators):
            if number:
                page.line("")
            write_operator(page, operator)
            if operator.key is not None:
                write_key(page, operator.key, limit)


@dataclass(frozen=True)
class Why(Report):
    """History of a key's value since its bucket's snapshot; rows before that are not kept.

    snapshot: what the key had in it. now: what it has after the last bundle. entries: all that the log holds.
    """

    checkpoint: str
    operator: int
    name: str
    batch: int
    key: Row
    bucket: int
    has_snapshot: bool
    snapshot: tuple[PartContents, ...]
    entries: int
    bundles: tuple[KeyBundle, ...]
    now: tuple[PartContents, ...]
    nearest: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """True if replaying the key's changes alone gives what the bundles gave."""
        return all(bundle.agrees for bundle in self.bundles)

    def text(self, limit: int = 100) -> str:
        """Format the last `limit` changes as tables."""
        page = TextPage()
        self._write(page, limit)
        return page.text

    def _repr_html_(self) -> str:
        page = HtmlPage()
        self._write(page, 100)
        return page.text

    def _write(self, page: Page, limit: int) -> None:
        page.line(
            f"operator {self.operator}: {self.name}, batch {self.batch}, bucket {self.bucket}"
        )
        page.line(key_text(self.key))
        # A key whose history lies before the snapshot has parts; without either it was never there.
        if not self.snapshot and not self.bundles:
            page.line(absent(self.nearest))
            return
        if self.has_snapshot:
            state_text = "; ".join(map(part_text, self.snapshot)) or NOT_THERE
            page.line(f"in the snapshot: {state_text}. Which rows it was made of is not kept")
        else:
            page.line("there is no snapshot yet: the log holds every change")
        self._write_bundles(page, limit)
        now = "; ".join(map(part_text, self.now)) or NOT_THERE
        page.line(f"now: {now}")
        if not self.agrees:
            page.line(
                "The key's changes one by one do not give what the bundles gave where it says so: "
                "please report it."
            )

    def _write_bundles(self, page: Page, limit: int) -> None:
        total = sum(len(bundle.changes) for bundle in self.bundles)
        if total > limit:
            page.line(f"the last {limit} of {total} changes are shown (--limit)")
        skip = max(0, total - limit)
        for bundle in self.bundles:
            # The last changes are shown, as the newest explain the value: whole bundles at the front are skipped.
            last_changes = bundle.changes[skip:]
            skip = max(0, skip - len(bundle.changes))
            # A bundle without changes of its own may still have emitted something, and is shown if nothing else is.
            if last_changes or not total:
                write_bundle(page, bundle, last_changes)
