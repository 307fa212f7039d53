"""The note of a subject that is being forgotten, and the receipt of one that is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aggloom.checkpoint_file import read_file
from aggloom.durable_files import write_whole
from aggloom.errors import CheckpointError
from aggloom.runtime.hosting.checkpoint_paths import FORGET_FILE, RECEIPTS, corrupt
from aggloom.runtime.storage.checksums import with_checksum, without_checksum


@dataclass(frozen=True)
class ForgottenPart:
    """The removal from an operator, or from the table: keys or windows of keys, and rows that were retracted."""

    place: str
    keys: int
    retracted: int = 0


@dataclass(frozen=True)
class Receipt:
    """The receipt of a subject that was forgotten; it does not name the subject.

    columns: of its key. salted_hash: SHA-256 of `salt` and the key as JSON, so that whoever knows the key can tell.
    removed: by place. checksums: SHA-256 of the files that have taken the place of all before, by path. deleted: how
    many older files went. not_reached: what still may have the subject.
    """

    checkpoint: str
    batch: int
    at: str
    columns: tuple[str, ...]
    salt: str
    salted_hash: str
    removed: tuple[ForgottenPart, ...]
    checksums: Mapping[str, str]
    deleted: int
    not_reached: tuple[str, ...]

    def to_json(self) -> str:
        """The receipt as JSON."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    def is_of(self, key: Mapping[str, str | None]) -> bool:
        """Tell whether it is of this subject."""
        return self.salted_hash == hash_key(self.salt, key)


@dataclass
class Intent:
    """The note of a subject that is being forgotten.

    batch: the one that has it, once the sink has taken it; -1 before. removed: as a receipt has it.
    """

    key: dict[str, str | None]
    batch: int = -1
    removed: list[dict[str, Any]] = field(default_factory=list)
    not_reached: list[str] = field(default_factory=list)

    def write(self, root: Path) -> None:
        """Write the note in one step."""
        write_whole(root / FORGET_FILE, [with_checksum(json.dumps(asdict(self))).encode()])


def read_intent(root: Path, key: Mapping[str, str | None]) -> Intent | None:
    """The note of a subject that was not forgotten to the end; None without one.

    Raises CheckpointError if it is of another subject than `key`, and StateCorruptError for damage.
    """
    file = root / FORGET_FILE
    if not file.exists():
        return None
    try:
        intent = Intent(**json.loads(without_checksum(read_file(root, file))))
    except (ValueError, TypeError) as error:
        raise corrupt(f"{FORGET_FILE} is damaged: {error}") from None
    if intent.key != dict(key):
        raise CheckpointError(
            f"{root}: forgetting another subject was interrupted. Run `aggloom forget` with its --key first."
        )
    return intent


def list_receipts(root: Path) -> dict[str, Receipt]:
    """The receipts of a checkpoint by the names of their files; raises StateCorruptError for a damaged one."""
    receipts = {}
    for file in sorted((root / RECEIPTS).glob("*.json")):
        try:
            about = json.loads(read_file(root, file))
            parts = tuple(ForgottenPart(**part) for part in about.pop("removed"))
            columns, unreached = tuple(about.pop("columns")), tuple(about.pop("not_reached"))
            receipts[file.name] = Receipt(
                **about, removed=parts, columns=columns, not_reached=unreached
            )
        except (ValueError, TypeError, KeyError) as error:
            raise corrupt(f"{RECEIPTS}/{file.name} is damaged: {error}") from None
    return receipts


def list_files(root: Path) -> Iterator[Path]:
    """Yield the files under a directory."""
    return (each for each in root.rglob("*") if each.is_file())


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def hash_key(salt: str, key: Mapping[str, str | None]) -> str:
    """The SHA-256 of a salt and a key as JSON, in hexadecimal digits."""
    text = json.dumps(dict(sorted(key.items())), ensure_ascii=False)
    return hashlib.sha256(f"{salt}{text}".encode()).hexdigest()
