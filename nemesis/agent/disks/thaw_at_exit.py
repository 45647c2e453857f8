"""Thaws disks as soon as the fault agent that froze them is gone.

Run as `python -m holdfast.nemesis.agent.disks.thaw_at_exit FOLDER...` with a pipe from the agent
as its standard input. The kernel keeps a filesystem frozen when the process that froze it is
killed, and a process that waits for it cannot be killed.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

from holdfast.nemesis.agent.disks import loop_mount


def main() -> None:
    """Waits for the end of the input; then every disk is thawed."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for folder in sys.argv[1:]:
        with suppress(OSError):
            loop_mount.thaw(Path(folder))


main()
