"""Which line of a program's output says why it failed."""

from __future__ import annotations

import pytest

from holdfast.harness.core.errors import LONGEST_LINE, first_error

NODE = """
node:internal/modules/cjs/loader:1080
  throw err;
  ^

Error: Cannot find module './missing'
Require stack:
- /client/lock.js
    at Module._resolveFilename (node:internal/modules/cjs/loader:1077:15) {
  code: 'MODULE_NOT_FOUND',
  requireStack: [ '/client/lock.js' ]
}

Node.js v20.19.2
"""
NODE_SYSTEM = """
node:events:497
      throw er; // Unhandled 'error' event
Error [ERR_STREAM_DESTROYED]: Cannot call write after a stream was destroyed
"""
PYTHON = """
Traceback (most recent call last):
  File "lock.py", line 1, in <module>
    import redis
ModuleNotFoundError: No module named 'redis'
"""
JVM = """
Exception in thread "main" java.lang.IllegalStateException: not connected
\tat Lock.main(Lock.java:3)
"""
GO = """
panic: dial tcp 10.77.1.1:6379: connect: connection refused

goroutine 1 [running]:
exit status 2
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NODE, "Error: Cannot find module './missing'"),
        (
            NODE_SYSTEM,
            "Error [ERR_STREAM_DESTROYED]: Cannot call write after a stream was destroyed",
        ),
        (PYTHON, "ModuleNotFoundError: No module named 'redis'"),
        (JVM, 'Exception in thread "main" java.lang.IllegalStateException: not connected'),
        (GO, "panic: dial tcp 10.77.1.1:6379: connect: connection refused"),
        ("redis.exceptions.ConnectionError: refused", "redis.exceptions.ConnectionError: refused"),
        ("KeyboardInterrupt\nAssertionError", "AssertionError"),
        ("error[E0425]: cannot find value", "error[E0425]: cannot find value"),
        ("ready\nno Error here\nthe error: none", ""),
        ("ErrorHandler installed", ""),
        ("", ""),
    ],
)
def test_the_first_line_that_begins_with_an_error(text: str, line: str) -> None:
    assert first_error(text.splitlines()) == line


def test_a_long_line_is_cut() -> None:
    assert len(first_error(["Error: " + "x" * 10_000])) == LONGEST_LINE
