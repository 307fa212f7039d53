"""The notes of the rules on a plan: what they have done at a node, or why they have not."""

from __future__ import annotations

from dataclasses import dataclass, field

from aggloom.codegen.operators.base import Subject


@dataclass(frozen=True)
class RuleNote:
    """A rule's word on an aggregate: whether it fired, and why or why not."""

    rule: str
    fired: bool
    why: str


@dataclass
class Notes:
    """Notes by the spec that they are about."""

    by_spec: dict[str, list[RuleNote]] = field(default_factory=dict)

    def add(self, rule: str, spec: Subject, fired: bool, why: str) -> None:
        """Say something of the aggregate with this spec; the same thing is said once."""
        listed = self.by_spec.setdefault(spec.digest, [])
        note = RuleNote(rule, fired, why)
        if note not in listed:
            listed.append(note)

    def move(self, old: Subject, new: Subject) -> None:
        """Move the notes of a spec to the one that has taken its place."""
        # Other digests would lose the notes: they are found by the digest of the node that runs.
        if old.digest != new.digest:
            self.by_spec[new.digest] = self.by_spec.pop(old.digest, [])

    def of(self, spec: Subject) -> list[RuleNote]:
        """Return the notes of an aggregate."""
        return self.by_spec.get(spec.digest, [])
