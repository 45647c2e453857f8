"""What servers of records say about who holds a lock, asked without the clients' libraries.

As the probes of `holder_trial.py`, for tables, buckets, blobs and the key-value store of NATS. Each
is asked by its own protocol with nothing but the standard library.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from holdfast.clusters.systems import azure_blob, dynamodb, etcd, gcs, kubernetes, nats, s3
from holdfast.clusters.systems.dynamodb.table import HEADERS, NAMESPACE
from holdfast.clusters.systems.kubernetes.api_server import KEYS
from holdfast.harness.core.clock import SECOND

UNTIMED = ("ours", "gone", "theirs", "overtaken", "cut", "reply-lost", "released")
"""States of a lock that a server keeps until another client takes it over."""
ENDLESS = tuple(state for state in UNTIMED if state != "overtaken")
CLIENTS = ("c1", "c2")


class Http:
    """One server, a connection for each request."""

    port: int
    states: tuple[str, ...] = UNTIMED
    lease_ns = 3 * SECOND

    def __init__(self, server: str, options: Mapping[str, str]) -> None:
        self._server, self._options = server, options

    def _ask(
        self, method: str, path: str, body: str = "", headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes, Mapping[str, str]]:  # fmt: skip
        link = http.client.HTTPConnection(self._server, self.port, timeout=10)
        try:
            link.request(method, path, body.encode(), dict(headers or {}))
            reply = link.getresponse()
            return reply.status, reply.read(), dict(reply.headers)
        finally:
            link.close()


def written(*beginnings: bytes) -> Callable[[bytes], bool]:
    """Whether a request is one that writes, by how it begins."""
    return lambda packet: packet.startswith(beginnings)


class DynamoDb(Http):
    """A record with the version that its owner wrote last, which begins with the attempt.

    python-dynamodb-lock has a table of its own, whose records name their owner.
    """

    port = dynamodb.PORT
    writes = staticmethod(lambda packet: b".PutItem" in packet or b".DeleteItem" in packet)
    _tables: Sequence[tuple[str, Mapping[str, str], str]] = (
        (dynamodb.TABLE, {"lock": "{lock}"}, "version"),
        ("DynamoDBLockTable", {"lock_key": "{lock}", "sort_key": "-"}, "owner_name"),
    )
    """Each with the key of a record, and the field that says whose it is."""

    def _records(self, action: str, lock: str) -> list[str]:
        """What the records say that were read or deleted."""
        found = []
        for table, key, field in self._tables:
            named = {name: {"S": text.format(lock=lock)} for name, text in key.items()}
            words = json.dumps({"TableName": table, "Key": named})
            headers = {**HEADERS, "X-Amz-Target": f"{NAMESPACE}.{action}"}
            item = json.loads(self._ask("POST", "/", words, headers)[1]).get("Item")
            found += [item[field]["S"].partition(".")[0]] if item else []
        return found

    def contenders(self, lock: str) -> list[str]:
        return [f"{lock} {owner}" for owner in self._records("GetItem", lock)]

    def delete(self, contender: str) -> None:
        self._records("DeleteItem", contender.split()[0])


class Objects(Http):
    """An object that names its owner and, with leases, until when it is the owner's."""

    states, timed_states = ENDLESS, (*ENDLESS, "expired")
    at = ""
    """Path of an object."""
    media = ""
    headers: Mapping[str, str] = {}

    def contenders(self, lock: str) -> list[str]:
        path = self.at.format(name=quote(lock, safe="")) + self.media
        status, content, _ = self._ask("GET", path, headers=self.headers)
        if status != http.client.OK:
            return []
        body = json.loads(content)
        over = body["ends_ns"] and body["ends_ns"] <= time.time_ns()
        return [] if over or not body["owner"] else [f"{lock} {body['owner']}"]

    def delete(self, contender: str) -> None:
        path = self.at.format(name=quote(contender.split()[0], safe=""))
        self._ask("DELETE", path, headers=self.headers)


class S3(Objects):
    port, at = s3.PORT, f"/{s3.BUCKET}/{{name}}"
    writes = staticmethod(written(b"PUT", b"DELETE"))
    headers: Mapping[str, str] = {
        "Authorization": "AWS4-HMAC-SHA256 Credential=none/20200101/us-east-1/s3/aws4_request,"
        " SignedHeaders=host, Signature=none"
    }


class Gcs(Objects):
    port, at, media = gcs.PORT, f"/storage/v1/b/{gcs.BUCKET}/o/{{name}}", "?alt=media"
    writes = staticmethod(written(b"POST"))


