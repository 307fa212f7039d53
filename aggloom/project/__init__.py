"""A project to start with: a job, tests of it, changes to run it on, and a README with instructions."""

from __future__ import annotations

from pathlib import Path

from aggloom.errors import SpecError
from aggloom.sample import write_sample

_FILES = {
    "job.yaml": "job.yaml",
    "orders-test.yaml": "tests/orders.yaml",
    "README.md": "README.md",
}
_IGNORED = "state/\n"


def write_project(directory: Path) -> list[Path]:
    """The files' paths, once they are in the directory, which is made if it is not there.

    Raises SpecError if more than hidden files is in it, or it cannot be written; nothing is overwritten.
    """
    name = directory.resolve().name
    ignored = directory / ".gitignore"
    try:
        there = list(directory.iterdir()) if directory.exists() else []
        if ignored in there or not all(each.name.startswith(".") for each in there):
            raise SpecError(f"init: {directory} is not empty; name a new or an empty directory")
        written = [
            _write(directory / place, (Path(__file__).parent / file).read_text("utf-8"), name)
            for file, place in _FILES.items()
        ]
        written.append(_write(ignored, _IGNORED, name))
    except OSError as error:
        raise SpecError(
            f"init: {directory} cannot be written ({error.strerror}); name another directory"
        ) from None
    return [*written, *write_sample(directory / "changes")]


def _write(target: Path, text: str, name: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.replace("PROJECT", name, 1), encoding="utf-8")
    return target
