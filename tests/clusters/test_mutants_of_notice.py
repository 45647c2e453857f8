"""Two planted bugs with what they do, on seeds that show them: a loss unheard, and a livelock."""

from __future__ import annotations

from holdfast.engine.seed_search import one_seed
from tests.clusters.sim.longer import one_longer


def test_a_holder_that_is_never_notified_is_found_as_such() -> None:
    given = {"mutant": "unheard-loss"}
    ran = one_seed(31, "reference", given, "critical-section")
    assert ran.found.startswith("loss-notice (lost-without-notice)")
    assert not one_seed(31, "reference", {}, "critical-section").alarms


def test_a_loss_that_a_client_does_not_notice_is_no_grant_within_its_lease() -> None:
    """Its process goes on with another session, whose heartbeats keep no hold of the one before."""
    ran = one_longer(80, 3, {"mutant": "unheard-loss"})
    assert ran.verdicts["mutual-exclusion"] == "HOLDS"
    assert ran.shown == ()


def test_tries_that_give_way_to_each_other_are_a_livelock() -> None:
    found = {
        kind
        for seed in range(1, 13)
        for prop, kind, _ in one_seed(
            seed, "reference", {"mutant": "courteous-tries"}, "retry-storm"
        ).shown
        if prop == "starvation-freedom"
    }
    assert "livelock" in found
