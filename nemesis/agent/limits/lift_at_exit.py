"""Removes a control group of memory as soon as the fault agent that made it is gone.

Run as `python -m holdfast.nemesis.agent.limits.lift_at_exit GROUP HOME` with a pipe from the agent
as its standard input. The kernel keeps a group when its maker is killed. Processes that are
still in it are moved to the group HOME.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from holdfast.nemesis.agent.limits import memory_groups


def main() -> None:
    """Waits for the end of the input; then the group is removed, if it is still there."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    group, home = map(Path, sys.argv[1:])
    if group.is_dir():
        memory_groups.lift(group)
        memory_groups.remove(group, home)


main()
