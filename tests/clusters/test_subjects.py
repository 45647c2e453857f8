"""Libraries as subjects: what is promised of them, and what their answers come to."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.libraries.client import Asyncio, Blocking
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.libraries.system import LibrarySystem, entry
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import PLAIN, Answer, Grant, Mode, Status, Terms
from holdfast.harness.core.ports import ABILITIES, Able, ClientSetup
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare
from holdfast.planning.resolve import resolve

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = sorted(
    {
        name
        for row in LIBRARIES.values()
        for name in (*row.adapters.values(), *(kind.adapter for kind in row.kinds.values()))
    }
)
ELECTIONS = [
    *(name for row in LIBRARIES.values() if row.elects for name in row.adapters.values()),
    "kazoo_election",
]
"""Libraries that run a loop of their own, which a lock's acquire and release start and end."""
LEASE_NS = 2_000_000_000
GRANT = Grant(lock="l", attempt=7, token=-1, ttl_ns=LEASE_NS, granted_at_ns=0)


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_one_short_file(name: str) -> None:
    path = ROOT / "clusters" / "libraries" / "adapters" / f"{name}.py"
    longest = 130 if name in ELECTIONS else 60
    assert len(path.read_text().splitlines()) <= longest


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_row_names_servers_that_start_and_pins_that_are_exact(name: str) -> None:
    row = LIBRARIES[name]
    made: Any = load(entry(row.system, {"library": name}))
    assert made.libraries[0] == f"{name}=={row.version}"
    assert all(pin.count("==") == 1 for pin in made.libraries)
    assert with_kinds(made.promises({"library": name})).keeps["mutual-exclusion"]


KINDS = [(name, kind) for name, row in LIBRARIES.items() for kind in row.kinds]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_every_kind_of_lock_says_what_it_can_do_and_who_says_so(name: str, kind: str) -> None:
    row = LIBRARIES[name]
    options = {"library": name, "api": kind}
    made: Any = load(entry(row.system, options))
    assert isinstance(load(entry(row.system, options)), Able)
    assert set(made.abilities(options)) <= ABILITIES.keys()
    assert made.client.endswith(f":{row.kinds[kind].adapter}")
    promises = with_kinds(made.promises(options))
    assert row.kinds[kind].source in promises.sheet["evidence"]
    assert promises.keeps["mutual-exclusion"]
    plain: Any = load(entry(row.system, {"library": name}))
    assert plain.abilities({}) == row.abilities and plain.client != made.client


def test_a_kind_of_lock_runs_the_workloads_of_its_abilities() -> None:
    options = {"library": "kazoo", "api": "semaphore"}
    plan = prepare.complete(Plan(system="zookeeper", options=options, workload="semaphore"))
    assert plan.workload == "semaphore"
    plan = Plan(system="zookeeper", options={"library": "kazoo"}, workload="semaphore")
    with pytest.raises(UsageError, match="workload semaphore needs abilities that zookeeper lacks"):
        prepare.complete(plan)
    with pytest.raises(UsageError, match="one of sync, read-write, semaphore, election"):
        entry("zookeeper", {"library": "kazoo", "api": "asyncio"})


def test_a_library_without_servers_runs_where_its_system_does() -> None:
    plan = Plan(system="flock", options={"library": "fasteners"}, backend="docker")
    with pytest.raises(UsageError, match="needs clients that share a file system"):
        prepare.complete(plan)


