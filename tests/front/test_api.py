"""`import holdfast`: runs as data frames that say what was recorded, and no more."""

from __future__ import annotations

import importlib
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs.tools.notebook import NOTEBOOK, with_outputs

import holdfast as hf
from holdfast.api import history_frame, tables
from holdfast.harness.core.case import MERGED_DTYPE, Case, History
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.operations import CAME, LEFT, Mode, Op, Status, client_names, spent
from holdfast.harness.foreign import write
from tests.checkers.shorthand import case as given
from tests.front.frame_rows import seen, unshown

pandas: Any = importlib.import_module("pandas")
NODES = {1: "c1", 2: "c2", 3: "c3"}
ROOT = Path(__file__).parents[2]
STRINGS = ("", "lock-1", "lock-2", "timeout", "expired")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hf.Run:
    out = tmp_path_factory.mktemp("runs")
    return hf.simulate(
        nemesis="pause:target=holder,for=3s", resource="unfenced", seed=1, time="10s", out=out
    )


def recorded(rng: random.Random) -> Case:
    """A case of random rows, every kind and status among them, one request of each answered."""
    rows = np.zeros(rng.randrange(60), MERGED_DTYPE)
    at = 10**9
    for n, row in enumerate(rows):
        at += rng.randrange(10**6)
        process = rng.choice((1, 2, 3))
        row["f"], row["status"] = rng.choice(list(Op)), rng.choice(list(Status)[1:])
        row["t_inv"], row["process"], row["row"] = at, process, n
        row["t_ret"] = 0 if row["status"] == Status.INVOKED else at + rng.randrange(10**7)
        row["attempt"] = rng.choice((0, process << 32 | rng.randrange(1, 9)))
        row["token"] = rng.choice((-1, 0, 7, 1 << 40))
        row["key"], row["err"] = rng.randrange(3), rng.choice((0, 3))
        row["arg"], row["res"] = rng.choice((-1, 0, 5 * 10**8)), rng.choice((-1, 0, 3))
        row["aux"], row["mode"] = rng.choice((-1, 0, 10**9)), rng.choice(list(Mode))
        row["late"], row["tx"], row["rx"] = rng.randrange(9), rng.randrange(99), rng.randrange(99)
        row["flags"] = rng.choice((0, LEFT, CAME, LEFT | CAME))
        row["spent"] = spent(rng.choice((None, 0, 123_456_789)), rng.choice((None, 5_000)))
        row["op"] = process << 32 | rng.randrange(60)
        row["writer"] = 0
        if row["f"] in (Op.LOST, Op.CLOSED):
            row["res"] = rng.choice((0, 4))
    history = History(rows=rows, strings=STRINGS, writers=("w",))
    promises = given("0a? 0a+1").promises
    return Case(
        history=history, promises=promises, windows=(), asked=(), start_ns=10**9, stop_ns=at,
        end_ns=at, lease_ns=10**9, nodes=NODES,
    )  # fmt: skip


def answered(row: Mapping[str, int]) -> dict[str, Any]:
    """The columns of terms, queries and the resource, in the same way."""
    op, mode, ok = Op(row["f"]), Mode(row["mode"]), row["status"] == Status.OK
    holder, termed = op is Op.HOLDER and ok, op in (Op.ACQUIRE, Op.TRY)
    served = op in (Op.SERVED_READ, Op.SERVED_WRITE)
    before = row["aux"] if op is Op.SERVED_WRITE else row["arg"]
    return {
        "metadata": (STRINGS[row["err"]] or None) if holder else None,
        "renewals": row["res"] if holder and row["res"] >= 0 else None,
        "queue_length": row["res"]
        if op is Op.LENGTH and ok and row["res"] >= 0 else None,
        "entries_left": row["res"] - 1
        if op is Op.RELEASE and ok and row["res"] > 0 else None,
        "arrived": (row["res"] - 10**9) / 1e9
        if op is Op.ARRIVED and ok and row["res"] >= 0 else None,
        "session": row["arg"] if op is Op.HEARTBEAT else None,
        "reenters": row["op"] & 1 if termed else None,
        "priority": row["op"] // 2 % 128 if termed else None,
        "permits": row["op"] >> 24 if termed and mode is Mode.PERMITS else None,
        "permits_of": row["op"] // 256 % 65536 if termed and mode is Mode.PERMITS else None,
        "only_after": row["op"] // 256 - 1
        if termed and mode is not Mode.PERMITS and row["op"] >= 256 else None,
        "resends": row["aux"] if op is Op.WRITE and row["aux"] >= 0 else None,
        "highest_token_before": before if served and before >= 0 else None,
    }  # fmt: skip


