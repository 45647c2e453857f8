"""Counts of a matrix as data: an edition adds to the one before it, of the same checkers only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.errors import UsageError
from holdfast.planning import fingerprints
from holdfast.reports.many.editions import Edition, read, text_of
from holdfast.reports.many.matrix import matrix, table
from holdfast.reports.many.matrix_pages import markdown
from tests.front.said import holdfast
from tests.harness.campaigns.test_sums import VIOLATED, run

SIM = {"sim"}


def judged(one: Result, checkers: str = "now", version: str = "v1") -> Result:
    command = f"holdfast run --system some --seed {one.seed}"
    return replace(one, checkers=checkers, version=version, command=command)


def runs(seeds: range, checkers: str = "now", version: str = "v1") -> list[Result]:
    made = [
        run(n, VIOLATED if n == 17 else None, forgets=n % 3, leader=None if n % 5 else n % 2)
        for n in seeds
    ]
    return [judged(one, checkers, version) for one in made]


def cells(edition: Edition, checkers: str = "now") -> list[dict[str, object]]:
    found = table(edition.matrix(checkers))["cells"]
    for cell in found:
        del cell["evidence"]
    return list(found)


def test_parts_add_up_to_the_matrix_of_all_runs_whatever_was_added_before() -> None:
    for seeds in (range(15), range(40)):
        whole = table(matrix(runs(seeds), SIM))["cells"]
        for cell in whole:
            del cell["evidence"]
        edition = Edition()
        for part in (range(9), range(4, 20), seeds):
            edition = edition.with_results(runs(range(min(len(part), len(seeds)))), SIM)
            edition = edition.with_results(runs(part) if part.stop <= len(seeds) else [], SIM)
            edition = read(text_of(edition), "counts.json")
        assert cells(edition) == whole, "each seed once"
        assert text_of(edition) == text_of(edition.with_results(runs(seeds), SIM))


def test_counts_of_other_checkers_are_stale_and_of_another_version_apart() -> None:
    edition = Edition().with_results(runs(range(30), "before"), SIM)
    found = edition.matrix("now")
    assert found.squares == {} and list(found.stale.values()) == [30]
    assert "stale: 30 runs judged by earlier checkers" in markdown(found)
    edition = edition.with_results(runs(range(10)), SIM)
    assert edition.matrix("now").stale == {}
    assert edition.matrix("now").runs == 10, "the same seeds, judged by others"
    edition = edition.with_results(runs(range(10), version="v2"), SIM)
    assert len(edition.groups) == 3 and edition.matrix("now").runs == 20


def test_runs_of_which_the_checkers_are_unknown_are_no_part_of_an_edition() -> None:
    assert Edition().with_results([run(1, forgets=1)], SIM).groups == []


def test_what_is_no_file_of_counts_is_refused() -> None:
    text = text_of(Edition().with_results(runs(range(3)), SIM)).decode()
    content = json.loads(text)
    assert content["groups"][0]["seeds"] == [[0, 2]]
    wrong = [b"{", b"[]", b'{"schema": "other/1", "groups": []}', b'{"groups": [1]}', b"7"]
    for seeds in ([[0, 1 << 62]], [[2, 0]], [[0, 2, 3]], ["0"], [[0.5, 1]], None, [[None, 1]]):
        content["groups"][0]["seeds"] = seeds
        wrong.append(json.dumps(content).encode())
    for content_of_file in wrong:
        with pytest.raises(UsageError, match=r"counts\.json"):
            read(content_of_file, "counts.json")


def test_seeds_may_be_pairs_or_numbers() -> None:
    made = [one for one in runs(range(12)) if one.seed not in (4, 5, 9)]
    text = text_of(Edition().with_results(made, SIM))
    content = json.loads(text)
    assert content["groups"][0]["seeds"] == [[0, 3], [6, 8], [10, 11]]
    content["groups"][0]["seeds"] = [0, 1, 2, 3, [6, 8], 10, 11]
    assert text_of(read(json.dumps(content).encode(), "counts.json")) == text


def test_a_campaign_is_added_to_a_file_and_shown_from_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = 'systems = ["single"]\nbackend = "sim"\nnemeses = ["kill:every=1s"]\ntime = "3s"\n'
    Path("c.toml").write_text(text + 'lease = "500ms"\nseeds = [1, 2]\n')
    holdfast(capsys, "campaign", "c.toml", "-j", 1, "--out", "c")
    shown = [
        holdfast(capsys, "matrix", "c", "--counts", "counts.json", "--json").out for _ in range(2)
    ]
    assert shown[0] == shown[1]
    cell = next(
        one for one in json.loads(shown[0])["cells"] if one["property"] == "mutual-exclusion"
    )
    assert cell["state"] == "violated" and cell["evidence"][0]["command"].startswith("holdfast run")
    (group,) = json.loads(Path("counts.json").read_text())["groups"]
    assert group["seeds"] == [[1, 2]] and "--seed" not in group["plan"]
    assert group["checkers"] == fingerprints.checkers() and group["version"]
