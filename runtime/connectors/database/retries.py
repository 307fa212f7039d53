"""The retries of a batch: where others hold a lock, cross this transaction, or the database is away for a while.

A batch may be tried again whatever has become of its transaction: its number and its digest are written with it, and
a batch that was committed after all is found by them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aggloom.errors import AggloomError, CheckpointError, SinkError, SinkTimeoutError
from aggloom.runtime.connectors.database.options import DatabaseOptions
from aggloom.runtime.sinks.stop import STOP

_CROSSED = ("40P01", "40001")
"""Codes of PostgreSQL where others write the same rows in another order, and this transaction has to begin again."""
_MADE_MEANWHILE = ("42P07", "42710")
"""Its codes, IF NOT EXISTS or not, where another transaction makes the same table at the same time."""
_CATALOGUE_INDEX = re.compile(r"\bpg_(class|type)_\w+_index\b")
"""Pattern of its words for that, too: the name of an index of its own that would hold the table twice."""
_LOCKED = "55P03"
_MYSQL = {
    **dict.fromkeys((1213, 1614), "40P01"),
    **dict.fromkeys((1020, 1412), "40001"),
    1050: "42P07",
    1205: "55P03",
    1062: "23505",
    **dict.fromkeys((1040, 1203), "53300"),
    **dict.fromkeys(
        (1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 3169, 4031), "57P01"
    ),
    **dict.fromkeys((0, 2002, 2003, 2006, 2012, 2013, 2055), "08006"),
}
"""The numbers of errors of MySQL, MariaDB and their clients by PostgreSQL's codes of the same meaning."""
_AWAY = ("08", "57P01", "57P02", "57P03", "53300")
"""Its codes where it ends, starts, or takes no more connections; 08 begins what is said of connections."""
_UNIQUE = "23505"
NOTHING = "Nothing of the batch was written."
PERHAPS = "If the batch was written, the next run finds it and passes over it."
"""The end of an attempt, in two texts for messages: before its commit, and where the commit had no answer."""
_TRIES = 10
_SHORTEST, _LONGEST = 0.1, 5.0
_LOCK_PAUSE = 0.05
_SQLITE_BUSY = (5, 6)
_BUSY_TEXT = re.compile(r"database (?:table |schema )?is locked")


def state_of(error: BaseException | None) -> str | None:
    """The five letters by which a driver names an error of PostgreSQL; MySQL's numbers as those of the same meaning."""
    first = error.args[0] if error is not None and error.args else None
    # An OSError begins with a number, too: that of the operating system, which means something else.
    if isinstance(first, int) and not isinstance(error, OSError):
        return _MYSQL.get(first, "HY000")
    named = first.get("C") if isinstance(first, dict) else None
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or named


def is_busy(error: BaseException | None) -> bool:
    """Tell whether SQLite says that another connection has locked what is to be written."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        # The low byte is the error; the others say more of it.
        return code & 0xFF in _SQLITE_BUSY
    return error is not None and _BUSY_TEXT.search(str(error)) is not None


def is_away(error: BaseException | None, module: Any, dialect: str) -> bool:
    """Tell whether an error says that the connection is lost, and not that a statement is wrong."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    state = state_of(error)
    if state is not None:
        return state.startswith(_AWAY)
    lost = (module.OperationalError, module.InterfaceError)
    return dialect != "sqlite" and isinstance(error, lost)


@dataclass
class Retries:
    """The attempts at one batch. away: whether an error says that the database is away."""

    options: DatabaseOptions
    where: str
    away: Callable[[BaseException | None], bool]
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], bool] = STOP.wait
    _crossed: int = 0
    _pause: float = _SHORTEST
    _in_doubt: bool = False
    _since: dict[str, float] = field(default_factory=dict)

    def wait_after(self, error: AggloomError) -> None:
        """Wait until the batch may be tried again; raises what says why it may not."""
        cause = error.__cause__
        state = state_of(cause)
        if STOP.is_asked:
            raise error
        # From the first lost commit on no later attempt can say that nothing was written.
        self._in_doubt |= PERHAPS in str(error)
        if state == _LOCKED:
            raise self._lock_error() from cause
        if is_busy(cause):
            self._wait_within("lock", self.options.lock_timeout, _LOCK_PAUSE, self._lock_error())
        # Pauses grow, as many writers come back to a database at once; a lock is short and asked for often.
        elif self.away(cause):
            pause, self._pause = self._pause, min(_LONGEST, 2 * self._pause)
            limit = self.options.retry_timeout
            message = str(error).replace(NOTHING, PERHAPS) if self._in_doubt else str(error)
            message += f" It was tried again for {limit} seconds (retry_timeout)." if limit else ""
            self._wait_within("away", limit, pause, SinkError(message), cause)
        elif not self._may_cross(error, state):
            raise error

    def _may_cross(self, error: AggloomError, state: str | None) -> bool:
        """Tell whether the batch was crossed by another transaction, perhaps by the one of its last attempt."""
        crossed = state in _CROSSED or state in _MADE_MEANWHILE
        crossed = crossed or _CATALOGUE_INDEX.search(str(error)) is not None
        # A server may commit the transaction of a connection that is lost after the next attempt has begun.
        late = "away" in self._since and (state == _UNIQUE or isinstance(error, CheckpointError))
        # A late commit of this very batch is found by its number at the next attempt; a second time it is somebody
        # else's.
        self._crossed += 1
        return (crossed and self._crossed < _TRIES) or (late and self._crossed < 2)

    def _wait_within(
        self,
        what: str,
        limit: float,
        pause: float,
        last: SinkError,
        cause: BaseException | None = None,
    ) -> None:
        """Wait a while; raises the error at the end of the limit, and where the run is to stop."""
        now = self.clock()
        # From the first failure of its kind: an attempt that fails for another reason in between begins no new limit.
        begun = self._since.setdefault(what, now)
        left = begun + limit - now
        if left <= 0 or self.wait(min(pause, left)):
            raise last from cause

    def _lock_error(self) -> SinkTimeoutError:
        return SinkTimeoutError(
            f"{self.where}: another connection holds a lock on the table or its log of batches, and "
            f"{self.options.lock_timeout} seconds were waited for it (lock_timeout). End that transaction, or give the "
            "sink a longer lock_timeout. Nothing of the batch was written."
        )