def said(case: Case, n: int) -> dict[str, Any]:
    """A row of the frame, one value after the other, from the recorded row alone; None for NA."""
    row = {name: case.history.rows[n][name].item() for name in MERGED_DTYPE.names or ()}
    op, status, done = Op(row["f"]), Status(row["status"]), row["t_ret"] > 0
    called = row["t_inv"] - (row["tx"] if row["flags"] & LEFT else 0)
    returned = row["t_ret"] + (row["rx"] if row["flags"] & CAME else 0)
    acquire, asked = op in history_frame.ACQUIRES, op in (*history_frame.ACQUIRES, Op.RENEW)
    versioned = op in history_frame.VERSIONED
    calls = {
        (int(r["process"]), int(r["row"])): i
        for i, r in enumerate(case.history.rows)
        if r["f"] in (Op.READ, Op.WRITE)
    }
    served = op in (Op.SERVED_READ, Op.SERVED_WRITE)
    holder = op is Op.HOLDER and status is Status.OK

    def since(ns: int, where: bool = True) -> float | None:
        return (ns - case.start_ns) / 1e9 if where else None

    return {
        "op": op.name.lower().replace("_", "-"),
        "status": status.name.lower().replace("_", "-"),
        "client": NODES[row["process"]],
        "lock": STRINGS[row["key"]] or None,
        "attempt": f"c{row['attempt'] >> 32}/{row['attempt'] & 0xFFFFFFFF}" if row["attempt"]
        else None,
        "token": row["token"] if row["token"] >= 0 else None,
        "invoked": since(called),
        "sent": since(row["t_inv"], bool(row["flags"] & LEFT)),
        "received": since(row["t_ret"], bool(row["flags"] & CAME) and done),
        "returned": since(returned, done),
        "latency": (returned - called) / 1e9 if done else None,
        "late": row["late"] / 1e6,
        "mode": Mode(row["mode"]).name.lower() if acquire else None,
        "lease_requested": row["arg"] / 1e9 if asked and row["arg"] > 0 else None,
        "lease_granted": row["res"] / 1e9
        if (asked or op is Op.HEARTBEAT) and status is Status.OK and row["res"] > 0 else None,
        "wait_limit": row["aux"] / 1e9
        if op in (Op.ACQUIRE, Op.PROBE) and row["aux"] >= 0 else None,
        "place": row["res"]
        if op in (Op.WAITING, Op.PLACE) and status is Status.OK and row["res"] >= 0 else None,
        "version": row["res"] if versioned and row["res"] >= 0 and done else None,
        "base_version": row["arg"]
        if op in (Op.WRITE, Op.SERVED_WRITE) and row["arg"] >= 0 else None,
        "request": calls.get((row["op"] >> 32, row["op"] & 0xFFFFFFFF)) if served else None,
        "reason": STRINGS[row["res"]] or None if op in (Op.LOST, Op.CLOSED) else None,
        "error": (STRINGS[row["err"]] or None) if not holder else None,
        **answered(row),
    }  # fmt: skip


def same(shown: Any, wanted: Any) -> bool:
    if wanted is None:
        return bool(pandas.isna(shown))
    return bool(shown == pytest.approx(wanted) if isinstance(wanted, float) else shown == wanted)


@pytest.mark.parametrize("number", [50, pytest.param(1000, marks=pytest.mark.power)])
def test_a_frame_says_what_the_rows_say_and_na_where_they_say_nothing(number: int) -> None:
    for seed in range(number):
        case = recorded(random.Random(f"frame {seed}"))
        frame = history_frame.frame(case, np.arange(len(case.history.rows)))
        for n in range(len(frame)):
            shown, wanted = frame.iloc[n], said(case, n)
            wrong = {k: (shown[k], v) for k, v in wanted.items() if not same(shown[k], v)}
            assert not wrong, (seed, n, wrong)


