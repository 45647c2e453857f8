"""Opens the files of a run directory, which is untrusted: it may be a hostile archive.

Below the directory no link is followed, at any level; only regular files are opened, never a FIFO
or a device; what is read into memory has a bound, and so has the nesting of JSON. All code that
reads or writes files of a run directory uses this module. Standard library only.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from holdfast.harness.core.clock import LARGEST
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json, current
from holdfast.harness.recording import full_disk

MOST_BYTES = 256 << 20
"""Size limit of files that are read as a whole, except segments, which have their own limit."""
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""An escaped or raw surrogate in JSON; `json` reads both."""
MOST_DEPTH = 64
MOST_FILES = 100_000


@contextmanager
def opened(root: Path, name: str = ".", *, folder: bool = False) -> Iterator[int]:
    """A descriptor of a regular file, or of a folder, under `root`; names in `name` are no links.

    `root` itself may be reached through links: the user named it. OSError if it does not
    exist, is a link (ELOOP) or of another type (EINVAL).
    """
    steps = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        *above, last = Path(name).parts or (".",)
        for part in above:
            steps.append(_step(steps[-1], part, os.O_DIRECTORY))
        # Without O_NONBLOCK a FIFO would wait for its other end.
        steps.append(_step(steps[-1], last, os.O_DIRECTORY if folder else os.O_NONBLOCK))
        kind = os.fstat(steps[-1]).st_mode
        if not (stat.S_ISDIR(kind) if folder else stat.S_ISREG(kind)):
            raise OSError(errno.EINVAL, "not a regular file")
        yield steps[-1]
    finally:
        for step in steps:
            os.close(step)


def _step(at: int, part: str, flags: int) -> int:
    if part == "..":
        raise OSError(errno.ELOOP, "points outside of the run directory")
    try:
        return os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise OSError(error.errno, "a symbolic link or a wrong type of file") from error
        raise


def size(root: Path, name: str) -> int:
    """The size of a regular file in bytes; -1 if there is none that may be opened."""
    try:
        with opened(root, name) as file:
            return os.fstat(file).st_size
    except OSError:
        return -1


def is_file(root: Path, name: str) -> bool:
    """Whether there is a regular file of that name, reached through no link."""
    return size(root, name) >= 0


def read(root: Path, name: str, most: int = MOST_BYTES) -> bytes:
    """All of a file. UsageError says what is wrong with it; FileNotFoundError if it is not there.

    A file that grows meanwhile is read up to its size at the beginning.
    """
    try:
        with opened(root, name) as file:
            length = os.fstat(file).st_size
            if length > most:
                raise UsageError(
                    f"{root / name}: {length} bytes, more than the limit of {most}; it is"
                    " damaged: copy the run directory again"
                )
            with os.fdopen(os.dup(file), "rb") as stream:
                return stream.read(length)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"{root / name}: cannot be read: {error.strerror}") from error


def listed(root: Path, name: str = ".") -> list[str]:
    """The names in a folder, sorted; [] if it does not exist. UsageError if there are too many."""
    try:
        with opened(root, name, folder=True) as folder:
            found = os.listdir(folder)
    except OSError:
        return []
    if len(found) > MOST_FILES:
        raise UsageError(f"{root / name}: {len(found)} files, more than the limit of {MOST_FILES}")
    return sorted(found)


def walked(root: Path, name: str = ".", depth: int = 8) -> Iterator[str]:
    """Names of all regular files below a folder, relative to `root`; without links."""
    for each in listed(root, name):
        path = each if name == "." else f"{name}/{each}"
        if is_file(root, path):
            yield path
        elif depth:
            yield from walked(root, path, depth - 1)


def write(root: Path, name: str, data: bytes) -> None:
    """Write a file of the directory atomically. A link of that name is replaced.

    OSError on failure: a full disk, a read-only directory.
    """
    with opened(root, folder=True) as folder:
        # A name at which no link can exist: the file is made, never opened.
        part = f".{name}.{secrets.token_hex(8)}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(part, flags, 0o644, dir_fd=folder)
        try:
            with full_disk.naming(root / name), os.fdopen(file, "wb") as stream:
                stream.write(data)
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise


def append(root: Path, name: str, line: bytes) -> None:
    """Append a line to a file of the directory, in one write; OSError if it is a link, or if the
    disk cannot take the whole line, and then none of it is there."""
    with opened(root, folder=True) as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(name, flags | os.O_CLOEXEC, 0o644, dir_fd=folder)
        try:
            with full_disk.naming(root / name):
                full_disk.append_whole(file, line)
        finally:
            os.close(file)


@contextmanager
def appending(root: Path, name: str) -> Iterator[Callable[[bytes], object]]:
    """A call that appends a line to a new file of the directory, in one write each. OSError if
    there is such a file already."""
    with opened(root, folder=True) as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, 0o644, dir_fd=folder)
    with os.fdopen(file, "wb", buffering=0) as stream:
        yield stream.write


def decoded(data: bytes) -> Any:
    """A JSON value. ValueError if it is invalid, nested too deeply, or has a non-finite number or
    text that no file can hold."""
    try:
        found = json.loads(data, parse_constant=_not_finite)
    except RecursionError:
        raise ValueError(f"nested deeper than {MOST_DEPTH}") from None
    if SURROGATE.search(data):
        _encodable(found)
    level = [found]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return found
    raise ValueError(f"nested deeper than {MOST_DEPTH}")


def _encodable(found: object) -> None:
    """ValueError if a text has half of a surrogate pair: JSON can escape it, UTF-8 cannot."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        around = error.object[max(0, error.start - 20) : error.end + 20]
        raise ValueError(f"a lone surrogate in {around!a}") from None
    except RecursionError:
        raise ValueError(f"nested deeper than {MOST_DEPTH}") from None


def _inside(value: object) -> list[object]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [one for one in inner if isinstance(one, dict | list)]


def _not_finite(word: str) -> NoReturn:
    raise ValueError(f"invalid number {word}")


@contextmanager
def shaped(where: Path) -> Iterator[None]:
    """Turns errors in the shape of a file into UsageError: damage, not a crash of ours."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{where}: damaged: {what[:300]}; copy the run directory again") from error


def texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST


def text(value: object) -> bool:
    return isinstance(value, str)


LINE_FIELDS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("id", "event", "do", "target", "reason", "holder", "leader"), text),
    **dict.fromkeys(("mark", "host"), text),
    **dict.fromkeys(
        ("t_ns", "before_ns", "at_ns", "for_ns", "took_ns", "asked_ns", "to_ns"), number
    ),
    **dict.fromkeys(("most_ppm", "sent_ns", "host_ns", "received_ns", "from_ns", "term"), number),
    **dict.fromkeys(("nodes", "problems"), texts),
    **dict.fromkeys(("evidence", "params", "hosts"), lambda value: isinstance(value, dict)),
    **dict.fromkeys(("effective", "whole"), lambda value: isinstance(value, bool)),
}
"""Types of the fields in faults.jsonl, times.jsonl and clocks.jsonl."""


def table(data: bytes) -> dict[str, Json]:
    """One JSON object. ValueError otherwise."""
    found = decoded(data)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return found


def row(data: bytes) -> dict[str, Json]:
    """One JSON line of a run, with today's keys. ValueError names the field with a wrong type."""
    found = current(table(data))
    for name, check in LINE_FIELDS.items():
        if name in found and not check(found[name]):
            raise ValueError(f"{name} is {str(found[name])[:60]!r}")
    return found
