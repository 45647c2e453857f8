"""The disk of one node: ext4 in memory, mounted as the node's data folder.

The memory is a file without a name, the loop device ends with its mount, and the mount is in a
mount namespace of the run. So the kernel removes all three with the last process of the run,
however it ends.
"""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.harness.runs.registry import DRIVER_VARIABLE, RUN_VARIABLE
from holdfast.nemesis.agent.disks import loop_mount

LEAST = 16 << 20
"""Bytes of the smallest disk: ext4 with a journal needs about 8 MiB."""
NAME_LENGTH = 240
"""A file in memory has a name of at most 249 bytes."""
MOUNTS_VARIABLE = "HOLDFAST_MOUNTS"
"""Environment variable with the mount namespace from which the run was started."""


@dataclass(slots=True)
class NodeDisk:
    """A mounted disk. `close` unmounts it; the kernel does, if the agent is killed.

    To take its space and to give it back are writes, which wait while it is frozen: both are done
    once it is thawed.
    """

    at: Path
    size: int
    frozen: bool = field(init=False, default=False)
    to_be_full: bool = field(init=False, default=False)
    _memory: int = field(init=False, default=-1)
    _ballast: int = field(init=False, default=-1)

    def open(self) -> None:
        """Makes and mounts it. Errors: OSError."""
        self._memory = os.memfd_create(_name(self.at, os.environ))
        try:
            os.ftruncate(self._memory, self.size)
            loop_mount.make(self._memory)
            self.at.mkdir(parents=True, exist_ok=True)
            loop_mount.mount(self._memory, self.at)
        except OSError:
            os.close(self._memory)
            raise
        # Servers that expect an empty folder refuse one with this in it.
        (self.at / "lost+found").rmdir()
        loop_mount.sync(self.at)

    def close(self) -> None:
        """Unmounts it, which loses all data. Errors: OSError, EBUSY while a file is open."""
        self.thaw()
        self.empty()
        loop_mount.unmount(self.at)
        os.close(self._memory)

    def cut(self) -> tuple[int, int]:
        """Power loss; the times before and after it. Open files return errors from now on."""
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        loop_mount.shut_down(self.at)
        return before, time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def recover(self) -> None:
        """Mounts it again after a power loss: the kernel replays its journal. Errors: OSError.

        The loop device is another, because the old one may hold blocks in memory that were never
        written.
        """
        loop_mount.thaw(self.at)
        self.frozen = False
        self._give_back()
        loop_mount.unmount(self.at)
        loop_mount.mount(self._memory, self.at)
        if self.to_be_full:
            self.fill()

    def freeze(self) -> None:
        """Writes back what is in memory; then every write waits. Errors: OSError."""
        loop_mount.freeze(self.at)
        self.frozen = True

    def thaw(self) -> None:
        """Lets writes go on, and makes up for what waited. Errors: OSError."""
        loop_mount.thaw(self.at)
        self.frozen = False
        if self.to_be_full:
            self.fill()
        else:
            self._give_back()

    def fill(self) -> None:
        """Takes all free space, by a file without a name; until the kernel refuses one more
        block. The kernel frees the file when the agent ends. Errors: OSError."""
        self.to_be_full = True
        if self.frozen:
            return
        if self._ballast < 0:
            loop_mount.require(self.at)
            self._ballast = os.open(self.at, os.O_TMPFILE | os.O_RDWR, 0o600)
        taken = os.fstat(self._ballast).st_size
        block = os.statvfs(self.at).f_frsize
        share = max(block, self.free())
        while share >= block:
            try:
                os.posix_fallocate(self._ballast, taken, share)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                share //= 2  # The file's own map of blocks needs space too.
            else:
                taken += share

    def empty(self) -> None:
        """Frees the space that `fill` has taken."""
        self.to_be_full = False
        if not self.frozen:
            self._give_back()

    def _give_back(self) -> None:
        if self._ballast >= 0:
            os.close(self._ballast)
            self._ballast = -1

    @property
    def is_full(self) -> bool:
        """Whether `fill` has taken the free space."""
        return self._ballast >= 0

    def free(self) -> int:
        """Free bytes that a program can use."""
        usage = os.statvfs(self.at)
        return usage.f_bavail * usage.f_frsize


def _name(at: Path, environ: Mapping[str, str]) -> str:
    """Name of a disk's memory: its node, and the run and the driver that it belongs to.

    The kernel shows it as the file behind the loop device, which outlives the run if the disk is
    frozen; clusters/backends/frozen_disks.py reads it.
    """
    disk = f"holdfast-{at.name}-{at.parent.name}"[:NAME_LENGTH]
    label, mark = (environ.get(name, "") for name in (RUN_VARIABLE, DRIVER_VARIABLE))
    whole = f"{disk} of {label} by {mark}"
    return whole if label and len(whole) <= NAME_LENGTH else disk


def thaw_all(environ: Mapping[str, str]) -> int:
    """Thaws the disks of this run that an earlier fault agent has mounted; the number thawed."""
    thawed, owner = 0, f" of {environ.get(RUN_VARIABLE)} by "
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if not after.startswith("ext4 /dev/loop"):
            continue
        with suppress(OSError):
            device = Path("/sys/block", Path(after.split()[1]).name, "loop/backing_file")
            if owner in device.read_text():
                thawed += loop_mount.thaw(Path(before.split()[4].replace("\\040", " ")))
    return thawed


def shares_mounts() -> bool:
    """Whether what this process mounts would outlive the run."""
    return os.environ.get(MOUNTS_VARIABLE, "") in ("", os.readlink("/proc/self/ns/mnt"))


def unsupported() -> str | None:
    """Why no node can have a disk of its own here, or None: tried on a folder made for that."""
    if shares_mounts():
        return "a disk of its own for a node needs a mount namespace of the run"
    at = Path(tempfile.mkdtemp(prefix="holdfast-disk-"))
    probe = NodeDisk(at=at, size=LEAST)
    try:
        probe.open()
        probe.close()
    except OSError as error:
        return f"no ext4 on a loop device here: {error.strerror or error}"
    finally:
        at.rmdir()
    return None
