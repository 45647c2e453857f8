"""A request of a lock client to a service that did not succeed."""

from __future__ import annotations

from holdfast.harness.core.operations import Status


class Failed(Exception):
    """code: of the service, "" without a response; outcome: whether it may have had an effect."""

    def __init__(self, code: str, why: str, outcome: Status) -> None:
        super().__init__(f"{code}: {why}" if code else why)
        self.code, self.outcome = code, outcome
