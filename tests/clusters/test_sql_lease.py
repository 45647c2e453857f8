"""Leases that are rows: the client with a scripted session, and runs on both databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.database_client import Failed, NoSession, Session
from holdfast.clusters.systems.sql_lease.client import Dialect, RowLease
from holdfast.clusters.systems.sql_lease.system import MARIADB, POSTGRES, SqlLease
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import ClientSetup, Node, Place
from tests import needs
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

SECOND = 1_000_000_000
GRANT = Grant(lock="l", attempt=7, token=-1, ttl_ns=SECOND, granted_at_ns=0)
OURS, THEIRS = ("c1_7",), ("c2_1",)
T = TypeVar("T")
SERVERS = [("postgres", POSTGRES), ("mariadbd", MARIADB)]


class Script:
    """A session with one result per statement: a row, an error's outcome, or no session at all."""

    broken = busy = False

    def __init__(self, *said: Sequence[object] | Status | None) -> None:
        self.said, self.asked = list(said), list[tuple[str, Sequence[object]]]()

    async def open(self, address: str) -> Session:
        if self.said[0] is None:
            raise NoSession(self.said.pop(0))
        return self

    async def ask(self, words: str, *values: object, within_s: float | None) -> Sequence[Any]:
        self.asked.append((words, values))
        said = self.said.pop(0)
        assert said is not None
        if isinstance(said, Status):
            raise Failed(Answer(outcome=said, error="an error"))
        return said

    def cut(self) -> None:
        self.broken = True

    async def close(self) -> None:
        self.broken = True


def over(script: Script, *, clock: str = "database", changed: str = "") -> RowLease:
    dialect = Dialect(
        open=script.open, now="now()", take="take {now}", change="change {now}", changed=changed
    )
    setup = ClientSetup(
        process=1,
        name="c1",
        servers=[("n1", "127.0.0.1")],
        lease_ns=SECOND,
        options={"clock": clock},
        tell=lambda op, **rest: told.append(op),
    )
    told.clear()
    return RowLease(setup, dialect)


told: list[Op] = []


def did(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


def acquired(lease: RowLease, wait_ns: int = 0) -> Answer:
    words = {"attempt": 7, "ttl_ns": SECOND, "wait_ns": wait_ns}
    return did(lease.acquire("l", mode=Mode.EXCLUSIVE, **words))


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (OURS, Status.OK),
        (THEIRS, Status.FAIL),
        ((), Status.FAIL),
        (None, Status.FAIL),
        (Status.FAIL, Status.FAIL),
        (Status.INFO, Status.INFO),
        (Status.NOT_OWNER, Status.INFO),
    ],
)
def test_a_lease_is_granted_only_if_the_row_names_the_attempt(
    said: Sequence[object] | Status | None, outcome: Status
) -> None:
    script = Script(said)
    assert acquired(over(script)).outcome is outcome
    assert script.asked in ([], [("take now()", ("l", "c1_7", 1_000_000))])


def test_a_row_that_is_owned_is_polled_and_the_wait_is_told() -> None:
    script = Script(THEIRS, Status.FAIL, OURS)
    assert acquired(over(script), SECOND).outcome is Status.OK
    assert told == [Op.WAITING] and len(script.asked) == 3


def test_the_time_is_the_database_s_or_the_client_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 5_000)
    script = Script(OURS)
    acquired(over(script, clock="client"))
    assert script.asked[0][0] == "take 5"


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ((1,), Status.OK),
        ((), Status.NOT_OWNER),
        ((0,), Status.NOT_OWNER),
        (Status.FAIL, Status.FAIL),
        (Status.NOT_OWNER, Status.INFO),
        (None, Status.FAIL),
    ],
)
@pytest.mark.parametrize("changed", ["", "count"])
def test_only_the_owner_s_row_is_changed(
    said: Sequence[object] | Status | None, outcome: Status, changed: str
) -> None:
    first: list[Any] = [()] if changed and isinstance(said, tuple) else []
    script = Script(*first, said)
    assert did(over(script, changed=changed).release(GRANT)).outcome is outcome
    if script.asked:
        assert script.asked[0] == ("change now()", ("", 0, "l", "c1_7"))
    script = Script(*first, said)
    assert did(over(script, changed=changed).renew(GRANT, ttl_ns=SECOND)).outcome is outcome
    if script.asked:
        assert script.asked[0][1] == ("c1_7", 1_000_000, "l", "c1_7")


