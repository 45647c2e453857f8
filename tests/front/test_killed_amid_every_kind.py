"""Driver, fault agent or both are killed amid each kind of fault: nothing is left."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import catalogue
from tests import needs
from tests.front import aborted
from tests.front.test_links_and_limits import devices_of, kill_amid
from tests.front.test_teardown import all_gone

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


@pytest.fixture(scope="module")
def another_device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A loop device that somebody else on this host has attached, and its file."""
    needs.disks()
    losetup = needs.binary("losetup")
    image = tmp_path_factory.mktemp("another") / "image"
    image.write_bytes(bytes(1 << 20))
    words = [losetup, "--find", "--show", str(image)]
    device = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    yield device, image
    subprocess.run([losetup, "--detach", device], check=True)


def backed(one: tuple[str, Path]) -> bool:
    """Whether a device is still attached to its file."""
    device, image = one
    of = Path("/sys/block") / Path(device).name / "loop/backing_file"
    return of.exists() and of.read_text().strip() == str(image)


@pytest.mark.parametrize("who", ["driver", "agent", "both"])
@pytest.mark.parametrize("kind", sorted(catalogue.NEMESES))
def test_nothing_is_left(
    tmp_path: Path, another_device: tuple[str, Path], kind: str, who: str
) -> None:
    """What `kill_amid` says; loop devices of others stay attached."""
    needs.namespaces()
    needs.disks()
    system = SYSTEMS.get(kind, "reference")
    if system != "reference":
        needs.binary(system)
    faults = ",".join([f"{kind}:{OFTEN}", *([WORDS[kind]] if kind in WORDS else [])])
    run = aborted.start(tmp_path, "local", 3, system=system, faults=faults)
    try:
        kill_amid(run, {kind}, who)
        assert backed(another_device)
    finally:
        if run.process.poll() is None:
            run.process.kill()
        run.process.wait(10)


def test_the_devices_of_a_run_with_disks_are_known(tmp_path: Path) -> None:
    """Else none could be seen to be left."""
    needs.namespaces()
    needs.disks()
    run = aborted.start(tmp_path, "local", 3, faults=f"power:{OFTEN}")
    try:
        aborted.wait_for(lambda: len(devices_of(run)) == 3, 60, "no device of the run is seen")
    finally:
        run.process.kill()
        run.process.wait(10)
    all_gone(run)
