"""A stand-in for kube-apiserver on one node: the lease part of its API, over the node's own etcd.

Run as `python -S -P -m holdfast.clusters.systems.kubernetes.api_server --config JSON`, with JSON
{"address", "etcd"}, where "etcd" is the command line of the member. This process becomes etcd; a
child of it serves HTTP. It can read, create and replace a Lease; watches, lists, deletion,
authentication and admission are missing. A lease is one key of etcd, and its resourceVersion the
revision at which that key was last written. As in Kubernetes a replace must name the
resourceVersion that it replaces, and has no effect if the lease was written since.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypedDict
from urllib.parse import unquote

from holdfast.clusters.systems.etcd import PORT as ETCD_PORT
from holdfast.clusters.systems.kubernetes import LEASES, NAMESPACE, PORT
from holdfast.clusters.systems.kubernetes.wire import Failure, Lease, Metadata, Spec

ETCD_WITHIN_S = 5.0
LONGEST_BODY = 1 << 16
KEYS = f"/registry/leases/{NAMESPACE}/"
READY = "/readyz"
Act = Callable[[], tuple[HTTPStatus, Mapping[str, object]]]


class Stored(TypedDict):
    """The value of a lease's key; its resourceVersion is etcd's."""

    metadata: Metadata
    spec: Spec


class Pair(TypedDict):
    """A key of etcd, as read."""

    value: str
    mod_revision: str


class EtcdReply(TypedDict, total=False):
    """What is read of responses of etcd's gateway."""

    leader: str
    kvs: Sequence[Pair]
    header: Mapping[str, str]
    succeeded: bool
    error: str