def test_no_recorded_column_of_any_operation_is_missing_from_the_frame() -> None:
    """Each documented column of each operation is changed in a row: the frame shows it."""
    ops = Counter[Op]()
    for seed in range(40):
        case = recorded(random.Random(f"unshown {seed}"))
        ops += seen(case)
        assert unshown(case) == set(), seed
    assert set(ops) == set(Op)


def test_a_restarted_client_has_attempts_of_its_own_name(tmp_path: Path) -> None:
    """And so has a second client on a node: names of attempts are unique, those of clients not."""
    run = hf.simulate(nemesis="kill:target=holder,for=3s", seed=3, time="6s", out=tmp_path)
    frame, numbers = run.frame(), run.frame(raw=True)["attempt"]
    assert frame["attempt"].nunique() == len(set(numbers) - {0})
    again = frame[frame["attempt"].astype("string").str.match(r"c\d\.1/")]
    restarted = set(again["client"])
    assert len(restarted) == 1
    number = int(restarted.pop()[1:])
    assert {attempt >> 32 for attempt in numbers.loc[again.index].tolist()} == {1000 + number}
    exported = [json.loads(line) for line in write.jsonl(run.case.history, run.case.nodes)]
    assert {one["name"] for one in exported} <= set(frame["attempt"].dropna())
    assert client_names({1: "c1", 6: "c1", 1006: "c1", 2: "c2", 3001: "c1", 7: "probe"}) == {
        1: "c1", 6: "c1.p6", 1006: "c1.p6.1", 2: "c2", 3001: "c1.3", 7: "probe",
    }  # fmt: skip


def test_stale_writes_without_tokens_are_stale_in_the_log_too(tmp_path: Path) -> None:
    run = hf.simulate(
        system="single", nemesis="pause:target=holder,for=3s", resource="unfenced", seed=1,
        time="10s", out=tmp_path,
    )  # fmt: skip
    findings = run.findings().query("property == 'no-stale-write'")
    log = run.resource_log()
    assert len(findings) and set(log[log["accepted"] & log["stale"]]["row"]) == {
        rows[-1] for rows in findings["witnesses"]
    }


def test_durations_are_those_that_the_service_measured() -> None:
    case = recorded(random.Random(0))
    rows = case.history.rows[:1].copy()
    rows["f"], rows["spent"] = Op.ACQUIRE, spent(123_456_789, None)
    frame = history_frame.frame(
        Case(**{**{f: getattr(case, f) for f in case.__dataclass_fields__},
                "history": History(rows=rows, strings=STRINGS, writers=("w",)), "memo": {}}),
        np.arange(1),
    )  # fmt: skip
    assert frame["queued_for"][0] == pytest.approx(0.123456, rel=1e-3)
    assert np.isnan(frame["commit_took"][0])


def test_witnesses_of_findings_are_rows_of_the_frame(run: hf.Run) -> None:
    frame, findings = run.frame(), run.findings()
    stale = findings[findings["property"] == "no-stale-write"]
    assert len(stale) and not stale["promised"].any()
    for rows in stale["witnesses"]:
        assert frame.loc[rows[-1], "op"] == "served-write"
        assert frame.loc[rows[-1], "status"] == "ok"
    assert run.verdicts["no-stale-write"] is hf.Verdict.VIOLATED
    assert run.verdict is hf.Verdict.HOLDS


def test_filters_choose_rows_and_keep_their_numbers(run: hf.Run) -> None:
    whole = run.frame()
    acquires = run.frame(ops=["acquire"], client="c2", between=(1.0, 4.0))
    wanted = whole[(whole.op == "acquire") & (whole.client == "c2") & whole.invoked.between(1, 4)]
    assert len(acquires) > 3
    assert list(acquires.index) == list(wanted.index)
    assert list(run.frame(columns=["token", "op"]).columns) == ["token", "op"]
    with pytest.raises(hf.UsageError, match="unknown op 'acqire'"):
        run.frame(ops=["acqire"])
    with pytest.raises(hf.UsageError, match="unknown column 'when'"):
        run.frame(columns=["when"])


def test_stale_writes_of_the_log_are_those_of_the_findings(run: hf.Run) -> None:
    log = run.resource_log()
    assert list(log["order"]) == list(range(len(log)))
    findings = run.findings().query("property == 'no-stale-write'")
    accepted = log[log["accepted"] & log["stale"]]
    assert set(accepted["row"]) == {rows[-1] for rows in findings["witnesses"]}
    calls = run.frame(ops=["write"])
    assert set(log["request"].dropna()) <= set(calls.index)


