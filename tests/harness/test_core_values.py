"""Small values of the core: durations, identities, packed columns, verdicts, traits."""

from __future__ import annotations

import random
import struct
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest

from holdfast import catalogue
from holdfast.harness.core import loading
from holdfast.harness.core.durations import UNITS_NS, duration_ns, duration_text, positive_ns
from holdfast.harness.core.errors import (
    AgentLost,
    EnvironmentFailed,
    HoldfastError,
    NoAnswer,
    UsageError,
    worst_exit_code,
)
from holdfast.harness.core.fault_traits import (
    BEFORE,
    PATTERNS,
    PLANNING,
    RECORDED,
    UNKNOWN,
    Traits,
    of_manifest,
    to_table,
)
from holdfast.harness.core.job_keys import job_key, job_of, mark_key
from holdfast.harness.core.json_value import OMITTED, plain
from holdfast.harness.core.operations import (
    COLUMNS,
    NO_TOKEN,
    ROW_BYTES,
    ROW_FIELDS,
    ROW_FORMAT,
    Mode,
    Op,
    Status,
    Terms,
    attempt_id,
    carried,
    spent,
)
from holdfast.harness.core.verdict import Verdict, worst
from tests.manifests import manifest


def test_a_duration_is_its_number_of_units_rounded_to_nanoseconds() -> None:
    rng = random.Random(1)
    for _ in range(300):
        unit = rng.choice(list(UNITS_NS))
        number = f"{rng.choice('+- ').strip()}{rng.randrange(1000)}"
        number += rng.choice(["", f".{rng.randrange(100)}"])
        exact = Fraction(number) * UNITS_NS[unit]
        assert abs(duration_ns(f" {number}{unit} ") - exact) <= Fraction(1, 2)


def test_a_duration_is_written_exactly_in_its_largest_whole_unit() -> None:
    spans = [
        1,
        999,
        1000,
        1001,
        10**6,
        10**9,
        10**9 + 1,
        60 * 10**9,
        8 * 3600 * 10**9,
        1_500_000_000,
        -2_000,
        0,
    ]
    for span_ns in spans:
        text = duration_text(span_ns)
        assert duration_ns(text) == span_ns
        larger = [unit for unit in ("s", "ms", "us") if span_ns % UNITS_NS[unit] == 0]
        assert text == f"{span_ns // UNITS_NS[larger[0]]}{larger[0]}" if larger else f"{span_ns}ns"


@pytest.mark.parametrize("text", ["0s", "-1ns", "0.4ns", "-0.1ms"])
def test_a_duration_that_must_be_positive_is_not_zero(text: str) -> None:
    assert positive_ns("1ns") == 1
    with pytest.raises(UsageError, match=f"invalid duration '{text}': expected > 0"):
        positive_ns(text)


def test_of_exit_codes_a_violation_is_worst_then_what_could_not_be_judged_at_all() -> None:
    order = [0, 3, 2, 4, 1]
    for n, worse in enumerate(order):
        for better in order[: n + 1]:
            assert worst_exit_code([better, worse]) == worst_exit_code([worse, better]) == worse
    assert worst_exit_code([]) == 0 and worst_exit_code([], 3) == 3


def test_the_exit_code_of_an_error_tells_what_to_mend() -> None:
    codes = {HoldfastError: 4, UsageError: 2, EnvironmentFailed: 4, NoAnswer: 4, AgentLost: 4}
    assert {kind: kind.exit_code for kind in codes} == codes
    several = UsageError("one", "two")
    assert several.problems == ("one", "two") and str(several) == "one\ntwo"


def test_keys_of_jobs_are_read_as_they_were_made() -> None:
    for lock in ("lock-1", "/a/b", "with#hash", "with done", "#7", ""):
        for number in (0, 1, 10, 123456):
            assert job_of(job_key(lock, number)) == (lock, number, False)
            assert job_of(mark_key(lock, number)) == (lock, number, True)


@pytest.mark.parametrize("key", ["", "lock-1", "lock-1#", "#", "a#b", "a#-1", "a#1.5", "a#\u0661",
                                 "a# done", "a#1 done done", "a#1 "])  # fmt: skip
def test_other_keys_are_no_jobs(key: str) -> None:
    assert job_of(key) is None


def test_an_attempt_has_its_process_above_its_number() -> None:
    seen = {attempt_id(process, n) for process in range(1, 9) for n in range(1, 9)}
    assert len(seen) == 64
    for process, n in ((1, 1), (7, 2**32 - 1), (2**16, 5)):
        assert carried(attempt_id(process, n)) == f"process {process}, acquire {n}"


def unpacked(half: int) -> int | None:
    """A duration of column `spent`, us, read by its documented form."""
    if half == 0:
        return None
    exponent, fraction = (half - 1) >> 11, (half - 1) & 2047
    return fraction << exponent


def test_durations_of_the_service_are_packed_within_a_thousandth() -> None:
    rng = random.Random(2)
    spans = [0, 999, 1000, 2_047_999, 2_048_000, 4_096_000, *(1 << n for n in range(10, 50))]
    spans += [rng.randrange(1 << rng.randrange(1, 50)) for _ in range(300)]
    for first_ns, second_ns in zip(spans, reversed(spans), strict=True):
        both = spent(first_ns, second_ns)
        assert both >> 32 == 0
        for half, span_ns in ((both & 0xFFFF, first_ns), (both >> 16, second_ns)):
            us = unpacked(half)
            assert us is not None and 0 <= span_ns / 1000 - us < 1 + span_ns / 1000 / 1000
    assert spent(None, None) == 0
    assert spent(5000, None) == 6 and spent(None, 5000) == 6 << 16
    assert spent(-5000, 0) == 1 << 16 | 1
    assert spent(1 << 80, None) == 0xFFFF


