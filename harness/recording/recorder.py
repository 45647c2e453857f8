"""Where a client's calls are recorded, and who knows more of their edges. Standard library only."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from holdfast.harness.core.operations import NO_TOKEN, Op, Stamped, Status


class Rows(Protocol):
    """Where a Context records: `segments.Recorder` on a host, rows in memory in the simulator."""

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
    """Implements `Rows` for a process that is not to record anything."""

    def intern(self, text: str) -> int:
        return 0

    def invoke(self, f: Op, process: int, key: int, **edges: int) -> int:
        return 0

    def complete(self, number: int, status: Status, **said: object) -> int:
        return 0


class Stamps(Protocol):
    """Tells of what is asked while its block runs when it left and when its answer came."""

    def watch(self, wire: str) -> AbstractContextManager[Stamped | None]: ...
