"""Where the functions of a program are: from the line table of Go, or from the symbols of C.

A Go binary keeps the names of its functions even when it is stripped, because its runtime prints
them (section .gopclntab; layouts of Go 1.2, 1.16, 1.18 and 1.20). Others have them in .symtab or
.dynsym, unless they are stripped. 64-bit little-endian ELF files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 1 << 30
MOST_NEAR = 5
_GO_2, _GO_16, _GO_18, _GO_20 = 0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF0, 0xFFFFFFF1
_LOAD, _FUNCTION = 1, 2


class NotAProgram(ValueError):
    """Why the functions of a file cannot be read."""


@dataclass(frozen=True, slots=True)
class _Section:
    """name, address in memory, place and size in the file, linked section, size of an entry."""

    name: str
    address: int
    offset: int
    size: int
    link: int
    entry: int


class Program:
    """One ELF file. Errors: OSError, NotAProgram."""

    def __init__(self, path: Path) -> None:
        if path.stat().st_size > MOST_BYTES:
            raise NotAProgram(f"{path}: larger than {MOST_BYTES >> 20} MiB")
        self._data = path.read_bytes()
        try:
            self._read(path)
        except (struct.error, IndexError) as error:
            raise NotAProgram(f"{path}: a damaged ELF file") from error

    def _read(self, path: Path) -> None:
        data = self._data
        if data[:6] != b"\x7fELF\x02\x01":
            raise NotAProgram(f"{path}: not a 64-bit little-endian ELF file")
        self.relocatable = struct.unpack_from("<H", data, 16)[0] == 3
        heads, sections = struct.unpack_from("<QQ", data, 32)
        head_size, head_count, section_size, count, names = struct.unpack_from("<5H", data, 54)
        loads = [
            struct.unpack_from("<IIQQQQQQ", data, heads + n * head_size) for n in range(head_count)
        ]
        self.first_address = min((load[3] for load in loads if load[0] == _LOAD), default=0)
        rows = [
            struct.unpack_from("<IIQQQQIIQQ", data, sections + n * section_size)
            for n in range(count)
        ]
        text = rows[names][4] if rows else 0
        self._sections = [
            _Section(self._text(text + row[0]), row[3], row[4], row[5], row[6], row[9])
            for row in rows
        ]

    def functions(self) -> Mapping[str, int]:
        """Name -> address in the file's own numbering, in the order of the file; {} if stripped."""
        addresses: dict[str, int] = {}
        try:
            for section in self._sections:
                if section.name.endswith(".gopclntab"):
                    return dict(self._go(section))
            for section in self._sections:
                if section.name in (".symtab", ".dynsym"):
                    addresses.update(self._symbols(section))
        except (struct.error, IndexError) as error:
            raise NotAProgram("damaged tables of functions") from error
        return addresses

    def _text(self, offset: int) -> str:
        end = self._data.index(b"\0", offset)
        return self._data[offset:end].decode(errors="replace")

    def _symbols(self, section: _Section) -> Iterator[tuple[str, int]]:
        texts = self._sections[section.link].offset
        for at in range(section.offset, section.offset + section.size, section.entry or 24):
            name, info, _, index, value, _ = struct.unpack_from("<IBBHQQ", self._data, at)
            if info & 15 == _FUNCTION and index and value:
                yield self._text(texts + name), value

    def _go(self, section: _Section) -> Iterator[tuple[str, int]]:
        data, base = self._data, section.offset
        magic = struct.unpack_from("<I", data, base)[0]
        if magic not in (_GO_2, _GO_16, _GO_18, _GO_20) or data[base + 7] != 8:
            raise NotAProgram("a Go program of an unknown version")
        words = struct.unpack_from("<8Q", data, base + 8)
        count = words[0]
        if magic == _GO_2:
            names, table, start, wide = base, base + 16, 0, True
        elif magic == _GO_16:
            names, table, start, wide = base + words[2], base + words[6], 0, True
        else:
            names, table, wide = base + words[3], base + words[7], False
            # Left to the loader in programs that may stand anywhere.
            start = words[2] or self._address(".text")
        for n in range(count):
            if wide:
                entry, place = struct.unpack_from("<QQ", data, table + 16 * n)
                of_function = (base if magic == _GO_2 else table) + place
                offset = struct.unpack_from("<i", data, of_function + 8)
            else:
                entry, place = struct.unpack_from("<II", data, table + 8 * n)
                offset = struct.unpack_from("<i", data, table + place + 4)
            yield self._text(names + offset[0]), start + entry

    def _address(self, name: str) -> int:
        return next((one.address for one in self._sections if one.name == name), 0)


def matching(functions: Mapping[str, int], name: str) -> list[str]:
    """The functions that a name means: itself, or what it ends after a slash of the package's path:
    "lease.(*lessor).findExpiredLeases" of "go.etcd.io/etcd/lease.(*lessor).findExpiredLeases"."""
    if name in functions:
        return [name]
    return [one for one in functions if one.endswith(f"/{name}")]


class _Read(NamedTuple):
    """What is kept of a program's file."""

    functions: Mapping[str, int]
    relocatable: bool
    first_address: int


KEPT = 8
_READ: dict[tuple[int, int, int, int], _Read] = {}
"""Programs by device, inode, size and time of their file: reading one takes up to 0.2 s."""


def _read_once(path: Path) -> _Read:
    """A program's functions, read again only if its file is another one."""
    file = path.stat()
    key = (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns)
    if key not in _READ:
        program = Program(path)
        if len(_READ) >= KEPT:
            _READ.clear()
        _READ[key] = _Read(program.functions(), program.relocatable, program.first_address)
    return _READ[key]


def in_process(pid: int, name: str) -> tuple[str, int]:
    """The whole name and the address of a function in a running process. Errors: OSError,
    NotAProgram, also for a name of none or of several functions, with similar ones."""
    program = _read_once(Path(f"/proc/{pid}/exe"))
    functions = program.functions
    names = matching(functions, name)
    exe = str(Path(f"/proc/{pid}/exe").readlink())
    if len(names) != 1:
        last = name.rpartition(".")[2].lower()
        near = names or [one for one in functions if last and last in one.lower()]
        what = f"{len(names)} functions" if names else "no function"
        hint = f"; similar: {', '.join(near[:MOST_NEAR])}" if near else ""
        raise NotAProgram(f"{exe} has {what} of the name {name!r}{hint}")
    address = functions[names[0]]
    if not program.relocatable:
        return names[0], address
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith(exe):
            start = int(line.partition("-")[0], 16)
            return names[0], start - program.first_address + address
    raise NotAProgram(f"{exe} is not mapped in process {pid}")
