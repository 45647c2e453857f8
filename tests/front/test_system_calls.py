"""Faults at a system call or a function in whole runs, on real processes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.harness.core.clock import SECOND
from tests import needs
from tests.front.faulted import in_empty_folder, the_fault

pytestmark = pytest.mark.slow
STARTER = Path(hf.__file__).parent / "starters" / "program"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.tracing()
    in_empty_folder(tmp_path, monkeypatch)


def first_stale(run: hf.Run, fault: Any) -> Any:
    """The first request with an old token that arrived after the fault's client had been stopped in
    its send. What it had sent before arrives late on a busy machine, with a token that is new."""
    client = fault.nodes[0]
    (caught,) = fault.evidence["caught"][client]
    log = run.resource_log()
    stopped = (caught["t_ns"] - run.start_ns) / SECOND
    stale = log[(log.client == client) & (log.t > stopped) & (log.token < log.highest_token_before)]
    assert len(stale), f"no request of {client} with an old token after {stopped} s"
    return stale.iloc[0]


@pytest.mark.usefixtures("here")
def test_a_write_frozen_in_its_send_is_stale_when_it_arrives() -> None:
    run = hf.run(
        resource="unfenced",
        nemesis="syscall:target=holder,call=send:resource,every=8s,for=2500ms",
        lease="1s",
        time="5s",
        seed=2,
    )
    late = first_stale(run, the_fault(run))
    assert late.stale and late.accepted
    assert run.verdicts["no-stale-write"] == hf.Verdict.VIOLATED


@pytest.mark.parametrize(("resource", "accepted"), [("unfenced", True), ("fenced", False)])
@pytest.mark.usefixtures("here")
def test_a_client_in_c_stops_inside_its_own_send(resource: str, accepted: bool) -> None:
    for name in ("server.js", "client.c", "mylock.toml"):
        Path(name).write_text((STARTER / name).read_text())
    needs.binary("node")
    subprocess.run([needs.binary("gcc"), "-O2", "-o", "client", "client.c"], check=True)
    run = hf.run(
        system="mylock.toml",
        resource=resource,
        nemesis="syscall:target=holder,call=send:resource,every=8s,for=2500ms",
        options={"sender": "program"},
        lease="1s",
        time="5s",
        seed=2,
    )
    fault = the_fault(run)
    (caught,) = fault.evidence["caught"][fault.nodes[0]]
    assert caught["call"] == "sendto"
    late = first_stale(run, fault)
    assert late.t - (caught["t_ns"] - run.start_ns) / SECOND > 1 and late.accepted == accepted


@pytest.mark.usefixtures("here")
def test_a_server_that_a_fault_kills_inside_a_send_is_no_problem_of_the_run() -> None:
    run = hf.run(
        nemesis="syscall:target=n1,call=send,act=kill,every=8s,for=1500ms",
        lease="1s",
        time="5s",
        seed=2,
    )
    assert the_fault(run).evidence["states"] == {"n1": "gone"}


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
def test_a_released_etcd_is_held_where_its_leases_expire() -> None:
    needs.binary("etcd")
    function = "lease.(*lessor).findExpiredLeases"
    run = hf.run(
        system="etcd",
        nemesis=f"failpoint:target=leader,function={function},every=8s,for=2500ms",
        lease="2s",
        time="6s",
        seed=1,
    )
    fault = the_fault(run)
    (leader,) = fault.nodes
    assert fault.evidence["held"] == {leader: True}
    assert fault.evidence["caught"][leader]["function"].endswith(f"/{function}")


OWN_RELEASE = '''
import socket


class GetThenDelete:
    """A release in two requests: whose is it, and delete it."""

    def __init__(self, servers, options):
        self.plug = socket.create_connection((servers[0][1], 6379), timeout=5)
        self.plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lines = self.plug.makefile("rb")

    def ask(self, *words):
        parts = [f"${len(str(word))}\\r\\n{word}\\r\\n" for word in words]
        self.plug.sendall(f"*{len(words)}\\r\\n{''.join(parts)}".encode())
        said = self.lines.readline().decode().strip()
        return self.lines.readline().decode().strip() if said[0] == "$" and said != "$-1" else said

    def acquire(self, lock, owner, lease_s):
        return self.ask("SET", lock, owner, "NX", "PX", int(lease_s * 1000)) == "+OK"

    def release(self, lock, owner):
        return self.ask("GET", lock) == str(owner) and self.ask("DEL", lock) == ":1"
'''


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
def test_an_owner_is_stopped_between_the_two_requests_of_its_release() -> None:
    needs.binary("redis-server")
    Path("mylock.py").write_text(OWN_RELEASE)
    run = hf.run(
        system="mylock.py:GetThenDelete@redis",
        nemesis="syscall:target=clients,who=first,call=send:all,of=release,first=1/2,"
        "every=4s,for=2s",
        # Holds that are long enough for its late delete to meet one.
        options={"gap_ms": "150"},
        lease="1s",
        time="8s",
        clients=3,
        seed=1,
    )
    first, second = run.faults().itertuples()
    for number, fault in ((1, first), (2, second)):
        ((node, (met,)),) = fault.evidence["caught"].items()
        assert (met["of"], met["number"]) == ("release", number)
        assert fault.evidence["states"][node] == "T"
    assert run.verdicts["mutual-exclusion"] == hf.Verdict.VIOLATED
    (cause, *_) = run.judgement["causes"]
    assert ", number 2 of its release (syscall)" in cause["sentence"]
