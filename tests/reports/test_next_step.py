"""What a report says about the next command: how it differs, and which faults were not tried."""

from __future__ import annotations

import re
from typing import Any

from holdfast.reports.run.next_step import differences, untried
from tests.reports import specimens
from tests.reports.pieces import MANIFEST, PLAN
from tests.reports.rendered import read, render

RUN = "holdfast run --system single --nemesis pause:target=holder,for=1s --time 30s --seed 5"
NEXT = (
    "holdfast run --system single --resource fenced --nemesis pause:target=holder,for=3s"
    " --time 40s --seed 5"
)


def unknown(**changed: Any) -> dict[str, Any]:
    return specimens.unknown() | {"command": RUN, "remedy": NEXT} | changed


def test_the_next_command_is_compared_in_the_options_that_both_state() -> None:
    assert differences(read(unknown())) == (
        "The command differs from this run in --nemesis pause:target=holder,for=3s"
        " (here pause:target=holder,for=1s) and --time 40s (here 30s)."
    )
    # The command below has the value; twice it would fill the page.
    long = NEXT.replace("for=3s", f"for=3s,{'kill:every=10s,' * 9}freeze")
    assert differences(read(unknown(remedy=long))) == (
        "The command differs from this run in the value of --nemesis and --time 40s (here 30s)."
    )
    assert differences(read(unknown(remedy=""))) == ""
    assert differences(read(unknown(command="an 'open quote"))) == ""
    # A word of a megabyte takes the splitter ten seconds.
    assert differences(read(unknown(command=f"{RUN} {'x' * 4000}"))) == ""


def test_a_run_that_leaves_questions_open_says_that_the_lock_is_not_accused() -> None:
    text = render(unknown(), MANIFEST, PLAN)
    assert "it is the run that leaves questions open, not the lock" in text
    assert "for=3s (here pause:target=holder,for=1s)" in text


def test_a_pass_names_the_usual_faults_that_it_did_not_have() -> None:
    run = specimens.clean()
    kinds = {fault["do"] for fault in run["faults"]}
    assert {"pause", "kill", "partition", "clock"} <= kinds
    assert untried(read(run)) == ""
    run["faults"] = [fault for fault in run["faults"] if fault["do"] == "pause"]
    wanted = "Not tried in this run: kill, partition and clock (--nemesis kill,partition,clock)."
    assert untried(read(run)) == wanted
    page = render(run, MANIFEST, PLAN)
    assert wanted in re.sub("</?span[^>]*>", "", page)
    assert '<span class="option">--nemesis</span>' in page
    assert untried(read(unknown())) == ""


def test_settings_are_compared_one_by_one_and_added_ones_are_named() -> None:
    run = f"{RUN} --set late_pct=0 --set look=1"
    remedy = f"{NEXT} --set lazy_pct=50 --set late_pct=40 --set wait_ms=60000 --set look=1"
    (changed, added) = differences(read(unknown(command=run, remedy=remedy))).split(". ")
    assert changed.endswith("--time 40s (here 30s) and --set late_pct=40 (here 0)")
    assert added == "It also sets lazy_pct=50 and wait_ms=60000."
    again = RUN + " --set wait_ms=60000"
    assert differences(read(unknown(remedy=again))) == "The command also sets wait_ms=60000."
