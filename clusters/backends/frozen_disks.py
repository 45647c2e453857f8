"""Disks that an aborted run left: frozen, mounted where only its processes see them, or nowhere.

Until a disk is thawed, a process that writes to it cannot be killed. A frozen filesystem outlives
its last mount, with its loop device and its memory.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.clusters.backends import processes
from holdfast.harness.core.errors import EnvironmentFailed

THAW = 0xC0045878
"""FITHAW of linux/fs.h."""
FSOPEN, FSCONFIG, FSMOUNT = 430, 431, 432
"""Numbers of the system calls, the same on every architecture; Linux 5.2 and newer."""
SET_STRING, CREATE = 1, 6
CLOSE_ON_EXEC = 1
OURS = re.compile(r"/memfd:holdfast-.* of (?P<label>\S+) by (?P<mark>\S*)( \(deleted\))?")
"""The name of a disk's memory, as nemesis/agent/disks/node_disk.py gives it."""
WITHIN_S, POLL_S = 2.0, 0.01
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A loop device over the memory of a node's disk; `backing` as the kernel names it."""

    path: str
    backing: str
    label: str
    mark: str


def devices() -> Iterator[Device]:
    """The loop devices of this host with disks of runs, living ones too."""
    for file in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        path = f"/dev/{file.parts[3]}"
        backing = _backing(path)
        named = OURS.fullmatch(backing)
        if named:
            yield Device(path=path, backing=backing, label=named["label"], mark=named["mark"])


def thaw(pid: int) -> None:
    """Thaws every disk that a process sees and this one does not: the disks of a run are mounted
    in a mount namespace of the run. One that is not frozen stays as it is."""
    with suppress(OSError):
        ours = {device for device, _, _ in _mounts(Path("/proc/self"))}
        shown = processes.view(pid)
        for device, at, _ in _mounts(shown):
            if device not in ours:
                with suppress(OSError):
                    _thaw(f"{shown}/root{at}")


def thaw_run(label: str) -> None:
    """Thaws the disks of a run, in its mount namespace; those of others are seen there too."""
    own = {one.path for one in devices() if one.label == label}
    for _, at, path in _mounts(Path("/proc/self")) if own else ():
        if path in own:
            with suppress(OSError):
                _thaw(at)


def release(device: str, backing: str) -> None:
    """Thaws the disk of a loop device; the kernel detaches it once nothing has it mounted.

    Nothing happens if the device has another file by now. EnvironmentFailed if it stays attached.
    """
    try:
        # While it is open, it cannot be detached and attached to another file.
        held = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENXIO):
            return
        raise EnvironmentFailed(f"{device}: cannot be thawed: {error.strerror}") from error
    try:
        if _backing(device) != backing:
            return
        _thaw_device(device)
    except OSError as error:
        raise EnvironmentFailed(f"{device}: cannot be thawed: {error.strerror}") from error
    finally:
        os.close(held)
    deadline = time.monotonic() + WITHIN_S
    while _backing(device) == backing:
        if time.monotonic() > deadline:
            raise EnvironmentFailed(f"{device}: thawed, but still mounted or open")
        time.sleep(POLL_S)


def _backing(device: str) -> str:
    """The file behind a loop device, as the kernel names it; empty if there is none."""
    with suppress(OSError):
        return Path("/sys/block", Path(device).name, "loop/backing_file").read_text().strip()
    return ""


def _thaw_device(device: str) -> None:
    """Thaws a filesystem by a mount of its own that is attached nowhere and ends here."""
    context = _called(FSOPEN, b"ext4", CLOSE_ON_EXEC)
    try:
        _called(FSCONFIG, context, SET_STRING, b"source", os.fsencode(device), 0)
        _called(FSCONFIG, context, CREATE, None, None, 0)
        mounted = _called(FSMOUNT, context, CLOSE_ON_EXEC, 0)
    finally:
        os.close(context)
    try:
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mounted)
        try:
            with suppress(OSError):  # It is not frozen.
                fcntl.ioctl(folder, THAW, b"\0\0\0\0")
        finally:
            os.close(folder)
    finally:
        os.close(mounted)


def _called(number: int, *arguments: object) -> int:
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _thaw(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(folder, THAW, b"\0\0\0\0")
    finally:
        os.close(folder)


def _mounts(shown: Path) -> Iterator[tuple[str, str, str]]:
    """Device number, mount point and path of each ext4 on a loop device in a /proc folder."""
    for line in (shown / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("ext4 /dev/loop"):
            _, _, device, _, at, *_ = before.split()
            yield device, at.replace("\\040", " "), after.split()[1]
