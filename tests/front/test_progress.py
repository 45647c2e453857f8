"""Progress of long work: a line on a terminal, one every ten seconds elsewhere, calls in Python."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.reports.text.progress import Progress, State, clock, drawn, told
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [100.0]
    monkeypatch.setattr("holdfast.reports.text.progress.time.monotonic", lambda: at[0])
    monkeypatch.setattr("holdfast.reports.text.progress.TICK_S", 3600.0)
    return at


def test_a_state_says_rate_time_left_and_violations(now: list[float]) -> None:
    with Progress("night", "runs", 48, violations=0) as far:
        far.update(0)
        now[0] += 65.0
        far.update(24, violations=4, note="now: single")
        state = far.state()
    assert (state.left_s, state.share, state.violations) == (65.0, 0.5, 4)
    text = "24 of 48 runs, now: single, 4 violated, 0.369 runs per s, 1:05 left"
    assert told(state) == f"night  50%  {text}"
    assert drawn(state) == f"night  [{'#' * 10:<20}]  {text}"
    assert clock(3_725.4) == "1:02:05"


def test_what_was_done_before_does_not_make_the_rest_look_short(now: list[float]) -> None:
    with Progress("night", "runs", 100) as far:
        far.update(90)
        now[0] += 10.0
        far.update(91)
        assert far.state().left_s == 90.0
    with Progress("hunt", "runs", budget_s=60.0) as far:
        now[0] += 15.0
        far.update(3)
        assert far.state().left_s == 45.0
        assert "share" not in told(far.state()) and "%" not in told(far.state())


def test_elsewhere_a_line_is_printed_every_ten_seconds(now: list[float], capsys: Capture) -> None:
    with Progress("sim", "seeds", violations=0) as far:
        for second in range(1, 32):
            now[0] = 100.0 + second
            far.update(second)
    lines = capsys.readouterr().err.splitlines()
    assert [re.findall(r"\d+", line)[0] for line in lines] == ["10", "20", "30"]
    assert "\x1b" not in "".join(lines)


def test_on_a_terminal_one_line_is_redrawn_and_removed(
    now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    with Progress("night", "runs", 4, violations=0) as far:
        for done in range(5):
            now[0] += 1.0
            far.update(done, note="x" * 200)
        far.say("new VIOLATED")
    pieces = screen.getvalue().split("\r")
    assert len(pieces) > 5 and all(len(re.sub(r"\x1b\[K", "", piece).rstrip("\n")) < 60
                                   for piece in pieces)  # fmt: skip
    assert screen.getvalue().endswith("\x1b[Knew VIOLATED\n"), "the line is gone at the end"


def test_a_function_gets_every_state_and_may_end_the_work(tmp_path: Path) -> None:
    seen: list[State] = []
    with hf.listening(seen.append):
        hf.simulate(system="single", time="4s", seed=3, out=tmp_path)
    assert seen and seen[-1].total == 4.0 and seen[-1].unit == "s"
    assert [one.done for one in seen] == sorted(one.done for one in seen)
    before = len(seen)
    hf.simulate(system="single", time="2s", seed=3, out=tmp_path)
    assert len(seen) == before, "outside of the block nothing is called"

    def enough(state: State) -> None:
        raise TimeoutError(state.action)

    with pytest.raises(TimeoutError, match="simulate"), hf.listening(enough):
        hf.simulate(system="single", time="4s", seed=3, out=tmp_path)


def test_a_campaign_a_search_and_a_shrink_tell_how_far_they_are(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Progress, "EVERY_S", 0.0)
    file = tmp_path / "night.toml"
    file.write_text('systems = ["majority"]\nbackend = "sim"\nnemeses = ["kill"]\nseeds = 3\n'
                    'time = "3s"\nlease = "500ms"\n')  # fmt: skip
    said = holdfast(capsys, "campaign", file, "-j", "1", "--out", tmp_path / "night")
    assert re.search(r"night 100%  3 of 3 runs, .*\d violated", said.err)
    said = holdfast(capsys, "sim", "--seeds", "2", "-j", "1", "--twice-every", "0")
    assert re.search(r"reference 100%  2 of 2 seeds, 0 violated", said.err)
    words = ("--backend", "sim", "--system", "majority", "--time", "4s", "--seed", "1")
    holdfast(capsys, "run", *words, "--out", tmp_path / "runs")
    said = holdfast(capsys, "shrink", tmp_path / "runs" / "latest", "--budget", "3s")
    assert re.search(r"shrink  \d+ runs, .*\d:\d\d left", said.err), said.err
    said = holdfast(capsys, "debug", tmp_path / "runs" / "latest", "--step", "0")
    assert re.search(r"execute again +\d+%  \d\.\d of 4 s of the run", said.err)
    reached = re.findall(r"([\d,.]+) of 4 s of the run", said.err)
    # The clock of a simulated run does not begin at 0; it settles for some time after its workload.
    assert reached and max(float(one.replace(",", "")) for one in reached) < 60, said.err


def test_a_pseudo_terminal_shows_the_bar_and_keeps_only_what_stays(tmp_path: Path) -> None:
    main, other = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    words = ["sim", "--seeds", "3", "-j", "1", "--twice-every", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        stderr=other, stdout=subprocess.DEVNULL, cwd=tmp_path, env=environ,
    ) as done:  # fmt: skip
        os.close(other)
        text = b""
        while True:
            try:
                piece = os.read(main, 4096)
            except OSError:
                break
            if not piece:
                break
            text += piece
    os.close(main)
    assert done.returncode in (0, 3) and b"of 3 seeds" in text and b"[####" in text
    assert text.endswith(b"\r\x1b[K")
