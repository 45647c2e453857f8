"""Who claims what, and what is left when one of them lets go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.nemesis.agent.request_errors import FaultClaims

THINGS = st.lists(st.integers(0, 5), max_size=6)


def test_a_thing_is_claimed_until_its_last_fault_lets_go() -> None:
    claims: FaultClaims[str] = FaultClaims()
    claims.claim("f1", ["a", "b", "a"])
    claims.claim("f2", ["b"])
    assert claims.claimants("b") == ["f1", "f2"]
    assert claims.release("f1") == ("a", "b")
    assert claims.claimed() == {"b"}
    assert claims.release("f1") == ()
    assert claims.release("f2") == ("b",)
    assert claims.claimed() == set()


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.none() | THINGS), max_size=20))
def test_claims_are_a_counter_per_thing(steps: list[tuple[str, list[int] | None]]) -> None:
    claims: FaultClaims[int] = FaultClaims()
    model: dict[str, set[int]] = {}
    for fault, things in steps:
        if things is None:
            claims.release(fault)
            model.pop(fault, None)
        else:
            claims.claim(fault, things)
            model[fault] = set(things)
        assert claims.claimed() == set().union(*model.values())
        for thing in range(6):
            wanted = {fault for fault, claimed in model.items() if thing in claimed}
            assert set(claims.claimants(thing)) == wanted
