"""Read-write locks and semaphores of the user: a class, and a program, on a built-in Redis."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf
from holdfast.api import plan_options
from holdfast.clusters.systems.program import protocol
from holdfast.clusters.systems.program.table import problems
from holdfast.clusters.systems.user_class.terms import abilities_of, accepted, half_declared
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import PLAIN, Mode, Terms
from holdfast.planning import prepare
from tests import needs
from tests.front.faulted import in_empty_folder
from tests.front.said import holdfast

# A lock as one writes it for oneself: one script, expiries in a sorted set.
LOCKS = '''
import json
import socket
import sys
import threading
import time

BEFORE = """
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
local ends = now + ARGV[2]
"""
SHARE = BEFORE + """
if redis.call('exists', KEYS[2]) == 1 then return 0 end
redis.call('zadd', KEYS[1], ends, ARGV[1])
return 1
"""
ALONE = BEFORE + """
if %(readers)s > 0 then return 0 end
return redis.call('set', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
"""
RENEW = BEFORE + """
if redis.call('get', KEYS[2]) == ARGV[1] then return redis.call('pexpire', KEYS[2], ARGV[2]) end
local mine = redis.call('zrangebyscore', KEYS[1], '-inf', '+inf')
local n = 0
for _, one in ipairs(mine) do
  if string.match(one, '^[^:]*') == ARGV[1] then
    redis.call('zadd', KEYS[1], ends, one)
    n = 1
  end
end
return n
"""
FREE = BEFORE + """
if redis.call('get', KEYS[2]) == ARGV[1] then return redis.call('del', KEYS[2]) end
local n = 0
for _, one in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
  if string.match(one, '^[^:]*') == ARGV[1] then n = n + redis.call('zrem', KEYS[1], one) end
end
return n > 0 and 1 or 0
"""
TAKE = BEFORE + """
if redis.call('zcard', KEYS[1]) + ARGV[3] > ARGV[4] + %(more)s then return 0 end
for n = 1, ARGV[3] do redis.call('zadd', KEYS[1], ends, ARGV[1] .. ':' .. n) end
return 1
"""


class Scripts:
    def __init__(self, servers, options):
        self.address = (servers[0][1], 6379)
        self.lines = None
        self.guard = threading.Lock()

    def run(self, script, lock, *words):
        words = ("EVAL", script, 2, lock + ":many", lock + ":one", *words)
        parts = ["$%%d\\r\\n%%s\\r\\n" %% (len(str(word)), word) for word in words]
        with self.guard:
            try:
                if self.lines is None:
                    self.socket = socket.create_connection(self.address, timeout=1)
                    self.lines = self.socket.makefile("rb")
                self.socket.sendall(("*%%d\\r\\n%%s" %% (len(words), "".join(parts))).encode())
                said = self.lines.readline().decode().strip()
            except OSError:
                self.lines = None
                raise
        if said not in (":0", ":1"):
            raise OSError(said)
        return said == ":1"

    def renew(self, lock, owner, lease_s):
        return self.run(RENEW, lock, owner, int(lease_s * 1000))

    def release(self, lock, owner):
        return self.run(FREE, lock, owner, 0)


class ReadWrite(Scripts):
    def acquire(self, lock, owner, lease_s, mode="exclusive"):
        script = SHARE if mode == "shared" else ALONE
        return self.run(script, lock, owner, int(lease_s * 1000))


class Semaphore(Scripts):
    def acquire(self, lock, owner, lease_s, permits=1, limit=1):
        return self.run(TAKE, lock, owner, int(lease_s * 1000), permits, limit)


def main():
    kind, address = sys.argv[1:]
    made = {"ReadWrite": ReadWrite, "Semaphore": Semaphore}[kind]([("", address)], {})
    for line in sys.stdin:
        ask = json.loads(line)
        lock, owner, lease_s = ask["lock"], str(ask["attempt"]), ask["lease_ms"] / 1000
        terms = {name: ask[name] for name in ("mode", "permits", "limit") if name in ask}
        said = {"id": ask["id"], "outcome": "ok"}
        try:
            if ask["op"] == "renew":
                done = made.renew(lock, owner, lease_s)
            elif ask["op"] == "release":
                done = made.release(lock, owner)
            else:
                over = time.monotonic() + ask["timeout_ms"] / 1000
                while not (done := made.acquire(lock, owner, lease_s, **terms)):
                    if time.monotonic() > over:
                        break
                    told = {"event": "waiting", "lock": lock, "attempt": ask["attempt"]}
                    print(json.dumps(told), flush=True)
                    time.sleep(0.01)
            if not done:
                said["outcome"] = "fail" if ask["op"] in ("acquire", "try") else "not_owner"
        except OSError as error:
            said = {"id": ask["id"], "outcome": "info", "error": str(error)}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
'''
READERS = "redis.call('zcard', KEYS[1])"
RIGHT = {"readers": READERS, "more": 0}
WRONG = {"readers": "0", "more": 1}
"""A writer that does not look at readers; one permit too many."""
SAID = {
    "read-write": "an exclusive try returned ok while readers hold",
    "semaphore": "a try returned ok while all permits are held",
}
KINDS = {"read-write": ("ReadWrite", "shared"), "semaphore": ("Semaphore", "permits")}


def run(workload: str, how: str, parts: dict[str, object]) -> hf.Run:
    """A calm run on one Redis of our own."""
    kind, ability = KINDS[workload]
    Path("terms.py").write_text(LOCKS % parts)
    Path("terms.toml").write_text(
        f'[system]\nclient = "{{python}} terms.py {kind} {{servers}}"\nserver = "redis"\n'
        f'files = ["terms.py"]\nabilities = ["{ability}"]\n'
    )
    system = f"terms.py:{kind}@redis" if how == "class" else "terms.toml"
    return hf.run(system=system, workload=workload, time="4s", lease="1s", clients=4, seed=3)


@pytest.mark.slow
@pytest.mark.real_server
@pytest.mark.parametrize("how", ["class", "program"])
@pytest.mark.parametrize("workload", KINDS)
def test_one_of_the_user_holds_on_redis_and_a_broken_one_is_violated(
    workload: str,
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    needs.binary("redis-server")
    right = run(workload, how, RIGHT)
    system = right.plan["system"]
    assert holdfast(capsys, "doctor", "--system", system).code == 0
    assert right.verdicts["mutual-exclusion"] == hf.Verdict.HOLDS, right.judgement
    assert right.judgement["exit_code"] != 1
    assert run(workload, how, WRONG).verdicts["mutual-exclusion"] == hf.Verdict.VIOLATED
    told = holdfast(capsys, "doctor", "--system", system)
    assert told.code == 2 and SAID[workload] in told.out + told.err


REENTRANT = """
HOLDS = {}


class Reentrant:
    '''One client, one object: it may come in again while it holds.'''

    def __init__(self, servers, options, now):
        self.now = now

    def entries(self, lock):
        client, entries, ends = HOLDS.get(lock, (None, set(), 0))
        return (client, entries) if entries and self.now() < ends else (None, set())

    def acquire(self, lock, owner, lease_s, reenter=False):
        client, entries = self.entries(lock)
        if client not in (None, %(whose)s) or (entries and not reenter):
            return False
        HOLDS[lock] = (self, entries | {owner}, self.now() + lease_s)
        return True

    def renew(self, lock, owner, lease_s):
        client, entries = self.entries(lock)
        if owner in entries:
            HOLDS[lock] = (client, entries, self.now() + lease_s)
        return owner in entries

    def release(self, lock, owner):
        client, entries = self.entries(lock)
        mine = owner in entries
        entries.discard(owner)
        return mine
"""


@pytest.mark.parametrize(("whose", "verdict"), [("self", "HOLDS"), ("client", "VIOLATED")])
def test_a_reentrant_class_lets_only_its_holder_in_again(
    whose: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    Path("reentrant.py").write_text(REENTRANT % {"whose": whose})
    run = hf.simulate(
        system="reentrant.py:Reentrant", workload="reentrant", time="8s", clients=3, seed=3
    )
    assert run.verdicts["mutual-exclusion"] == verdict


class Plain:
    def acquire(self, lock: str, owner: str, lease_s: float) -> bool:
        return True

    def release(self, lock: str, owner: str) -> bool:
        return True


class Half(Plain):
    def acquire(self, lock: str, owner: str, lease_s: float, permits: int = 1) -> bool:
        return True


class Whole(Plain):
    def acquire(
        self,
        lock: str,
        owner: str,
        lease_s: float,
        *,
        mode: str = "exclusive",
        permits: int = 1,
        limit: int = 1,
        reenter: bool = False,
    ) -> bool:
        return True


def test_a_class_declares_by_its_parameters_what_it_can_do() -> None:
    assert abilities_of(Plain) == () and abilities_of(Half) == ()
    assert abilities_of(Whole) == ("shared", "permits", "reentry")
    assert half_declared(Plain.acquire) == half_declared(Whole.acquire) == []
    assert half_declared(Half.acquire) == [
        "acquire takes permits without limit: permits needs all of permits, limit"
    ]


def test_each_method_gets_the_terms_that_it_takes() -> None:
    two = Terms(mode=Mode.PERMITS, permits=2, limit=3)
    assert accepted(Plain().acquire, two) == {}
    assert accepted(Half().acquire, two) == {"permits": 2}
    assert accepted(Whole().acquire, two) == {
        "mode": "exclusive",
        "permits": 2,
        "limit": 3,
        "reenter": False,
    }
    assert accepted(Whole().acquire, Terms(mode=Mode.SHARED))["mode"] == "shared"
    assert accepted(Whole().acquire, PLAIN)["limit"] == 1


def test_a_table_lists_what_its_program_can_do() -> None:
    table = {"client": "a", "abilities": ["shared", "permits", "reentry"]}
    assert problems(table) == []
    for wrong in ("shared", ["sharing"]):
        assert problems({"client": "a", "abilities": wrong}) == [
            "abilities: expected a list of abilities: shared, permits, reentry, condition,"
            " metadata, holder, place, length, check, subtrees"
        ]


def test_a_plain_request_has_no_key_that_an_older_program_would_not_know() -> None:
    plain = protocol.question(1, "acquire", "a", 7, wait_ns=0, lease_ns=0)
    assert plain == (
        b'{"id": 1, "op": "acquire", "lock": "a", "attempt": 7, "timeout_ms": 0, "lease_ms": 0}\n'
    )
    shared = protocol.question(
        1, "acquire", "a", 7, wait_ns=0, lease_ns=0, terms={"mode": "shared"}
    )
    assert b'"mode": "shared"' in shared


@pytest.mark.parametrize(
    ("workload", "ability"), [("read-write", "shared"), ("semaphore", "permits")]
)
def test_a_workload_needs_what_the_class_takes(
    workload: str, ability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    Path("terms.py").write_text(LOCKS % RIGHT)
    kinds = {one: kind for kind, one in KINDS.values()}
    able = {"system": f"terms.py:{kinds[ability]}@redis", "workload": workload}
    assert prepare.prepared(plan_options.from_options(able, [])).abilities() == (ability,)
    other = next(kind for kind, one in KINDS.values() if one != ability)
    with pytest.raises(UsageError, match=f"needs abilities that .* lacks: {ability}"):
        prepare.prepared(
            plan_options.from_options({**able, "system": f"terms.py:{other}@redis"}, [])
        )