def test_a_library_is_chosen_by_an_option_of_its_system() -> None:
    plan = Plan(system="redis", options={"library": "redis==4.5.1", "api": "asyncio"})
    system: Any = resolve(plan).system
    assert system.libraries[0] == "redis==4.5.1"
    assert system.client.endswith(":redis_py_asyncio")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"library": "rdis"}, "no adapter for library 'rdis' .available: redis, valkey"),
        ({"library": "redis", "api": "trio"}, "invalid api=trio: expected one of sync, asyncio"),
        ({"library": "pottery"}, "redis: no adapter for library 'pottery'"),
    ],
)
def test_what_cannot_be_chosen_is_told(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        entry("redis", options)


def test_a_library_promises_under_every_kind_of_fault_of_a_single_client() -> None:
    """The plan names them one by one: those of the catalogue at the time of the run."""
    plan = Plan(system="redis", options={"library": "redis==8.1.0"})
    of_clients = (
        "reply-loss",
        "reset",
        "delay",
        "black-hole",
        "hang-up",
        "cancel",
        "stall",
        "fork",
    )
    keeps = resolve(plan).promises.keeps
    assert keeps["mutual-exclusion"] == ("partition", "pause", "suspend", *of_clients)
    assert keeps["deadlock-freedom"] == ("partition", "pause", "suspend", "kill", *of_clients)
    assert keeps["no-hung-request"] == ("any",)


def test_without_a_lease_nothing_but_a_release_ends_a_hold() -> None:
    system = LibrarySystem("redis/redis==8.1.0/")
    assert system.promises({"library": "redis"}).bound == "lease"
    assert system.promises({"expire": "none"}).bound == "none"
    renewing = LibrarySystem("redis/python-redis-lock==4.0.1/")
    assert renewing.promises({"renew": "library"}).bound == "none"
    assert renewing.promises({"renew": "library"}).lapses
    assert not renewing.promises({"renew": "library", "expire": "none"}).lapses
    with pytest.raises(UsageError, match="invalid way=door: expected one of call, with"):
        system.promises({"way": "door"})


@pytest.mark.parametrize(
    ("nemesis", "system", "said"),
    [
        ("hang-up", "reference", "needs one network per client"),
        ("stall", "reference", "acts inside a client process"),
    ],
)
def test_a_fault_of_real_clients_is_refused_in_the_simulator(
    nemesis: str, system: str, said: str
) -> None:
    plan = Plan(system=system, backend="sim", nemeses=((nemesis, {}),))
    with pytest.raises(UsageError, match=said):
        prepare.complete(plan)


@pytest.mark.parametrize("nemesis", ["reset", "reply-loss", "delay", "black-hole", "hang-up"])
@pytest.mark.parametrize("system", ["flock", "none", "cas"])
def test_a_fault_of_connections_is_refused_where_the_run_starts_no_server(
    nemesis: str, system: str
) -> None:
    plan = Plan(system=system, backend="local", nemeses=((nemesis, {}),))
    with pytest.raises(UsageError, match=f"nemesis {nemesis} acts on connections .* {system} has"):
        prepare.complete(plan)


@pytest.mark.usefixtures("_forget")
@pytest.mark.parametrize(
    ("terms", "given"),
    [
        (PLAIN, {"mode": "exclusive", "permits": 1, "limit": 1}),
        (Terms(mode=Mode.SHARED), {"mode": "shared", "permits": 1, "limit": 1}),
        (
            Terms(mode=Mode.PERMITS, permits=2, limit=3),
            {"mode": "exclusive", "permits": 2, "limit": 3},
        ),
    ],
)
@pytest.mark.parametrize("coroutines", [False, True])
def test_the_terms_that_a_lock_takes_reach_it(
    terms: Terms, given: dict[str, Any], coroutines: bool
) -> None:
    asked: list[dict[str, Any]] = []

    def lock(
        name: str, attempt: str, lease_s: float, wait_s: float,
        mode: str = "", permits: int = 0, limit: int = 0,
    ) -> str:  # fmt: skip
        asked.append({"mode": mode, "permits": permits, "limit": limit})
        return name

    async def granted(held: str, wait_s: float) -> bool:
        return True

    adapter: Any = subject(True)
    acquire = granted if coroutines else lambda held, wait_s: True
    adapter.Subject = lambda setup: SimpleNamespace(lock=lock, acquire=acquire)
    sys.modules["holdfast.clusters.libraries.adapters.scripted"] = adapter
    call: dict[str, Any] = {"attempt": 7, "ttl_ns": LEASE_NS, "wait_ns": 0, "terms": terms}
    if coroutines:
        several = Asyncio("scripted", setup())
        asyncio.run(several.open())
        assert asyncio.run(several.acquire_on("l", **call)).outcome is Status.OK
    else:
        blocking = Blocking("scripted", setup())
        blocking.open()
        assert blocking.acquire_on("l", **call).outcome is Status.OK
    assert asked == [given]


class Refused(Exception):
    """The library's own word for no."""


class Made:
    """A lock object that can be entered both ways; `says` is what the library does."""

    def __init__(self, says: Any) -> None:
        self.says = says
        self.left = 0

    def __enter__(self) -> None:
        if isinstance(self.says, Exception):
            raise self.says

    def __exit__(self, *why: object) -> None:
        self.left += 1

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, *why: object) -> None:
        self.__exit__()


def subject(says: Any) -> Any:
    """The module of an adapter whose library says one thing to everything."""

    def answer(*args: object) -> object:
        if isinstance(says, Exception):
            raise says
        return says

    adapter: Any = ModuleType("holdfast.clusters.libraries.adapters.scripted")
    adapter.ERRORS = ((Refused, Status.FAIL),)
    adapter.Subject = lambda setup: SimpleNamespace(
        lock=lambda *args: Made(says), acquire=answer, renew=answer, release=answer
    )
    return adapter


@pytest.fixture
def _forget() -> Iterator[None]:
    yield
    sys.modules.pop("holdfast.clusters.libraries.adapters.scripted", None)


def setup(**options: str) -> ClientSetup:
    return ClientSetup(
        process=1, name="c1", servers=(), lease_ns=LEASE_NS, options=options,
        tell=lambda *args, **rest: None,
    )  # fmt: skip


