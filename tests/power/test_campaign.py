"""The long proof of campaigns: 200 simulated runs and 12 in containers, killed in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import needs
from tests.front import campaigns

LONG = """
lease = "1s"
[[entry]]
systems = ["reference", "majority"]
swarm = true
seeds = 100
[[entry]]
backend = "docker"
systems = ["reference", "majority"]
nemeses = ["none", "pause", "partition,kill"]
time = "5s"
clients = 3
seeds = 2
"""

Verdicts = dict[str, dict[str, str]]


def verdicts(summary: dict[str, object], backend: str) -> Verdicts:
    rows = summary["results"]
    assert isinstance(rows, list)
    return {
        row["key"]: {prop: one["verdict"] for prop, one in row["properties"].items()}
        for row in rows
        if row["backend"] == backend
    }


@pytest.mark.power
@pytest.mark.docker
def test_two_hundred_and_twelve_runs_killed_and_resumed_and_the_same_on_dask(
    tmp_path: Path,
) -> None:
    needs.engine()
    file = tmp_path / "long.toml"
    file.write_text(LONG)
    journal = tmp_path / "killed" / "journal.jsonl"
    words = (file, "--out", "killed", "-j", 2)
    first = campaigns.kill_after(tmp_path, journal, 15, *words)
    second = campaigns.kill_after(tmp_path, journal, 120, *words)
    assert 15 <= first < 120 <= second < 212
    code, summary = campaigns.carry_out(tmp_path, *words)
    keys = [row["key"] for row in campaigns.lines(journal)]
    assert len(keys) == len(set(keys)) == 212, "none lost, none twice"
    simulated, contained = verdicts(summary, "sim"), verdicts(summary, "docker")
    assert (len(simulated), len(contained)) == (200, 12)
    assert not any(row["exit_code"] == 4 for row in campaigns.lines(journal))
    with campaigns.dask(tmp_path, workers=2) as address:
        far_code, far = campaigns.carry_out(tmp_path, file, "--out", "far", "--scheduler", address)
    assert far_code == code == 1
    assert verdicts(far, "sim") == simulated
    assert verdicts(far, "docker").keys() == contained.keys()
    for key in simulated:
        near, there = (campaigns.files(tmp_path / out / "runs" / key) for out in ("killed", "far"))
        assert near == there
