"""The JUnit file: a case per run, failures for broken promises, errors for what is unknown."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from tests.reports import specimens
from tests.reports.rendered import junit as write


def suite(tmp_path: Path, *runs: dict[str, object]) -> ET.Element:
    """The suite that is written for these runs, parsed again."""
    root = ET.parse(write(tmp_path / "junit.xml", runs)).getroot()
    found = root.find("testsuite")
    assert found is not None
    return found


def test_a_broken_promise_is_a_failure_and_unknown_is_an_error(tmp_path: Path) -> None:
    failed = specimens.clean() | {"exit_code": 4}
    found = suite(
        tmp_path,
        specimens.clean(),
        specimens.limit(),
        specimens.broken(),
        specimens.unknown(),
        failed,
    )
    assert [found.get(name) for name in ("tests", "failures", "errors")] == ["5", "1", "2"]
    ends = [next(part.tag for part in case if part.tag != "properties") for case in found]
    assert ends == ["system-out", "system-out", "failure", "error", "error"]
    errors = [part.get("type") for part in found.iter("error")]
    assert errors == ["unknown", "environment"]


def test_a_failure_tells_the_story_and_how_to_see_it_again(tmp_path: Path) -> None:
    found = suite(tmp_path, specimens.broken())
    failure = found.find("testcase/failure")
    assert failure is not None
    assert (failure.text or "").startswith("VIOLATED: two clients held a lock")
    # One failure per cause, whose sentence is the message.
    messages = [one.get("message", "") for one in found.iter("failure")]
    assert len(messages) == 2 and messages[0].startswith("Double grant: ")
    assert all(len((one.text or "").splitlines()) <= 25 for one in found.iter("failure"))
    assert "report: " in (failure.text or "")
    assert "Extent: once, after 1 of 1 partition fault; 1 finding of mutual exclusion" in (
        failure.text or ""
    )
    assert "again: holdfast run --system majority" in (failure.text or "")


def test_a_case_is_named_by_system_workload_nemeses_and_seed(tmp_path: Path) -> None:
    found = suite(tmp_path, specimens.clean(), specimens.unknown())
    assert [case.get("name") for case in found] == [
        "reference/critical-section/pause+kill+partition+clock[7]",
        "single/critical-section/no-faults[7]",
    ]
    values = {one.get("name"): one.get("value") for one in found[0].iter("property")}
    assert values["seed"] == "7"
    assert str(values["report"]).endswith("reference-7/report.html")


def test_what_xml_forbids_is_gone_and_the_file_parses(tmp_path: Path) -> None:
    found = suite(tmp_path, specimens.hostile())
    text = (tmp_path / "junit.xml").read_text(encoding="utf-8")
    assert "\x00" not in text
    assert "\x1b" not in text
    assert '<script>alert("x")' in (found.find("testcase") or found).get("name", "")
    assert len(text) < 40_000


def test_no_run_at_all_is_an_empty_suite(tmp_path: Path) -> None:
    assert suite(tmp_path).get("tests") == "0"
