"""The client of the Chubby mode: that of the reference service, in a session with heartbeats."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clusters.systems.chubby.options import DEFAULTS
from holdfast.clusters.systems.reference.client.lock_client import ReferenceClient
from holdfast.clusters.systems.reference.factory import client as made
from holdfast.harness.core.ports import ClientSetup


def client(setup: ClientSetup) -> ReferenceClient:
    """The factory that workers load."""
    return made(replace(setup, options={**DEFAULTS, **setup.options}))
