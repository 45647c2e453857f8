"""The drawing of clients that wait for each other in a circle."""

from __future__ import annotations

from holdfast.reports.cycle import cycle
from holdfast.reports.reading import Event, Shown, read
from tests.reports import specimens


def waits(kind: str, *pairs: tuple[int, int]) -> Shown:
    """A finding whose witnesses say that the first of each pair waits for a lock of the second."""
    witnesses = []
    for n, (waiter, holder) in enumerate(pairs):
        for process in (waiter, holder):
            witnesses.append(
                Event(op="acquire", t_inv_ns=1, process=process, lock=f"lock-{n}<b>", status="ok")
            )
    return Shown(kind=kind, sentence="", lock="lock-0", t_ns=1, witnesses=tuple(witnesses))


def test_a_circle_names_every_client_and_every_lock_once() -> None:
    made = cycle(waits("multi-lock-deadlock", (1, 2), (2, 3), (3, 1)), 4, read(specimens.clean()))
    assert made is not None
    assert made.count("<circle") == 3
    assert made.count('class="tip"') == 3
    assert "c1 waits for lock-0&lt;b&gt; of c2; c2 waits for lock-1&lt;b&gt; of c3" in made
    assert "<b>" not in made


def test_a_circle_longer_than_its_witnesses_is_left_open() -> None:
    made = cycle(waits("multi-lock-deadlock", (1, 2), (2, 3)), 1, read(specimens.clean()))
    assert made is not None
    assert made.count("<circle") == 3
    assert ">…<" in made


def test_other_findings_have_no_circle() -> None:
    run = read(specimens.clean())
    assert cycle(waits("stale-accepted-write", (1, 2), (2, 1)), 1, run) is None
    assert cycle(waits("multi-lock-deadlock"), 1, run) is None