@pytest.mark.usefixtures("_forget")
@pytest.mark.parametrize(
    ("says", "way", "outcome", "released"),
    [
        (True, "call", Status.OK, Status.OK),
        (False, "call", Status.FAIL, Status.NOT_OWNER),
        # What a library says of a release that failed proves nothing of what it has done of it.
        (Refused(), "call", Status.FAIL, Status.INFO),
        (ZeroDivisionError(), "call", Status.INFO, Status.INFO),
        (ZeroDivisionError(), "forgets", Status.INFO, Status.INFO),
        (ZeroDivisionError(), "forgets, without a lease", Status.INFO, Status.NOT_OWNER),
        (None, "with", Status.OK, Status.OK),
        (Refused(), "with", Status.FAIL, Status.OK),
    ],
)
def test_answers_and_errors_of_a_blocking_library(
    says: Any, way: str, outcome: Status, released: Status
) -> None:
    sys.modules["holdfast.clusters.libraries.adapters.scripted"] = subject(says)
    forgets, expire = way.startswith("forgets"), "none" if "without" in way else "lease"
    made = Blocking("scripted", setup(way="call" if forgets else way, expire=expire))
    made.open()
    if forgets:
        # As redis-py does: what it was not told of it does not ask the server for.
        made._subject.release = lambda held: False
    asked = made.acquire("l", attempt=7, ttl_ns=LEASE_NS, wait_ns=0, mode=Mode.EXCLUSIVE)
    assert asked.outcome is outcome
    assert made.release(GRANT).outcome is released
    # Only where it is certain that nothing was granted.
    unsure = outcome is Status.INFO and expire == "lease"
    never = Status.INFO if unsure else Status.NOT_OWNER
    assert made.release(GRANT).outcome is never


def forgetful() -> Any:
    """A library whose acquire lasts until it is cancelled; then it has nothing to release."""

    async def cut_off(held: Made, wait_s: float) -> bool:
        await asyncio.Event().wait()
        return True

    async def not_ours(held: Made) -> bool:
        return False

    adapter: Any = subject(True)
    adapter.Subject = lambda setup: SimpleNamespace(
        lock=lambda *args: Made(None), acquire=cut_off, release=not_ours
    )
    return adapter


@pytest.mark.usefixtures("_forget")
@pytest.mark.parametrize(
    ("expire", "ended", "outcome"),
    [
        # The server may keep the lock for its lease.
        ("lease", True, Status.INFO),
        ("lease", False, Status.INFO),
        # Nobody else frees it: that it has nothing to free is the library's last word, once its
        # acquire is over.
        ("none", True, Status.NOT_OWNER),
        ("zero", True, Status.NOT_OWNER),
        ("none", False, Status.INFO),
    ],
)
def test_what_a_library_says_of_a_lock_whose_acquire_was_cancelled(
    expire: str, ended: bool, outcome: Status
) -> None:
    sys.modules["holdfast.clusters.libraries.adapters.scripted"] = forgetful()

    async def story() -> Answer:
        made = Asyncio("scripted", setup(expire=expire))
        await made.open()
        asked = asyncio.ensure_future(
            made.acquire("l", attempt=7, ttl_ns=LEASE_NS, wait_ns=0, mode=Mode.EXCLUSIVE)
        )
        await asyncio.sleep(0)
        if ended:
            asked.cancel()
            await asyncio.wait([asked])
        answer = await made.release(GRANT)
        asked.cancel()
        return answer

    answer = asyncio.run(story())
    assert answer.outcome is outcome
    assert ("no certain outcome" in answer.error) == (outcome is Status.INFO)


@pytest.mark.usefixtures("_forget")
@pytest.mark.parametrize("way", ["call", "with"])
def test_a_cancelled_release_of_a_library_can_be_asked_again(way: str) -> None:
    begun = []

    async def never(held: Made) -> None:
        begun.append(held)
        if len(begun) == 1:
            await asyncio.Event().wait()

    async def granted(held: Made, wait_s: float) -> bool:
        return True

    class Stuck(Made):
        async def __aexit__(self, *why: object) -> None:
            await never(self)

    adapter: Any = subject(True)
    adapter.Subject = lambda setup: SimpleNamespace(
        lock=lambda *args: Stuck(None), acquire=granted, release=never
    )
    sys.modules["holdfast.clusters.libraries.adapters.scripted"] = adapter

    async def story() -> Status:
        made = Asyncio("scripted", setup(way=way))
        await made.open()
        await made.acquire("l", attempt=7, ttl_ns=LEASE_NS, wait_ns=0, mode=Mode.EXCLUSIVE)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(made.release(GRANT), 0.01)
        return (await made.release(GRANT)).outcome

    assert asyncio.run(story()) is Status.OK
    assert len(begun) == 2
