"""Whole runs with --server-record: a correct lock has no difference, what truly differs shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.systems.etcd.system import SYSTEM as ETCD
from holdfast.clusters.systems.redis.system import SYSTEM as REDIS
from holdfast.clusters.systems.sql_lease.system import POSTGRES
from holdfast.clusters.systems.zookeeper.system import SYSTEM as ZOOKEEPER
from tests import needs
from tests.front.test_runs import Ran, holdfast, run

PAUSED = ("pause:target=leader,every=4s,for=1500ms",)
KILLED = ("kill:target=leader,every=4s,for=500ms",)
NEEDED = {
    "etcd": ETCD.precheck,
    "redis": REDIS.precheck,
    "zookeeper": ZOOKEEPER.precheck,
    "postgres-lease": POSTGRES.precheck,
}


def compared(ran: Ran) -> dict[str, Any]:
    """The comparison of a run, in which the counts add up."""
    told: dict[str, Any] = ran.verdicts["server_record"]
    assert told["problem"] == ""
    # Those of the probe are compared as well.
    assert told["granted"] >= ran.verdicts["evidence"]["acquire"]["granted"] > 0
    assert told["unknown"] >= told["took_effect"] + told["no_effect"]
    missing = sum(one["kind"] == "granted-not-recorded" for one in told["differences"])
    assert told["granted"] == told["matched"] + told["uncovered"] + missing
    return told


def kinds(told: dict[str, Any]) -> set[str]:
    return {one["kind"] for one in told["differences"]}


def servers_of(system: str) -> None:
    needs.namespaces()
    check: Callable[[], str | None] = NEEDED[system]
    needs.unless(check())


@pytest.mark.real_server
@pytest.mark.parametrize("faults", [(), PAUSED, KILLED], ids=["calm", "paused", "killed"])
@pytest.mark.parametrize(
    "system",
    [
        ("etcd",),
        ("etcd", "--set", "leases=reused", "--set", "auth=yes"),
        ("redis", "--set", "persistence=always"),
        ("redis", "--set", "client=own", "--set", "tokens=counter", "--set", "persistence=always"),
        ("zookeeper",),
        ("postgres-lease", "--set", "wal_level=logical"),
    ],
    ids=["etcd", "etcd-reused", "redis", "redis-counter", "zookeeper", "postgres"],
)
def test_the_record_of_a_correct_lock_agrees(
    tmp_path: Path, system: Sequence[str], faults: Sequence[str]
) -> None:
    servers_of(system[0])
    # Silent owners would leave few grants to compare.
    nemesis = ("--nemesis", *faults) if faults else ()
    words = ("--server-record", "--time", "10s", "--set", "lazy_pct=0", *nemesis)
    told = compared(run(tmp_path, "--system", *system, *words, codes=(0, 3)))
    assert told["differences"] == []
    assert told["matched"] >= (30 if faults else 60)
    assert told["whole"]
    assert told["strangers"] == 0
    if system[0] != "redis" or faults != KILLED:
        assert told["gaps"] == []
        assert told["uncovered"] == 0
        assert told["unknown"] == told["took_effect"] + told["no_effect"]


@pytest.mark.real_server
def test_a_server_without_persistence_forgets_holds_that_were_granted(tmp_path: Path) -> None:
    servers_of("redis")
    words = ("--system", "redis", "--set", "persistence=none", "--workload", "renewal")
    faults = ("--nemesis", "kill:target=all,every=4s,for=300ms", "--lease", "3s", "--time", "12s")
    ran = run(tmp_path, *words, *faults, "--server-record", codes=(0, 3))
    told = compared(ran)
    assert kinds(told) == {"lost"}
    assert told["gaps"]
    assert "within a gap of the record, before its lease was over" in str(told["differences"])
    page = (ran.run_dir / "report.html").read_text()
    assert 'id="server-record"' in page
    code, out, _ = holdfast(tmp_path, "check", str(ran.run_dir))
    assert code == ran.code
    assert "Servers' own record" in out
    assert "lost lock-1 within a gap of the record" in " ".join(out.split())


@pytest.mark.real_server
def test_a_reply_that_is_lost_leaves_an_outcome_that_the_record_knows(tmp_path: Path) -> None:
    servers_of("redis")
    words = ("--system", "redis", "--nemesis", "reply-loss:every=1500ms,for=500ms", "--time", "10s")
    told = compared(run(tmp_path, *words, "--server-record", codes=(0, 3)))
    assert told["differences"] == []
    assert told["unknown"] == told["took_effect"] + told["no_effect"] > 0


@pytest.mark.real_server
def test_a_late_release_that_frees_the_lock_of_the_next_owner_is_a_difference(
    tmp_path: Path,
) -> None:
    servers_of("redis")
    words = ("--system", "redis", "--set", "variant=plain-del", "--lease", "1s", "--time", "9s")
    faults = ("--nemesis", "pause:target=holder,every=2s,for=1500ms")
    told = compared(run(tmp_path, *words, *faults, "--server-record", codes=(0, 3)))
    assert kinds(told) >= {"lost"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--system", "flock"), "flock has no record that is read; systems that have one: "),
        (("--system", "reference", "--backend", "sim"), "reference has no record that is read"),
        (("--system", "etcd", "--set", "lock=rpc"), "use lock=transaction"),
        (("--system", "redis", "--set", "variant=fixed-value"), "do not show who holds"),
        (("--system", "redis", "--library", "redis==4.5.1"), "redis with the client redis==4.5.1"),
        (("--system", "etcd", "--backend", "ssh"), "use --backend local, local-proxy or docker"),
    ],
)
def test_what_has_no_record_is_refused_before_the_run(
    tmp_path: Path, words: Sequence[str], why: str
) -> None:
    code, out, err = holdfast(tmp_path, "run", *words, "--server-record")
    assert (code, out) == (2, "")
    assert why in err
    assert not list(tmp_path.iterdir())


def test_a_plan_file_may_ask_for_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('system = "etcd"\nserver_record = true\n')
    code, out, _ = holdfast(tmp_path, "run", "plan.toml", "--dry-run")
    assert code == 0
    assert "server_record = true" in out
    plan.write_text('system = "etcd"\nserver_record = "yes"\n')
    code, _, err = holdfast(tmp_path, "run", "plan.toml", "--dry-run")
    assert code == 2
    assert "invalid server_record = 'yes': expected true or false" in err
