"""System calls that name files, and those that lock a file: which paths a thread passes to one.

Numbers of x86-64. A call with a folder's descriptor is the same call as the one without.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase

from holdfast.nemesis.agent.tracing.ptrace import Entry

NAMES: Mapping[str, Mapping[int, str]] = {
    "open": {2: "open", 85: "creat", 257: "openat", 437: "openat2"},
    "unlink": {87: "unlink", 263: "unlinkat"},
    "rmdir": {84: "rmdir", 263: "unlinkat"},
    "rename": {82: "rename", 264: "renameat", 316: "renameat2"},
    "mkdir": {83: "mkdir", 258: "mkdirat"},
    "link": {86: "link", 88: "symlink", 265: "linkat", 266: "symlinkat"},
}
"""Word of a plan -> number -> name."""
LOCKS: Mapping[str, Mapping[int, str]] = {"flock": {73: "flock"}, "fcntl": {72: "fcntl"}}
"""The same of calls that lock a file by its descriptor, the first argument."""
_UNLINKAT, _REMOVE_FOLDER, _FLAGS = 263, 0x200, 2
_FCNTL, _SETS_A_LOCK = 72, (6, 7, 37, 38)
"""F_SETLK, F_SETLKW, F_OFD_SETLK and F_OFD_SETLKW; the other commands lock nothing."""
ASKS = (21, 269, 439)
"""access, faccessat, faccessat2: calls by which clients mark their own."""
_NO_FOLDER = -1
_PATHS: Mapping[int, tuple[tuple[int, int], ...]] = {
    **dict.fromkeys((2, 21, 83, 84, 85, 87), ((_NO_FOLDER, 0),)),
    **dict.fromkeys((257, 258, 263, 269, 437, 439), ((0, 1),)),
    **dict.fromkeys((82, 86), ((_NO_FOLDER, 0), (_NO_FOLDER, 1))),
    **dict.fromkeys((264, 265, 316), ((0, 1), (2, 3))),
    # What a symbolic link points to need not be a path, and is no file that the call changes.
    88: ((_NO_FOLDER, 1),),
    266: ((1, 2),),
}
"""Number -> for each path the places of its folder's descriptor and of its text."""
_LONGEST, _PAGE = 4096, 4096
_HERE = -100
"""AT_FDCWD: the working folder, in place of a descriptor."""
_REMOVED = " (deleted)"
BETWEEN = " -> "
"""Between two paths of one call, in evidence."""


def is_one(word: str, entry: Entry) -> bool:
    """Whether a call of a number of this word is one by its arguments too."""
    if entry.number == _UNLINKAT and word in ("unlink", "rmdir"):
        return bool(entry.arguments[_FLAGS] & _REMOVE_FOLDER) == (word == "rmdir")
    return entry.number != _FCNTL or entry.arguments[1] in _SETS_A_LOCK


def named(thread: int, entry: Entry, pattern: str) -> str:
    """The paths of a call on names, "" if they cannot be read or none is of the pattern."""
    paths = [_path(thread, entry, *places) for places in _PATHS[entry.number]]
    wanted = any(path and fits(path, pattern) for path in paths)
    return BETWEEN.join(paths) if wanted else ""


def locked(thread: int, descriptor: int, pattern: str) -> str:
    """The path of a descriptor that is to be locked, "" if it is none of the pattern."""
    with suppress(OSError):
        path = os.readlink(f"/proc/{thread}/fd/{descriptor}").removesuffix(_REMOVED)
        return path if path.startswith("/") and fits(path, pattern) else ""
    return ""


def fits(path: str, pattern: str) -> bool:
    """A pattern with a slash is of the whole path, any other of its last part; "" is of all."""
    if not pattern:
        return True
    return fnmatchcase(path if "/" in pattern else os.path.basename(path), pattern)


def _path(thread: int, entry: Entry, folder: int, text: int) -> str:
    """The absolute path of a call; "" if it cannot be read."""
    name = _text(thread, entry.arguments[text])
    if not name or name.startswith("/"):
        return os.path.normpath(name) if name else ""
    at = _HERE if folder == _NO_FOLDER else _signed(entry.arguments[folder])
    with suppress(OSError):
        return os.path.normpath(os.path.join(os.readlink(_folder(thread, at)), name))
    return ""


def _folder(thread: int, descriptor: int) -> str:
    return f"/proc/{thread}/" + ("cwd" if descriptor == _HERE else f"fd/{descriptor}")


def _signed(argument: int) -> int:
    """A descriptor: the lower 32 bits of a register, with a sign."""
    low = argument & (1 << 32) - 1
    return low - (1 << 32) if low >> 31 else low


def _text(thread: int, address: int) -> str:
    """The text in the memory of a process that ends with a zero; "" if it cannot be read."""
    read = b""
    with suppress(OSError, OverflowError), open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        while len(read) < _LONGEST and b"\0" not in read:
            # The page behind the end of the text may belong to nobody.
            part = memory.read(_PAGE - (address + len(read)) % _PAGE)
            if not part:
                break
            read += part
    text, end, _ = read.partition(b"\0")
    return os.fsdecode(text) if end else ""
