"""The form of a commit message: `python3 .ci/commit_message.py FILE`, as a commit-msg hook calls it.

The rules are those of CONTRIBUTING.md. The standard library is enough, so that the hook needs no environment.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

TYPES = ("feat", "fix", "perf", "refactor", "docs", "test", "build", "ci", "style", "revert")
LENGTH = 120
_FORM = re.compile(rf"(?:{'|'.join(TYPES)})(?:\([\w.-]+\))?!?: \S.*")
_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ")
"""Subjects that Git writes by itself."""


def find_faults(message: str) -> list[str]:
    """Return what is wrong with a commit message, a sentence each; comments of Git do not count.

    Example:
        >>> find_faults("fix: MAX over changes keeps its count")
        []
    """
    lines = [line.rstrip() for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(_BY_GIT):
        return []
    faults = []
    if not _FORM.fullmatch(subject):
        known = ", ".join(TYPES)
        faults.append(f"the first line is {subject!r}; write TYPE: STATEMENT, TYPE one of {known}")
    if len(subject) > LENGTH:
        faults.append(f"the first line has {len(subject)} characters; at most {LENGTH} fit")
    if subject.endswith("."):
        faults.append("the first line ends with a full stop; leave it out")
    if len(lines) > 1 and lines[1]:
        faults.append("the second line is not empty; put an empty line below the first")
    return faults


def main(path: str) -> int:
    """Print the faults of the message in a file, and return 1 if there are any."""
    faults = find_faults(Path(path).read_text("utf-8"))
    for fault in faults:
        print(f"commit message: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
