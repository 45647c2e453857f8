"""What an adapter says of a call, against the server's own state, on real Redis servers.

Verdicts rest on the word of an adapter. Each class of error of its table is provoked here: a key
that is gone, another's, or without a lease, a server that refuses writes, and a request or a reply
that is lost (`adapter_trial.py`). Then `ok`, `fail` and `not_owner` are each true, or listed in
KNOWN with the reason; `info` claims nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.libraries.system import entry
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.loading import load
from tests import needs
from tests.clusters.adapter_trial import LEASE_NS, SHORT_MS, SOMEBODY, STATES
from tests.clusters.at_once import Row, Trials, running

ROOT = Path(__file__).resolve().parents[2]
SERVERS = {"redis": 1, "redlock": 3}
"""System of a library -> the servers of its trial."""
TRIALS = [
    (name, adapter, expire)
    for name, row in LIBRARIES.items()
    if row.system in SERVERS
    for adapter, expire in product(row.adapters.values(), ("lease", "none"))
    # The finding sherlock-no-expire: what it is granted without a lease is on no server.
    if expire in row.leases and (name, expire) != ("sherlock", "none")
]
LASTING = "the library's own word; no fault of a run takes the lease from a key"
KNOWN = {
    ("redbeat", "try", "read-only"): "celery runs the beat on if the signal for its lock fails",
    ("redbeat", "acquire", "read-only"): "celery runs the beat on if the signal for its lock fails",
    ("redbeat", "renew", "lasting"): LASTING,
    ("coredis_lock", "renew", "lasting"): LASTING,
}
"""(adapter, call, state) -> why the claim is not true there, and stays."""


def untrue(row: Row, *, release_proves: bool) -> str:
    """Why the claimed outcome of a call contradicts the servers' state, "" if it does not."""
    if row["outcome"] == "INFO":
        return ""
    rule = {"try": _of_acquire, "acquire": _of_acquire, "renew": _of_renewal}
    if row["call"] != "release":
        return rule[row["call"]](row)
    return _of_release(row, release_proves)


def _of_acquire(row: Row) -> str:
    changed = sum(
        any(before.get(key, [""])[0] != value for key, (value, _) in after.items())
        for before, after in zip(row["before"], row["after"], strict=True)
    )
    has = _majority(row, changed)
    if row["outcome"] == "OK":
        return "" if has else f"granted, but {changed} servers have it"
    return f"not granted, but {changed} servers have it" if has else ""


def _of_renewal(row: Row) -> str:
    owned = _owned(row, "before")
    if row["outcome"] == "NOT_OWNER":
        return f"not the owner, but {owned} servers have it" if _majority(row, owned) else ""
    longer = sum(
        any(_left_ms(after, key) > _left_ms(before, key) + 1000 for key in keys)
        for before, after, keys in zip(row["before"], row["after"], row["ours"], strict=True)
    )
    if row["outcome"] == "FAIL":
        return f"no effect, but {longer} servers have a longer lease" if longer else ""
    runs = sum(
        all(_left_ms(after, key) > SHORT_MS for key in keys) and bool(keys)
        for after, keys in zip(row["after"], row["ours"], strict=True)
    )
    held = _owned(row, "after")
    return "" if _majority(row, min(held, runs)) else f"renewed, but {held} have it, {runs} longer"


def _of_release(row: Row, proves: bool) -> str:
    before, after = _owned(row, "before"), _owned(row, "after")
    if row["outcome"] == "OK":
        if _majority(row, after):
            return f"released, but {after} servers still have it"
        lied = proves and not _majority(row, before)
        return f"released, but {before} servers had it" if lied else ""
    if row["outcome"] == "FAIL":
        return "" if before == after else f"no effect, but {after} of {before} servers have it"
    return f"not the owner, but {before} servers had it" if _majority(row, before) else ""


def _owned(row: Row, when: str) -> int:
    """How many servers have the keys of the holder, with a value that is not another's."""
    return sum(
        bool(keys) and all(key in state and state[key][0] != SOMEBODY for key in keys)
        for state, keys in zip(row[when], row["ours"], strict=True)
    )


def _left_ms(state: dict[str, list[Any]], key: str) -> float:
    left = state.get(key, ["", 0])[1]
    return float("inf") if left == -1 else float(left)


def _majority(row: Row, servers: int) -> bool:
    return servers > len(row["before"]) // 2


