"""The specification in Quint's notation and the executable one do the same, step by step.

quint simulates `locks.qnt`; each of its traces is carried out by `locks.py`, and every answer and
every table is compared.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.programs import npm
from holdfast.clusters.systems.reference.specification import locks
from tests import needs

NOTATION = Path(locks.__file__).with_suffix(".qnt")
PINS = ("@informalsystems/quint@0.22.4", "antlr4ts@0.5.0-alpha.4")
"""The last release of quint that needs no program from elsewhere, and a parser of its range."""
TRACES, STEPS = 25, 40
WITHIN_S = 240
ANSWERS = {
    "opened", "granted", "held", "queued", "deadlock", "renewed", "released", "not-holder",
    "expired", "dropped", "cancelled", "closed",
}  # fmt: skip
TTL_NS = 1
Table = tuple[dict[str, Any], set[int], int]


def quint(*words: str, within: Path) -> subprocess.CompletedProcess[str]:
    """Runs quint; it is fetched on first use."""
    needs.binary("npm")
    program = npm.fetch(PINS) / "node_modules" / ".bin" / "quint"
    return subprocess.run(
        [str(program), *words], cwd=within, env=dict(os.environ), capture_output=True, text=True,
        timeout=WITHIN_S, check=False,
    )  # fmt: skip


def plain(value: Any) -> Any:
    """A value of the Informal Trace Format."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "#bigint" in value:
        return int(value["#bigint"])
    if "#map" in value:
        return {plain(key): plain(one) for key, one in value["#map"]}
    if "#set" in value:
        return [plain(one) for one in value["#set"]]
    return {key: plain(one) for key, one in value.items()}


def command(said: Mapping[str, Any]) -> locks.Command:
    """A command of the notation as one of the service."""
    made: dict[str, Any] = {**said, "done": 0, "ttl_ns": TTL_NS, "owner": "", "terms": None}
    made |= {"wait_ns": int(said["waits"]), "drop": False, "target": said["attempt"]}
    if said["op"] == "drop":
        made |= {"seq": said["attempt"], "why": "timeout"}
    if said["op"] == "expire-session":
        made["beat"] = said["session"]
    return made  # type: ignore[return-value]


def seen(table: locks.Table) -> Table:
    """What both notations have of a table."""
    return (
        {
            name: {
                "holds": [
                    {
                        "session": h.session,
                        "attempt": h.attempt,
                        "token": h.token,
                        "renewed": h.renewed,
                    }
                    for h in lock.holds
                ],
                "queue": [{"session": r.session, "attempt": r.attempt} for r in lock.queue],
            }
            for name, lock in table.locks.items()
        },
        {*table.sessions},
        table.token,
    )


def told(table: Mapping[str, Any]) -> Table:
    """The same of the notation's table."""
    used = {name: lock for name, lock in table["locks"].items() if lock["holds"] or lock["queue"]}
    return used, {*table["sessions"]}, table["token"]


def replay(states: list[dict[str, Any]]) -> Counter[str]:
    """Carries a trace out; the number of each answer. AssertionError at the first difference."""
    table, past, answers = locks.EMPTY, dict[tuple[str, int, int], str](), Counter[str]()
    for state in states[1:]:
        outcome = locks.after(
            table, state["index"], command(state["command"]),
            order="fifo", delays=False, past=past,
        )  # fmt: skip
        assert outcome.answer["is"] == state["answer"], (state, table)
        assert seen(outcome.table) == told(state["table"]), (state, table)
        assert list(outcome.table.locks) == state["table"]["used"], state
        table, past = outcome.table, {**past, **outcome.ended}
        answers[state["answer"]] += 1
    return answers


def traces(folder: Path, seed: int) -> list[list[dict[str, Any]]]:
    done = quint(
        "run", str(NOTATION), "--invariant", "inv", "--max-samples", str(TRACES),
        "--n-traces", str(TRACES), "--max-steps", str(STEPS), "--seed", str(seed),
        "--out-itf", "trace_{seq}.itf.json",
        within=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.itf.json"))]
    return [[plain(state) for state in one["states"]] for one in found]


@pytest.mark.real_server
def test_traces_of_the_notation_are_those_of_the_executable_specification(tmp_path: Path) -> None:
    found = traces(tmp_path, 1)
    assert len(found) == TRACES
    answers = sum(map(replay, found), Counter[str]())
    assert {*answers} == ANSWERS, answers


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("token: t.token + 1, renewed: at", "token: 7, renewed: at"),
        ("{ ...lock, queue: lock.queue.tail() }", "{ ...lock, queue: [] }"),
        ("select(w => not(gone(w)))", "select(w => true)"),
    ],
)
def test_a_mistake_in_the_notation_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    text = NOTATION.read_text()
    assert text.count(old) == 1
    wrong = tmp_path / "locks.qnt"
    wrong.write_text(text.replace(old, new).replace("val inv = ", "val inv = true or "))
    monkeypatch.setitem(globals(), "NOTATION", wrong)
    found = traces(tmp_path, 1)
    with pytest.raises(AssertionError):
        sum(map(replay, found), Counter[str]())
