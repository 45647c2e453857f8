"""Driver, fault agent or both are killed amid each kind of fault: nothing is left."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from holdfast import catalogue
from tests import needs
from tests.front import aborted
from tests.front.test_links_and_limits import every_pid, injected, network_of
from tests.front.test_teardown import agent_of, all_gone
from tests.nemesis.test_agent_disks import attached

pytestmark = [pytest.mark.power, pytest.mark.real_server]

OFTEN = "every=3s,for=2700ms"
WORDS = {
    "failpoint": "function=lease.(*lessor).findExpiredLeases,target=leader",
    "manual-failover": "via=handover",
    "packet-corrupt": "share=1%",
    "rolling-upgrade": "to=3.5.1",
    "slow-links": "by=10ms",
    "syscall": "target=n1,call=send:all,act=freeze",
}
"""What a kind needs besides its times."""
SYSTEMS = {
    "compact": "etcd",
    "defragment": "etcd",
    "failpoint": "etcd",
    "manual-failover": "etcd",
    "replace-member": "etcd",
    "rolling-upgrade": "etcd",
}
"""Kinds that the reference service has no use for."""
CGROUPS = Path("/sys/fs/cgroup")


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("who", ["driver", "agent", "both"])
@pytest.mark.parametrize("kind", sorted(catalogue.NEMESES))
def test_nothing_is_left(tmp_path: Path, kind: str, who: str) -> None:
    """No process, network, mount, loop device or cgroup of the run, and `doctor` finds nothing."""
    needs.namespaces()
    needs.disks()
    system = SYSTEMS.get(kind, "reference")
    if system != "reference":
        needs.binary(system)
    faults = ",".join([f"{kind}:{OFTEN}", *([WORDS[kind]] if kind in WORDS else [])])
    run = aborted.start(tmp_path, "local", 3, system=system, faults=faults)
    try:
        aborted.wait_for(
            lambda: kind in injected(run.run_dir),
            60,
            f"not injected: {said_of(run.run_dir)}",
        )
        networks = {network_of(pid) for pid in aborted.processes_of(run.run_dir)} - {
            network_of(os.getpid())
        }
        victims = [agent_of(run.run_dir)] if who != "driver" else []
        victims += [run.driver] if who != "agent" else []
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        run.process.wait(60)
        all_gone(run)
        aborted.wait_for(
            lambda: not [pid for pid in every_pid() if network_of(pid) in networks],
            10,
            "a network of the run is left",
        )
        name = run.run_dir.name
        servers = sorted((run.run_dir / "data").glob("n*"))
        aborted.wait_for(
            lambda: not [one for one in servers if attached(one)], 10, "a loop device is left"
        )
        assert name not in mounts()
        assert list(CGROUPS.glob(f"*/**/*{name}*")) == []
        assert aborted.doctor(run)["leftovers"] == []
    finally:
        if run.process.poll() is None:
            run.process.kill()
        run.process.wait(10)


def said_of(run_dir: Path) -> list[dict[str, object]]:
    """What the fault journal says of faults that did not take effect."""
    try:
        lines = (run_dir / "faults.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return [row for row in rows if row["event"] not in ("planned", "injected")]
