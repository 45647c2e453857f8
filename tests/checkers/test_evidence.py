"""The numbers of a run, by hand."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import msgspec

from holdfast.checkers.evidence.plot_data import drawn
from holdfast.checkers.evidence.summary import evidence
from holdfast.harness.core.case import Case, Election
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.json_value import plain
from holdfast.harness.verdicts.evidence import Evidence
from tests.checkers.faults import window
from tests.checkers.shorthand import case

KEYS = [
    "acquire",
    "acquire_split",
    "pace",
    "grants",
    "latency_ns",
    "wait_ns",
    "hold_ns",
    "renewal_margin_ns",
    "queue_depth",
    "timeouts",
    "retry_rate",
    "tokens",
    "rejected",
    "expired_owner",
    "serialisability",
    "failovers",
    "lease_margin",
    "utilisation",
    "stale_beliefs",
    "availability",
    "partitions",
    "waits",
    "errors",
    "narrowed",
]

RUN = (
    "0a?@0 0a+1@1 1a?@2 0n?@3 0n+@3.5 2t?@4 2t-@4.5 0n?@6 0n+@6.5 0w?@7 0S+@7.1 0w+@7.2"
    " 0r?@8 0r+@8.5 1a+2@9 1w?@9.1 1S+@9.2 1w+@9.3 0.1w?@9.4 0S-@9.5 0.1w-@9.6"
    " 1r?@10 1r~@11 2a?@11 2a~@13"
)


def numbers(told: str | Case, **changes: Any) -> dict[str, Any]:
    made = evidence(case(told, **changes) if isinstance(told, str) else told)
    found: dict[str, Any] = plain(made)
    again = json.loads(json.dumps(found))
    assert again == found, "as it will be after a trip through JSON"
    assert msgspec.convert(again, Evidence) == made, "as reports read it"
    return found


def test_a_run_has_exactly_the_numbers_that_reports_show() -> None:
    assert list(numbers(RUN)) == KEYS
    assert list(numbers("")) == KEYS


def test_acquires_are_counted_by_their_outcome() -> None:
    found = numbers(RUN + " 9p?@20 9p+3@21")
    assert found["acquire"] == {"asked": 4, "granted": 2, "refused": 1, "unknown": 1}
    assert sum(found["grants"]["counts"]) == 2
    assert len(found["grants"]["edges_ns"]) == len(found["grants"]["counts"]) + 1
    assert found["retry_rate"] == 2.0
    assert found["timeouts"] == 2


def test_the_bins_of_grants_reach_the_end_of_the_longest_recorded_time() -> None:
    end_ns = (1 << 61) - 1
    edges = numbers(RUN, end_ns=end_ns)["grants"]["edges_ns"]
    assert edges[0] == 0 and edges[-1] == end_ns
    assert all(one < two for one, two in itertools.pairwise(edges))


def test_latency_is_that_of_calls_answered_ok() -> None:
    latency = numbers(RUN)["latency_ns"]
    assert sorted(latency) == ["acquire", "release", "renew", "write"]
    assert latency["acquire"]["n"] == 2 and latency["acquire"]["max"] == 7 * SECOND
    assert latency["release"]["n"] == 1


def test_the_latency_of_the_probe_is_not_the_workload_s() -> None:
    latency = numbers(RUN + " 9p?@20 9p+3@21 9r?@22 9r+@25")["latency_ns"]
    assert latency["release"]["n"] == 1
    assert latency["probe"]["n"] == 1
    assert latency["probe_release"]["min"] == 3 * SECOND


def test_the_end_of_a_lease_counts_from_the_last_ok_renewal() -> None:
    """From its request: the lease is known to last until then, and no longer."""
    plain = drawn(case("0a?@0 0a+1@1 1a?@2 1a+2@20"))
    renewed = drawn(case("0a?@0 0a+1@1 0n?@3 0n+@3.5 1a?@2 1a+2@20"))
    released = drawn(case("0a?@0 0a+1@1 0r?@4 0r+@5 1a?@2 1a+2@20"))
    ends = [found["lease"][0] / SECOND for found in (plain, renewed, released)]
    assert ends == [10, 13, 4]
    assert plain["lapses"].all()


def test_an_ok_release_after_anothers_grant_is_drawn_as_no_hold() -> None:
    """Its owner slept: the lease was over at 10, another was granted at 12, and any release is ok.
    A release late but before the next grant, and a renewal that says so, do show the hold."""
    overtaken = drawn(case("0a?@0 0a+1@1 1a?@2 1a+2@12 0r?@20 0r+@21"))
    alone = drawn(case("0a?@0 0a+1@1 1a?@2 0r?@20 0r+@21 1a+2@22"))
    renewed = drawn(case("0a?@0 0a+1@1 0n?@9 0n+@9.5 1a?@2 1a+2@12 0r?@15 0r+@16"))
    sure = [found["sure"][0] / SECOND for found in (overtaken, alone, renewed)]
    assert sure == [10, 20, 15]
    # A wait of 14 s used up the lease, and another held it in between: the grant is after that.
    waited = drawn(case("0a?@0 1a?@1 1a+1@11 1r?@12 1r+@12.5 0a+2@14 0r?@15 0r+@16"))
    assert waited["sure"].tolist()[0] / SECOND == 15


def test_wait_hold_and_margin() -> None:
    found = numbers(RUN)
    assert found["wait_ns"]["n"] == 1 and found["wait_ns"]["min"] == 7 * SECOND
    assert (found["hold_ns"]["min"], found["hold_ns"]["max"]) == (SECOND, 7 * SECOND)
    margin = found["renewal_margin_ns"]
    assert (margin["min"], margin["max"]) == (int(6.5 * SECOND), int(6.5 * SECOND))
    assert margin["n"] == 2


def test_queue_depth_is_the_mean_over_time_and_the_most_at_once() -> None:
    text = "0a?@0 0a+1@1 1a?@2 2a?@4 0r?@6 0r+@7 1a+2@8 1r?@9 1r+@9.5 2a+3@10"
    assert numbers(text)["queue_depth"] == {"mean": 1.2, "max": 2}


def test_tokens_stand_in_the_order_of_their_grants() -> None:
    tokens = numbers(RUN)["tokens"]
    assert tokens["log"] == [[SECOND, "db", 1, 0], [9 * SECOND, "db", 2, 1]]
    assert (tokens["grants"], tokens["first"], tokens["last"]) == (2, 1, 2)
    assert tokens["steps_down"] == 0


def test_a_smaller_token_after_a_larger_one_is_a_step_down() -> None:
    tokens = numbers("0a? 0a+5 0r? 0r+ 1a? 1a+2 1r? 1r+")["tokens"]
    assert tokens["steps_down"] == 1


def test_a_late_answer_is_no_step_down() -> None:
    tokens = numbers("0a?@0 1a?@1 1a+2@2 0a+1@3 2a?@4 2a+3@5")["tokens"]
    assert tokens["steps_down"] == 0
    assert [row[2] for row in tokens["log"]] == [1, 2, 3]


def test_a_long_token_log_is_thinned_and_keeps_the_sides_of_a_step_down() -> None:
    words = []
    for n in range(600):
        token = n if n < 301 else n - 100
        words.append(f"0a?@{n} 0a+{token}@{n + 0.1} 0r?@{n + 0.2} 0r+@{n + 0.3}")
    tokens = numbers(" ".join(words))["tokens"]
    assert tokens["grants"] == 600 and tokens["steps_down"] == 1
    assert len(tokens["log"]) == 200
    shown = [row[2] for row in tokens["log"]]
    assert shown[0] == 0 and shown[-1] == 499
    at = shown.index(300)
    assert shown[at + 1] == 201


def test_what_the_resource_refused_is_listed() -> None:
    found = numbers(RUN)["rejected"]
    assert (found["total"], found["stale"]) == (1, 1)
    refusal = {"t_ns": int(9.5 * SECOND), "lock": "db", "process": 0, "token": 1, "highest": 2}
    assert found["log"] == [refusal]


def test_an_expired_owner_could_not_change_the_resource() -> None:
    owner = numbers(RUN)["expired_owner"]
    assert (owner["sent"], owner["refused"], owner["accepted"]) == (1, 1, 0)
    assert "of 1 writes" in owner["sentence"] and "accepted none" in owner["sentence"]
    assert (owner["rate"], owner["rate_low"], owner["rate_high"]) == (0.0, 0.0, 0.95)
    owner = numbers(RUN.replace("0S-@9.5", "0S+@9.5"))["expired_owner"]
    assert (owner["sent"], owner["refused"], owner["accepted"]) == (1, 0, 1)
    nobody = numbers("0a? 0a+1")["expired_owner"]
    assert nobody["sent"] == 0 and nobody["rate"] is None and nobody["rate_high"] == 1.0


def test_a_failover_lasts_until_the_next_grant() -> None:
    struck = window("kill", "n1", 2, 5, target="leader")
    client = window("partition", "c0+n1+n2+n3", 2, 5, target="holder")
    later = window("pause", "n2", 10, 11)
    changes = {"options": {"servers": "3"}, "windows": (struck, client, later)}
    found = numbers(RUN, **changes)["failovers"]
    assert [(one["fault"], one["nodes"], one["gap_ns"]) for one in found] == [
        ("kill-2", ["n1"], 7 * SECOND),
        ("pause-10", ["n2"], None),
    ]


def test_the_lease_margin_is_made_of_what_was_measured() -> None:
    pause = window("pause", "c0", 2, 4.5, target="holder")
    margin = numbers(RUN, windows=(pause,), error_ns=SECOND // 10)["lease_margin"]
    assert margin == {
        "lease_ns": 10 * SECOND,
        "renewal_interval_ns": 3 * SECOND,
        "clock_uncertainty_ns": SECOND // 10,
        "network_ns": SECOND // 2,
        "pause_ns": int(2.5 * SECOND),
        "margin_ns": int(3.8 * SECOND),
        "note": "",
    }


def test_a_margin_says_what_it_stands_on() -> None:
    margin = numbers("0a?@0 0a+1@1 0r?@5 0r+@6", windows=(window("pause", "c0", 2, 14),))
    margin = margin["lease_margin"]
    assert margin["renewal_interval_ns"] == 4 * SECOND
    assert "T_r is the 99th percentile of the holds" in margin["note"]
    assert "longer than the lease" in margin["note"]
    assert margin["margin_ns"] == -6 * SECOND
    none = numbers(RUN, promises={"bound": "connection"})["lease_margin"]
    assert none["margin_ns"] is None and none["note"] == "no lease bounds a hold"


def test_utilisation_counts_those_that_wait_and_not_refused_tries() -> None:
    found = numbers(RUN, stop_ns=10 * SECOND)["utilisation"]
    # The acquire at 11 s came when the workload was over.
    assert found == {"arrivals_per_s": 0.2, "hold_mean_ns": 4 * SECOND, "rho": 0.8}


def test_the_load_of_an_open_loop_is_what_was_planned() -> None:
    """10 a second of 0.2 s each: twice what one lock can do, though a fifth was granted."""
    text = "0t?@0 0t+1@0.1 1t?@0.1 1t-@0.1 2t?@0.2 2t-@0.2 0r?@0.3 0r+@0.3"
    found = numbers(text, stop_ns=10 * SECOND, options={"rate": "10", "workload": "paced"})
    assert found["utilisation"] == {
        "arrivals_per_s": 10,
        "hold_mean_ns": 0.2 * SECOND,
        "rho": 2,
    }


def test_the_probe_and_grants_after_the_workload_are_no_holds_of_it() -> None:
    text = "0a?@0 0a+1@1 1a?@2 0r?@5 0r+@5 1a+2@10 1r?@10 1r+@10.5 9p?@11 9p+3@11 9r?@11 9r+@12"
    found = numbers(text, stop_ns=10 * SECOND)
    assert (found["hold_ns"]["n"], found["hold_ns"]["mean"]) == (1, 4 * SECOND)
    assert found["utilisation"] == {"arrivals_per_s": 0.2, "hold_mean_ns": 4 * SECOND, "rho": 0.8}


def test_the_lease_of_a_grant_that_waited_is_what_its_row_says_as_it_returned() -> None:
    """Told once that it waits, at 0.1 s; granted at 2.202 s, when c0 had released at 2.2 s."""
    text = (
        "0a?@0 0a+1/9@0.05 1a?@0.1 1Q@0.1 0r?@2.2 0r+@2.201 1a+2/1@2.202 1n?@2.203 1n+/1@2.204"
        " 1r?@2.5 1r+@2.6"
    )
    assert numbers(text)["renewal_margin_ns"]["min"] == round(0.998 * SECOND)
    # The last response that it waits came at 1 s; then it was cut off until its grant returned.
    late = "1a?@0.4 1Q@1 1a+2/1@3.2 1n?@3.2 1n+/1@3.202 1r?@3.5 1r+@3.6"
    assert numbers(late)["renewal_margin_ns"]["min"] == round(0.998 * SECOND)


def test_a_paused_owner_that_believes_it_holds_is_no_load_after_the_next_grant() -> None:
    """c0 releases at 9 s what c1 was granted at 2 s: two holds of 1 s each, no overload."""
    text = "0a?@0 0a+1/1@1 1a?@1.5 1a+2@2 1r?@3 1r+@3 0r?@9 0r+@9.1"
    found = numbers(text, stop_ns=10 * SECOND)
    assert found["hold_ns"]["max"] == 8 * SECOND, "what the client believed is shown elsewhere"
    assert found["utilisation"] == {"arrivals_per_s": 0.2, "hold_mean_ns": SECOND, "rho": 0.2}


def test_a_failover_is_of_the_leader_and_says_who_led() -> None:
    first = window("kill", "n1", 2, 5, target="leader")
    other = window("pause", "n3", 6, 7, target="follower")
    led = replace(other, id="led", leader="n2", term=7, from_ns=round(6.5 * SECOND))
    second = window("pause", "n2", 9.05, 9.2, target="leader|one")
    second = replace(second, leader="n2", term=8)
    unknown = window("pause", "n2", 9.4, 11)
    changes = {"options": {"servers": "3"}, "windows": (first, other, led, second, unknown)}
    found = numbers(RUN, **changes)["failovers"]
    assert [
        (one["fault"], one["leader_before"], one["leader_after"], one["back_ns"]) for one in found
    ] == [
        ("kill-2", "n1", "n2", round(1.5 * SECOND)),
        ("pause-9.05", "n2", None, None),
        ("pause-9.4", None, None, None),
    ]
    assert [(one["term"], one["term_after"]) for one in found] == [
        (None, 7),
        (8, None),
        (None, None),
    ]


def test_where_elections_are_noted_the_leader_after_is_that_of_the_first_grant() -> None:
    """n1 leads, and is killed at 2 s; n3 is elected at 3 s, before the grant at 9 s, n2 later. The
    last fault is followed by no grant."""
    led = ((0.1, "n1", 1), (3, "n3", 2), (10, "n2", 3))
    elections = [Election(t_ns=round(at * SECOND), leader=n, term=term) for at, n, term in led]
    faults = (window("kill", "n1", 2, 5), window("kill", "n3", 9.5, 12))
    changes = {"options": {"servers": "3"}, "windows": faults, "elections": elections}
    found = numbers(RUN, **changes)["failovers"]
    assert [(one["leader_before"], one["leader_after"], one["term_after"]) for one in found] == [
        ("n1", "n3", 2),
        ("n3", None, None),
    ]


def test_a_belief_beyond_the_lease_while_another_holds_is_counted() -> None:
    text = "0a?@0 0a+1/3@1 1a?@4 1a+2@5 0r?@7 0r!@8 1r?@9 1r+@10"
    assert numbers(text)["stale_beliefs"] == {"count": 1, "longest_ns": 2 * SECOND}
    assert numbers(RUN)["stale_beliefs"] == {"count": 0, "longest_ns": None}
