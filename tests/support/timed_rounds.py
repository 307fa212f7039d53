"""Many random timed joins beside the plain models of `timed_joins`: python tests/support/timed_rounds.py FIRST LAST."""

from __future__ import annotations

import sys

from timed_joins import check, check_changes, check_windows

if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    for seed in range(first, last):
        for each in (check, check_changes, check_windows):
            each(seed)
    print(f"{3 * (last - first)} joins, none wrong")
