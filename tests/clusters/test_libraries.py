"""The folders of libraries: what doctor says of one that is there, is not there, or is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.clusters.libraries import environments

PINS = ("Some.Lock==1.0.2", "beside_it==3")


def test_a_folder_is_missing_then_there_then_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "not fetched yet" in str(environments.problem(PINS))
    folder = environments.folder(PINS)
    for name in ("some_lock-1.0.2", "beside_it-3"):
        (folder / f"{name}.dist-info").mkdir(parents=True)
    assert environments.problem(PINS) is None
    assert environments.fetch(PINS) == folder
    (folder / "beside_it-3.dist-info").rmdir()
    told = str(environments.problem(PINS))
    assert told.startswith("broken: no beside_it==3 in")
    assert "remove that folder" in told