def test_holds_and_faults_have_what_the_run_had(run: hf.Run) -> None:
    holds, faults = run.holds("certain"), run.faults()
    granted = run.frame(ops=["acquire"]).query("status == 'ok'")
    assert set(granted.index) <= set(holds["acquire"])
    assert (holds["from"] <= holds["to"]).all()
    assert list(faults["kind"].unique()) == ["pause"]
    assert (faults["requested"] <= faults["from"]).all()
    assert faults["effective"].all()
    assert len(run.holds("contract"))
    with pytest.raises(hf.UsageError, match="unknown kind of hold"):
        run.holds("sure")  # type: ignore[arg-type]


def test_a_clock_fault_has_the_interval_of_its_injection(tmp_path: Path) -> None:
    """Its clock was set in [requested, from]: what happened between is before or after it."""
    run = hf.simulate(nemesis="clock:step=2s,target=one", seed=1, time="6s", out=tmp_path)
    assert run.path is not None
    written = [json.loads(line) for line in (run.path / "faults.jsonl").read_text().splitlines()]
    injected = {row["id"]: row for row in written if row["event"] == "injected"}
    faults = run.faults()
    assert len(faults) == len(run.judgement["faults"]) > 0
    for row, shown in zip(run.judgement["faults"], faults.itertuples(), strict=True):
        asked = injected[row["id"]]["before_ns"]
        assert row["requested_ns"] == asked <= row["from_ns"]
        assert shown.requested == pytest.approx((asked - run.case.start_ns) / 1e9)
    unknown = replace(run.case.windows[0], requested_ns=-1)
    assert np.isnan(tables.faults(replace(run.case, windows=(unknown,)))["requested"][0])


def test_counts_of_properties_and_errors_are_those_of_the_verdicts(run: hf.Run) -> None:
    properties = run.properties()
    for row in run.judgement["verdicts"]:
        for name, count in row["exercised"].items():
            assert properties.loc[row["property"], f"exercised: {name}"] == count
    errors = run.errors()
    assert errors["n"].sum() == int((run.frame(raw=True)["err"] > 0).sum())


def test_a_parquet_file_has_the_whole_run(run: hf.Run, tmp_path: Path) -> None:
    again = hf.read_parquet(run.to_parquet(tmp_path / "run.parquet"))
    assert again.frame().equals(run.frame())
    assert again.frame(raw=True).equals(run.frame(raw=True))
    assert again.holds().equals(run.holds())
    assert again.findings().equals(run.findings())
    assert again.faults().equals(run.faults())
    assert (again.id, again.plan, again.verdicts) == (run.id, run.plan, run.verdicts)
    assert again.path is None
    with pytest.raises(hf.UsageError, match="needs the run's directory"):
        again.report()
    (tmp_path / "other").write_bytes(b"PAR1")
    with pytest.raises(hf.UsageError):
        hf.read_parquet(tmp_path / "other")


def test_arrow_takes_the_frame_without_loss(run: hf.Run) -> None:
    table = run.to_arrow()
    assert table.num_rows == len(run.frame())
    assert table.to_pandas()["token"].dropna().tolist() == run.frame()["token"].dropna().tolist()


def test_a_history_is_checked_from_rows_from_a_frame_and_from_a_run(run: hf.Run) -> None:
    rows = [
        {"process": 0, "type": "invoke", "f": "acquire"},
        {"process": 0, "type": "ok", "f": "acquire"},
        {"process": 1, "type": "invoke", "f": "acquire"},
        {"process": 1, "type": "ok", "f": "acquire"},
    ]
    for history in (rows, pandas.DataFrame(rows)):
        found = hf.check(history, "mutex")
        assert found.verdict is hf.Verdict.VIOLATED
        assert found.findings
    assert hf.check(rows[:2], "mutex").verdict is not hf.Verdict.VIOLATED
    assert hf.check(run, "lease-mutex").verdict is hf.Verdict.HOLDS
    with pytest.raises(hf.UsageError, match="model"):
        hf.check(rows, "mutexx")


