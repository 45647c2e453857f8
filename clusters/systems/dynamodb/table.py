"""One DynamoDB table over its HTTP API, unsigned as for emulators; standard library only."""

from __future__ import annotations

import http.client
import json
from typing import Any

from holdfast.clusters.systems.dynamodb import PORT, TABLE
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Status

ANSWER_WITHIN_S = 1.0
NAMESPACE = "DynamoDB_20120810"
HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "Authorization": "AWS4-HMAC-SHA256 Credential=none/20200101/us-east-1/dynamodb/aws4_request,"
    " SignedHeaders=host, Signature=none",
}

MEANING: dict[str, Status] = {
    "ConditionalCheckFailedException": Status.FAIL,
    "ResourceNotFoundException": Status.FAIL,
    "ProvisionedThroughputExceededException": Status.FAIL,
    "ThrottlingException": Status.FAIL,
    "ValidationException": Status.FAIL,
    "NeverSent": Status.FAIL,
}
"""Kind of error -> what it means for the effect of the request. Others are INFO."""


class Failed(Exception):
    """A request that did not succeed; `kind` as in MEANING, or "NoAnswer"."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(f"{kind}: {why}")
        self.kind = kind
        self.outcome = MEANING.get(kind, Status.INFO)


class Table:
    """A client of the table with one connection, reopened after it breaks."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, PORT, timeout=ANSWER_WITHIN_S)

    def create(self) -> None:
        """Creates the table if it does not exist. Raises Failed."""
        try:
            self.ask(
                "CreateTable",
                AttributeDefinitions=[{"AttributeName": "lock", "AttributeType": "S"}],
                KeySchema=[{"AttributeName": "lock", "KeyType": "HASH"}],
                BillingMode="PAY_PER_REQUEST",
            )
        except Failed as error:
            if error.kind != "ResourceInUseException":
                raise

    def ask(self, action: str, **body: Json) -> dict[str, Any]:
        """The response to one request about the table. Raises Failed."""
        headers = {**HEADERS, "X-Amz-Target": f"{NAMESPACE}.{action}"}
        if self._connection.sock is None:
            try:
                self._connection.connect()
            except OSError as error:
                self.close()
                raise Failed("NeverSent", str(error)) from error
        try:
            words = json.dumps({"TableName": TABLE, **body})
            self._connection.request("POST", "/", words, headers)
            response = self._connection.getresponse()
            answer: dict[str, Json] = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise Failed("NoAnswer", str(error)) from error
        if response.status != http.client.OK:
            kind = str(answer.get("__type", response.status)).rpartition("#")[2]
            raise Failed(kind, str(answer.get("message") or answer.get("Message") or ""))
        return answer

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()