class Refused(Exception):
    """A request that has no effect, as a status of the API."""

    def __init__(self, code: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body = Failure(
            kind="Status",
            apiVersion="v1",
            status="Failure",
            message=message,
            reason=reason,
            code=int(code),
        )


class Store:
    """Leases in etcd, over one connection to its JSON gateway.

    Methods raise Refused; where etcd does not respond it is a 500, and a write may have taken
    effect.
    """

    def __init__(self, address: str) -> None:
        self._etcd = http.client.HTTPConnection(address, ETCD_PORT, timeout=ETCD_WITHIN_S)

    def leader(self) -> bool:
        """Whether the member knows a leader."""
        return int(self._ask("/v3/maintenance/status", {}).get("leader", 0)) != 0

    def read(self, name: str) -> Lease:
        """The lease as of the newest write; a linearizable read."""
        kvs = self._ask("/v3/kv/range", {"key": _encoded(KEYS + name)}).get("kvs")
        if not kvs:
            raise Refused(HTTPStatus.NOT_FOUND, "NotFound", _quoted(name, "not found"))
        value: Stored = json.loads(base64.b64decode(kvs[0]["value"]))
        return _whole(value["metadata"], value["spec"], int(kvs[0]["mod_revision"]))

    def create(self, name: str, spec: Spec) -> Lease:
        """A new lease, if there is none of the name."""
        metadata = Metadata(name=name, namespace=NAMESPACE, uid=str(uuid.uuid4()))
        revision = self._write(name, metadata, spec, {"target": "CREATE", "createRevision": "0"})
        if revision is None:
            raise Refused(HTTPStatus.CONFLICT, "AlreadyExists", _quoted(name, "already exists"))
        return _whole(metadata, spec, revision)

    def replace(self, name: str, version: str, spec: Spec) -> Lease:
        """The lease with another spec, if it was not written since the version."""
        if not version.isdecimal():
            why = _quoted(name, "is invalid: metadata.resourceVersion: must be specified")
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", why)
        metadata = self.read(name)["metadata"]
        del metadata["resourceVersion"]
        revision = self._write(name, metadata, spec, {"target": "MOD", "modRevision": version})
        if revision is None:
            why = "cannot be fulfilled: the object has been modified"
            raise Refused(HTTPStatus.CONFLICT, "Conflict", _quoted(name, why))
        return _whole(metadata, spec, revision)

    def close(self) -> None:
        """Ends the connection."""
        self._etcd.close()

    def _write(
        self, name: str, metadata: Metadata, spec: Spec, only_if: Mapping[str, str]
    ) -> int | None:
        """The revision of the write; None if the condition did not hold."""
        key = _encoded(KEYS + name)
        value = _encoded(json.dumps(Stored(metadata=metadata, spec=spec)))
        reply = self._ask(
            "/v3/kv/txn",
            {
                "compare": [{"key": key, "result": "EQUAL", **only_if}],
                "success": [{"requestPut": {"key": key, "value": value}}],
            },
        )
        return int(reply["header"]["revision"]) if reply.get("succeeded") else None

    def _ask(self, path: str, body: Mapping[str, object]) -> EtcdReply:
        try:
            self._etcd.request("POST", path, json.dumps(body))
            response = self._etcd.getresponse()
            reply: EtcdReply = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise _unavailable(f"{type(error).__name__}: {error}") from error
        if response.status != HTTPStatus.OK:
            raise _unavailable(str(reply.get("error") or reply))
        return reply


class Handler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    server: ApiServer

    def setup(self) -> None:
        super().setup()
        self._store = Store(self.server.address)

    def finish(self) -> None:
        self._store.close()
        super().finish()

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: clients record what they were answered."""

    def _get(self) -> tuple[HTTPStatus, Mapping[str, object]]:
        if self.path == READY:
            return (HTTPStatus.OK if self._store.leader() else HTTPStatus.SERVICE_UNAVAILABLE), {}
        return HTTPStatus.OK, self._store.read(self._named())

    def _post(self) -> tuple[HTTPStatus, Mapping[str, object]]:
        body = self._body()
        return HTTPStatus.CREATED, self._store.create(body["metadata"]["name"], body["spec"])

    def _put(self) -> tuple[HTTPStatus, Mapping[str, object]]:
        body = self._body()
        version = body["metadata"].get("resourceVersion") or ""
        return HTTPStatus.OK, self._store.replace(self._named(), version, body["spec"])

    def _answer(self, act: Act) -> None:
        try:
            code, body = act()
        except Refused as refused:
            code, body = refused.code, refused.body
        content = json.dumps(body).encode()
        with suppress(OSError):
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _named(self) -> str:
        path = self.path.partition("?")[0]
        if not path.startswith(f"{LEASES}/"):
            raise Refused(HTTPStatus.NOT_FOUND, "NotFound", "only leases are served here")
        return unquote(path[len(LEASES) + 1 :])

    def _body(self) -> Stored:
        length = int(self.headers.get("Content-Length", "0"))
        if length > LONGEST_BODY:
            self.close_connection = True
            raise _no_lease(f"longer than {LONGEST_BODY} bytes")
        try:
            body = json.loads(self.rfile.read(length))
            metadata = dict(body["metadata"])
            spec: Spec = body["spec"]
            if not _is_object(spec):
                raise TypeError("its spec is no object")
            name, version = str(metadata["name"]), str(metadata.get("resourceVersion") or "")
        except (KeyError, TypeError, ValueError) as error:
            raise _no_lease(f"{type(error).__name__}: {error}") from error
        return Stored(metadata={"name": name, "resourceVersion": version}, spec=spec)


class ApiServer(ThreadingHTTPServer):
    """One thread per connection, each with a connection of its own to etcd."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str) -> None:
        super().__init__((address, PORT), Handler)
        self.address = address


def _whole(metadata: Metadata, spec: Spec, revision: int) -> Lease:
    """The object as the API returns it."""
    return Lease(
        kind="Lease",
        apiVersion="coordination.k8s.io/v1",
        metadata={**metadata, "resourceVersion": str(revision)},
        spec=spec,
    )


def _no_lease(why: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, "BadRequest", f"not a lease: {why}")


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _unavailable(why: str) -> Refused:
    return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", f"etcd: {why}")


def _quoted(name: str, why: str) -> str:
    return f'leases.coordination.k8s.io "{name}" {why}'


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def serve(address: str) -> None:
    """Serves until its parent, which is etcd, has ended."""
    server = ApiServer(address)
    parent = os.getppid()
    server.timeout = 0.5
    while os.getppid() == parent:
        server.handle_request()


def main(argv: Sequence[str] | None = None) -> int:
    """Does not return on success: this process becomes etcd."""
    parser = argparse.ArgumentParser(description="etcd, and the lease part of Kubernetes' API")
    parser.add_argument("--config", help="JSON, see the module's documentation")
    parser.add_argument("--serve", metavar="ADDRESS", help="only the API, over a running etcd")
    words = parser.parse_args(argv)
    if words.serve:
        serve(words.serve)
        return 0
    config = json.loads(words.config)
    itself = [sys.executable, "-S", "-P", "-m", __spec__.name, "--serve", config["address"]]
    subprocess.Popen(itself)
    etcd: list[str] = config["etcd"]
    return os.execvp(etcd[0], etcd)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.exit(main())
