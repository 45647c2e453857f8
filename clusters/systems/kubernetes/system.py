"""Driver side of Kubernetes Leases: etcd and an API server on each node, promises.

Promises: exclusion, ordered tokens (`leaseTransitions`), ownership and progress under any fault
    that leaves, or restores, a majority; with a resource that checks tokens, no stale write.
Does not promise: loss notification; that a holder paused past its lease does not write.
Tested with: Debian's etcd 3.4.23 and a stand-in for kube-apiserver, which no package index has: the
    lease part of its API, `clusters/systems/kubernetes/api_server.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.etcd import PEER_PORT
from holdfast.clusters.systems.etcd import PORT as ETCD_PORT
from holdfast.clusters.systems.etcd.system import KEPT
from holdfast.clusters.systems.etcd.system import SYSTEM as ETCD
from holdfast.clusters.systems.kubernetes import PORT
from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE_WITH_TOKENS
from holdfast.clusters.systems.response import response
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

API_SERVER = "holdfast.clusters.systems.kubernetes.api_server"
READY_WITHIN_S = 1.0
SHEET = {
    "owner identity": "a holderIdentity per attempt",
    "acquisition": "a Lease is created, or replaced under its resourceVersion: it has no holder, or"
    " did not change for its duration; polled every 20 to 80 ms",
    "lease": "whole seconds, measured by each candidate on its own monotonic clock since it saw the"
    " record",
    "renewal": "a read and a replace under the resourceVersion that was read",
    "token enforcement": "leaseTransitions, one more with every holder",
    "timeout": "1 s per request, then the next API server; a write without a response is unknown",
    "retry": "a renewal or release is repeated when the record changed between read and write",
    "consequence": "a holder paused for longer than its lease is replaced without a notification",
    "clock assumptions": "monotonic clocks of candidates run at nearly the same rate; wall clocks"
    " are not used",
    "evidence": "etcd, every write fsynced; the API server is a stand-in without watches,"
    " authentication and admission",
}


class Kubernetes(KeepsFiles):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.kubernetes.client:client"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = (PORT, ETCD_PORT, PEER_PORT)
    no_members = "the stand-in for the API server does not replace members of its etcd"
    no_failover = "the stand-in for the API server does not move the leader of its etcd"
    no_release = "the stand-in for the API server is started with one release of etcd"

    def promises(self, options: Mapping[str, str]) -> Promises:
        """What compare-and-replace on a consistent store can promise. Raises UsageError."""
        choose("kubernetes", options, {})
        return replace(
            LEASE_WITH_TOKENS,
            slip_ns=5 * MILLISECOND,
            recovery_ns=10 * SECOND,
            keeps=dict.fromkeys(KEPT, ("any",)),
            sheet=SHEET,
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """A member of etcd, with the API server as its child."""
        etcd = ETCD.command(node, servers, place, {})
        config = json.dumps({"address": node.address, "etcd": etcd.argv})
        argv = (node.python, "-S", "-P", "-m", API_SERVER, "--config", config)
        env = {"PYTHONPATH": str(place.shared[0])}
        return Command(argv=argv, log=etcd.log, env=env, prelude=API_SERVER)

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return ETCD.precheck()

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        """The revision of the member of etcd."""
        return await ETCD.position(server, {})

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the API server responds and its member knows a leader."""
        question = b"GET /readyz HTTP/1.0\r\n\r\n"
        status, _, _ = (await response(node.address, PORT, question, READY_WITHIN_S)).partition(
            b"\n"
        )
        return b" 200 " in status

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The node whose member of etcd leads."""
        return await ETCD.leader(servers, {})


SYSTEM = Kubernetes()