class Azure(Http):
    """A blob; the service says that it is leased and, asked with a lease's id, whether by that."""

    port, lease_ns = azure_blob.PORT, azure_blob.SHORTEST_S * SECOND
    states, timed_states = ENDLESS, (*ENDLESS, "expired")
    first_ns = SECOND
    """The first poll that finds no blob creates it."""
    newest = 8
    """How many of the latest attempts may hold a lock that is asked for."""

    def __init__(self, server: str, options: Mapping[str, str]) -> None:
        super().__init__(server, options)
        self.attempts = 0

    def _blob(self, method: str, name: str, query: str, **of: str) -> tuple[int, Mapping[str, str]]:
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        named = {f"x-ms-{key.replace('_', '-')}": text for key, text in of.items()}
        headers = {**named, "x-ms-date": date, "x-ms-version": "2021-08-06"}
        path = f"/{azure_blob.ACCOUNT}/{azure_blob.CONTAINER}/{name}"
        lines = [method, *[""] * 11, *(f"{key}:{headers[key]}" for key in sorted(headers))]
        lines += [f"/{azure_blob.ACCOUNT}{path}", *([query.replace("=", ":")] if query else [])]
        key = base64.b64decode(azure_blob.KEY)
        signed = hmac.new(key, "\n".join(lines).encode(), hashlib.sha256).digest()
        by = f"SharedKey {azure_blob.ACCOUNT}:{base64.b64encode(signed).decode()}"
        path = f"{path}?{query}" if query else path
        status, _, said = self._ask(method, path, "", {**headers, "Authorization": by})
        return status, said

    def _leased(self, lock: str) -> bool:
        status, said = self._blob("HEAD", lock, "")
        assert status in (http.client.OK, http.client.NOT_FOUND), (status, said)
        return status == http.client.OK and said["x-ms-lease-state"] == "leased"

    def contenders(self, lock: str) -> list[str]:
        if not self._leased(lock):
            return []
        for attempt in range(self.attempts, max(0, self.attempts - self.newest), -1):
            for name in CLIENTS:
                lease = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}_{attempt}"))
                if self._blob("HEAD", lock, "", lease_id=lease)[0] == http.client.OK:
                    return [f"{lock} {name}_{attempt}"]
        # It may have ended while the attempts were asked for.
        assert not self._leased(lock), f"{lock} is leased to none of the latest attempts"
        return []

    def delete(self, contender: str) -> None:
        """Ends the lease at once, as an operator can."""
        of = {"lease_action": "break", "lease_break_period": "0"}
        self._blob("PUT", contender.split()[0], "comp=lease", **of)


class Kubernetes(Http):
    """A Lease, as the API server's own etcd has it."""

    port = kubernetes.PORT
    writes = staticmethod(written(b"POST", b"PUT"))
    _etcd = etcd.PORT

    def _key(self, action: str, lock: str) -> Any:
        key = base64.b64encode((KEYS + lock).encode()).decode()
        link = http.client.HTTPConnection(self._server, self._etcd, timeout=10)
        try:
            link.request("POST", f"/v3/kv/{action}", json.dumps({"key": key}))
            return json.loads(link.getresponse().read())
        finally:
            link.close()

    def contenders(self, lock: str) -> list[str]:
        status, _, _ = self._ask("GET", "/readyz")
        if status != http.client.OK:
            raise ConnectionError("the API server is not ready")
        found = self._key("range", lock).get("kvs", [])
        specs = [json.loads(base64.b64decode(one["value"]))["spec"] for one in found]
        return [f"{lock} {spec['holderIdentity']}" for spec in specs if spec["holderIdentity"]]

    def delete(self, contender: str) -> None:
        self._key("deleterange", contender.split()[0])


class Nats:
    """A key of the bucket, read from the stream behind it by the server's text protocol."""

    port, lease_ns = nats.PORT, 3 * SECOND
    states = ("ours", "gone", "theirs", "expired", "cut", "reply-lost", "released")

    def __init__(self, server: str, options: Mapping[str, str]) -> None:
        self._link = socket.create_connection((server, self.port), timeout=10)
        self._lines = self._link.makefile("rb")
        self._lines.readline()
        hello = {"verbose": False, "pedantic": False, "headers": True}
        self._link.sendall(f"CONNECT {json.dumps(hello)}\r\nSUB replies 1\r\n".encode())

    def _ask(self, action: str, body: Mapping[str, str]) -> Any:
        words = json.dumps(body)
        subject = f"$JS.API.STREAM.{action}.KV_{nats.BUCKET}"
        self._link.sendall(f"PUB {subject} replies {len(words)}\r\n{words}\r\n".encode())
        while not (line := self._lines.readline().decode()).startswith("MSG "):
            if line.startswith("PING"):
                self._link.sendall(b"PONG\r\n")
            elif not line or line.startswith("-ERR"):
                raise ConnectionError(line)
        content = self._lines.read(int(line.split()[-1]) + 2)
        return json.loads(content)

    def contenders(self, lock: str) -> list[str]:
        said = self._ask("MSG.GET", {"last_by_subj": f"$KV.{nats.BUCKET}.{lock}"})
        found = said.get("message")
        if found is None or b"KV-Operation" in base64.b64decode(found.get("hdrs", "")):
            return []
        return [f"{lock} {base64.b64decode(found['data']).decode()}"]

    def delete(self, contender: str) -> None:
        self._ask("PURGE", {"filter": f"$KV.{nats.BUCKET}.{contender.split()[0]}"})
