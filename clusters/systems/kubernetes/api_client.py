"""Leases over the Kubernetes API: read, create, replace; standard library only."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict
from urllib.parse import quote

from holdfast.clusters.systems.kubernetes import LEASES, PORT
from holdfast.clusters.systems.kubernetes.wire import Metadata, Spec
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Status

ANSWER_WITHIN_S = 1.0
SURE = (400, 404, 409, 422)
"""Responses after which the request has certainly had no effect; others leave it unknown."""


class Body(TypedDict, total=False):
    """Of a request or a response: a lease, or an error's message."""

    metadata: Metadata
    spec: Spec
    message: str


class Failed(Exception):
    """A request that did not succeed: the HTTP code of the response, 0 if there was none."""

    def __init__(self, code: int, why: str, *, sent: bool = True) -> None:
        super().__init__(f"HTTP {code}: {why}" if code else why)
        self.code = code
        self.outcome = Status.FAIL if not sent or code in SURE else Status.INFO


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A Lease as read: who holds it ("": free), for how long, in which term."""

    version: str
    holder: str
    lease_ns: int
    transitions: int


class Leases:
    """A client of one API server at a time; the next one after a connection that fails."""

    def __init__(self, addresses: Sequence[str], first: int) -> None:
        self._addresses = addresses
        self._at = first % len(addresses)
        self._connection = self._connected()

    def read(self, name: str) -> Lease | None:
        """The lease, None if there is none. Raises Failed."""
        try:
            return _lease(self._ask("GET", _path(name)))
        except Failed as failed:
            if failed.code == http.client.NOT_FOUND:
                return None
            raise

    def create(self, name: str, spec: Spec) -> Lease:
        """The lease as created. Raises Failed, 409 if there is one."""
        return _lease(self._ask("POST", LEASES, {"metadata": {"name": name}, "spec": spec}))

    def replace(self, name: str, version: str, spec: Spec) -> Lease:
        """The lease as written over that version. Raises Failed, 409 if it has another one."""
        metadata = Metadata(name=name, resourceVersion=version)
        return _lease(self._ask("PUT", _path(name), {"metadata": metadata, "spec": spec}))

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _ask(self, method: str, path: str, body: Body | None = None) -> Body:
        if self._connection.sock is None:
            try:
                self._connection.connect()
            except OSError as error:
                self._next()
                raise Failed(0, f"never sent: {error}", sent=False) from error
        words = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, words, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            answer: Body = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._next()
            raise Failed(0, f"no response: {error}") from error
        if response.status >= http.client.BAD_REQUEST:
            raise Failed(response.status, answer.get("message", ""))
        return answer

    def _next(self) -> None:
        self._connection.close()
        self._at = (self._at + 1) % len(self._addresses)
        self._connection = self._connected()

    def _connected(self) -> http.client.HTTPConnection:
        """Connected by the first request."""
        return http.client.HTTPConnection(self._addresses[self._at], PORT, timeout=ANSWER_WITHIN_S)


def _path(name: str) -> str:
    return f"{LEASES}/{quote(name, safe='')}"


def _lease(said: Body) -> Lease:
    spec = said.get("spec") or {}
    return Lease(
        version=said["metadata"]["resourceVersion"],
        holder=spec.get("holderIdentity") or "",
        lease_ns=int(spec.get("leaseDurationSeconds") or 0) * SECOND,
        transitions=int(spec.get("leaseTransitions") or 0),
    )