@contextmanager
def redis_server(folder: Path, address: str) -> Iterator[None]:
    argv = [needs.binary("redis-server"), "--bind", address, "--port", str(PORT), "--save", ""]
    with (folder / f"{address}.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=folder, stdout=log)
    try:
        deadline = time.monotonic() + 20
        while b"Ready to accept" not in (folder / f"{address}.log").read_bytes():
            assert time.monotonic() < deadline and process.poll() is None, "no Redis server"
            time.sleep(0.02)
        yield
    finally:
        process.kill()
        process.wait()


def rows_of(folder: Path, address: str, name: str, adapter: str, expire: str) -> list[Row]:
    """What the trial of an adapter prints."""
    row = LIBRARIES[name]
    made: Any = load(entry(row.system, {"library": name}))
    packages = needs.libraries(made.libraries, made.built)
    pairs = [(f"{address}.{n}", f"{address}.{10 + n}") for n in range(1, SERVERS[row.system] + 1)]
    with ExitStack() as stack:
        for _, server in pairs:
            stack.enter_context(redis_server(folder, server))
        argv = [sys.executable, "-S", "-P", "-m", "tests.clusters.adapter_trial", adapter, expire]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(packages)])
        done = subprocess.run(
            [*argv, *map("=".join, pairs)],
            env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def trials(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trials]:
    """The rows of all trials that are asked for here."""
    with running(request, tmp_path_factory, rows_of, ("name", "adapter", "expire")) as made:
        yield made


@pytest.mark.real_server
@pytest.mark.parametrize(("name", "adapter", "expire"), TRIALS)
def test_what_an_adapter_says_is_true(trials: Trials, name: str, adapter: str, expire: str) -> None:
    rows = trials[name, adapter, expire].result()
    calls = {(row["call"], row["state"]) for row in rows}
    assert {(call, state) for call in ("renew", "release") for state in STATES} <= calls
    claims = {row["outcome"] for row in rows}
    assert {"OK", "NOT_OWNER", "INFO"} <= claims or claims >= {"OK", "FAIL", "INFO"}
    proves = LIBRARIES[name].proves[1]
    lies = [
        f"{row['call']} of {row['state']} ({row['hit']}): {why}; {row['error']}"
        for row in rows
        if (why := untrue(row, release_proves=proves))
        and (adapter, row["call"], row["state"]) not in KNOWN
    ]
    assert lies == []


OURS, GONE = {"k": ["mine", 19_000]}, dict[str, list[Any]]()
SHORT, OTHER = {"k": ["mine", 5_000]}, {"k": [SOMEBODY, 19_000]}
LASTS = {"k": ["mine", -1]}


@pytest.mark.parametrize(
    ("call", "outcome", "before", "after", "true"),
    [
        ("try", "OK", GONE, OURS, True),
        ("try", "OK", GONE, GONE, False),
        ("try", "OK", OTHER, OTHER, False),
        ("acquire", "FAIL", OTHER, OTHER, True),
        ("acquire", "FAIL", GONE, OURS, False),
        ("renew", "OK", SHORT, OURS, True),
        ("renew", "OK", SHORT, SHORT, False),
        ("renew", "OK", GONE, GONE, False),
        ("renew", "OK", OTHER, OTHER, False),
        ("renew", "NOT_OWNER", OTHER, OTHER, True),
        ("renew", "NOT_OWNER", GONE, GONE, True),
        ("renew", "NOT_OWNER", LASTS, LASTS, False),
        ("renew", "FAIL", LASTS, LASTS, True),
        ("renew", "FAIL", SHORT, OURS, False),
        ("renew", "INFO", SHORT, OURS, True),
        ("release", "OK", OURS, GONE, True),
        ("release", "OK", OURS, OURS, False),
        ("release", "OK", GONE, GONE, False),
        ("release", "OK", OTHER, OTHER, False),
        ("release", "NOT_OWNER", OTHER, OTHER, True),
        ("release", "NOT_OWNER", OURS, OURS, False),
        ("release", "NOT_OWNER", OURS, GONE, False),
        ("release", "FAIL", OURS, OURS, True),
        ("release", "FAIL", OURS, GONE, False),
    ],
)
def test_a_claim_is_held_against_the_state(
    call: str, outcome: str, before: Row, after: Row, true: bool
) -> None:
    row: Row = {"call": call, "outcome": outcome, "before": [before], "after": [after]}
    row |= {"ours": [["k"]], "error": "", "state": "", "hit": 1}
    assert bool(untrue(row, release_proves=True)) is not true
    assert LEASE_NS > SHORT_MS * 1_000_000
