"""Protocols for recording a client's calls and for timestamps at their edges. Standard library."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from holdfast.harness.core.operations import NO_TOKEN, Op, Stamped, Status


class Rows(Protocol):
    """Records rows: `segments.Recorder` on a host, rows in memory in the simulator."""

    def intern(self, text: str) -> int: ...

    def invoke(
        self,
        f: Op,
        process: int,
        key: int,
        *,
        attempt: int = 0,
        token: int = NO_TOKEN,
        arg: int = 0,
        aux: int = 0,
        op: int = 0,
        mode: int = 0,
        late: int = 0,
    ) -> int: ...

    def complete(
        self,
        number: int,
        status: Status,
        *,
        token: int | None = None,
        res: int = 0,
        err: int = 0,
        spent: int = 0,
        stamped: Stamped | None = None,
    ) -> int: ...


class Unrecorded:
    """`Rows` of a process that records nothing."""

    def intern(self, text: str) -> int:
        return 0

    def invoke(self, f: Op, process: int, key: int, **edges: int) -> int:
        return 0

    def complete(self, number: int, status: Status, **said: object) -> int:
        return 0


class Stamps(Protocol):
    """Measures, for requests within its block, their sending and the response's arrival."""

    def watch(self, wire: str) -> AbstractContextManager[Stamped | None]: ...
