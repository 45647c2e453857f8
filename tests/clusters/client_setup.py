"""What a lock client is made with, where its server is a stand-in of the test."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op
from holdfast.harness.core.ports import ClientSetup


def client_setup(
    told: list[Op] | None,
    options: Mapping[str, str],
    *,
    lease_ns: int = SECOND,
    address: str = "127.0.0.1",
) -> ClientSetup:
    """Client c1 of one server; what it notes by itself is added to `told`."""
    heard: list[Op] = [] if told is None else told
    return ClientSetup(
        process=1,
        name="c1",
        servers=[("n1", address)],
        lease_ns=lease_ns,
        options=options,
        tell=lambda op, **rest: heard.append(op),
    )
