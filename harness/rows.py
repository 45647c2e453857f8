"""Where a client's calls are recorded, whoever keeps the rows. Standard library only."""

from __future__ import annotations

from typing import Protocol

from holdfast.harness.events import NO_TOKEN, Op, Status


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
    ) -> int: ...

    def complete(
        self, number: int, status: Status, *, token: int | None = None, res: int = 0, err: int = 0
    ) -> int: ...
