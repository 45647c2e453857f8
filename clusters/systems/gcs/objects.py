"""Objects of one bucket by the JSON API: read, and written under a generation precondition."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Mapping
from dataclasses import asdict

from holdfast.clusters.systems.failed_request import Failed
from holdfast.clusters.systems.gcs import BUCKET, PORT
from holdfast.clusters.systems.object_lock.contents import (
    ABSENT,
    HELD,
    NO_BUCKET,
    LockBody,
    StoredObject,
)
from holdfast.harness.core.operations import Status

ANSWER_WITHIN_S = 1.0
NONE = "0"
"""Generation of an object that does not exist."""
GENERATION = "X-Goog-Generation"
"""Header of a response with an object's content."""
BOUNDARY = "part"
REJECTED = 500
"""HTTP codes below have had no effect; others leave it unknown."""
CODES = {
    http.client.PRECONDITION_FAILED: HELD[0],
    http.client.CONFLICT: HELD[1],
    http.client.NOT_FOUND: NO_BUCKET,
}


class Objects:
    """A `Store` on one server, one connection for each request.

    The server does not check a precondition of a delete, so a release writes an object without an
    owner.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def create_bucket(self) -> None:
        """As `Store`."""
        headers = {"Content-Type": "application/json"}
        self._ask("POST", "/storage/v1/b?project=p", json.dumps({"name": BUCKET}), headers)

    def read(self, key: str) -> StoredObject | None:
        """As `Store`."""
        name = urllib.parse.quote(key, safe="")
        try:
            body, headers = self._ask("GET", f"/storage/v1/b/{BUCKET}/o/{name}?alt=media", "", {})
        except Failed as failed:
            if failed.code in (NO_BUCKET, *ABSENT):
                return None
            raise
        return StoredObject(body=LockBody(**json.loads(body)), etag=headers[GENERATION])

    def write(self, key: str, body: LockBody, over: StoredObject | None) -> None:
        """As `Store`."""
        generation = NONE if over is None else over.etag
        asked = {"uploadType": "multipart", "name": key, "ifGenerationMatch": generation}
        parts = (json.dumps({"name": key}), json.dumps(asdict(body)))
        content = "".join(
            f"--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{part}\r\n" for part in parts
        )
        headers = {"Content-Type": f"multipart/related; boundary={BOUNDARY}"}
        path = f"/upload/storage/v1/b/{BUCKET}/o?{urllib.parse.urlencode(asked)}"
        self._ask("POST", path, f"{content}--{BOUNDARY}--\r\n", headers)

    def delete(self, key: str, found: StoredObject) -> None:
        """As `Store`: an object without an owner takes its place."""
        self.write(key, LockBody(owner="", token=found.body.token), found)

    def close(self) -> None:
        """Nothing is open."""

    def _ask(
        self, method: str, path: str, body: str, headers: Mapping[str, str]
    ) -> tuple[bytes, Mapping[str, str]]:
        connection = http.client.HTTPConnection(self._address, PORT, timeout=ANSWER_WITHIN_S)
        try:
            return _asked(connection, method, path, body, headers)
        finally:
            connection.close()


def _asked(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: str,
    headers: Mapping[str, str],
) -> tuple[bytes, Mapping[str, str]]:
    """The content and headers of a response. Raises Failed."""
    try:
        connection.connect()
    except OSError as error:
        raise Failed("", f"never sent: {error}", Status.FAIL) from error
    try:
        connection.request(method, path, body.encode(), dict(headers))
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise Failed("", f"no response: {error}", Status.INFO) from error
    if response.status != http.client.OK:
        code = CODES.get(response.status, str(response.status))
        sure = response.status < REJECTED
        raise Failed(code, response.reason, Status.FAIL if sure else Status.INFO)
    return content, dict(response.headers)
