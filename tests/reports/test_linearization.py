"""The drawing of a longest legal prefix: every call takes effect within itself, in its order."""

from __future__ import annotations

import re

from holdfast.checkers.linearizability.longest_prefix import longest_prefix, specification
from holdfast.foreign.foreign_report import drawn_prefix
from holdfast.harness.core.seeds import stream
from holdfast.reports.pictures.linearization import Call, Linearization, draw_linearization
from tests.checkers.models import histories
from tests.checkers.models.test_brute_force import BENCHES
from tests.checkers.models.test_longest_prefix import numbered
from tests.reports.specimens import HOSTILE

DOT = re.compile(r'<circle cx="([\d.]+)" cy="([\d.]+)"')
BAR = re.compile(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" [^>]*class="(hold[ a-z]*)"')


def shown(number: int) -> Linearization | None:
    rng = stream(3, "drawn", number)
    ops = numbered(histories.drawn(rng, BENCHES["cas-register"].play, "process", 12))
    spec = specification("cas-register", ops)
    assert spec is not None
    prefix = longest_prefix(ops, spec)
    return None if prefix is None else drawn_prefix("", ops, prefix)


def test_points_go_from_left_to_right_and_each_lies_within_its_call() -> None:
    drawn = 0
    for number in range(400):
        one = shown(number)
        if one is None:
            continue
        text = draw_linearization(one, 1)
        points = [(float(x), float(y)) for x, y in DOT.findall(text)]
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        bars = [(float(x), float(y), float(w)) for x, y, w, _ in BAR.findall(text)]
        assert len(points) == len(bars) == sum(call.place > 0 for call in one.calls)
        for x, y in points:
            assert any(a <= x <= a + w and b + 24 == y for a, b, w in bars), number
        assert text.count('class="clash"') == 1 == sum(call.stuck for call in one.calls)
        drawn += len(points)
    assert drawn > 100


def test_the_words_name_the_order_and_what_fits_no_order() -> None:
    calls = (
        Call(
            client="process 1", text="write 1", begin=0, end=1, where="line 1", place=1, state="1"
        ),
        Call(client="process 2", text="read → 2", begin=2, end=3, where="line 3", stuck=True),
        Call(client="process 3", text="write 3 ?", begin=0, end=None, where="line 2"),
    )
    one = Linearization(name="", calls=calls, explained=1, responses=2, earlier=0, could=("1",))
    text = draw_linearization(one, 1)
    assert "1 of 2 responses are explained by: 1: process 1 write 1." in text
    assert "No order goes on with read → 2 of process 2." in text
    assert 'class="loose open"' in text


def test_hostile_texts_are_escaped() -> None:
    call = Call(client=HOSTILE, text=HOSTILE, begin=0, end=1, where="line 1", stuck=True)
    one = Linearization(
        name=HOSTILE, calls=(call,), explained=0, responses=1, earlier=0, could=(HOSTILE,)
    )
    text = draw_linearization(one, 1)
    assert "<script" not in text and "<img" not in text
