"""Objects of one bucket through unmodified boto3: read, write and delete under a condition.

The library's own retries are disabled: a write that is sent twice after a lost response finds its
own object and looks rejected.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
)

from holdfast.clusters.systems.failed_request import Failed
from holdfast.clusters.systems.object_lock.contents import (
    ABSENT,
    HELD,
    NO_BUCKET,
    LockBody,
    StoredObject,
)
from holdfast.clusters.systems.s3 import BUCKET, PORT
from holdfast.harness.core.operations import Status

ANSWER_WITHIN_S = 1.0
NEVER_SENT = (EndpointConnectionError, ConnectTimeoutError)
SURE = (*HELD, *ABSENT, NO_BUCKET, "SlowDown", "InvalidRequest", "NotImplemented")
"""Codes after which the request has certainly had no effect; others leave it unknown."""


class Objects:
    """A `Store` on one server."""

    def __init__(self, address: str) -> None:
        self._s3 = boto3.client(
            "s3",
            endpoint_url=f"http://{address}:{PORT}",
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
            config=Config(
                connect_timeout=ANSWER_WITHIN_S,
                read_timeout=ANSWER_WITHIN_S,
                retries={"total_max_attempts": 1},
                s3={"addressing_style": "path"},
            ),
        )

    def create_bucket(self) -> None:
        """Creates the bucket; nothing if the same user has made it."""
        self._ask("create_bucket", Bucket=BUCKET)

    def read(self, key: str) -> StoredObject | None:
        """The object, None if there is none."""
        try:
            response = self._ask("get_object", Bucket=BUCKET, Key=key)
            body = response["Body"].read()  # type: ignore[attr-defined]
        except Failed as failed:
            if failed.code in ABSENT:
                return None
            raise
        except BotoCoreError as error:
            raise _failed(error) from error
        return StoredObject(body=LockBody(**json.loads(body)), etag=str(response["ETag"]))

    def write(self, key: str, body: LockBody, over: StoredObject | None) -> None:
        """Stores an object if there is none, or over the one that was read."""
        content = json.dumps(asdict(body)).encode()
        condition = {"IfNoneMatch": "*"} if over is None else {"IfMatch": over.etag}
        self._ask("put_object", Bucket=BUCKET, Key=key, Body=content, **condition)

    def delete(self, key: str, found: StoredObject) -> None:
        """Deletes the object if it is still the one that was read."""
        self._ask("delete_object", Bucket=BUCKET, Key=key, IfMatch=found.etag)

    def close(self) -> None:
        """Ends the connection."""
        self._s3.close()

    def _ask(self, action: str, **words: object) -> dict[str, object]:
        try:
            response: dict[str, object] = getattr(self._s3, action)(**words)
        except (BotoCoreError, ClientError) as error:
            raise _failed(error) from error
        return response


def _failed(error: Exception) -> Failed:
    """What an error of the library means."""
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        outcome = Status.FAIL if code in SURE else Status.INFO
        return Failed(code or "unknown", str(error), outcome)
    sent = not isinstance(error, NEVER_SENT)
    why = f"{type(error).__name__}: {error}"
    return Failed("", why, Status.INFO if sent else Status.FAIL)
