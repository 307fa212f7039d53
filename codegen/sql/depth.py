"""The depth to which SQL may nest, and a stack on which everything up to that can be read.

A parser by descent, and whatever walks its trees, calls itself for each level of a text. Python stops that at a
thousand calls, which some thirty brackets are.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, Final, TypeVar

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from aggloom.codegen.scalar.dialect import ScalarSpark
from aggloom.codegen.sql.errors import check_text, place_error, syntax_error, underline_errors
from aggloom.errors import UnsupportedSqlError

MAX_NESTING: Final = 500
"""Brackets, CASEs and signs before a value that may be open at once."""


_OPENS: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
_CLOSES: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)
_SIGNS: Final = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
# Reserved and not used: the system gives a page when the stack reaches it.
_STACK_BYTES: Final = 512 << 20
_CALLS: Final = 100_000

_Result = TypeVar("_Result")
# One for limit and stack size, for both belong to the process and not to a thread.
_lock = threading.RLock()
_running = 0
_before = 0


def check_nesting(sql: str) -> None:
    """Raise UnsupportedSqlError where a text nests deeper than MAX_NESTING, and SqlError where it is no text."""
    check_text(sql)
    try:
        tokens = sqlglot.tokenize(sql, dialect=ScalarSpark)
    except SqlglotError as error:
        raise syntax_error(sql, error) from None
    depth = signs = 0
    for token in tokens:
        signs = signs + 1 if token.token_type in _SIGNS else 0
        if token.token_type in _OPENS:
            depth += 1
        elif token.token_type in _CLOSES:
            depth = max(0, depth - 1)
        if depth + signs > MAX_NESTING:
            message = (
                f"the SQL is nested more than {MAX_NESTING} levels deep, which is the limit; name its inner parts in "
                "WITH queries or views."
            )
            with underline_errors(sql):
                raise place_error(UnsupportedSqlError(message), (token.start, token.end + 1))


def deep(call: Callable[[], _Result]) -> _Result:
    """Return the result of a call without side effects; made again on a large stack if the usual one is too small."""
    try:
        return call()
    except RecursionError:
        # It ran on the large stack already, and a larger one would not help.
        if threading.current_thread().name == __name__:
            raise
    return on_large_stack(call)


def on_large_stack(call: Callable[[], _Result]) -> _Result:
    """Return the result of a call that is known to need a large stack."""
    outcome: list[Any] = []
    # Context variables, such as the session's analyser, hold in the other thread, too.
    context = copy_context()

    def work() -> None:
        try:
            outcome.extend((context.run(call), None))
        # Also KeyboardInterrupt and SystemExit: they are raised in the thread that asked.
        except BaseException as error:
            outcome.extend((None, error))

    with _raised_limit():
        with _lock:
            usual = threading.stack_size(_STACK_BYTES)
            try:
                thread = threading.Thread(target=work, name=__name__, daemon=True)
                thread.start()
            finally:
                threading.stack_size(usual)
        thread.join()
    result, error = outcome
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


@contextmanager
def _raised_limit() -> Iterator[None]:
    """Python's limit of calls, which is one for all threads, raised until the last that needs it is done."""
    global _running, _before
    with _lock:
        if not _running:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, _CALLS))
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                sys.setrecursionlimit(_before)
