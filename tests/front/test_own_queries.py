"""Queries, conditions and paths of a lock of the user: a class in the simulator, and a program."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.clusters.systems.program.client import ProgramClient
from holdfast.clusters.systems.program.table import problems
from holdfast.clusters.systems.user_class.queries import answered
from holdfast.clusters.systems.user_class.terms import able
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Grant, Op, Status, Terms
from holdfast.harness.core.ports import ClientSetup
from tests.front.faulted import in_empty_folder
from tests.front.said import holdfast

QUERIED = """
LOCKS = {}
NEWEST = {}


class Queried:
    tokens = "ordered"

    def __init__(self, servers, options, now):
        self.now = now

    def hold(self, lock):
        owner, ends, token, text, granted, renewals = LOCKS.get(lock, ("", 0, 0, "", 0, 0))
        return (owner, ends, token, text, granted, renewals) if self.now() < ends else None

    def queue(self, lock):
        QUEUES = self.__class__.__dict__["waiting"].setdefault(lock, {})
        for owner in [o for o, seen in QUEUES.items() if self.now() > seen + 0.1]:
            del QUEUES[owner]
        return QUEUES

    waiting = {}

    def acquire(self, lock, owner, lease_s, newest=None, metadata=""):
        held, queue = self.hold(lock), self.queue(lock)
        if %(checked)s and newest is not None and newest != NEWEST.get(lock, 0):
            queue.pop(owner, None)
            return "changed"
        if held and held[0] != owner:
            queue[owner] = self.now()
            return None
        queue.pop(owner, None)
        token = NEWEST[lock] = NEWEST.get(lock, 0) + 1
        LOCKS[lock] = (owner, self.now() + lease_s, token, metadata, self.now(), 0)
        return token

    def renew(self, lock, owner, lease_s):
        held = self.hold(lock)
        if not held or held[0] != owner:
            return False
        LOCKS[lock] = (owner, self.now() + lease_s, held[2], held[3], held[4], held[5] + 1)
        return lease_s

    def release(self, lock, owner):
        held = self.hold(lock)
        if not held or held[0] != owner:
            return False
        del LOCKS[lock]
        return True

    def holder(self, lock):
        held = self.hold(lock)
        if not held:
            return None
        return {"token": held[2] - %(behind)s, "metadata": held[3], "held_s": self.now() - held[4]}

    def length(self, lock):
        return len(self.queue(lock)) + %(more)s * bool(self.hold(lock))

    def check(self, lock, owner):
        held = self.hold(lock)
        return bool(held and held[0] == owner)
"""
RIGHT = {"checked": "True", "behind": 0, "more": 0}
WRONG = {"checked": "False"}, {"behind": 1}, {"more": 9}
PATHS = """
HELD = {}


class Paths:
    subtrees = True

    def __init__(self, servers, options, now):
        self.now = now

    def acquire(self, lock, owner, lease_s):
        for other, (holder, ends) in HELD.items():
            if self.now() < ends and holder != owner and self.meets(lock, other):
                return False
        HELD[lock] = (owner, self.now() + lease_s)
        return True

    def meets(self, one, other):
        one, other = one + "/", other + "/"
        return one.startswith(other) or %(below)s and other.startswith(one)

    def renew(self, lock, owner, lease_s):
        holder, ends = HELD.get(lock, ("", 0))
        if holder != owner or self.now() >= ends:
            return False
        HELD[lock] = (owner, self.now() + lease_s)
        return True

    def release(self, lock, owner):
        holder, ends = HELD.get(lock, ("", 0))
        if holder != owner or self.now() >= ends:
            return False
        del HELD[lock]
        return True
