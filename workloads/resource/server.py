"""The protected resource: a server with its own ordered log of every request.

Its process is `workloads.resource.process`. It keeps one versioned register per key, in one of five
modes: `fenced` admits a token >= the highest token admitted so far; `strict` also rejects a second
*attempt* with an equal token; `unfenced` admits every request; `cas` every request except a write
based on an outdated version; `idempotent` every request, and applies each idempotency key once,
from any client. Every accepted write creates the next version, once: a repeated write with the
same identity gets the first response. A decision is recorded as a row before the response is sent,
and after a restart it reads its own rows again, so its highest token survives a crash of its
process (not of the host: rows are memory-mapped, not synced).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.harness.core.operations import NO_TOKEN, ROW_BYTES, ROW_FORMAT, Op, Status
from holdfast.harness.recording import segments
from holdfast.harness.recording.packed_format import is_packed, unpacked

LIMIT = 1 << 16
WITHOUT_TOKENS = ("unfenced", "cas", "idempotent")
REMEMBERED = 1 << 16
"""number of writes that the resource remembers for duplicate detection"""


@dataclass(slots=True)
class Register:
    """One key: number of writes, and the newest admitted token with its attempt."""

    version: int = 0
    highest: int = NO_TOKEN
    attempt: int = 0


@dataclass(slots=True)
class Store:
    """All registers and the admission rule. No file, no socket, no clock.

    done   identity of an applied write -> the version that it created, for the latest writes
    """

    mode: str
    registers: dict[str, Register] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)

    def register(self, key: str) -> Register:
        """The register of a key."""
        known = self.registers.get(key)
        if known is None:
            known = self.registers[key] = Register()
        return known

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        """Whether a request is admitted; an admitted one raises the highest token of its key."""
        register = self.register(key)
        if self.mode not in WITHOUT_TOKENS:
            if token < register.highest:
                return False, register
            repeat = token == register.highest and attempt != register.attempt
            if self.mode == "strict" and register.attempt and repeat:
                return False, register
        if token >= register.highest:
            register.highest, register.attempt = token, attempt
        return True, register

    def builds(self, register: Register, base: int) -> bool:
        """Whether a write may follow the newest version; base -1: always."""
        return self.mode != "cas" or base in (-1, register.version)

    def applied(self, name: int) -> int | None:
        """The version that a repeated write created the first time, None for a new one."""
        return self.done.get(name)

    def repeated(self, key: str, once: bool) -> int | None:
        """The version created by the command of a key, None if it has to be applied."""
        return self.register(key).version or None if once and self.mode == "idempotent" else None

    def restarted(self) -> None:
        """Called after a restart, when the rows of the previous process have been read."""

    def note(self, name: int, version: int) -> None:
        """Remember a write, so that it takes effect once."""
        self.done[name] = version
        if len(self.done) > REMEMBERED:
            del self.done[next(iter(self.done))]


class Server:
    """Serves JSON lines over TCP, one request at a time in the order of its log."""

    def __init__(self, store: Store, recorder: segments.Recorder) -> None:
        self._store = store
        self._recorder = recorder

    def decide(self, request: Mapping[str, Any]) -> dict[str, object]:
        """One request: recorded, decided, decision recorded. KeyError etc. for garbage."""
        key, attempt = str(request["key"]), int(request["attempt"])
        token, base, name = int(request["token"]), int(request["base"]), int(request["op"])
        write = request["do"] == "write"
        known = self._store.applied(name) if write else None
        if write and known is None:
            known = self._store.repeated(key, bool(request.get("once", 0)))
        if known is not None:
            return {"ok": True, "version": known, "error": ""}
        before = self._store.register(key).highest
        row = self._recorder.invoke(
            Op.SERVED_WRITE if write else Op.SERVED_READ,
            name >> 32,
            self._recorder.intern(key),
            attempt=attempt,
            token=token,
            arg=base if write else before,
            aux=before if write else 0,
            op=name,
        )
        admitted, register = self._store.admit(key, attempt, token)
        error = "" if admitted else f"token {token} is older than {register.highest}"
        why = "" if admitted else "stale token"
        if admitted and write and not self._store.builds(register, base):
            admitted, why = False, "stale version"
            error = f"version {base} is older than {register.version}"
        if admitted and write:
            register.version += 1
            self._store.note(name, register.version)
        self._recorder.complete(
            row,
            Status.OK if admitted else Status.FAIL,
            res=register.version,
            err=self._recorder.intern(why),
        )
        return {"ok": admitted, "version": register.version, "error": error}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection. Garbage closes only this connection; so does the end of the run."""
        with contextlib.suppress(ConnectionError, asyncio.CancelledError, ValueError):
            while line := await reader.readline():
                try:
                    reply = self.decide(json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    sys.stderr.write(f"resource: closed a connection: {error!r}\n")
                    break
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        writer.close()


def replay(directory: Path, writer: str, store: Store) -> None:
    """Restore a store from the rows of an earlier process of this resource."""
    row = struct.Struct(ROW_FORMAT)
    strings_file = directory / f"{writer}.strings"
    strings = ["", *(json.loads(line) for line in strings_file.read_bytes().splitlines())]
    part = 0
    while (path := segments.segment_path(directory, writer, part)).exists():
        data = path.read_bytes()
        rows = unpacked(data) if is_packed(data) else data[segments.HEADER_BYTES :]
        for fields in row.iter_unpack(rows[: len(rows) // ROW_BYTES * ROW_BYTES]):
            kind, status = fields[14], fields[17]
            if kind in (Op.SERVED_READ, Op.SERVED_WRITE) and status == Status.OK:
                _, register = store.admit(strings[fields[11]], fields[2], fields[3])
                register.version = max(register.version, fields[5])
                if kind == Op.SERVED_WRITE:
                    store.note(fields[7], fields[5])
        part += 1
