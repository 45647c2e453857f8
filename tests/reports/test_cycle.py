"""The drawing of what goes in a cycle: who waits for whom, what would precede itself."""

from __future__ import annotations

from typing import Any

import pytest
from markupsafe import Markup

from holdfast.harness.verdicts.judged import Event, Shown, read
from holdfast.reports.pictures.cycle import Cycle, Edge, Node, draw_cycle
from holdfast.reports.pictures.cycle_edges import cycle_of
from tests.reports import specimens
from tests.reports.pieces import MANIFEST, PLAN
from tests.reports.rendered import render


def shown(kind: str, *witnesses: Event) -> Cycle | None:
    finding = Shown(kind=kind, sentence="", lock="lock-0", t_ns=1, witnesses=witnesses)
    return cycle_of(finding, read(specimens.clean()))


def drawn(found: Cycle | None) -> Markup:
    assert found is not None
    return draw_cycle(found, 4)


def labels(found: Cycle | None) -> list[str]:
    assert found is not None
    assert [(edge.before, edge.after) for edge in found.edges] == [(0, 1), (1, 0)]
    return [edge.label for edge in found.edges]


def waits(*pairs: tuple[int, int]) -> list[Event]:
    """Witnesses that say that the first of each pair waits for a lock of the second."""
    return [
        Event(op="acquire", t_inv_ns=1, process=process, lock=f"lock-{n}<b>", status="ok")
        for n, pair in enumerate(pairs)
        for process in pair
    ]


def event(op: str, process: int, at_s: float, **told: Any) -> Event:
    start_ns = read(specimens.clean()).start_ns
    t_ns = start_ns + round(at_s * 1e9)
    return Event(
        op=op, t_inv_ns=t_ns, t_ret_ns=t_ns + 1_000_000, status="ok", process=process,
        attempt=process << 32 | 1, **told,
    )  # fmt: skip


def test_a_circle_of_waits_names_every_client_and_every_lock_once() -> None:
    made = drawn(shown("multi-lock-deadlock", *waits((1, 2), (2, 3), (3, 1))))
    assert made.count("<rect") == 3
    assert made.count('class="tip"') == 3
    assert "c1 waits for c2: lock-0&lt;b&gt;; c2 waits for c3: lock-1&lt;b&gt;" in made
    assert "<b>" not in made


def test_a_circle_longer_than_its_witnesses_is_left_open() -> None:
    made = drawn(shown("multi-lock-deadlock", *waits((1, 2), (2, 3))))
    assert made.count("<rect") == 3
    assert ">…<" in made


def test_a_lost_update_was_passed_over_by_one_that_had_not_seen_it() -> None:
    lost = event("served-write", 1, 1.0, arg=2, res=3)
    over = event("served-write", 2, 2.0, arg=2, res=4)
    assert labels(shown("lost-update", event("write", 1, 0.9), lost, over)) == [
        "accepted as version 3, before version 4",
        "built on version 2, ignoring version 3",
    ]
    blind = event("served-write", 2, 2.0, arg=-1, res=4)
    assert labels(shown("lost-update", lost, blind))[1].startswith("wrote blindly")
    fell = event("served-write", 2, 2.0, arg=2, res=3)
    assert labels(shown("lost-update", lost, fell)) == [
        "accepted at 1.000 s, before 2.000 s",
        "took version 3 again, ignoring it",
    ]


def test_a_stale_write_came_after_its_newer_owner_at_the_resource() -> None:
    grants = [event("acquire", 1, 1.0, token=7), event("acquire", 2, 3.0, token=8)]
    served = [event("served-write", 2, 4.0), event("write", 1, 4.5), event("served-write", 1, 5.0)]
    found = shown("stale-accepted-write", *grants, *served)
    assert labels(found) == [
        "its token 7 was granted before token 8",
        "admitted at 4.000 s, before 5.000 s",
    ]
    made = drawn(found)
    assert "c1 (older) comes before c2 (newer)" in made and ">newer<" in made
    bare = [event("acquire", 1, 1.0), event("acquire", 2, 3.0)]
    assert labels(shown("stale-accepted-write", *bare, *served))[0] == (
        "granted at 1.001 s, before 3.001 s"
    )


def test_a_token_that_falls_says_the_reverse_of_the_clock() -> None:
    first, second = event("acquire", 1, 1.0, token=38), event("acquire", 2, 3.0, token=31)
    assert labels(shown("token-inversion", first, event("release", 1, 2.0), second)) == [
        "granted by 1.001 s, before 3.000 s",
        "token 31 must have been issued before 38",
    ]
    early = event("try", 2, 0.5, token=31)
    assert "is proved to be later" in labels(shown("token-inversion", first, early))[0]


@pytest.mark.parametrize(
    "kind", ["multi-lock-deadlock", "lost-update", "stale-accepted-write", "token-inversion"]
)
def test_without_its_ops_a_finding_has_no_cycle(kind: str) -> None:
    assert shown(kind) is None
    assert shown(kind, event("release", 1, 1.0)) is None
    assert shown("double-grant", *waits((1, 2), (2, 1))) is None


def test_any_graph_of_a_few_nodes_can_be_drawn_and_nothing_in_it_is_markup() -> None:
    nodes = [Node(name=f"c{n}<i>", note=specimens.HOSTILE) for n in range(4)]
    edges = [Edge(before=n, after=(n + 1) % 4, label=specimens.HOSTILE) for n in range(4)]
    made = draw_cycle(
        Cycle(title="T", verb="precedes", caption="All of them.", nodes=nodes, edges=edges), 1
    )
    assert made.count("<rect") == 4 and made.count('class="tip"') == 4
    assert "<script" not in made and "<i>" not in made


def test_the_report_shows_it_on_the_card_without_any_script() -> None:
    text = render(specimens.limit(), MANIFEST, PLAN)
    assert text.count('class="picture cycle"') == 1
    assert 'aria-labelledby="cycle-1-title cycle-1-desc"' in text


def test_sections_that_no_order_explains_are_drawn_by_client_and_token() -> None:
    run = specimens.limit()
    names = ["c3 (token 12)", "c2 (token 14)", "c3 (token 17)"]
    run["evidence"]["serialisability"] = {
        "sections": 9,
        "sentence": "no order of the sections explains the resource's log",
        "cycle": [
            {
                "kind": "ww",
                "before": a,
                "after": b,
                "says": "wrote before",
                "lock": "db",
                "before_row": 1,
                "after_row": 2,
                "before_version": 1,
                "after_version": 2,
            }
            for a, b in zip(names, [*names[1:], names[0]], strict=True)
        ],
    }
    text = render(run, MANIFEST, PLAN)
    picture = text[text.index('id="cycle-0-title"') :].split("</svg>")[0]
    assert "c3 (token 12) comes before c2 (token 14): wrote before" in picture
    assert picture.count("<rect") == 3
    run["evidence"]["serialisability"]["cycle"][0].pop("before")
    assert 'id="cycle-0-title"' not in render(run, MANIFEST, PLAN)
