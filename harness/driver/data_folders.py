"""Data folders of servers as an operator sees them: copied, compared, emptied, made small."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

Files = Mapping[Path, tuple[int, int]]
BLOCK = 1 << 16
LARGE = 1 << 20
"""Smaller files are not worth rewriting."""


def files_in(folder: Path) -> Files:
    """The regular files in a folder: relative path -> size and time of the last change."""
    return {
        path.relative_to(folder): (stat.st_size, stat.st_mtime_ns)
        for path in _regular(folder)
        for stat in (path.stat(),)
    }


def differing(folder: Path, other: Path) -> set[Path]:
    """The files, as relative paths, that only one of two folders has or whose bytes differ."""
    mine, others = files_in(folder), files_in(other)
    return {path for path in {**mine, **others} if not _equal(path, folder, other, mine, others)}


def _equal(path: Path, folder: Path, other: Path, mine: Files, others: Files) -> bool:
    here, there = mine.get(path), others.get(path)
    if here is None or there is None or here[0] != there[0]:
        return False
    return here == there or filecmp.cmp(folder / path, other / path, shallow=False)


def copy(folder: Path, to: Path) -> int:
    """Copies folders and regular files with their modes, times and, as root, owners.

    Returns the number of bytes in blocks that are not zero: databases allocate their logs long
    before they write them.
    """
    to.mkdir(parents=True)
    written = 0
    for path in sorted(folder.rglob("*")):
        there = to / path.relative_to(folder)
        if path.is_symlink():
            there.symlink_to(path.readlink())
        elif path.is_dir():
            there.mkdir()
        elif path.is_file():
            written += _copy_file(path, there)
        else:
            continue  # A socket or a pipe, which its server makes when it starts.
        _same(path, there)
    return written


def _copy_file(path: Path, there: Path) -> int:
    """Copies the blocks of a file that are not zero; holes stay holes."""
    written = at = 0
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        target = os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(source).st_size
            while at < size:
                try:
                    at = os.lseek(source, at, os.SEEK_DATA)
                except OSError as error:
                    if error.errno != errno.ENXIO:
                        raise
                    break  # The rest is a hole.
                block = os.pread(source, BLOCK, at)
                if block.strip(b"\0"):
                    os.pwrite(target, block, at)
                    written += len(block)
                at += len(block)
            os.ftruncate(target, size)
        finally:
            os.close(target)
    finally:
        os.close(source)
    return written


def free_zeros(folder: Path) -> int:
    """Rewrites large files without their blocks of zeros; their content stays. No server may use
    them. A server of etcd allocates 128 MiB of logs and writes a few hundred kB of them.

    Returns the number of bytes of disk space that were freed. A file that cannot be rewritten stays
    as it is.
    """
    freed = 0
    for path in _regular(folder):
        with suppress(OSError):
            allocated = path.stat().st_blocks * 512
            if allocated < LARGE:
                continue
            sparse = path.with_name(f".{path.name}.sparse")
            try:
                _copy_file(path, sparse)
                _same(path, sparse)
                saved = allocated - sparse.stat().st_blocks * 512
                if saved >= LARGE:
                    sparse.replace(path)
                    freed += saved
            finally:
                sparse.unlink(missing_ok=True)
    return freed


def _same(path: Path, there: Path) -> None:
    stat = path.lstat()
    if os.geteuid() == 0:
        os.chown(there, stat.st_uid, stat.st_gid, follow_symlinks=False)
    if not path.is_symlink():
        shutil.copystat(path, there)


def empty(folder: Path) -> None:
    """Removes what is in a folder; the folder, which may be a mounted disk, stays."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _regular(folder: Path) -> Iterator[Path]:
    # All are found before the first is changed.
    found = sorted(folder.rglob("*"))
    return (path for path in found if path.is_file() and not path.is_symlink())
