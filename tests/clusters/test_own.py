"""A user's lock class: its answers become outcomes, its mistakes are told at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalogue import user_system
from holdfast.clusters.systems.user_class.client import OwnClient
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Grant, Mode, Op, Status
from holdfast.harness.core.ports import ClientSetup
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare

Write = Callable[[str], str]
LOCK = (
    "class L:\n    def __init__(self, *a): pass\n    def acquire(self, *a): return 1\n"
    "    def release(self, *a): return True\n"
)


@pytest.fixture
def lock(tmp_path: Path) -> Write:
    """Writes a file and gives the name of its class L as a system."""

    def write(text: str) -> str:
        (tmp_path / "my lock.py").write_text(text)
        return f"{tmp_path}/my lock.py:L"

    return write


class Scripted:
    """A lock that answers what it was given, in order."""

    answers: tuple[Any, ...] = ()

    def __init__(self, servers: Any, options: Any) -> None:
        self.left = list(self.answers)

    def acquire(self, lock: str, owner: str, lease_s: float) -> Any:
        return self.left.pop(0)

    def release(self, lock: str, owner: str) -> Any:
        return self.left.pop(0)


def client(*answers: Any) -> tuple[OwnClient, list[Op]]:
    told: list[Op] = []

    def tell(op: Op, **_: Any) -> None:
        told.append(op)

    setup = ClientSetup(
        process=1, name="c1", servers=(), lease_ns=SECOND, options={}, tell=tell, seed=7
    )
    made = OwnClient(type("L", (Scripted,), {"answers": answers}), setup)
    made.open()
    return made, told


def acquired(*answers: Any, wait_ns: int = 0) -> tuple[Status, int, int]:
    made, told = client(*answers)
    answer = made.acquire("a", attempt=1, ttl_ns=SECOND, wait_ns=wait_ns, mode=Mode.EXCLUSIVE)
    return answer.outcome, answer.token, told.count(Op.WAITING)


def test_a_token_or_true_is_a_grant_and_false_or_none_is_not() -> None:
    assert acquired(41) == (Status.OK, 41, 0)
    assert acquired(True) == (Status.OK, -1, 0)
    assert acquired(0) == (Status.OK, 0, 0)
    assert acquired(False)[0] is acquired(None)[0] is Status.FAIL
    assert acquired("yes")[0] is Status.INFO


def test_it_is_asked_again_until_the_wait_is_over_and_each_refusal_is_on_record() -> None:
    assert acquired(None, None, 7, wait_ns=-1) == (Status.OK, 7, 2)


def test_what_it_raises_is_left_to_be_unknown() -> None:
    made, _ = client()
    with pytest.raises(IndexError):
        made.acquire("a", attempt=1, ttl_ns=SECOND, wait_ns=0, mode=Mode.EXCLUSIVE)


def test_a_false_release_says_that_it_did_not_hold_and_no_renew_says_so() -> None:
    made, _ = client(False, True)
    grant = Grant(lock="a", attempt=1, token=1, ttl_ns=SECOND, granted_at_ns=0)
    assert made.release(grant).outcome is Status.NOT_OWNER
    assert made.release(grant).outcome is Status.OK
    assert made.renew(grant, ttl_ns=SECOND).outcome is Status.FAIL


def test_without_words_of_its_own_it_is_held_to_what_a_lock_is_for(lock: Write) -> None:
    row = user_system.row(lock(LOCK))
    promises = load(row.entry).promises({})
    assert (row.nodes, promises.tokens) == (0, "none")
    assert promises.promised("mutual-exclusion", ["kill", "clock"])
    assert not promises.promised("no-stale-write", [])
    said = user_system.row(
        lock(LOCK + "    tokens = 'ordered'\n    promises = {'ownership': ['kill']}\n")
    )
    promises = load(said.entry).promises({})
    assert promises.keeps == {"ownership": ("kill",)} and promises.tokens == "ordered"


def test_a_lock_without_servers_of_the_run_lies_outside_of_it(lock: Write) -> None:
    assert load(user_system.row(lock(LOCK)).entry).outside
    server = "    ports = (7400,)\n    def server(name, servers, data, options): return []\n"
    assert not load(user_system.row(lock(LOCK + server)).entry).outside
    assert not load(user_system.row(lock(LOCK + "    server = 'redis'\n")).entry).lock.outside


def test_all_that_is_wrong_with_a_class_is_told_at_once(lock: Write) -> None:
    bad = "class L:\n    nodes = 2\n    tokens = 'some'\n    promises = {'exclusion': 'any'}\n"
    with pytest.raises(UsageError) as caught:
        user_system.row(lock(bad))
    for part in ("missing acquire and release", "`server`", "tokens = 'some'", "'exclusion'"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [("class M: pass", "has no 'L'"), ("1 / 0", "ZeroDivisionError"), ("class L(", "SyntaxError")],
)
def test_a_file_that_does_not_run_is_told_with_its_reason(
    lock: Write, text: str, part: str
) -> None:
    with pytest.raises(UsageError, match=part):
        user_system.row(lock(text))


def test_options_are_those_of_the_class_and_the_simulator_is_refused(lock: Write) -> None:
    calls = "    def acquire(self, *a): import time; return time.time()\n"
    name = lock(f"{LOCK}{calls}    options = {{'colour': 'red'}}\n")
    system = load(user_system.row(name).entry)
    assert system.promises({"colour": "blue"}).tokens == "none"
    with pytest.raises(UsageError, match="did you mean 'colour'"):
        system.promises({"color": "blue"})
    with pytest.raises(UsageError, match="does not run in the simulator"):
        prepare.complete(Plan(system=name, backend="sim", nodes=0))
    with pytest.raises(UsageError, match="no such file"):
        prepare.complete(Plan(system="gone.py:L", nodes=0))


def test_the_file_is_read_anew_each_time_and_its_fingerprint_follows(lock: Write) -> None:
    name = lock(LOCK)
    before = user_system.fingerprint([name, "redis"])
    assert user_system.row(name).nodes == 0 and user_system.fingerprint([name]) == before
    lock(LOCK + "    nodes = 1\n    ports = (1,)\n    def server(*a): return []\n")
    assert user_system.row(name).nodes == 1
    assert user_system.fingerprint([name]) != before


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("prooves = False", "unknown attribute 'prooves'; did you mean 'proves'?"),
        ("token = 'ordered'", "did you mean 'tokens'?"),
        ("promisses = {'ownership': 'any'}", "did you mean 'promises'?"),
        ("wait = True", "did you mean 'waits'?"),
        ("port = [7400]", "did you mean 'ports'?"),
        ("def renw(self, lock, owner, lease_s): return True", "did you mean 'renew'?"),
        ("def clos(self): ...", "did you mean 'close'?"),
    ],
)
def test_a_misspelt_attribute_is_told_with_what_may_be_meant(
    lock: Write, line: str, part: str
) -> None:
    with pytest.raises(UsageError) as caught:
        user_system.row(lock(f"{LOCK}    {line}\n"))
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (
            "def __init__(self, name): ...",
            "__init__ is called with (servers, options), and by name",
        ),
        ("def __init__(self): ...", "it has ()"),
        ("def acquire(self, lock): ...", "acquire is called with (lock, owner, lease): too many"),
        ("def acquire(self, lock, owner, lease, wait): ...", "missing a required argument: 'wait'"),
        ("def acquire(self, lock, owner, mode): ...", "multiple values for argument 'mode'"),
        (
            "waits, acquire = True, lambda self, lock, owner, lease: 1",
            "(lock, owner, lease, timeout)",
        ),
        ("def renew(self, lock, owner): ...", "renew is called with (lock, owner, lease)"),
        ("def release(self): ...", "release is called with (lock, owner): too many"),
        ("def close(self, now): ...", "close is called with (): missing a required argument"),
        ("def place(self, lock): ...", "place is called with (lock, owner): too many"),
    ],
)
def test_a_method_that_cannot_be_called_as_clients_do_is_told_before_a_run(
    lock: Write, line: str, part: str
) -> None:
    with pytest.raises(UsageError) as caught:
        user_system.row(lock(f"{LOCK}    {line}\n"))
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "def __init__(self, *args, **more): ...",
        "def __init__(self, servers, options, now, index=0): ...",
        "def acquire(self, *args): ...",
        "def acquire(self, lock, owner, lease, timeout=None): ...",
        "waits, acquire = True, lambda self, lock, owner, lease, timeout, waiting: 1",
        "waits, acquire = True, lambda self, lock, owner, lease, wait: True",
        "def release(self, lock, owner, mode, permits=1, limit=1): ...",
        "release = staticmethod(lambda lock, owner: True)",
        "close = print",
    ],
)
def test_methods_that_can_be_called_as_clients_do_are_no_mistakes(lock: Write, line: str) -> None:
    user_system.row(lock(f"{LOCK}    {line}\n"))


@pytest.mark.parametrize(
    "line",
    [
        "port = 6379",
        "wait = 0.5",
        "colour = 'red'",
        "def closed(self): return False",
        "def renewed(self, lock, owner, lease_s): return True",
        "def renewal(self): ...",
        "def released(self, lock, owner): ...",
        "proves = True; prove = True",
        "_prooves = False",
    ],
)
def test_attributes_of_its_own_are_no_mistakes(lock: Write, line: str) -> None:
    user_system.row(lock(f"{LOCK}    {line}\n"))


def test_an_attribute_of_a_library_is_no_mistake(tmp_path: Path, lock: Write) -> None:
    (tmp_path / "beside.py").write_text("class Base:\n    prooves = False\n")
    user_system.row(lock("from beside import Base\n" + LOCK.replace("class L:", "class L(Base):")))
