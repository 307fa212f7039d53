"""A project to begin with: a job, tests of it, changes to run it on, and a README that says what to do with them."""

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

    Raises SpecError if one of them is there already, or the directory cannot be written; nothing is overwritten.
    """
    targets = [directory / place for place in (*_FILES.values(), ".gitignore", "changes")]
    for target in targets:
        if target.exists():
            raise SpecError(f"init: {target} is there already; name a new directory")
    name = directory.resolve().name
    try:
        written = [
            _write(directory / place, (Path(__file__).parent / file).read_text("utf-8"), name)
            for file, place in _FILES.items()
        ]
        written.append(_write(directory / ".gitignore", _IGNORED, name))
    except OSError as error:
        raise SpecError(
            f"init: {directory} cannot be written ({error.strerror}); name another directory"
        ) from None
    return [*written, *write_sample(directory / "changes")]


def _write(target: Path, text: str, name: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.replace("PROJECT", name, 1), encoding="utf-8")
    return target
