"""Makes the client of the reference service that a worker uses, as it is or with a planted bug."""

from __future__ import annotations

from holdfast.clusters.systems.reference.client.lock_client import ReferenceClient
from holdfast.clusters.systems.reference.mutants.client import CLIENTS
from holdfast.harness.core.ports import ClientSetup


def client(setup: ClientSetup) -> ReferenceClient:
    """The client of one worker; nothing is opened yet. A bug may be one of the servers only."""
    return CLIENTS.get(setup.options.get("mutant", ""), ReferenceClient)(setup)
