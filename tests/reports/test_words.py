"""Text that no reader can be led astray by, and numbers in units that fit."""

from __future__ import annotations

import pytest

from holdfast.reports.text import formatting


def test_control_characters_and_direction_marks_become_visible() -> None:
    assert formatting.plain("a\x00b\x1b[31m\x7f") == "a␀b␛[31m␡"
    assert formatting.plain("\u202etxt\u2066\u200f") == "<U+202E>txt<U+2066><U+200F>"
    assert formatting.plain("\ud800\ufffe\uffff\x85\u2028") == (
        "<U+D800><U+FFFE><U+FFFF><U+0085><U+2028>"
    )
    assert formatting.plain("two\nlines\tand\r\ttabs") == "two lines and  tabs"
    assert formatting.plain("zażółć 鎖 قفل") == "zażółć 鎖 قفل"


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    assert formatting.plain("x" * 1_000_000, 100) == "x" * 100 + "… (1,000,000 characters)"
    assert formatting.plain("x" * 50, 10) == "x" * 10 + "…"


def test_a_plan_keeps_its_lines() -> None:
    assert formatting.lines("a = 1\n\tb = 2\x00", 100) == "a = 1\n\tb = 2␀"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 s"),
        (850, "850 ns"),
        (38_200, "38.2 µs"),
        (511_000_000, "511 ms"),
        (999_999_999, "1.00 s"),
        (2_400_000_000, "2.40 s"),
        (-1_680_000_000, f"{formatting.MINUS}1.68 s"),
        (None, formatting.NONE),
    ],
)
def test_a_span_is_told_in_the_unit_that_fits(ns: float | None, text: str) -> None:
    assert formatting.span(ns) == text


def test_evidence_of_a_fault_reads_like_a_sentence() -> None:
    links = {"n1<-10.0.0.3": 107, "n3<-10.0.0.1": 107}
    assert formatting.evidence({"effective": True, "dropped": 214, "links": links}) == (
        "214 packets dropped; n1<-10.0.0.3 107, n3<-10.0.0.1 107"
    )
    assert formatting.evidence({"dropped": 1}) == "1 packet dropped"
    assert formatting.evidence({"effective": True, "states": {"c1": "T"}}) == "c1 state T"
    killed = {"n1": {"4711": "gone", "4712": "gone"}}
    assert formatting.evidence({"killed": killed, "restart": ["n1"]}) == "n1 gone; restart n1"
    offsets = {"n1": {"7": -5_000_000_000, "8": -5_000_000_000}}
    assert formatting.evidence({"offset_ns": offsets}) == f"n1 offset {formatting.MINUS}5.000 s"
    assert formatting.evidence({"offset_ns": 250_000_000}) == "offset 0.250 s"
    assert formatting.evidence({"took_ns": 120_000}) == "took 120 µs"
    assert formatting.evidence({"effective": False}) == "nothing measured"
    assert formatting.evidence({"states": {f"n{n}": "T" for n in range(40)}}).endswith(
        "and 34 more"
    )


def test_lists_and_counts_are_told_in_words() -> None:
    assert formatting.listed(["a", "b", "c"]) == "a, b and c"
    assert formatting.listed(["a"]) == "a"
    assert formatting.count(1204, "grant") == "1,204 grants"
    assert formatting.sentence("the lock went") == "The lock went."
    assert formatting.sentence("c5 went.") == "c5 went."
