"""A process knows when it was given no processor, and so does who judges its run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.run_directory import Shape, write

from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import DELAY, PRESSURE, Starved
from holdfast.harness.history import reader
from holdfast.harness.recording import starvation
from holdfast.harness.recording.starvation import Watch
from tests.front.aborted import wait_for


class Host:
    """A clock that sleeps end late on, and what a kernel would tell of waiting tasks."""

    def __init__(self, late_ns: int = 0, stalled_pct: int = 0) -> None:
        self.now_ns = 1000 * SECOND
        self.late_ns, self.stalled_pct = late_ns, stalled_pct
        self.stalled_ns = 0
        self.noted: list[tuple[str, int, int]] = []

    def sleep(self, seconds: float) -> None:
        passed = round(seconds * SECOND) + self.late_ns
        self.now_ns += passed
        self.stalled_ns += passed * self.stalled_pct // 100

    def watch(self) -> Watch:
        return Watch(
            lambda *span: self.noted.append(span),
            lambda: self.now_ns,
            self.sleep,
            lambda: self.stalled_ns // 1000,
        )


def test_a_host_with_processors_to_spare_is_noted_nowhere() -> None:
    host = Host(late_ns=30 * MILLISECOND, stalled_pct=80)
    watch = host.watch()
    for _ in range(100):
        watch.tick()
    assert host.noted == []


def test_a_sleep_that_ends_late_is_a_span_without_a_processor() -> None:
    host = Host()
    watch = host.watch()
    watch.tick()
    host.late_ns = 700 * MILLISECOND
    due = host.now_ns + 100 * MILLISECOND
    watch.tick()
    assert host.noted == [(DELAY, due, due + 700 * MILLISECOND)]


def test_a_second_in_which_somebody_always_waited_is_pressure() -> None:
    host = Host(stalled_pct=98)
    watch, begun = host.watch(), host.now_ns
    for _ in range(10):
        watch.tick()
    assert host.noted == [(PRESSURE, begun, begun + SECOND)]


def test_a_kernel_that_tells_nothing_is_no_starved_host() -> None:
    host = Host()
    watch = Watch(lambda *span: host.noted.append(span), lambda: host.now_ns, host.sleep, _nothing)
    for _ in range(30):
        watch.tick()
    assert host.noted == []


def _nothing() -> int | None:
    return None


WATCHED = """
import sys, time
from pathlib import Path
from holdfast.harness.recording import starvation
starvation.begin(Path(sys.argv[1]), "c1")
print("begun", flush=True)
time.sleep(60)
"""


def test_a_process_that_was_stopped_notes_it_itself(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    log = tmp_path / "logs" / "c1" / "starved.log"
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        rows = wait_for(lambda: stopped_for_a_while(process.pid, log), 60, "it noted nothing")
        assert rows[0].node == "c1"
        assert rows[0].to_ns - rows[0].from_ns >= 100 * MILLISECOND
    finally:
        process.kill()
        process.wait()


def stopped_for_a_while(pid: int, log: Path) -> list[Starved]:
    """What it has noted of this stop; nothing where its thread had not begun to sleep by then."""
    os.kill(pid, signal.SIGSTOP)
    since_ns = now_ns()
    wait_for(lambda: now_ns() > since_ns + SECOND // 2, 30, "time stands still")
    os.kill(pid, signal.SIGCONT)
    lines = log.read_bytes().split(b"\n")[:-1]
    found = [starvation.of_row(json.loads(line)) for line in lines]
    return [one for one in found if one.kind == DELAY]


def test_what_a_process_did_to_itself_is_no_lack_of_processor_time() -> None:
    stopped = [(10 * SECOND, 12 * SECOND)]
    assert starvation.meant(stopped, 10 * SECOND + 50, 12 * SECOND + 50)
    assert not starvation.meant(stopped, 10 * SECOND, 13 * SECOND), "it was late for a second more"
    assert not starvation.meant(stopped, 12 * SECOND, 13 * SECOND)
    assert not starvation.meant([], 10 * SECOND, 12 * SECOND)


def test_what_was_noted_is_part_of_the_recording_and_a_run_without_it_is_read(
    tmp_path: Path,
) -> None:
    run = write(Shape(ops=50, clients=2), tmp_path).path
    assert reader.load(run / "history").starved == ()
    rows = [
        {"node": "c1", "kind": DELAY, "from_ns": 50, "to_ns": 90},
        {"node": "c1", "kind": PRESSURE, "from_ns": 10, "to_ns": 20},
    ]
    (run / "logs" / "c1").mkdir(parents=True)
    log = run / "logs" / "c1" / "starved.log"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"half')
    assert reader.load(run / "history").starved == (
        Starved(node="c1", kind=PRESSURE, from_ns=10, to_ns=20),
        Starved(node="c1", kind=DELAY, from_ns=50, to_ns=90),
    )
    log.write_text('{"node": "c1", "kind": "boredom", "from_ns": 1, "to_ns": 2}\n')
    with pytest.raises(UsageError, match="boredom"):
        reader.load(run / "history")


def test_a_process_that_sleeps_late_says_so_until_its_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late:
        """Notes the same span four times; after it the disk is full."""

        def __init__(self, note: Callable[[str, int, int], None]) -> None:
            self.note, self.left = note, 4

        def tick(self) -> None:
            self.left -= 1
            if self.left < 0:
                raise OSError("no space left on device")
            self.note(DELAY, 3, 9)

    started: list[threading.Thread] = []

    class Noted(threading.Thread):
        def start(self) -> None:
            started.append(self)
            super().start()

    monkeypatch.setattr(starvation, "Watch", Late)
    monkeypatch.setattr(threading, "Thread", Noted)
    log = tmp_path / "logs" / "c1" / "starved.log"
    for n in (1, 2):
        starvation.begin(tmp_path, "c1")
        started[-1].join(20)
        assert started[-1].daemon and not started[-1].is_alive(), "it ends without a traceback"
        lines = log.read_bytes().split(b"\n")
        assert len(lines) == 4 * n + 1 and lines[-1] == b"", "a restarted process appends"
        spans = {starvation.of_row(json.loads(line)) for line in lines[:-1]}
        assert spans == {Starved(node="c1", kind=DELAY, from_ns=3, to_ns=9)}
    assert log.stat().st_mode & 0o777 == 0o644 & ~umask()


def umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_a_second_of_which_the_kernel_told_one_end_only_is_no_pressure() -> None:
    host = Host()
    told: Iterator[int | None] = iter([0, None, 2_000_000, None, 9_000_000, 9_990_000])
    watch = Watch(lambda *span: host.noted.append(span), lambda: host.now_ns, host.sleep,
                  told.__next__)  # fmt: skip
    for _ in range(50):
        watch.tick()
    assert host.noted == [(PRESSURE, 1004 * SECOND, 1005 * SECOND)]


@pytest.mark.parametrize(
    ("text", "waited_us"),
    [
        ("some avg10=0.00 total=123\nfull avg10=0.00 total=9\n", 123),
        ("", None),
        ("some avg10=0.00\n", None),
        ("some total=\nfull total=7\n", None),
    ],
)
def test_what_the_kernel_tells_of_waiting_tasks_is_read_from_its_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, waited_us: int | None
) -> None:
    monkeypatch.setattr(starvation, "STALLED", tmp_path / "cpu")
    assert starvation.stalled_us() is None, "no such file"
    (tmp_path / "cpu").write_text(text)
    assert starvation.stalled_us() == waited_us
