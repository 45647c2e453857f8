"""What was there of a service, and what it chose when it was cut in two, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.evidence.availability import availability, partitions, waits
from holdfast.checkers.evidence.formulas import quorum_failure
from holdfast.harness.core.case import Window
from holdfast.harness.core.json_value import plain
from tests.checkers.faults import window
from tests.checkers.shorthand import case


def cut(*links: str) -> Window:
    """From 2 to 10 s these nodes do not hear these others; 1 is cut from n2 and n3, 2 from n1."""
    return replace(
        window("partition", "n1+n2+n3", 2, 10), evidence={"links": dict.fromkeys(links, 3)}
    )


HALVES = cut("n1<-b", "n1<-c", "c1<-b", "c1<-c", "c2<-a")


def chosen(told: str, *windows: Window) -> dict[str, Any]:
    options = {"resource": "fenced", "servers": "3"}
    found = partitions(case(told, windows=windows or (HALVES,), options=options))
    shown: dict[str, Any] = plain(found)
    return shown


def test_a_minority_that_grants_chose_liveness() -> None:
    found = chosen("1a?@3 1a+1@4 2a?@3 2a+1@4")
    assert found["choice"] == "liveness"
    sides = [(one["servers"], one["clients"], one["granted"]) for one in found["cuts"][0]["sides"]]
    assert sides == [(2, 1, 1), (1, 1, 1)]


def test_a_minority_that_lets_them_wait_chose_safety() -> None:
    found = chosen("1a?@1 1a-@9 2a?@3 2a+1@4")
    assert found["choice"] == "safety"
    assert found["reason"] == (
        "no new grant to 1 acquires that reached only a minority, 1 to those that reached a"
        " majority"
    )


def test_a_grant_asked_for_before_the_cut_says_nothing_of_the_minority() -> None:
    found = chosen("1a?@1 1a+1@3 2a?@3 2a-@4")
    assert found["choice"] == "safety"
    sides = [(one["granted"], one["fresh"]) for one in found["cuts"][0]["sides"]]
    assert sides == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    "links", [("n1<-b", "b<-n1"), ("c1<-a", "c1<-b", "c1<-c"), ("c1<-r", "resource<-d")]
)
def test_cuts_that_leave_nobody_a_minority_tell_nothing(links: tuple[str, ...]) -> None:
    assert chosen("1a?@3 1a-@4", cut(*links))["choice"] is None


def test_a_cut_that_never_bit_tells_nothing() -> None:
    assert chosen("1a?@3 1a+1@4", replace(HALVES, effective=False))["cuts"] == []


def test_servers_that_were_stopped_are_the_p_of_the_formula() -> None:
    told = case(
        "0a?@0 0a+1@1 0r?@9 0r~@10",
        windows=(
            window("pause", "n1", 1, 3),
            window("kill", "n2+c0", 2, 4),
            window("clock", "n3", 0, 9),
        ),
        options={"resource": "fenced", "servers": "3"},
    )
    found = plain(availability(told))
    assert found["down_share"] == pytest.approx(4 / 30, abs=1e-6)
    assert found["quorum_failure"] == pytest.approx(quorum_failure(3, 4 / 30))
    assert found["majority_down_share"] == pytest.approx(0.1)
    assert found["unanswered_share"] == 0.5


def test_a_server_that_two_faults_stop_is_down_once() -> None:
    told = case(
        "0a?@0 0a+1@10",
        windows=(window("pause", "n1", 1, 5), window("kill", "n1", 2, 4)),
        options={"resource": "fenced", "servers": "1"},
    )
    found = plain(availability(told))
    assert found["down_share"] == found["majority_down_share"] == pytest.approx(0.4)


def test_waiting_answers_are_counted_per_grant_and_per_release() -> None:
    found = plain(waits(case("0a?@0 0a+1@1 1a?@2 1Q@3 1Q@4 0r?@5 0r+@6 1a+2@7")))
    assert found == {
        "clients": 2,
        "requests": 3,
        "requests_per_grant": 1.5,
        "told": 2,
        "per_grant": 1.0,
        "per_release": 2.0,
    }
    assert waits(case("")).per_grant is None
