"""Kernel interface of a disk: memory as a block device, ext4 on it, mounted; by ctypes and ioctl.

The numbers are those of Linux on every architecture with the generic layout of ioctl numbers.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

LOOP_CTL_GET_FREE, LOOP_CONFIGURE = 0x4C82, 0x4C0A
LOOP_FLAG_AUTOCLEAR = 4
LOOP_INFO_BYTES, LOOP_FLAGS_AT, LOOP_RESERVED_BYTES = 232, 52, 64
LOOP_MAJOR = 7
SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
FREEZE, THAW = 0xC0045877, 0xC0045878
NO_ACCESS_TIMES = 0x400
CONTROL = "/dev/loop-control"
MAKE = ("-q", "-F", "-m0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")
TRIES = 20
"""Other processes may take the device that is free between the two requests."""
_libc = ctypes.CDLL(None, use_errno=True)


def make(memory: int) -> None:
    """Writes an empty ext4 filesystem into a file. Errors: OSError."""
    mkfs = shutil.which("mkfs.ext4") or shutil.which("mkfs.ext4", path="/usr/sbin:/sbin")
    if mkfs is None:
        raise OSError(errno.ENOENT, "needs the command mkfs.ext4 (package e2fsprogs)")
    done = subprocess.run(
        [mkfs, *MAKE, f"/proc/self/fd/{memory}"],
        pass_fds=(memory,),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise OSError(errno.EIO, f"mkfs.ext4: {done.stderr.strip()[:200]}")


def mount(memory: int, at: Path) -> None:
    """Mounts a file's filesystem by a loop device that ends with the mount. Errors: OSError."""
    device, name = _attached(memory)
    try:
        _checked(_libc.mount(name.encode(), os.fsencode(at), b"ext4", NO_ACCESS_TIMES, b""))
    finally:
        os.close(device)


def unmount(at: Path) -> None:
    """Unmounts a filesystem, frozen or not. Errors: OSError, EBUSY while a file is open."""
    thaw(at)
    _checked(_libc.umount2(os.fsencode(at), 0))


def shut_down(at: Path) -> None:
    """Ends a filesystem as a power loss does: nothing more is written, the journal neither."""
    _on(at, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))


def freeze(at: Path) -> None:
    """Writes back what is in memory; then every write waits. Errors: OSError."""
    _on(at, FREEZE, struct.pack("i", 0))


def thaw(at: Path) -> bool:
    """Lets writes go on; False if the filesystem was not frozen. Errors: OSError."""
    try:
        _on(at, THAW, struct.pack("i", 0))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True


def sync(at: Path) -> None:
    """Makes everything written so far durable. Errors: OSError."""
    folder = _opened(at)
    try:
        _checked(_libc.syncfs(folder))
    finally:
        os.close(folder)


def is_shut_down(at: Path) -> bool:
    """Whether the kernel shows the filesystem as shut down (/proc/self/mountinfo)."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4] == str(at).replace(" ", "\\040"):
            return "shutdown" in after.split()[2].split(",")
    return False


def require(at: Path) -> None:
    """Errors: OSError, ENODEV if no loop device is mounted there."""
    os.close(_opened(at))


def _opened(at: Path) -> int:
    """A descriptor of a mounted disk. Errors: as of `require`.

    After an unmount by another program the requests would reach the filesystem below, the host's.
    """
    folder = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    device, below = os.fstat(folder).st_dev, os.stat(at.parent).st_dev
    if device == below or os.major(device) != LOOP_MAJOR:
        os.close(folder)
        raise OSError(errno.ENODEV, f"no disk is mounted at {at} any more")
    return folder


def _on(at: Path, request: int, argument: bytes) -> None:
    folder = _opened(at)
    try:
        fcntl.ioctl(folder, request, argument)
    finally:
        os.close(folder)


def _attached(memory: int) -> tuple[int, str]:
    """A loop device over a file, open, and its path; it is free again when it is no longer used."""
    info = bytearray(LOOP_INFO_BYTES)
    struct.pack_into("I", info, LOOP_FLAGS_AT, LOOP_FLAG_AUTOCLEAR)
    config = struct.pack("II", memory, 0) + bytes(info) + bytes(LOOP_RESERVED_BYTES)
    control = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(TRIES):
            name = f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
            device = os.open(name, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, config)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
            else:
                return device, name
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, f"no free loop device in {TRIES} tries")


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