"""


def run(text: str, kind: str, workload: str, **options: str) -> hf.Run:
    """A run of a class of ours in the simulator."""
    Path("own.py").write_text(text)
    return hf.run(
        system=f"own.py:{kind}", backend="sim", workload=workload, time="6s", lease="1s",
        clients=4, seed=3, options=options,
    )  # fmt: skip


def test_queries_of_a_class_hold_and_wrong_ones_are_violated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    right = run(QUERIED % RIGHT, "Queried", "queries", metadata="1")
    assert right.verdicts["truthful-queries"] == hf.Verdict.HOLDS, right.judgement
    assert right.verdicts["mutual-exclusion"] == hf.Verdict.HOLDS
    assert holdfast(capsys, "doctor", "--system", "own.py:Queried").code == 0
    for wrong in WRONG:
        bad = run(QUERIED % {**RIGHT, **wrong}, "Queried", "queries")
        assert bad.verdicts["truthful-queries"] == hf.Verdict.VIOLATED, wrong
        assert bad.judgement["exit_code"] == 1
        assert holdfast(capsys, "doctor", "--system", "own.py:Queried").code == 2, wrong


def test_sequencers_and_several_locks_of_a_class_run_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    got = run(QUERIED % RIGHT, "Queried", "many-locks")
    assert got.verdicts["mutual-exclusion"] == hf.Verdict.HOLDS, got.judgement
    forever = "return bool(held and held[0] == owner)\n", "return True\n"
    got = run(QUERIED % RIGHT, "Queried", "sequencers")
    assert got.verdicts["mutual-exclusion"] == hf.Verdict.HOLDS, got.judgement
    Path("own.py").write_text(QUERIED.replace(*forever) % RIGHT)
    told = holdfast(capsys, "doctor", "--system", "own.py:Queried")
    assert told.code == 2 and "check of a hold that was released returned ok" in told.out + told.err


def test_paths_of_a_class_hold_and_forgotten_descendants_are_violated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    right = run(PATHS % {"below": True}, "Paths", "hierarchy")
    assert right.verdicts["mutual-exclusion"] == hf.Verdict.HOLDS, right.judgement
    assert holdfast(capsys, "doctor", "--system", "own.py:Paths").code == 0
    wrong = run(PATHS % {"below": False}, "Paths", "hierarchy")
    assert wrong.verdicts["mutual-exclusion"] == hf.Verdict.VIOLATED


PROGRAM = """
import json, sys
held = {}
for line in sys.stdin:
    ask = json.loads(line)
    said = {"id": ask["id"], "outcome": "ok"}
    if ask["op"] in ("acquire", "try"):
        held[ask["lock"]] = {"token": 7, "metadata": ask["metadata"], "renewals": 0}
        said["token"] = 7 if ask["newest"] is None else 8
    elif ask["op"] == "query":
        said |= {"place": 2} if ask["attempt"] else {"holder": held.get(ask["lock"]), "length": 3}
    elif ask["op"] == "check":
        said["outcome"] = "ok" if ask["lock"] in held else "not_owner"
    print(json.dumps(said), flush=True)
"""
LISTED = ["holder", "place", "length", "check", "condition", "metadata"]


def test_a_program_answers_queries_and_gets_conditions_and_metadata(tmp_path: Path) -> None:
    (tmp_path / "lock.py").write_text(PROGRAM)
    table = {"client": "{python} lock.py", "abilities": LISTED}
    assert problems(table) == []
    assert {"queries", "sequencers", "condition"} <= set(able(LISTED))
    options = {
        "argv": json.dumps(["{python}", "lock.py"]),
        "folder": str(tmp_path),
        "abilities": json.dumps(LISTED),
    }
    setup = ClientSetup(
        process=1, name="c1", servers=[], lease_ns=SECOND, options=options,
        tell=lambda *_, **__: None,
    )  # fmt: skip

    async def talk() -> None:
        client = ProgramClient(setup)
        assert set(client.reports) == {Op.HOLDER, Op.PLACE, Op.LENGTH} and client.conditional
        await client.open()
        asked = {"attempt": 5, "ttl_ns": SECOND, "wait_ns": 0}
        plain = await client.acquire_on("db", **asked, terms=Terms(metadata="whose"))
        later = await client.acquire_on("other", **asked, terms=Terms(newest=3, metadata="x"))
        assert (plain.token, later.token) == (7, 8)
        said = await client.query("db", attempt=0)
        assert (said.token, said.metadata, said.renewals, said.length) == (7, "whose", 0, 3)
        assert (await client.query("db", attempt=5)).place == 2
        grant = Grant(lock="db", attempt=5, token=7, ttl_ns=SECOND, granted_at_ns=0)
        assert (await client.check(grant)).outcome is Status.OK
        free = Grant(lock="free", attempt=5, token=7, ttl_ns=SECOND, granted_at_ns=0)
        assert (await client.check(free)).outcome is Status.FAIL
        await client.close()

    asyncio.run(talk())


def test_a_class_that_waits_reports_that_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    Path("waits.py").write_text(WAITS.replace("FOLDER", str(tmp_path)))
    run = hf.run(
        system="waits.py:Waits", backend="local", workload="critical-section", time="3s",
        lease="1s", clients=3, seed=3,
    )  # fmt: skip
    assert run.verdicts["mutual-exclusion"] == hf.Verdict.HOLDS
    assert len(run.case.history.of(Op.WAITING)) > 3


WAITS = """
import fcntl, time


class Waits:
    waits = True
    bound = "connection"

    def __init__(self, servers, options):
        self.files = {}

    def acquire(self, lock, owner, lease_s, timeout_s, waiting):
        file, until = open(f"FOLDER/{lock}.lock", "w"), time.monotonic() + timeout_s
        while time.monotonic() < until:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.files[owner] = file
                return True
            except BlockingIOError:
                waiting()
                time.sleep(0.01)
        return False

    def release(self, lock, owner):
        file = self.files.pop(owner, None)
        return bool(file) and not file.close()
"""


@pytest.mark.parametrize(
    "said", [{"holder": "me"}, {"holder": {"token": 1, "who": 2}}, {"length": "3"}, {"place": True}]
)
def test_a_wrong_answer_is_a_type_error(said: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="returned"):
        answered(said)
