"""The line of a program's output that says why it failed."""

from __future__ import annotations

import re
from collections.abc import Iterable

ERROR = re.compile(
    r"(?:(?:Exception in thread|panic:|fatal error:|Segmentation fault)"  # JVM, Go, C
    r"|(?:error|ERROR|Error|FATAL)(?:\[\w+\])?:"  # most tools, Node.js
    r"|(?:Uncaught )?(?:[\w.]+[.:])?\w*(?:Error|Exception)(?: \[\w+\])?(?::|$))"  # Python, Node.js
)
MOST = 300
"""Characters of a line that are kept."""


def is_error(line: str) -> bool:
    """Whether a line begins with an error, as the common languages and tools print one."""
    return ERROR.match(line.strip()) is not None


def first_error(lines: Iterable[str]) -> str:
    """The first such line, without the space around it; "" if there is none.

    The first, because its consequences follow: Node.js ends with its version, pip with a hint.
    """
    return next((line.strip()[:MOST] for line in lines if is_error(line)), "")
