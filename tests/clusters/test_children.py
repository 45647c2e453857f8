"""Processes that a driver starts on its own host end with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.clusters.backends import processes
from holdfast.harness.runs import registry
from tests import needs
from tests.nemesis.waiting import wait_until

SOON_NS = 10_000_000_000


ORPHAN = """
import subprocess, sys
from holdfast.clusters.backends import processes
stops = ["sh", "-c", 'kill -STOP $$; exec "$@"', "stops", *processes.dies_with_us()]
child = subprocess.Popen([*stops, "touch", sys.argv[1]])
print(child.pid, flush=True)
child.wait()
"""
"""Starts a process that is stopped before it can ask the kernel to end it with this one."""


@pytest.mark.parametrize("killed", [True, False])
def test_a_child_whose_parent_is_killed_as_it_starts_does_nothing(
    tmp_path: Path, killed: bool
) -> None:
    needs.binary("setpriv")
    words = [sys.executable, "-c", ORPHAN, str(tmp_path / "done")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        deadline = time.monotonic_ns() + SOON_NS
        assert wait_until(lambda: registry.state_and_start(pid)[0] == "T", deadline)
        if killed:
            parent.kill()
            parent.wait()
        os.kill(pid, signal.SIGCONT)
        assert wait_until(lambda: processes.started(pid) < 0, deadline)
    assert (tmp_path / "done").exists() != killed