def test_terms_are_packed_into_bits_of_their_own() -> None:
    assert Terms().packed() == 0
    assert Terms(reenter=True).packed() == 1
    assert Terms(priority=127).packed() == 127 << 1
    assert (
        Terms(newest=0).packed() == 1 << 8
        and Terms(newest=41, reenter=True).packed() == 42 * 256 + 1
    )
    both = Terms(mode=Mode.PERMITS, permits=2, limit=5, priority=3, newest=9).packed()
    assert (both & 1, both >> 1 & 127, both >> 8 & 0xFFFF, both >> 24) == (0, 3, 5, 2)
    assert Terms(mode=Mode.SHARED, permits=2, limit=5).packed() == 0
    assert Terms().newest == NO_TOKEN


def test_the_layout_of_a_row_has_a_width_per_column_and_every_operation_its_columns() -> None:
    widths = {"q": 8, "I": 4, "B": 1}
    packed = [widths[letter] for letter in ROW_FORMAT[1:]]
    assert struct.calcsize(ROW_FORMAT) == ROW_BYTES == sum(packed)
    assert [int(kind[2:]) for _, kind in ROW_FIELDS if kind[0] == "<"] + [1] * 4 == [
        *(width for width in packed if width > 1), *(width for width in packed if width == 1)
    ]  # fmt: skip
    assert set(COLUMNS) == set(Op)
    names = {name for name, _ in ROW_FIELDS}
    assert all(set(columns) <= names for columns in COLUMNS.values())
    assert sorted(Status) == [0, 1, 2, 3, 4, 5]


def test_the_worst_verdict_is_a_violation_then_unknown() -> None:
    holds, violated, unknown = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNKNOWN
    assert worst([holds, unknown, violated]) is violated
    assert worst([holds, unknown]) is unknown and worst([holds]) is holds
    assert worst([]) is unknown


@pytest.mark.parametrize(
    ("kept", "faults", "promised"),
    [
        (("any",), ["kill", "clock"], True),
        (("kill", "pause"), ["kill"], True),
        (("kill", "pause"), ["kill", "clock"], False),
        (("kill",), [], True),
        ((), [], True),
        ((), ["kill"], False),
        (None, [], False),
        (("any", "kill"), ["clock"], True),
    ],
)
def test_a_promise_counts_under_all_kinds_that_took_effect(
    kept: tuple[str, ...] | None, faults: list[str], promised: bool
) -> None:
    keeps = {"ownership": ("any",)} if kept is None else {"token-order": kept}
    made = replace(manifest().promises, keeps=keeps)
    assert made.promised("token-order", faults) is promised


@dataclass(frozen=True)
class Inner:
    n: int = 0


@dataclass(frozen=True)
class Outer:
    severity: Verdict
    some: list[Inner] = field(default_factory=list, metadata=OMITTED)
    number: int = field(default=3, metadata=OMITTED)
    inner: Inner = field(default=Inner(), metadata=OMITTED)
    always: int = 0


def test_a_dataclass_is_an_object_of_its_fields_without_those_left_at_default() -> None:
    made = Outer(severity=Verdict.HOLDS)
    assert plain(made) == {"severity": "HOLDS", "always": 0}
    assert type(plain(made)["severity"]) is str
    full = Outer(Verdict.HOLDS, [Inner(1), Inner()], 4, Inner(0), 5)
    assert list(plain(full).items()) == [
        ("severity", "HOLDS"),
        ("some", [{"n": 1}, {"n": 0}]),
        ("number", 4),
        ("inner", {"n": 0}),
        ("always", 5),
    ]
    assert plain({"a": (1, None, "x", [True])}) == {"a": [1, None, "x", [True]]}
    assert plain(Inner) is Inner and plain(OrderedDict(b=1.5)) == {"b": 1.5}


def test_recorded_traits_are_those_that_are_set_and_read_back_the_same() -> None:
    for kind, entry in catalogue.NEMESES.items():
        traits = loading.load(entry.entry).traits
        table = to_table(traits)
        assert not set(table) & set(PLANNING)
        assert all(value != getattr(UNKNOWN, name) for name, value in table.items())
        (back,) = of_manifest({"traits": {kind: {**table, "later": 1}}}).values()
        assert back == replace(
            traits, lies_if=None, on_packets=False, counts_calls=False, swarm=None
        )
        assert traits.pattern in ("", *PATTERNS), kind
    assert set(RECORDED) | set(PLANNING) >= {"kills", "swarm", "lies_if"}
    assert to_table(UNKNOWN) == {}


def test_a_manifest_without_traits_has_those_of_its_time() -> None:
    assert of_manifest({}) is BEFORE and of_manifest({"traits": {}}) == {}
    assert BEFORE["kill"].kills and BEFORE["pause"].stops and BEFORE["clock"].shifts_clocks


@pytest.mark.parametrize(
    ("traits", "said"),
    [
        (Traits(), (False, False, False)),
        (Traits(kills=True), (True, False, True)),
        (Traits(stops=True), (True, True, True)),
        (Traits(stops_amid_send=True), (False, False, True)),
        (Traits(shifts_clocks=True), (False, True, False)),
        (Traits(kills_later=True), (False, False, False)),
    ],
)
def test_what_follows_from_traits(traits: Traits, said: tuple[bool, bool, bool]) -> None:
    assert (traits.stops_nodes, traits.delays_clients, traits.takes_servers_down) == said


def test_a_fault_lies_always_or_with_one_value_of_an_option() -> None:
    assert Traits(lies=True).lies_with({}) and not Traits().lies_with({"sync": "no"})
    some = Traits(lies_if=("sync", "no"))
    assert [some.lies_with({"sync": value}) for value in ("no", "yes")] == [True, False]
    assert not some.lies_with({"other": "no"})
