"""Main loop of the fault agent: JSON lines in and out; heals everything before it exits.

It exits when standard input ends, when its parent process dies, when its output is closed, and on
SIGTERM, SIGINT or SIGHUP, but only between two requests.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress

from holdfast.harness.runs import signals
from holdfast.nemesis.agent.requests import FaultAgent

LONGEST_LINE = 1 << 20


def main() -> int:
    """Serves until the driver exits; 0 if everything could be healed, else 1."""
    signals.end_here()
    with suppress(PermissionError):
        os.setsid()
    agent = FaultAgent()
    for line in lines(0, watched()):
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = line.decode(errors="replace")[:80]
        try:
            answer(json.dumps(agent.serve(request)).encode() + b"\n")
        except BrokenPipeError:
            break
    problems = agent.leave()
    for problem in problems:
        sys.stderr.write(f"fault agent: {problem}\n")
    return 1 if problems else 0


def watched() -> list[int]:
    """File descriptors that become readable when the agent should exit."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    leave = [read]
    with suppress(OSError):
        leave.append(os.pidfd_open(os.getppid()))
    return leave


def lines(source: int, leave: list[int]) -> Iterator[bytes]:
    """Complete lines of a file descriptor until it ends or one of `leave` becomes readable.

    A line longer than LONGEST_LINE comes in pieces, which are rejected as invalid JSON.
    """
    rest = b""
    while True:
        ready, _, _ = select.select([source, *leave], [], [])
        if set(ready) & set(leave):
            return
        data = os.read(source, LONGEST_LINE)
        if not data:
            return
        *complete, rest = (rest + data).split(b"\n")
        yield from (line for line in complete if line.strip())
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""


def answer(line: bytes) -> None:
    """Writes all of it. Errors: BrokenPipeError."""
    while line:
        line = line[os.write(1, line) :]


sys.exit(main())
