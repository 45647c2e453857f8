"""The tool that mutates the reference service finds a vote for everybody."""

from __future__ import annotations

from tests.power.mutate import mutants
from tests.power.mutate_service import FOLDERS, row


def test_a_node_that_votes_for_everybody_is_killed_by_what_clients_or_the_trace_see() -> None:
    (first, *_) = [
        one
        for one in mutants(FOLDERS)
        if one.function == "Consensus._on_ask_vote" and one.what == "guard always"
    ]
    outcome, line = row(first)
    assert outcome in ("history", "trace", "both")
    assert " seeds " in line and "_on_ask_vote" in line
