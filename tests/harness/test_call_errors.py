"""The errors of a run are counted per op and text; a run of nothing but errors says so first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.calls import MOST, call_errors, every_acquire_failed
from tests.checkers.shorthand import case


def failing(told: str, *texts: str) -> Case:
    """The calls of unknown outcome end in these errors, in their order; "" for none."""
    made = case(told)
    rows = made.history.rows.copy()
    strings = [*made.history.strings]
    unknown = np.flatnonzero(rows["status"] == Status.INFO)
    for at, text in zip(unknown, texts, strict=True):
        if text:
            strings.append(text)
            rows["err"][at] = len(strings) - 1
    return replace(made, history=replace(made.history, rows=rows, strings=strings))


def told(made: Case) -> list[tuple[str, str, int, int]]:
    return [(one.op, one.error, one.n, one.clients) for one in call_errors(made.history)]


def test_errors_are_counted_per_op_and_text_whatever_numbers_are_in_them() -> None:
    made = failing(
        "0a?@1 0a~@2 1a?@3 1a~@4 0a?@5 0a~@6 0r?@7 0r~@8",
        "OSError: port 4711", "OSError: port 99", "OSError: port 1", "OSError: port 4711",
    )  # fmt: skip
    assert told(made) == [
        ("acquire", "OSError: port 4711", 3, 2),
        ("release", "OSError: port 4711", 1, 1),
    ]
    assert call_errors(made.history)[0].first_ns == made.history.rows["t_inv"][0]


def test_refusals_and_unknown_calls_without_a_text_are_no_errors() -> None:
    assert told(failing("0a?@1 0a-@2 1a?@3 1a~@4 2a?@5", "")) == []


def test_only_the_most_frequent_are_told() -> None:
    names = [f"Error{chr(97 + n % 26)}" for n in range(MOST + 3)]
    words = " ".join(f"{n}a?@{2 * n} {n}a~@{2 * n + 1}" for n in range(len(names)))
    assert len(told(failing(words, *names))) == MOST


def sentence(made: Case) -> str:
    return every_acquire_failed(made.history, made.start_ns, made.nodes)


def test_a_run_in_which_each_acquire_ended_in_an_error_is_told_with_the_first() -> None:
    made = failing("0a?@1 0a~@2 1a?@3 1a~@4 2a?@5", "Boom: first", "Boom: second")
    says = sentence(made)
    assert "2 of 3 calls, 3 clients" in says and says.endswith("Boom: first")


def test_one_answer_of_any_kind_is_enough_for_the_properties_to_be_judged() -> None:
    for answer in "+-":
        assert sentence(failing(f"0a?@1 0a~@2 1a?@3 1a{answer}@4", "Boom")) == ""
    # A client that was told that it waits had an answer.
    assert sentence(failing("0a?@1 0a~@2 1a?@3 1Q@4", "Boom")) == ""
    assert sentence(failing("0a?@1 0a~@2", "")) == "" and sentence(case("")) == ""


def test_errors_of_other_calls_do_not_make_every_acquire_fail() -> None:
    made = failing("0a?@1 0a+@2 0r?@3 0r~@4", "Boom")
    assert sentence(made) == "" and told(made) == [("release", "Boom", 1, 1)]
    assert made.history.rows["f"][1] == Op.RELEASE
