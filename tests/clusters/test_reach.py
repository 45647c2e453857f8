"""Which hosts' packets arrive, asked by all of them at once."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.clusters.backends.ssh import reach

ALL = ("127.77.0.1", "127.77.0.2", "127.77.0.3")


def asked(present: tuple[str, ...], within_s: float) -> dict[str, list[str]]:
    """What each present host hears of all others."""
    with ThreadPoolExecutor(len(present)) as threads:
        works = {
            own: threads.submit(reach.heard, own, [one for one in ALL if one != own], within_s)
            for own in present
        }
        return {own: work.result() for own, work in works.items()}


def test_hosts_that_reach_each_other_hear_all_others() -> None:
    told = asked(ALL, 60.0)
    assert told == {own: [one for one in ALL if one != own] for own in ALL}


def test_a_host_that_is_not_there_is_heard_by_nobody() -> None:
    assert asked(ALL[:2], 0.5) == {ALL[0]: [ALL[1]], ALL[1]: [ALL[0]]}


def test_a_way_that_is_shut_in_one_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one's packets to the third go nowhere; what the third sends comes."""
    usual = reach._send

    def send(plug: socket.socket, peers: list[str], came: set[str]) -> None:
        own = plug.getsockname()[0]
        usual(plug, [one for one in peers if (own, one) != (ALL[0], ALL[2])], came)

    monkeypatch.setattr(reach, "_send", send)
    told = asked(ALL, 1.0)
    assert told == {ALL[0]: [*ALL[1:]], ALL[1]: [ALL[0], ALL[2]], ALL[2]: [ALL[1]]}


def test_packets_of_others_count_for_nothing() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.77.0.9", 0))
        with ThreadPoolExecutor(1) as threads:
            work = threads.submit(reach.heard, ALL[0], [ALL[1]], 0.5)
            while not work.done():
                other.sendto(b"[]", (ALL[0], reach.PORT))
            assert work.result() == []
