"""A Lease as the Kubernetes API sends it in JSON; fields that are not used here are left out."""

from __future__ import annotations

from typing import TypedDict


class Metadata(TypedDict, total=False):
    """Which object it is; `resourceVersion` changes with every write of it."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str


class Spec(TypedDict, total=False):
    """Who holds it, for how many seconds after each renewal, and after how many other holders."""

    holderIdentity: str | None
    leaseDurationSeconds: int | None
    acquireTime: str | None
    renewTime: str | None
    leaseTransitions: int | None


class Lease(TypedDict):
    """The object as it is returned."""

    kind: str
    apiVersion: str
    metadata: Metadata
    spec: Spec


class Failure(TypedDict):
    """The body of a response that is an error."""

    kind: str
    apiVersion: str
    status: str
    message: str
    reason: str
    code: int
