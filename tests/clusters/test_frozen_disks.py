"""Disks that an aborted run left frozen: thawed by what removes its processes."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from holdfast.clusters.backends import frozen_disks
from tests import needs
from tests.nemesis.test_agent_disks import SOON_NS, deployed
from tests.nemesis.waiting import wait_until


def test_a_process_that_waits_for_a_frozen_disk_is_freed_by_its_pid(tmp_path: Path) -> None:
    needs.disks()
    with deployed(tmp_path) as node:
        node.agent.do("disk-hang", fault="f1", nodes=["n1"])
        node.send("synced")
        assert wait_until(node.waits, time.monotonic_ns() + SOON_NS)
        node.process.send_signal(signal.SIGKILL)
        assert node.process.poll() is None, "it waits for its disk and cannot die"
        frozen_disks.thaw(node.process.pid)
        assert node.process.wait(10) == -signal.SIGKILL


def test_nothing_is_thawed_in_our_own_mount_namespace(tmp_path: Path) -> None:
    needs.disks()
    with deployed(tmp_path) as node:
        node.agent.do("disk-hang", fault="f1", nodes=["n1"])
        frozen_disks.thaw(1)
        node.send("synced")
        assert wait_until(node.waits, time.monotonic_ns() + SOON_NS)
        node.agent.do("heal", fault="f1")
        assert node.line() == "done"
