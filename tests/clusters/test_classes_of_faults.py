"""Promises by class of fault: a kind is in a class by its traits, and no system names kinds."""

from __future__ import annotations

import pytest

from holdfast import catalogue
from holdfast.catalogue.design_sheet import with_kinds
from holdfast.harness.core.fault_traits import (
    CLASSES,
    CLIENT_SIDE,
    COPY,
    CRASHES,
    CUTS,
    HANDS_OVER,
    LOSES_UNSYNCED,
    REVERTS,
    SKEWS,
    STOPS,
    Traits,
)
from holdfast.harness.core.loading import load

BUILT_IN = {
    CUTS: ("partition",),
    STOPS: ("pause", "suspend"),
    CRASHES: ("kill",),
    SKEWS: ("clock",),
    LOSES_UNSYNCED: ("power",),
    REVERTS: ("backup-restore", "rollback"),
    HANDS_OVER: ("manual-failover",),
    CLIENT_SIDE: (
        "reply-loss",
        "reset",
        "delay",
        "black-hole",
        "hang-up",
        "cancel",
        "stall",
        "fork",
    ),
}


def members(name: str) -> tuple[str, ...]:
    return tuple(kind for kind, row in catalogue.NEMESES.items() if CLASSES[name](row.traits))


@pytest.mark.parametrize("name", CLASSES)
def test_the_built_in_kinds_of_each_class(name: str) -> None:
    assert members(name) == BUILT_IN[name]


@pytest.mark.parametrize(
    ("traits", "classes"),
    [
        (Traits(stops=True, passes=True), {STOPS}),
        (Traits(stops=True), set()),
        (Traits(stops=True, passes=True, kills_later=True), set()),
        (Traits(stops=True, passes=True, cuts=True), set()),
        (Traits(stops=True, passes=True, lies_if=("act", "skip")), set()),
        (Traits(cuts=True, passes=True), {CUTS}),
        (Traits(cuts=True, passes=True, on_packets=True), set()),
        (Traits(kills=True), {CRASHES}),
        (Traits(kills=True, loses_unsynced=True), {LOSES_UNSYNCED}),
        (Traits(kills_later=True, loses_unsynced=True), set()),
        (Traits(kills=True, loses_unsynced=True, lies=True), set()),
        (Traits(shifts_clocks=True), {SKEWS}),
        (Traits(shifts_clocks=True, stops=True, passes=True), set()),
        (Traits(operates=COPY), {REVERTS}),
        (Traits(), set()),
    ],
)
def test_a_kind_that_does_more_than_its_class_is_in_none(traits: Traits, classes: set[str]) -> None:
    assert {name for name, belongs in CLASSES.items() if belongs(traits)} == classes


@pytest.mark.parametrize("name", catalogue.SYSTEMS)
def test_a_system_promises_by_classes_and_a_run_says_kinds(name: str) -> None:
    promises = load(catalogue.SYSTEMS[name].entry).promises({})
    said = {one for kept in promises.keeps.values() for one in kept}
    assert said <= {"any", *CLASSES}
    kinds = [one for kept in with_kinds(promises).keeps.values() for one in kept]
    assert {*kinds} <= {"any", *catalogue.NEMESES}
    assert all(len(kept) == len({*kept}) for kept in with_kinds(promises).keeps.values())
