"""The matrix: a run counts under its effective faults, a cell claims what its runs show."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import catalogue
from holdfast.harness.campaigns.results import Outcome, Result
from holdfast.harness.core.verdict import Verdict
from holdfast.reports.many.claims import CLAIMS
from holdfast.reports.many.matrix import matrix, table
from holdfast.reports.many.matrix_pages import markdown, page, terminal
from tests.reports.specimens import HOSTILE

MUTEX = "mutual-exclusion"
WORDS = {"+": Verdict.HOLDS, "x": Verdict.VIOLATED, "?": Verdict.UNKNOWN}


def run(
    verdict: str,
    *effective: str,
    system: str = "redis",
    promised: bool = True,
    exit_code: int = 0,
    problems: tuple[str, ...] = (),
    text: str = "c1 and c2 held",
    path: str = "",
) -> Result:
    outcome = Outcome(verdict=WORDS[verdict], promised=promised, reason=text, sentence=text)
    return Result(
        key=f"run {text}", system=system, backend="sim", workload="try-lock", nemesis="swarm",
        seed=1, verdict=str(WORDS[verdict]), exit_code=exit_code, command=f"holdfast run {text}",
        effective=tuple(sorted(effective)), properties={MUTEX: outcome}, problems=problems,
        run=path,
    )  # fmt: skip


def states(*results: Result) -> dict[str, str]:
    return {
        cell["fault"]: f"{cell['state']} {cell['says']}" for cell in table(matrix(results))["cells"]
    }


def test_a_run_is_filed_under_the_fault_that_bit() -> None:
    found = states(run("+"), run("+", "pause"), run("+", "pause"), run("?", "clock"))
    assert found == {
        "none": "open 0 of 1: below 95%",
        "pause": "open 0 of 2: below 78%",
        "clock": "not exercised 0 of 1 run",
    }


def test_a_scenario_has_a_column_if_all_its_kinds_bit_and_no_system_has_columns_of_others() -> None:
    staged = replace(run("+", "kill", "pause"), scenario="storm", nemesis="kill+pause")
    half = replace(run("+", "kill"), scenario="storm", nemesis="kill+pause")
    calm = replace(run("+"), scenario="concurrent", nemesis="none")
    found = matrix([staged, half, calm, run("+", "pause", system="etcd")])
    assert found.faults == ["pause", "kill", "scenario concurrent", "scenario storm"]
    assert found.columns("redis") == ["kill", "scenario concurrent", "scenario storm"]
    assert found.columns("etcd") == ["pause"]
    assert staged.cell == "redis / sim / try-lock / scenario storm"


def test_a_violation_amid_two_faults_accuses_neither_alone() -> None:
    found = states(run("+", "pause"), run("x", "pause", "kill"))
    assert found["pause"].startswith("open")
    assert found["several"] == "violated 1 of 1: 5% to 100%"


def test_one_violation_outweighs_and_silence_does_not_count() -> None:
    found = states(run("+", "kill"), run("x", "kill"), *[run("?", "kill")] * 5)
    assert found["kill"] == "violated 1 of 2: 1.3% to 99%"


def test_an_incomplete_run_holds_nothing_and_a_failed_one_is_left_out() -> None:
    assert states(run("+", problems=("torn",)))["none"].startswith("not exercised")
    assert states(run("x", problems=("torn",)))["none"].startswith("violated")
    found = table(matrix([run("+", exit_code=4), run("+")]))
    assert (found["runs"], found["not_carried_out"]) == (1, 1)


def test_each_cell_names_the_runs_that_prove_it() -> None:
    (cell,) = table(matrix([run("+", text="a"), run("x", text="b"), run("?", text="c")]))["cells"]
    assert [row["command"] for row in cell["evidence"]] == ["holdfast run b"]
    assert (cell["held"], cell["violated"], cell["unknown"]) == (1, 1, 1)
    assert cell["violated_though_promised"] == 1


def test_a_limit_looks_other_than_a_broken_promise() -> None:
    broken, limit = (matrix([run("x", promised=promised)]) for promised in (True, False))
    assert "x 1/1" in terminal(broken, width=100, colour=False)
    assert "! 1/1" in terminal(limit, width=100, colour=False)
    assert "never promised), 1 of 1" in markdown(limit)
    assert "\x1b" not in terminal(broken, width=100, colour=False)


def test_the_page_links_reports_that_exist_and_runs_nothing_hostile(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a b").mkdir(parents=True)
    (tmp_path / "runs" / "a b" / "report.html").touch()
    found = matrix(
        [
            run("x", "pause", path="runs/a b"),
            run("x", "kill", path="runs/gone"),
            run("x", HOSTILE, system=HOSTILE, text=HOSTILE),
        ]
    )
    text = page(found, tmp_path)
    assert 'href="runs/a%20b/report.html"' in text
    assert "gone" not in text.split("href=", 1)[1].split(">", 1)[0]
    assert "<script" not in text and "<img" not in text
    assert "<script" not in re.sub(r"(`+).*?\1", "", markdown(found))
    assert "redis" in text and CLAIMS["redis"].caveat.split(";")[0] in text


def test_speed_has_a_row_for_what_was_seen_to_bite_and_none_for_virtual_time() -> None:
    def timed(grants: float, *effective: str, backend: str = "docker") -> Result:
        measures = {"ops": 3 * grants, "grants": grants, "p50": 2_000_000.0, "p99": 1.5e9}
        return replace(run("+", *effective), backend=backend, measures=measures)

    found = matrix(
        [timed(10), timed(30), timed(4, "pause", "kill"), timed(9, backend="sim")], ["sim"]
    )
    assert [(row["faults"], row["runs"], row["grants"]) for row in table(found)["speeds"]] == [
        ("none", 2, 20.0),
        ("kill+pause", 1, 4.0),
    ]
    row = "| redis | try-lock | docker | none | 2 | 60.0 | 20.0 | 2.00 ms | 1.50 s |"
    assert row in markdown(found)
    for text in (terminal(found, width=160, colour=False), page(found, Path())):
        assert "60.0" in text and "1.50 s" in text
    silent = matrix([run("+"), timed(9, backend="sim")], ["sim"])
    assert "## Speed" not in markdown(silent) and "acquire p50" not in page(silent, Path())


@pytest.mark.parametrize("system", list(catalogue.SYSTEMS))
def test_every_system_has_its_row_in_the_table_of_claims(system: str) -> None:
    told = CLAIMS[system]
    assert all(len(part) > 15 for part in (told.claim, told.mechanism, told.caveat))


def test_a_run_with_several_kinds_counts_under_each() -> None:
    under = {
        "pause": Verdict.HOLDS,
        "reset": Verdict.UNKNOWN,
        "kill+partition": Verdict.VIOLATED,
        "kill": Verdict.UNKNOWN,
        "partition": Verdict.UNKNOWN,
    }
    told = Outcome(verdict=Verdict.VIOLATED, promised=True, under=under)
    one = replace(run("x", "kill", "partition", "pause"), properties={MUTEX: told})
    squares = matrix([one]).squares
    found = {fault: square.state for (_, _, fault), square in squares.items()}
    assert found == {
        "pause": "open",
        "reset": "not exercised",
        "kill": "not exercised",
        "partition": "not exercised",
        "several": "violated",
    }
    assert dict(squares["redis", MUTEX, "several"].several) == {"kill+partition": 1}


def test_a_system_that_ran_simulated_and_really_has_two_rows() -> None:
    real = replace(run("x", "pause"), backend="local")
    found = matrix([run("+", "pause"), real, run("+", system="single")], {"sim"})
    assert found.systems == ["redis", "redis simulated", "single"]
    assert found.squares["redis simulated", MUTEX, "pause"].state == "open"
    assert found.squares["redis", MUTEX, "pause"].state == "violated"


def test_the_overview_counts_what_held_was_violated_and_was_not_exercised_and_why() -> None:
    held = [run("+", "kill")] * 299
    page = markdown(matrix([*held, run("x", "pause"), run("?", text="no <b> hold")]))
    assert "3 cells: 1 held, 1 of them with a rate below 1%; 0 open: held, in too few runs" in page
    assert "; 1 violated, 1 of them though promised; 1 not exercised." in page
    assert "| redis | 1? | 1x | 1+ |" in page
    assert "- mutual-exclusion, none: no &lt;b> hold" in page.replace("\\>", ">")
    fewer = markdown(matrix(held[1:]))
    assert "1 held, 0 of them with a rate below 1%" in fewer
    assert "Not exercised" not in fewer


def test_what_held_in_fewer_than_30_runs_or_299_simulated_ones_is_open() -> None:
    def stated(runs: int, backend: str) -> tuple[str, str]:
        found = matrix([replace(run("+"), backend=backend)] * runs, {"sim"})
        (square,) = found.squares.values()
        assert len(square.evidence) == runs
        return square.state, terminal(found, width=120, colour=False)

    for most, backend in ((29, "local"), (298, "sim")):
        (few, told), (enough, held) = stated(most, backend), stated(most + 1, backend)
        assert (few, enough) == ("open", "held")
        assert f"o 0/{most}" in told and f"+ 0/{most + 1}" in held
    assert stated(30, "sim")[0] == "open"


def test_a_cell_not_exercised_under_a_fault_has_the_reason_of_that_fault() -> None:
    outcome = Outcome(
        verdict=WORDS["+"], promised=True, reason="of the run",
        under={"pause": WORDS["+"], "kill": WORDS["?"]}, lacks={"kill": "no kill"},
    )  # fmt: skip
    found = matrix([replace(run("+", "pause"), properties={MUTEX: outcome})])
    why = {cell["fault"]: cell["not_exercised_because"] for cell in table(found)["cells"]}
    assert why == {"pause": "", "kill": "no kill"}


def test_a_violation_before_the_first_fault_is_no_part_of_the_rate_without_faults() -> None:
    """Runs with faults that hold do not count under "none": their violations may not either."""
    outcome = Outcome(
        verdict=WORDS["x"], promised=True, sentence="c1 and c2 held",
        under={"pause": WORDS["?"], "none": WORDS["x"]},
    )  # fmt: skip
    early = replace(run("x", "pause"), properties={MUTEX: outcome})
    found = matrix([early, early])
    square = found.squares["redis", MUTEX, "none"]
    assert (square.state, square.says()) == ("violated", "2 runs before the first fault")
    assert square.promised == 2 and square.evidence == [early, early]
    both = matrix([early, *[run("+")] * 9])
    square = both.squares["redis", MUTEX, "none"]
    assert square.says() == "0 of 9: below 28%; 1 run before the first fault"
    assert "x 0/9 and 1 early" in terminal(both, width=120, colour=False)
    (cell,) = [cell for cell in table(both)["cells"] if cell["fault"] == "none"]
    assert (cell["state"], cell["violated"], cell["violated_before_faults"]) == ("violated", 0, 1)
    calm = replace(early, properties={MUTEX: replace(outcome, under={"none": WORDS["x"]})})
    assert matrix([calm]).squares["redis", MUTEX, "none"].violated == 1
