"""Makes the client of majority votes that a worker uses, as it is or with a planted bug."""

from __future__ import annotations

from holdfast.clusters.systems.majority.client import MajorityClient
from holdfast.clusters.systems.majority.mutants import CLIENTS
from holdfast.harness.core.ports import ClientSetup


def client(setup: ClientSetup) -> MajorityClient:
    """The client of one worker; nothing is opened yet.

    Raises ValueError for a bad quorum, KeyError for an unknown bug."""
    mutant = setup.options.get("mutant")
    return CLIENTS[mutant](setup) if mutant else MajorityClient(setup)
