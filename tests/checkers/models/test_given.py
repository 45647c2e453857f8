"""A specification of a user's own: the search agrees with every order tried by hand."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.checkers.linearizability.user_spec import given
from holdfast.foreign.judge_foreign import judge_file, model_of
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Status
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.operations import OPEN, ForeignOp
from tests.checkers.models import brute, histories

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial" / "own-checker.md"
SUITE, POWER = 400, 20_000


class Queue:
    """First in, first out; state: what is in it, the oldest first."""

    initial: Hashable = ()

    def step(self, state: tuple[int, ...], command: tuple[str, int, object]) -> Hashable | None:
        f, asked, answered = command
        if f == "put":
            return (*state, asked)
        if not state:
            return state if answered in (None, ...) else None
        return state[1:] if answered in (state[0], ...) else None


def by_hand(state: Hashable, op: ForeignOp) -> Hashable | None:
    """The same queue, of digits in a text, written for this alone."""
    assert isinstance(state, str)
    if op.f == "put":
        return state + str(op.value)
    first = state[0] if state else "None"
    return state[1:] if op.status is Status.INFO or str(op.result) == first else None


def play(rng: random.Random, clients: histories.Clients) -> list[ForeignOp]:
    """Plays a queue of small numbers."""
    inside: list[int] = []
    ops = []
    for n in range(rng.randint(6, 10)):
        client, status = rng.randrange(clients.count), clients.outcome()
        takes = status is Status.OK or rng.random() < 0.5
        f, asked, told = rng.choice(("put", "take")), None, None
        if f == "put":
            asked = rng.randrange(4)
            inside += [asked] * takes
        elif inside:
            told = inside[0]
            del inside[:takes]
        answer = told if status is Status.OK else None
        op = histories.call(clients.process[client], f, n * histories.STEP, status, asked, answer)
        ops.append(op)
        if status is Status.INFO:
            clients.lost(client)
    return ops


def agree(count: int) -> None:
    said: Counter[Verdict] = Counter()
    for n in range(count):
        ops = histories.drawn(stream(31, "queue", n), play, "process", 12)
        if all(op.status is Status.INFO for op in ops):
            continue
        right = Verdict.HOLDS if brute.explained(ops, "", by_hand) else Verdict.VIOLATED
        assert given("queue", Queue)(ops).verdict is right, "\n".join(map(str, ops))
        said[right] += 1
    assert min(said.values()) >= 0.2 * count, said


def test_a_queue_agrees_with_every_order_tried_by_hand() -> None:
    agree(SUITE)


@pytest.mark.power
def test_a_queue_agrees_on_many_more() -> None:
    agree(POWER)


def shown(folder: Path) -> tuple[Path, str]:
    """The files of the page in a folder: the history, and the name of the model."""
    page = PAGE.read_text()
    blocks = re.findall(r"```python\n# (tickets\.py)\n(.*?)```", page, re.S)
    blocks += re.findall(r"In `(tickets\.jsonl)`:\n\n```json\n(.*?)```", page, re.S)
    for name, text in blocks:
        (folder / name).write_text(text)
    assert len(blocks) == 2
    return folder / "tickets.jsonl", f"{folder}/tickets.py:Tickets"


def test_the_specification_of_the_page_judges_its_history(tmp_path: Path) -> None:
    path, model = shown(tmp_path)
    found = judge_file(path, "auto", model)
    assert (found["verdict"], found["exit_code"]) == ("VIOLATED", 1)
    assert "take -> 1 by process 2 (lines 1 to 2)" in found["verdicts"][0]["reason"]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[2:] + lines[:2]))
    assert judge_file(path, "auto", model)["verdict"] == "HOLDS"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("class Tickets:\n    initial = 0\n", "no step in it"),
        ("class Tickets:\n    initial = []\n    step = print\n", "initial must be hashable"),
        ("class Tickets:\n    initial = 0\n    def step(self, s, c): return 1 / 0\n", "ZeroDiv"),
        ("class Tickets:\n    initial = 0\n    def step(self, s, c): return [s]\n", "hashable"),
        ("class Tickets:\n    def __init__(self, n): ...\n", "cannot be made without arguments"),
        ("def oops(:\n", "execution failed: SyntaxError"),
        ("Ticket = 1\n", "no 'Tickets'"),
    ],
)
def test_a_mistake_in_it_is_told_and_no_traceback(tmp_path: Path, text: str, told: str) -> None:
    path, model = shown(tmp_path)
    (tmp_path / "tickets.py").write_text(text)
    with pytest.raises(UsageError, match=told):
        judge_file(path, "auto", model)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        model_of(f"{tmp_path}/none.py:Tickets")


def test_an_operation_after_an_unknown_one_may_or_may_not_have_seen_it() -> None:
    lost = histories.call(1, "put", 0, Status.INFO, 3)
    for answer in (3, None):
        taken = histories.call(2, "take", 20, Status.OK, None, answer)
        ops = [replace(lost, end=OPEN), replace(taken, begin=10)]
        assert given("queue", Queue)(ops).verdict is Verdict.HOLDS
