"""Whole runs on the lock servers of others: what they promise holds, what they never did shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import needs
from tests.front.test_runs import HOLDER_PAUSES, nothing_promised_is_violated, run

ROOT = Path(__file__).resolve().parents[2]
FAULTS = ("--nemesis", "partition,pause,kill", "--time", "12s", "--lease", "1s")


@pytest.mark.real_server
@pytest.mark.parametrize(
    "words",
    [
        ("--nemesis", "clock:step=60s,target=majority,every=3s,for=1s"),
        ("--set", "persistence=none", "--nemesis", "kill:target=all,every=4s,for=200ms"),
    ],
    ids=["clocks-of-a-majority", "restart-without-persistence"],
)
def test_redlock_grants_twice_where_servers_forget_or_clocks_jump(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    ran = run(tmp_path, "--system", "redlock", "--workload", "renewal", *words, "--time", "10s")
    assert ran.kinds("mutual-exclusion") & {"broken-lease", "double-grant"}
    assert not ran.row("mutual-exclusion")["promised"]


@pytest.mark.power
@pytest.mark.real_server
def test_a_primary_that_is_cut_off_goes_on_granting_beside_its_successor(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    words = ("--system", "redis-sentinel", "--lease", "3s", "--time", "9s")
    faults = "partition:target=leader,every=9s,for=7s,kill:target=client,every=2s,for=300ms"
    ran = run(tmp_path, *words, "--nemesis", faults)
    assert ran.verdict("mutual-exclusion") == "VIOLATED"
    assert not ran.row("mutual-exclusion")["promised"]


@pytest.mark.real_server
@pytest.mark.parametrize("variant", ["fixed-value", "plain-del"])
def test_who_is_late_frees_the_lock_of_the_next_owner(tmp_path: Path, variant: str) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    words = ("--system", "redis", "--set", f"variant={variant}", "--lease", "1s", "--time", "9s")
    faults = "pause:target=holder,every=2s,for=1500ms"
    for seed in range(1, 4):  # Whether the next owner holds when it is late is left to chance.
        ran = run(tmp_path, *words, "--nemesis", faults, "--seed", str(seed), codes=(0, 3))
        if ran.verdict("mutual-exclusion") == "VIOLATED":
            break
    assert ran.verdict("mutual-exclusion") == "VIOLATED"


@pytest.mark.power
@pytest.mark.real_server
def test_owners_that_die_before_they_give_a_key_its_end_leave_an_orphan(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    plan = str(ROOT / "examples" / "expire-apart.toml")
    for seed in range(1, 6):
        ran = run(tmp_path, plan, "--seed", str(seed), codes=(0, 3))
        if ran.verdict("orphan-freedom") == "VIOLATED":
            break
    assert ran.verdict("orphan-freedom") == "VIOLATED"
    assert ran.verdict("mutual-exclusion") != "VIOLATED"


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("system", "tokens", "stale"),
    [("postgres-advisory", "none", "VIOLATED"), ("postgres-row", "sequence", "HOLDS")],
)
def test_a_holder_that_sleeps_through_its_session_writes_late_and_only_fencing_stops_it(
    tmp_path: Path, system: str, tokens: str, stale: str
) -> None:
    needs.namespaces()
    needs.binary("postgres")
    words = ("--system", system, "--set", f"tokens={tokens}", "--lease", "1s", "--time", "8s")
    ran = run(tmp_path, *words, "--nemesis", HOLDER_PAUSES, codes=(0, 3))
    assert ran.verdict("mutual-exclusion") == "HOLDS"
    assert ran.row("mutual-exclusion")["notes"], "nobody believed in a lock that was gone"
    assert ran.verdict("no-stale-write") == stale


@pytest.mark.docker
@pytest.mark.parametrize(
    "system",
    [
        "postgres-advisory",
        pytest.param("redlock", marks=pytest.mark.power),
        pytest.param("postgres-row", marks=pytest.mark.power),
        pytest.param("mariadb-row", marks=pytest.mark.power),
        pytest.param("redis-sentinel", marks=pytest.mark.power),
    ],
)
def test_a_lock_server_keeps_its_promises_in_containers(tmp_path: Path, system: str) -> None:
    needs.engine()
    words = ("--system", system, "--backend", "docker", "--set", "lazy_pct=0", *FAULTS)
    ran = run(tmp_path, *words, codes=(0, 3))
    nothing_promised_is_violated(ran)
    assert ran.verdicts["evidence"]["acquire"]["granted"] > 10
