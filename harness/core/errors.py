"""Errors that Holdfast shows to the user, with their exit codes, and those that programs print.

HoldfastError
  UsageError          2   a name, option, plan or file that the user can fix
  EnvironmentFailed   4   this machine, an engine or a server failed
    NoAnswer          4   a request was sent and its effect is unknown
    AgentLost         4   the fault agent exited while the run needed it
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

SEVERITY = {0: 0, 3: 1, 2: 2, 4: 3, 1: 4}
"""Exit code -> its priority: 1 before 4 before 2 before 3 before 0."""

FULL = (errno.ENOSPC, errno.EDQUOT)
NEXT = "free some of it, or name a folder on another disk (--out), and start the command again"
"""What to do about a disk that is full."""


def worst_exit_code(codes: Iterable[int], default: int = 0) -> int:
    """The exit code of several runs; `default` for none."""
    return max(codes, key=SEVERITY.__getitem__, default=default)


class HoldfastError(Exception):
    """An error with one message for the user: where, what is wrong, what to do."""

    exit_code = 4


class UsageError(HoldfastError):
    """The user requested something that does not exist or is contradictory.

    `problems` has one line per mistake; all of them are shown at once.
    """

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class EnvironmentFailed(HoldfastError):
    """The environment failed: no engine, no port, a server that died."""

    exit_code = 4


class NoAnswer(EnvironmentFailed):
    """A request got no response in time: it may have taken effect, or may do so later."""


class AgentLost(EnvironmentFailed):
    """The fault agent exited or does not respond: no fault can be injected or healed."""


def no_space(error: OSError, path: Path | str = "") -> EnvironmentFailed | None:
    """The failure that a full disk or quota is: what cannot be written, why, and how to go on;
    None for another error. `path` if the error names no file."""
    if error.errno not in FULL:
        return None
    where = error.filename or path
    reason = f"{os.strerror(error.errno)}: {NEXT}"
    return EnvironmentFailed(f"{where}: {reason}" if where else reason)


ERROR_LINE = re.compile(
    r"(?:(?:Exception in thread|panic:|fatal error:|Segmentation fault)"  # JVM, Go, C
    r"|(?:error|ERROR|Error|FATAL)(?:\[\w+\])?:"  # most tools, Node.js
    r"|(?:Uncaught )?(?:[\w.]+[.:])?\w*(?:Error|Exception)(?: \[\w+\])?(?::|$))"  # Python, Node.js
)
LONGEST_LINE = 300
"""Characters of a line that are kept."""


def is_error(line: str) -> bool:
    """Whether a line begins with an error, as the common languages and tools print one."""
    return ERROR_LINE.match(line.strip()) is not None


def first_error(lines: Iterable[str]) -> str:
    """The first such line, without the space around it; "" if there is none.

    The first, because its consequences follow: Node.js ends with its version, pip with a hint.
    """
    return next((line.strip()[:LONGEST_LINE] for line in lines if is_error(line)), "")
