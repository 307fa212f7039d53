"""Many random joins beside the plain model of `test_join`: python tests/support/join_rounds.py FIRST LAST [each]."""

from __future__ import annotations

import sys

from tests.operators.test_join import check

if __name__ == "__main__":
    first, last, *modes = sys.argv[1:]
    for seed in range(int(first), int(last)):
        check(seed, per_record="each" in modes)
    print(f"{int(last) - int(first)} joins, none wrong")
