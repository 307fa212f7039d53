"""The one switch for shortcuts beyond the public interfaces of Java, Spark, Numba and the C library.

`AGGLOOM_PLATFORM=plain` turns all of them off: results are the same, and take longer (docs/spark.md).
"""

from __future__ import annotations

import os

from aggloom.errors import OptionError, nearest

SWITCH = "AGGLOOM_PLATFORM"
"""The name of the environment variable."""
_CHOICES = ("tuned", "plain")


def is_tuned() -> bool:
    """Return whether shortcuts are taken; raises OptionError for a value of the switch that is none.

    Example: without the variable they are.
        >>> is_tuned() == (os.environ.get(SWITCH) != "plain")
        True
    """
    chosen = os.environ.get(SWITCH) or _CHOICES[0]
    if chosen not in _CHOICES:
        raise OptionError(f"{SWITCH} is {chosen!r}. {nearest(chosen, _CHOICES)}")
    return chosen == _CHOICES[0]
