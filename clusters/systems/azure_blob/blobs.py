"""Leases of blobs in one container, through unmodified azure-storage-blob.

The library's own retries are disabled, so that a request is sent once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError
from azure.storage.blob import BlobLeaseClient, ContainerClient

from holdfast.clusters.systems.azure_blob import ACCOUNT, CONTAINER, KEY, PORT
from holdfast.clusters.systems.failed_request import Failed
from holdfast.harness.core.operations import Status

ANSWER_WITHIN_S = 1.0
HELD = "LeaseAlreadyPresent"
ABSENT = ("BlobNotFound", "ContainerNotFound")
NOT_OURS = (
    "LeaseIdMismatchWithLeaseOperation",
    "LeaseIsBrokenAndCannotBeRenewed",
    "LeaseLost",
    "LeaseNotPresentWithLeaseOperation",
    *ABSENT,
)
"""Codes by which the service says that the blob has no lease of this id."""
REJECTED = 500
"""HTTP codes below have had no effect; others leave it unknown."""


class Blobs:
    """A client of one server. All methods raise Failed."""

    def __init__(self, address: str) -> None:
        self._container = ContainerClient(
            f"http://{address}:{PORT}/{ACCOUNT}",
            CONTAINER,
            credential={"account_name": ACCOUNT, "account_key": KEY},
            retry_total=0,
            connection_timeout=ANSWER_WITHIN_S,
            read_timeout=ANSWER_WITHIN_S,
        )

    def create(self, name: str) -> None:
        """An empty blob; its container, if there is none yet. An existing blob is kept."""
        for make in (self._container.create_container, lambda: self._upload(name)):
            try:
                _ask(make)
            except Failed as failed:
                if failed.code not in ("ContainerAlreadyExists", "BlobAlreadyExists"):
                    raise

    def acquire(self, name: str, owner: str, seconds: int) -> None:
        """Leases the blob; code HELD if it is leased."""
        _ask(lambda: self._lease(name, owner).acquire(lease_duration=seconds))

    def renew(self, name: str, owner: str) -> None:
        """Restarts the lease, also one that has expired if the blob was not leased since."""
        _ask(lambda: self._lease(name, owner).renew())

    def release(self, name: str, owner: str) -> None:
        """Ends the lease."""
        _ask(lambda: self._lease(name, owner).release())

    def close(self) -> None:
        """Ends the connection."""
        self._container.close()

    def _upload(self, name: str) -> None:
        self._container.get_blob_client(name).upload_blob(b"")

    def _lease(self, name: str, owner: str) -> BlobLeaseClient:
        lease_id = str(uuid.uuid5(uuid.NAMESPACE_OID, owner))
        return BlobLeaseClient(self._container.get_blob_client(name), lease_id)


def _ask(call: Callable[[], object]) -> None:
    try:
        call()
    except HttpResponseError as error:
        code = str(getattr(error, "error_code", None) or error.status_code)
        sure = error.status_code is not None and error.status_code < REJECTED
        why = str(error.message).split("\n", 1)[0]
        raise Failed(code, why, Status.FAIL if sure else Status.INFO) from error
    except ServiceRequestError as error:
        raise Failed("", f"never sent: {error}", Status.FAIL) from error
    except AzureError as error:
        raise Failed("", f"no response: {error}", Status.INFO) from error