def test_a_change_whose_count_failed_is_unknown() -> None:
    script = Script((), Status.FAIL)
    assert did(over(script, changed="count").release(GRANT)).outcome is Status.INFO


def test_no_clock_fault_is_promised_whichever_clock_decides() -> None:
    for system in (POSTGRES, MARIADB):
        for clock in ("database", "client"):
            assert (
                "clock"
                not in with_kinds(system.promises({"clock": clock})).keeps["mutual-exclusion"]
            )
        assert system.ports == system.server.ports and system.libraries


@pytest.mark.parametrize(
    ("system", "options", "kill", "power"),
    [
        (POSTGRES, {}, True, True),
        (POSTGRES, {"synchronous_commit": "off"}, False, False),
        (MARIADB, {}, True, True),
        (MARIADB, {"flush_log": "2"}, True, False),
        (MARIADB, {"flush_log": "0"}, False, False),
    ],
)
def test_a_commit_that_is_not_synced_promises_less(
    system: SqlLease, options: Mapping[str, str], kill: bool, power: bool
) -> None:
    told = with_kinds(system.promises(options))
    assert told.promised("mutual-exclusion", ["kill"]) == kill
    assert told.promised("mutual-exclusion", ["power"]) == power
    assert told.promised("durable-grants", ["power"]) == power
    assert told.promised("deadlock-freedom", ["kill"])


def test_what_a_commit_waits_for_reaches_the_server_s_configuration(tmp_path: Path) -> None:
    node = Node(name="n1", role="server", address="10.0.0.1")
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")

    def given(system: SqlLease, **options: str) -> Mapping[str, str]:
        told: Mapping[str, str] = json.loads(system.command(node, (node,), place, options).argv[-1])
        return told

    assert given(POSTGRES)["synchronous_commit"] == "on"
    assert given(POSTGRES, synchronous_commit="off")["synchronous_commit"] == "off"
    assert given(MARIADB, flush_log="2")["innodb-flush-log-at-trx-commit"] == "2"


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("binary", "words", "lost"),
    [
        ("postgres", ("--system", "postgres-lease"), False),
        ("postgres", ("--system", "postgres-lease", "--set", "synchronous_commit=off"), True),
        ("mariadbd", ("--system", "mariadb-lease", "--set", "flush_log=2"), True),
    ],
)
def test_only_a_synced_grant_survives_a_power_loss(
    tmp_path: Path, binary: str, words: Sequence[str], lost: bool
) -> None:
    needs.disks()
    needs.binary(binary)
    holds = ("--set", "writes=20", "--set", "gap_ms=100", "--lease", "3s", "--time", "12s")
    power = "power:target=all,every=4s,for=200ms,when=acquire:ok,within=3s"
    ran = run(tmp_path, *words, *holds, "--nemesis", power, codes=(0, 3))
    every_fault_has_evidence(ran, {"power"})
    assert ran.kinds("durable-grants") == ({"lost-grant"} if lost else set())
    assert ran.row("durable-grants")["promised"] == (not lost)


@pytest.mark.real_server
@pytest.mark.parametrize(("binary", "system"), SERVERS, ids=["postgres", "mariadb"])
def test_the_lease_keeps_its_promises_under_pauses_and_restarts(
    tmp_path: Path, binary: str, system: SqlLease
) -> None:
    needs.namespaces()
    needs.binary(binary)
    faults = "pause:target=holder,every=4s,for=2s,kill:target=one,every=6s,for=300ms"
    words = ("--system", system.name, "--lease", "1s", "--time", "9s", "--nemesis", faults)
    ran = run(tmp_path, *words, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"pause", "kill"})


@pytest.mark.real_server
@pytest.mark.parametrize(("binary", "system"), SERVERS, ids=["postgres", "mariadb"])
def test_a_client_whose_clock_is_ahead_takes_a_lease_that_another_one_has(
    tmp_path: Path, binary: str, system: SqlLease
) -> None:
    needs.namespaces()
    needs.binary(binary)
    words = ("--system", system.name, "--set", "clock=client", "--workload", "renewal")
    step = ("--nemesis", "clock:target=client,step=60s,every=3s,for=1s")
    ran = run(tmp_path, *words, *step, "--lease", "3s", "--time", "9s", codes=(0, 3))
    assert ran.kinds("mutual-exclusion") & {"broken-lease", "double-grant"}
    assert not ran.row("mutual-exclusion")["promised"]
