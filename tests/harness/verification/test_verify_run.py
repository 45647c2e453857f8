"""The verifier on a run directory: what it reads from which file, and what it says of damage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.checkers.facts import legal_orders
from holdfast.checkers.properties import mutual_exclusion, no_stale_write
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.recording.segments import write_closed
from holdfast.harness.runs import directory
from holdfast.harness.verification.orders import FILE
from holdfast.harness.verification.recorded_rows import Damaged
from holdfast.harness.verification.verify import verify_run
from tests.checkers.certified import told, writers
from tests.checkers.shorthand import case

BROKEN = "0a? 0a+7 1a? 1a+8 0n? 0n+"
HELD = "0a? 0a+1 0w? 0S+ 0w+ 0r? 0r+ 1a? 1a+2 1w? 1S+ 1w+ 1r? 1r+"


def run_of(path: Path, given: Case, verdicts: Mapping[str, Any]) -> None:
    """The run directory of a case and its verdicts."""
    (path / "history").mkdir(parents=True)
    for one in writers(given):
        meta = {"writer": one.name, "node": one.node, "processes": list(one.processes)}
        write_closed(path / "history", meta, one.strings, bytes(one.rows))
    plan = {"lease_ns": given.lease_ns, "resource": "fenced", "nodes": 1}
    manifest = {"promises": asdict(given.promises), "plan": plan, "traits": {}}
    (path / "manifest.json").write_text(json.dumps(manifest))
    (path / "verdicts.json").write_text(json.dumps({"verdicts": verdicts["verdicts"]}))
    (path / FILE).write_bytes(verdicts["orders"])
    for name in ("faults.jsonl", "times.jsonl"):
        (path / name).write_text("")


def broken(path: Path) -> dict[str, Any]:
    """A run with a certified finding; its verdicts."""
    given = case(BROKEN)
    verdicts = told(given, mutual_exclusion.check(given))
    run_of(path, given, verdicts)
    return verdicts


def held(path: Path) -> dict[str, Any]:
    """A run whose only verdict has an order."""
    given = case(HELD, asked=("no-stale-write",))
    verdict = no_stale_write.check(given)
    order = legal_orders.of_requests(given)
    verdicts = told(given, replace(verdict, verdict=Verdict.HOLDS), order)
    run_of(path, given, verdicts)
    return verdicts


def test_findings_are_verified_from_the_files_alone(tmp_path: Path) -> None:
    broken(tmp_path)
    outcome = verify_run(tmp_path)
    assert (outcome.accepted, list(outcome.refused), outcome.why) == (1, [], "")


def test_other_verdicts_are_verified_instead_of_the_stored_ones(tmp_path: Path) -> None:
    verdicts = broken(tmp_path)
    verdicts["verdicts"][0]["findings"][0]["lock"] = "another"
    assert not verify_run(tmp_path).refused
    assert len(verify_run(tmp_path, verdicts).refused) == 1


def test_an_order_is_read_from_its_file_or_given(tmp_path: Path) -> None:
    verdicts = held(tmp_path)
    assert verify_run(tmp_path).accepted == 1
    assert verify_run(tmp_path, orders=b"").refused
    (tmp_path / FILE).unlink()
    assert verify_run(tmp_path).refused
    assert verify_run(tmp_path, orders=verdicts["orders"]).accepted == 1


def test_nothing_is_verified_if_a_host_was_not_fetched_whole(tmp_path: Path) -> None:
    broken(tmp_path)
    head = {"asked_ns": 1, "most_ppm": 1000, "hosts": {"far": ["c0", "c1"]}}
    sample = {"host": "far", "sent_ns": 100, "host_ns": 100, "received_ns": 120}
    lines: list[dict[str, Any]] = [head, sample]
    (tmp_path / "clocks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    outcome = verify_run(tmp_path)
    assert (outcome.accepted, outcome.why) == (0, "not everything was fetched from every host")
    lines.append({"host": "far", "whole": True})
    (tmp_path / "clocks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    outcome = verify_run(tmp_path)
    # The clocks of this host may be 20 ns off, which the certificate does not know of.
    assert outcome.why == "" and (outcome.accepted, len(outcome.refused)) == (0, 1)


@pytest.mark.parametrize("name", ["manifest.json", "verdicts.json", "faults.jsonl", "times.jsonl"])
def test_a_file_that_is_missing_or_no_table_is_named(tmp_path: Path, name: str) -> None:
    broken(tmp_path)
    (tmp_path / name).write_text('{"verdicts": [[1]], "plan": 3}\n[1]\n')
    with pytest.raises(Damaged, match=r"damaged|verdicts|manifest|line"):
        verify_run(tmp_path)
    (tmp_path / name).unlink()
    if name.endswith(".json"):
        with pytest.raises(Damaged, match=f"{name}.*is not there"):
            verify_run(tmp_path)


def test_the_verifier_reads_the_file_of_orders_that_judging_writes() -> None:
    """It shares no code with the program that it checks, so its name stands in both."""
    assert directory.ORDERS == FILE