def test_a_campaign_has_a_row_per_run_and_property(run: hf.Run) -> None:
    assert run.path is not None
    found = hf.Campaign(run.path.parent)
    assert len(found.runs()) == 1
    frame = found.frame()
    assert dict(zip(frame["property"], frame["property_verdict"], strict=True)) == {
        prop: str(verdict) for prop, verdict in run.verdicts.items()
    }
    kept = json.loads((run.path / "verdicts.json").read_text())["verdicts"]
    judged = {row["property"]: row for row in kept}
    for prop, counts, number in zip(
        frame["property"], frame["counts"], frame["findings"], strict=True
    ):
        assert counts == judged[prop]["exercised"] != {}
        assert number == len(judged[prop]["findings"])
    assert found.matrix().loc[("reference unfenced", "no-stale-write"), "pause"] == "x 1/1"
    assert hf.runs(run.path.parent)["p50"].iloc[0] > 0


def test_a_run_is_judged_again_and_shown(run: hf.Run) -> None:
    assert run.path is not None
    before = json.loads((run.path / "verdicts.json").read_text())
    (run.path / "verdicts.json").unlink()
    fresh = hf.Run(run.path)
    assert "not judged" in repr(fresh)
    assert hf.judge(fresh).verdicts == run.verdicts
    assert json.loads((run.path / "verdicts.json").read_text()) == before
    assert run.report().is_file()
    (run.path / "report.html").unlink()
    (run.path / "report.html").mkdir()
    with pytest.raises(EnvironmentFailed, match="the report cannot be written there"):
        run.report()
    (run.path / "report.html").rmdir()
    shown = run._repr_html_()
    assert "<td>no-stale-write</td><td>LIMIT</td>" in shown
    assert "<td>mutual-exclusion</td><td>HOLDS</td>" in shown
    # It violated what was never promised: no HOLDS beside a LIMIT for one run.
    assert repr(run).endswith(", LIMIT>")


def test_a_run_is_drawn_as_its_holds_faults_and_findings(run: hf.Run) -> None:
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    axes = run.plot(between=(0.0, 5.0))
    assert [label.get_text() for label in axes.get_yticklabels()] == sorted(
        run.holds().query("`from` <= 5")["client"].unique(), reverse=True
    )
    assert axes.get_xlim() == (0.0, 5.0)
    holds = run.holds().query("`from` <= 5")
    assert sum(len(bars.get_paths()) for bars in axes.collections) == len(holds)
    assert len(axes.lines) == (run.findings()["t"] <= 5).sum()


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(hf.UsageError, match=r"no run directory|manifest"):
        hf.Run(tmp_path)
    with pytest.raises(TypeError, match="unknown argument 'sytem'"):
        hf.run(sytem="redis")
    with pytest.raises(hf.UsageError, match="did you mean 'reference'"):
        hf.simulate(system="referense", out=tmp_path)


def test_a_missing_package_is_named_with_its_extra(
    run: hf.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(EnvironmentFailed, match=r"holdfast\[frame\]"):
        run.frame()


def test_importing_holdfast_imports_nothing_that_it_does_not_use() -> None:
    code = "import sys, holdfast; print([m for m in sys.modules if m in ('numpy', 'pandas')])"
    words = [sys.executable, "-P", "-c", code]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"
    assert len(hf.__all__) <= 20
    assert all(getattr(hf, name) is not None for name in hf.__all__)


def shown_by(book: dict[str, Any]) -> list[tuple[str, str]]:
    """The outputs of a notebook: kind and text, a picture without its bytes."""
    shown = []
    for cell in book["cells"]:
        for output in cell.get("outputs", ()):
            kind, content = next(iter(output["data"].items()))
            text = "" if kind == "image/png" else " ".join("".join(content).split())
            shown.append((kind, re.sub(r"\d{8}T\d{6}\.\d+Z", "TIME", text)))
    return shown


def test_the_notebook_runs_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cells in order in one namespace, as a kernel does it. The stored outputs are those of
    today, but for the moment of a run; the figure has what was drawn."""
    monkeypatch.chdir(tmp_path)
    book = json.loads(NOTEBOOK.read_text())
    names: dict[str, Any] = {}
    today = with_outputs(book, names)
    assert shown_by(today) == shown_by(book), "python -m docs.tools.notebook"
    assert [kind for kind, _ in shown_by(book)].count("image/png") == 1
    assert NOTEBOOK.stat().st_size < 100_000
    assert len(names["refused"]) > 0
    assert len(names["bottom"].collections[0].get_offsets()) == len(names["acquires"])
