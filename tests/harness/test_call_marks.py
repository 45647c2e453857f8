"""Clients mark their calls in a run with faults at requests of them; a notice is no call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.harness.core.operations import Op, Status
from holdfast.harness.recording.call_marks import END, FOLDER, WORDS, called
from holdfast.harness.recording.marking import MarkingRecorder


def test_calls_are_marked_and_what_is_recorded_within_one_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(os, "access", lambda path, mode: asked.append(path))
    recorder = MarkingRecorder(tmp_path, "c1", {})
    acquire = recorder.invoke(Op.TRY, 1, 0, attempt=1)
    waiting = recorder.invoke(Op.WAITING, 1, 0, attempt=1)
    recorder.complete(waiting, Status.OK)
    assert asked == [f"{FOLDER}acquire"]
    recorder.complete(acquire, Status.OK)
    release = recorder.invoke(Op.RELEASE, 1, 0, attempt=1)
    assert recorder.complete(release, Status.OK) > 0
    recorder.close()
    assert [called(path) for path in asked] == ["acquire", "", "release", ""]


def test_other_paths_are_no_marks() -> None:
    assert called("/etc/holdfast-call/acquire") is None and called("") is None
    assert called(END) == "" and called(f"{FOLDER}renew") == "renew"
    assert not Path(FOLDER).exists() and "acquire" in WORDS
